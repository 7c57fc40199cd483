"""What docs/architecture.md names is there: in "Where things go" every file, and every name in the file beside it."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

from scripts.measure_code import read_figures

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "statewright"
REFERENCE = ROOT / "docs" / "reference"
PAGE = (ROOT / "docs" / "architecture.md").read_text()

ROW = re.compile(r"^\| (?P<wanted>.+?) \| (?P<places>.+) \|$", re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
FILE = re.compile(r"[\w.<>-]+\.(?:py|sql|md|html|txt|json|toml|proto)")
WORD = re.compile(r"[A-Za-z_][\w-]*…?")
LEADS_TO = re.compile(r" (?:\(|in |of )")
"""Between a name and the file that it is in; the other way round there is a bracket behind the file."""

Piece: TypeAlias = tuple[str, Path | None]
"""What stands in backticks, and the file or folder, if it is one."""


def read_rows() -> dict[str, str]:
    """By what is to be added, where."""
    [table] = re.findall(r"\n## Where things go\n.*?\n\|---\|---\|\n(.*?)\n\n", PAGE, re.DOTALL)
    return {row["wanted"]: row["places"] for row in ROW.finditer(table)}


def list_faults(places: str) -> list[str]:
    """Files of a row that are not there, and names that are not in their file, nor in any of the row without one."""
    faults: list[str] = []
    pieces: list[Piece] = []
    folders: list[Path] = []
    for name in SPAN.findall(places):
        path = find(name, folders) if is_path(name) else None
        if path is not None:
            folders.insert(0, path if path.is_dir() else path.parent)
        elif is_path(name):
            faults.append(f"no {name}")
        pieces.append((name, path))
    everywhere = [path for _, path in pieces if path is not None]
    for name, path in attach_names(pieces, SPAN.split(places)[::2]):
        beside = [path] if path is not None else everywhere
        told = path.relative_to(ROOT) if path is not None else "any file"
        faults += [f"no {word} in {told}" for word in WORD.findall(name) if not occurs(word, beside)]
    return faults


def attach_names(pieces: list[Piece], texts: list[str]) -> Iterator[Piece]:
    """What is no path, each with the path that it is said to be in. ``texts`` are around the pieces."""
    owners: list[Path | None] = []
    for place, (name, path) in enumerate(pieces):
        for bracket in re.findall(r"[()]", texts[place]):
            if bracket == ")":
                owners.pop()
            else:
                behind = place > 0 and texts[place].startswith(" (")
                owners.append(pieces[place - 1][1] if behind else None)
        if path is not None or is_path(name):
            continue
        following = pieces[place + 1][1] if place + 1 < len(pieces) else None
        if following is not None and LEADS_TO.fullmatch(texts[place + 1]):
            yield name, following
        else:
            yield name, next((owner for owner in reversed(owners) if owner is not None), None)


def is_path(name: str) -> bool:
    return "/" in name or FILE.fullmatch(name) is not None or any((base / name).is_dir() for base in (PACKAGE, ROOT))


def find(name: str, folders: list[Path]) -> Path | None:
    """The file or folder: of the package, of the repository, a page, or beside what the row named before. Of a name
    with a ``<part>`` that anybody chooses it is the folder.
    """
    path = name.partition(" ")[0].partition("<")[0].rpartition("/")[0] if "<" in name else name.partition(" ")[0]
    bases = [PACKAGE, ROOT, *folders] if not path.endswith(".md") or "/" in path else [REFERENCE, ROOT]
    return next((base / path for base in bases if (base / path).exists()), None)


@cache
def read_text(path: Path) -> str:
    """Of a folder all that is written by hand."""
    if path.is_file():
        return path.read_text()
    return "\n".join(each.read_text() for each in sorted(path.rglob("*")) if each.suffix in {".py", ".sql", ".html"})


def occurs(word: str, paths: list[Path]) -> bool:
    """Whether one of the files has the word, or one that begins so: ``NOT_…``."""
    behind = "" if word.endswith("…") else r"(?![\w])"
    pattern = re.compile(rf"(?<!\w){re.escape(word.removesuffix('…'))}{behind}")
    return any(pattern.search(read_text(path)) for path in paths)


@pytest.mark.parametrize("wanted", read_rows())
def test_what_a_row_names_is_there(wanted: str) -> None:
    assert list_faults(read_rows()[wanted]) == []


@pytest.mark.parametrize(
    ("places", "fault"),
    [
        ("`conditions/text.py` (`TEXT_TESTS`)", "no conditions/text.py"),
        ("`conditions/texts.py` and `patterns.py`", "no patterns.py"),
        ("docs `workflow.md`", "no workflow.md"),
        ("a row in `operation/<area>.py`", "no operation/<area>.py"),
        ("`conditions/texts.py` (`_TESTS`)", "no _TESTS in src/statewright/conditions/texts.py"),
        ("`entity.py` (`Entity`), `ids.py` (as `EntityView` has)", "no EntityView in src/statewright/ids.py"),
        ("`entity.py` (see `EntityView` in `ids.py`)", "no EntityView in src/statewright/ids.py"),
        ("`StagedRows` (`storage/columns.py`)", "no StagedRows in src/statewright/storage/columns.py"),
        ("the `EntityFoo` of `entity.py`", "no EntityFoo in src/statewright/entity.py"),
        ("what `read_nothing` reads, `entity.py`", "no read_nothing in any file"),
        ("`sdk/testing` (`FOO_…`)", "no FOO_… in src/statewright/sdk/testing"),
    ],
)
def test_a_wrong_name_is_found(places: str, fault: str) -> None:
    assert list_faults(places)[:1] == [fault]


def test_every_group_of_figures_is_explained() -> None:
    """The figures are in the file alone, since each change of code would have to write them in the page, too."""
    rows = ROW.finditer(PAGE.partition("\n## Size\n")[2].partition("\n|---|---|\n")[2])
    explained = {name.removesuffix("…") for row in rows for name in SPAN.findall(row["wanted"])}
    assert explained == {"walk_" if group.startswith("walk_") else group for group in read_figures()}


def test_files_that_the_page_names_alone_are_there() -> None:
    there = {
        path.name for path in [*(ROOT / "src").rglob("*"), *(ROOT / "tests").rglob("*"), *ROOT.rglob("docs/**/*.md")]
    }
    named = {name for name in SPAN.findall(PAGE) if FILE.fullmatch(name) and "<" not in name}
    assert sorted(named - there) == []
