"""The modules of a checkout as syntax trees, and the lines of code in them: what all figures are counted from."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


class Module:
    """A module below ``folder``; ``path`` is relative to it, with slashes."""

    def __init__(self, folder: Path, file: Path) -> None:
        self.path = file.relative_to(folder).as_posix()
        self.parts = file.relative_to(folder).parts
        self.text = file.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Those of its tree: a dozen figures look at each, and to find them takes longer."""
        return tuple(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        """All its lines."""
        return self.text.count("\n")

    @cached_property
    def code_lines(self) -> int:
        """Lines that carry code: no blank ones, no comments, no docstrings, those of constants neither."""
        return count_code_lines(self.text, self.nodes)

    @property
    def name(self) -> str:
        """As it is imported, if it is one of the product."""
        parts = self.parts[:-1] if self.parts[-1] == "__init__.py" else (*self.parts[:-1], self.parts[-1][:-3])
        return ".".join(("statewright", *parts))


def list_modules(root: Path) -> list[Module]:
    """The modules of the package in a checkout, generated ones left out."""
    package = root / "src" / "statewright"
    files = (path for path in package.rglob("*.py") if "proto" not in path.relative_to(package).parts)
    return [Module(package, path) for path in sorted(files)]


def list_modules_beside(root: Path) -> list[Module]:
    """The modules of the distributions that a checkout has beside the product; their paths begin with their package."""
    folders = sorted((root / "packages").glob("*/src"))
    return [Module(folder, path) for folder in folders for path in sorted(folder.rglob("*.py"))]


def list_docstrings(nodes: Iterable[ast.AST]) -> Iterator[ast.Constant]:
    """Texts that stand as a statement of their own."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def count_code_lines(text: str, nodes: Iterable[ast.AST] | None = None) -> int:
    """Lines of a text that carry code. A statement of three lines counts three times, a docstring not at all; a line
    that is empty or starts with # counts nowhere, not even within a text.
    """
    lines = {n for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.lstrip().startswith("#")}
    for docstring in list_docstrings(ast.walk(ast.parse(text)) if nodes is None else nodes):
        lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def list_words(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The words of names and texts in lower case: ``KeyedRequest`` are two. Comments and docstrings do not count, nor
    the paths of modules in imports, of which the names that are imported count.
    """
    docstrings = {id(node) for node in list_docstrings(nodes)}
    for node in nodes:
        if id(node) not in docstrings:
            for text in _list_texts(node):
                yield from (word.lower() for word in _WORDS.findall(text))


def _list_texts(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text) | ast.alias(name=text):
            yield text
        case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
            yield text
        case ast.keyword(arg=str(text)) | ast.Constant(value=str(text)):
            yield text
