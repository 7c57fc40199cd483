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
    """The names of events in calls of loggers, and of what logs for others. Those of the SDK have their keys in the
    same text.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).split(".")[-2:]
        names = [word.value for word in node.keywords if word.arg == "failure"]  # of `repeat` and its like
        if called[-1] == "log_failures":
            names.append(node.args[1])
        elif (called[-1] in LEVELS and called[0] == "log") or (called[-1] == "report" and "incidents" in called[0]):
            names += node.args[:1]
        for name in names:
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value.partition(" ")[0]


def test_the_page_lists_all_events() -> None:
    logged = {
        event
        for source in SOURCES
        for file in source.rglob("*.py")
        for event in find_events(ast.parse(file.read_text()))
    }
    listed = set(re.findall(r"`([a-z0-9_]+)`", PAGE.read_text()))
    assert len(logged) > 100
    assert logged <= listed, sorted(logged - listed)
