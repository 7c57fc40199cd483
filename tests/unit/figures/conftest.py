"""Small checkouts to count in."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from scripts.read_tree import Module, list_modules

Checkout = Callable[..., list[Module]]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Writes files, by their path in the package, and reads them as its modules."""

    def write(files: dict[str, str]) -> list[Module]:
        for path, text in files.items():
            file = tmp_path / "src" / "statewright" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(text))
        return list_modules(tmp_path)

    return write
