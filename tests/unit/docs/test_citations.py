"""What code, tests and documents cite is in the repository: files, the headings in them, and the modules and names of
the code.
"""

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "statewright"
SUFFIXES = {".py", ".sql", ".proto", ".md", ".yaml", ".yml", ".toml", ".sh"}

CITATION = re.compile(r"\bdocs/[\w./-]+?\.md(?:#(?P<anchor>[\w-]+))?")
"""A document by its path from the root of the repository."""
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((?P<target>(?![a-z]+:)[^)\s]+)\)")
"""A Markdown link into the repository, relative to its document."""
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<![\w/.-])((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|sql))\b")
"""A module or an SQL text by its path: from the root, from the package or one of it, or from a distribution beside."""
NAMED = re.compile(r"(?<![\w/.*{}<>-])((?:[\w.-]+/)*[\w-]+\.(?:py|sql))\b(?![\w(])")
"""A module or an SQL text, with or without folders."""
ROLE = re.compile(r":(?:mod|class|func|meth|data|attr):`~?([\w.]+)`")
"""A module, or what is in one, by its whole name or by that which it has where it is cited."""
MADE_UP = {"0001_what_it_does.sql"}
"""How a file may be called."""
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


def list_code() -> list[Path]:
    """The code that is shipped, migrations apart: they stay as they were applied."""
    found = [path for folder in ("src", "packages") for path in (ROOT / folder).rglob("*")]
    return sorted(path for path in found if path.suffix in {".py", ".sql"} and "migrations" not in path.parts)


def read_prose(path: Path) -> str:
    """Comments, docstrings and the other texts in three quotes; of SQL everything."""
    text = path.read_text()
    if path.suffix == ".sql":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(each.string for each in tokens if each.type == tokenize.COMMENT or '"""' in each.string)


def find_unknown_files(path: Path, prose: str) -> list[str]:
    """Files that the prose names and that are neither beside the file, nor in a folder above, nor below such a one."""
    above = [folder for folder in path.parents if folder.is_relative_to(ROOT)]
    named = [name for name in NAMED.findall(prose) if name not in MADE_UP]
    return [name for name in named if not any((folder / name).exists() for folder in (*above, PACKAGE))]


def find_unknown_names(path: Path, text: str) -> list[str]:
    """Modules, classes, functions and values that roles name and that are not there."""
    return [name for name in ROLE.findall(text) if not is_known(name, path)]


def is_known(name: str, cited_in: Path) -> bool:
    if not name.startswith("statewright."):
        first = name.partition(".")[0]
        return any(has_word(first, beside) for beside in cited_in.parent.glob("*.py"))
    words = name.split(".")
    for length in range(len(words), 0, -1):
        place = (ROOT / "src").joinpath(*words[:length])
        for module in (place.with_suffix(".py"), place / "__init__.py"):
            if module.exists():
                return all(has_word(word, module) for word in words[length:])
    return False


@cache
def read_without_roles(path: Path) -> frozenset[str]:
    """The words of a file but for what only a role names."""
    return frozenset(re.findall(r"\w+", ROLE.sub("", path.read_text())))


def has_word(word: str, path: Path) -> bool:
    return word in read_without_roles(path)


def test_files_that_code_names_are_there() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in list_code()
        if NAMED.search(path.read_text())
        for name in find_unknown_files(path, read_prose(path))
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("prose", "missing"),
    [
        ("see ``syntax.py``, conditions/texts.py, ``storage/commit/commit.sql`` (docs/conf.py)", ["docs/conf.py"]),
        ("its SQL is in ``sql_texts.py``.", ["sql_texts.py"]),
        ("``compiling.py`` is of other packages", ["compiling.py"]),
        ("how ``commands.sql``, __init__.py and nothing_of.python are read", ["commands.sql"]),
    ],
)
def test_a_file_that_is_not_there_is_noticed(prose: str, missing: list[str]) -> None:
    assert find_unknown_files(PACKAGE / "conditions" / "syntax.py", prose) == missing


def test_names_that_docstrings_refer_to_are_there() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in list_code()
        if path.suffix == ".py"
        for name in find_unknown_names(path, path.read_text())
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("statewright.conditions.syntax", True),
        ("statewright.conditions.syntax.TextOperator.LIKE", True),
        ("statewright.conditions.syntaxes", False),
        ("statewright.conditions.syntax.TextOperators", False),
        ("TextOperator", True),
        ("TextOperators", False),
    ],
)
def test_a_name_that_is_not_there_is_noticed(name: str, known: bool) -> None:
    path = PACKAGE / "conditions" / "syntax.py"
    assert find_unknown_names(path, f"as :class:`~{name}` says") == ([] if known else [name])


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
