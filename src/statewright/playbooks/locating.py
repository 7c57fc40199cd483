"""Where in a text the values of a document stand: for people who mend it in an editor."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, cast

import yaml
from msgspec import Struct
from yaml.events import (
    AliasEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from statewright.playbooks.findings import escape

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Position(Struct, frozen=True, order=True):
    """A place in a text, both from 1."""

    line: int = 1
    column: int = 1


def locate(text: str, paths: Collection[str]) -> dict[str, Position]:
    """The positions of values in YAML or JSON, by JSON pointers: of a member that of its name, of one that is missing
    that of what it is missing from. Of a text that cannot be read, what comes before its defect.
    """
    wanted = {prefix for path in paths for prefix in _list_prefixes(path)}
    found: dict[str, Position] = {}
    try:
        for path, event in _walk(text):
            mark = event.start_mark
            if path in wanted and path not in found and mark is not None:
                found[path] = Position(mark.line + 1, mark.column + 1)
    except yaml.YAMLError:
        pass  # what was found until then stands
    return {path: next((found[p] for p in _list_prefixes(path) if p in found), Position()) for path in paths}


def _list_prefixes(path: str) -> list[str]:
    """The path and those above it, the longest first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


class _Container(Struct, kw_only=True):
    path: str
    is_mapping: bool
    count: int = 0
    name: str | None = None

    def begin_value(self) -> str:
        """The path of the value that comes next."""
        if self.is_mapping:
            path, self.name = f"{self.path}/{escape(self.name or '')}", None
            return path
        self.count += 1
        return f"{self.path}/{self.count - 1}"


def _walk(text: str) -> Iterator[tuple[str, Event]]:
    """The paths of all values, each with the event that it, or its name, begins with."""
    open_: list[_Container] = []
    for event in cast("Iterable[Event]", yaml.parse(text, Loader=_LOADER)):
        if isinstance(event, MappingEndEvent | SequenceEndEvent):
            open_.pop()
        elif isinstance(event, MappingStartEvent | SequenceStartEvent | ScalarEvent | AliasEvent):
            inner = open_[-1] if open_ else None
            if inner is not None and inner.is_mapping and inner.name is None:
                inner.name = str(event.value) if isinstance(event, ScalarEvent) else "?"
                yield f"{inner.path}/{escape(inner.name)}", event
                if isinstance(event, ScalarEvent | AliasEvent):
                    continue
            path = inner.begin_value() if inner is not None else ""
            yield path, event
            if isinstance(event, MappingStartEvent | SequenceStartEvent):
                open_.append(_Container(path=path, is_mapping=isinstance(event, MappingStartEvent)))
