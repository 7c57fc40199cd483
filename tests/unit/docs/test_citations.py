"""What code, tests and documents cite is in the repository: files, and the headings in them."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SUFFIXES = {".py", ".sql", ".proto", ".md", ".yaml", ".yml", ".toml", ".sh"}

CITATION = re.compile(r"\bdocs/[\w./-]+?\.md(?:#(?P<anchor>[\w-]+))?")
"""A document by its path from the root of the repository."""
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((?P<target>(?![a-z]+:)[^)\s]+)\)")
"""A Markdown link into the repository, relative to its document."""
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<![\w/.-])((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|sql))\b")
"""A module or an SQL text by its path: from the root, from the package or one of it, or from a distribution beside."""
OUTSIDE = re.compile(r"\bspec/[\w-]+\.md")
"""Documents that a reader of the repository does not have."""


def sources(*folders: str) -> list[Path]:
    """The files that may cite something, this one excepted."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in found if path.suffix in SUFFIXES and path.is_file() and path != Path(__file__))


def documents() -> list[Path]:
    """The Markdown of the project."""
    return sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("packages/*/*.md")])


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)  # of a link the text counts
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


@cache
def anchors(document: Path) -> frozenset[str]:
    """The anchors of a document; headings with the same text are numbered from the second one on."""
    headings = re.findall(r"^#{1,6} +(.+?)(?: +#+)?$", FENCE.sub("", document.read_text()), re.MULTILINE)
    seen: Counter[str] = Counter()
    found: set[str] = set()
    for name in map(slug, headings):
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return frozenset(found)


def citations() -> Iterator[tuple[str, Path, str | None]]:
    """Where something is cited, the file, and the anchor if there is one."""
    for source in [*sources("src", "packages", "tests", "benchmarks", "docs", "examples"), *ROOT.glob("*.md")]:
        for match in CITATION.finditer(source.read_text()):
            yield str(source.relative_to(ROOT)), ROOT / match[0].partition("#")[0], match["anchor"]
    for document in documents():
        for match in LINK.finditer(FENCE.sub("", document.read_text())):
            path, _, anchor = match["target"].partition("#")
            yield str(document.relative_to(ROOT)), (document.parent / path) if path else document, anchor or None


def test_what_is_cited_is_there() -> None:
    missing = [f"{source}: {target}" for source, target, _ in citations() if not target.exists()]
    assert missing == []


def test_headings_that_are_cited_are_there() -> None:
    missing = [
        f"{source}: {target.name}#{anchor}"
        for source, target, anchor in citations()
        if anchor and target.suffix == ".md" and target.exists() and anchor not in anchors(target)
    ]
    assert missing == []


@pytest.mark.parametrize("folder", ["src", "packages", "tests", "benchmarks", "docs"])
def test_nothing_outside_the_repository_is_cited(folder: str) -> None:
    """Migrations apart: their texts have checksums, and stay as they were applied."""
    cited = [path for path in sources(folder) if OUTSIDE.search(path.read_text())]
    assert [str(path.relative_to(ROOT)) for path in cited if "migrations" not in path.parts] == []


def test_code_that_documents_name_is_there() -> None:
    beside = ROOT.glob("packages/*/src")
    packages = (ROOT, ROOT / "src", ROOT / "src" / "statewright", *beside)
    missing = [
        f"{document.relative_to(ROOT)}: {name}"
        for document in documents()
        if "adr" not in document.parts and document.name != "CHANGELOG.md"
        for name in CODE.findall(document.read_text())
        if not any((folder / name).exists() for folder in packages)
        and not list(ROOT.glob(f"src/statewright/**/{name}"))
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Retry policy", "retry-policy"),
        ("WAIT, END and branches of tasks", "wait-end-and-branches-of-tasks"),
        ("`GET /entity`", "get-entity"),
        ("gRPC", "grpc"),
        ("See [the page](page.md)", "see-the-page"),
    ],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor
