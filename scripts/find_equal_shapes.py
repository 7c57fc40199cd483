"""Equal shapes: pieces of code that differ in names and constants only.

The *shape* of a piece is its syntax tree without names, constants, annotations and docstrings. Compared are blocks
(bodies of functions and of compound statements) of six statements or more, those within them counted along, and
statements and calls of 20 nodes or more, such as a route of a table. Classes and modules as a whole are not, since they
declare. What lies within a piece that is equal is not counted again.
"""

import ast
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

MIN_STATEMENTS = 6
MIN_NODES = 20
_BODIES = ("body", "orelse", "finalbody")
_LEFT_OUT = frozenset({"annotation", "returns", "ctx", "type_comment", "kind", "type_params"})

_Key = tuple[object, ...]


class _Shape(Struct, frozen=True):
    """A shape by its number, and its size."""

    number: int
    nodes: int
    statements: int


class ShapeFinder:
    """Reads trees, and finds the pieces in them that are equal."""

    def __init__(self) -> None:
        self._numbers: dict[_Key, int] = {}
        self._pieces: list[tuple[int, int | None]] = []
        """Numbers of shapes, with the place of the piece that they lie in; it comes first."""

    def add(self, tree: ast.AST) -> None:
        """Compare a tree with all others."""
        self._read(tree, None)

    def count_copies(self) -> int:
        """How many pieces have the shape of one before them: what would go if each were written once."""
        times = Counter(number for number, _ in self._pieces)
        covered: set[int] = set()
        counted: Counter[int] = Counter()
        for place, (number, parent) in enumerate(self._pieces):
            if parent in covered:
                covered.add(place)
            elif times[number] > 1:
                covered.add(place)
                counted[number] += 1
        return sum(count - 1 for count in counted.values())

    def _read(self, node: ast.AST, parent: int | None) -> _Shape:
        is_whole = isinstance(node, ast.stmt | ast.Call) and not isinstance(node, ast.ClassDef)
        place = self._reserve(parent) if is_whole else parent
        parts: list[object] = [type(node).__name__]
        nodes, statements = 1, int(isinstance(node, ast.stmt))
        for field, value in ast.iter_fields(node):
            if field in _LEFT_OUT:
                continue
            children = value if isinstance(value, list) else [value]
            found = self._read_block(node, field, [one for one in children if isinstance(one, ast.AST)], place)
            parts += [field, found.number]
            nodes, statements = nodes + found.nodes, statements + found.statements
        shape = _Shape(self._intern(tuple(parts)), nodes, statements)
        if is_whole and place is not None:
            self._settle(place, parent, shape, is_large=nodes >= MIN_NODES)
        return shape

    def _read_block(self, node: ast.AST, field: str, children: list[ast.AST], parent: int | None) -> _Shape:
        is_block = field in _BODIES and not isinstance(node, ast.Module | ast.ClassDef | ast.Lambda | ast.IfExp)
        place = self._reserve(parent) if is_block else parent
        shapes = [self._read(one, place) for one in children if not _is_docstring(one)]
        statements = sum(one.statements for one in shapes)
        whole = _Shape(self._intern(tuple(one.number for one in shapes)), sum(one.nodes for one in shapes), statements)
        if is_block and place is not None:
            self._settle(place, parent, whole, is_large=statements >= MIN_STATEMENTS)
        return whole

    def _reserve(self, parent: int | None) -> int:
        self._pieces.append((-len(self._pieces) - 1, parent))
        return len(self._pieces) - 1

    def _settle(self, place: int, parent: int | None, shape: _Shape, *, is_large: bool) -> None:
        """Say what shape a piece has, now that it is read; a small one keeps a number of its own."""
        if is_large:
            self._pieces[place] = (shape.number, parent)

    def _intern(self, key: _Key) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def count_equal_shapes(trees: Iterable[ast.AST]) -> int:
    """Copies of shapes in all trees together."""
    finder = ShapeFinder()
    for tree in trees:
        finder.add(tree)
    return finder.count_copies()


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
