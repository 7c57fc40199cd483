"""docs/reference/events.md#log-events has every event that the service logs under a name of its own."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "events.md"
SOURCES = [ROOT / "src" / "statewright", ROOT / "packages" / "grpc-h2" / "src"]
LEVELS = {"debug", "info", "warning", "error", "exception"}


def find_events(tree: ast.AST) -> Iterator[str]:
    """The names of events in calls of loggers; those of the SDK have their keys in the same text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            logger = ast.unparse(node.func.value)
            if node.args and logger.rpartition(".")[2] == "log" and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value).partition(" ")[0]


def test_the_page_lists_all_events() -> None:
    logged = {
        event
        for source in SOURCES
        for file in source.rglob("*.py")
        if "log." in (text := file.read_text())
        for event in find_events(ast.parse(text))
    }
    listed = set(re.findall(r"`([a-z0-9_]+)`", PAGE.read_text()))
    assert len(logged) > 100
    assert logged <= listed, sorted(logged - listed)
