"""asyncpg prepares a statement without Sync: until it is executed the server takes it for one under way, and its
``statement_timeout`` ends what is asked next. So only the pool prepares, which sees to it that connections left so are
given to nobody.
"""

import ast
from pathlib import Path

import statewright.storage

STORAGE = Path(statewright.storage.__file__).parent


def list_preparations(path: Path) -> list[int]:
    """The lines of calls of ``….prepare(…)``."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "prepare"
    ]


def test_only_the_pool_prepares_statements() -> None:
    found = {path.relative_to(STORAGE).as_posix() for path in STORAGE.rglob("*.py") if list_preparations(path)}
    assert found == {"pool.py"}
