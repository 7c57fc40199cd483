"""JSON documents for people: as indented text, and as a tree with folded parts. Numbers keep their digits."""

from typing import Final

from msgspec import Struct

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue

MAX_TREE_DEPTH: Final = 30
MAX_LEAF_CHARS: Final = 10_000
MAX_TREE_NODES: Final = 2_000
MAX_TEXT_BYTES: Final = 256 * 1024
"""Bytes of a document up to which a page shows it as text."""

_INDENT: Final = "  "


class TreeNode(Struct, frozen=True, kw_only=True):
    """A member of a tree. ``kind`` is for the style; ``children`` are those of an object or array.

    ``left_out``: how many parts of it are not shown, because of their number or depth.
    """

    name: str
    kind: str
    text: str
    children: "tuple[TreeNode, ...]" = ()
    left_out: int = 0


def build_tree(document: JsonValue) -> TreeNode:
    """The tree of a document, cut where it is very deep or has very many parts."""
    return _Growth().grow("", document, 0)


class _Growth:
    """Counts the nodes of a tree while it grows."""

    def __init__(self) -> None:
        self._nodes = 0

    def grow(self, name: str, value: JsonValue, depth: int) -> TreeNode:
        self._nodes += 1
        if isinstance(value, dict):
            return self._grow_container(name, "object", list(value.items()), depth)
        if isinstance(value, list):
            items = [(str(place), item) for place, item in enumerate(value)]
            return self._grow_container(name, "array", items, depth)
        if isinstance(value, str):
            cut = value if len(value) <= MAX_LEAF_CHARS else f"{value[:MAX_LEAF_CHARS]}…"
            return TreeNode(name=name, kind="text", text=cut, left_out=max(0, len(value) - MAX_LEAF_CHARS))
        kind = "none" if value is None else "flag" if isinstance(value, bool) else "number"
        return TreeNode(name=name, kind=kind, text=encode(value).decode())

    def _grow_container(self, name: str, kind: str, members: list[tuple[str, JsonValue]], depth: int) -> TreeNode:
        children: list[TreeNode] = []
        for key, value in members if depth < MAX_TREE_DEPTH else ():
            if self._nodes >= MAX_TREE_NODES:
                break
            children.append(self.grow(key, value, depth + 1))
        count = f"{len(members)} {'member' if kind == 'object' else 'item'}{'' if len(members) == 1 else 's'}"
        return TreeNode(
            name=name, kind=kind, text=count, children=tuple(children), left_out=len(members) - len(children)
        )


def write_text(value: JsonValue) -> str:
    """Indented JSON, an entry a line."""
    return "".join(_write(value, "\n"))


def _write(value: JsonValue, line: str) -> list[str]:
    if isinstance(value, dict) and value:
        parts = [[f"{_INDENT}{encode(name).decode()}: ", *_write(item, line + _INDENT)] for name, item in value.items()]
        return _enclose("{", parts, "}", line)
    if isinstance(value, list) and value:
        return _enclose("[", [[_INDENT, *_write(item, line + _INDENT)] for item in value], "]", line)
    return [encode(value).decode()]


def _enclose(opening: str, parts: list[list[str]], closing: str, line: str) -> list[str]:
    written = [opening]
    for place, part in enumerate(parts):
        written += [line if place == 0 else f",{line}", *part]
    return [*written, line, closing]


def fits_page(value: JsonValue) -> bool:
    """Whether a page shows a document as text; a longer one is a matter for a download."""
    return len(encode(value)) <= MAX_TEXT_BYTES
