"""What a picture of a playbook is made from: the members that say how tokens go, and the lines of its steps.

The text has been accepted by the API before. All the same it is read with limits: a text is no picture when it is very
long, deep, or grows by its aliases.
"""

from collections.abc import Sequence
from typing import Final

import yaml
from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue

MAX_CHARS: Final = 256 * 1024
MAX_DEPTH: Final = 24
MAX_NODES: Final = 50_000
_DRAWN: Final = frozenset({"executor", "workflow"})


class PlaybookSource(Struct, frozen=True, kw_only=True):
    """``document``: executor and workflow, scalars as texts. ``lines`` are the first and the last of each step."""

    document: JsonObject
    lines: tuple[tuple[int, int], ...]


class TooLarge(ValueError):
    """A text is too long or too deep for a picture."""


def read_playbook(source: str) -> PlaybookSource | None:
    """The structure of a text in YAML or JSON; None where it cannot be read or is too large."""
    if len(source) > MAX_CHARS:
        return None
    try:
        root = yaml.compose(source, Loader=yaml.CSafeLoader)
        if not isinstance(root, yaml.MappingNode):
            return None
        reading = _Reading()
        document = {name: reading.read(value, 1) for name, value in _list_members(root) if name in _DRAWN}
    except (yaml.YAMLError, TooLarge, RecursionError):
        return None
    steps = next((value for name, value in _list_members(root) if name == "workflow"), None)
    return PlaybookSource(document=document, lines=_list_lines(steps, source.split("\n")))


def _list_members(node: yaml.MappingNode) -> list[tuple[str, yaml.Node]]:
    return [(key.value, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]


def _list_lines(steps: yaml.Node | None, lines: Sequence[str]) -> tuple[tuple[int, int], ...]:
    if not isinstance(steps, yaml.SequenceNode):
        return ()
    found: list[tuple[int, int]] = []
    for step in steps.value:
        if isinstance(step, yaml.MappingNode):
            first, last = step.start_mark.line + 1, step.end_mark.line + (1 if step.end_mark.column else 0)
            while last > first and not lines[last - 1].strip():  # a block ends where the next one begins
                last -= 1
            found.append((first, max(first, last)))
    return tuple(found)


class _Reading:
    """Counts what is read, since aliases can make much of a little."""

    def __init__(self) -> None:
        self._nodes = 0

    def read(self, node: yaml.Node, depth: int) -> JsonValue:
        """A node as a JSON value. Raises ``TooLarge``."""
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise TooLarge
        if isinstance(node, yaml.MappingNode):
            return {name: self.read(value, depth + 1) for name, value in _list_members(node)}
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, depth + 1) for item in node.value]
        return node.value if isinstance(node.value, str) else None
