"""The documentation that is installed along with the program, from the same files as in the repository.

A wheel has them below ``statewright/docs``; where the sources run in place, they are read from the repository.
"""

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

_HEADING: Final = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)
_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


class PageNotInstalled(LookupError):
    """There is no such page, or it was left out of the installation."""


def find_docs() -> Traversable:
    """The folder of the documentation. Raises :class:`PageNotInstalled`."""
    packaged = files("statewright") / "docs"
    if packaged.is_dir():
        return packaged
    repository = Path(__file__).resolve().parents[3] / "docs"
    if repository.is_dir():
        return repository
    raise PageNotInstalled("the documentation is not installed")


@cache
def read_page(name: str) -> str:
    """The text of a page by its path below ``docs``, ``reference/workflows.md``. Raises :class:`PageNotInstalled`."""
    try:
        return (find_docs() / name).read_text(encoding="utf-8")
    except OSError as missing:
        raise PageNotInstalled(f"there is no page {name}") from missing


def read_title(text: str) -> str:
    """The first heading of a page."""
    found = _HEADING.search(text)
    return found[2] if found else ""


def extract_section(text: str, heading: str) -> str:
    """The section of a page under that heading, its subsections included. Raises :class:`PageNotInstalled`."""
    fenced = [fence.span() for fence in _FENCE.finditer(text)]
    headings = [
        found for found in _HEADING.finditer(text) if not any(start < found.start() < end for start, end in fenced)
    ]
    for index, found in enumerate(headings):
        if found[2] == heading:
            level = len(found[1])
            end = next((later.start() for later in headings[index + 1 :] if len(later[1]) <= level), len(text))
            return text[found.start() : end].strip() + "\n"
    raise PageNotInstalled(f'the page has no section "{heading}"')
