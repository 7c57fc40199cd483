"""Documents as their authors write them, YAML 1.2 or JSON, to JSON values.

YAML is read by libyaml, event by event. What the events mean is decided here, by the core schema of YAML 1.2: ``yes``
and ``1:30`` are text, ``<<`` is a name like any other. Aliases are not copied, but each counts as all that it stands
for: what grows far beyond the text is refused while it is still small.

Reading costs up to a second for the largest document. It gives other threads their turns, but should have a thread of
its own beside an event loop.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Final, TypeAlias, cast

import yaml
from msgspec import Struct
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.numbers import format_number
from statewright.jsonval.scanning import UnusableNumber, read_number
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.place import escape

MAX_DOCUMENT_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 64
MAX_ELEMENTS: Final = 200_000
"""Values of a document, aliases expanded; 64 characters of text count as one."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE: Final = frozenset(("true", "True", "TRUE"))
_FALSE: Final = frozenset(("false", "False", "FALSE"))
_INT: Final = re.compile(r"([-+]?)(?=[0-9])0*+([0-9]*)")
_OCTAL: Final = re.compile(r"0o([0-7]{1,1000})")
_HEX: Final = re.compile(r"0x([0-9a-fA-F]{1,1000})")
_FLOAT: Final = re.compile(r"([-+]?)0*+([0-9]*)(?:\.([0-9]*))?([eE][-+]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TAG: Final = "tag:yaml.org,2002:"
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")

Key: TypeAlias = "str | None"


class InvalidDocument(ValueError):
    """A text that is no document. ``line`` and ``column`` count from 1, ``path`` is a JSON pointer."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None, path: str = "") -> None:
        place = "" if line is None else f" (line {line}, column {column})"
        super().__init__(f"{message}{place}")
        self.line = line
        self.column = column
        self.path = path


def read_document(text: bytes | str) -> JsonObject:
    """The mapping that a text denotes. Raises :class:`InvalidDocument`."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InvalidDocument(f"has {len(data)} bytes; a playbook has at most {MAX_DOCUMENT_BYTES}")
    try:
        decoded = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidDocument(f"is no UTF-8 text: byte {error.start} is wrong") from error
    value = _read(decoded)
    if not isinstance(value, dict):
        raise InvalidDocument("must be a mapping at the top")
    return value


class _Dumper(yaml.SafeDumper):
    """Writes what :func:`read_document` reads: no aliases, text of several lines as it is."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _write_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\x85" in text:  # a line break to YAML, which is folded where it is not escaped
        style = '"'
    elif "\n" in text.rstrip("\n"):
        style = "|"
    elif text[:1].isdecimal() or text[:1] in ("+", "-", "."):
        style = "'"
    return dumper.represent_scalar(_TAG + "str", text, style)


def _write_decimal(dumper: _Dumper, number: Decimal) -> yaml.ScalarNode:
    return dumper.represent_scalar(_TAG + "float", format_number(number))


_Dumper.add_representer(str, _write_text)
_Dumper.add_representer(Decimal, _write_decimal)


def write_document(document: JsonObject) -> str:
    """The YAML of a document, its members in order; :func:`read_document` gives the same document."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def _read(text: str) -> JsonValue:
    if text.lstrip().startswith("{"):
        try:
            value = decode(text)
        except MalformedJson:
            return _read_yaml(text)  # a mapping in the flow style, or something wrong that YAML tells better
        _check_size(value)
        return value
    return _read_yaml(text)


def _read_yaml(text: str) -> JsonValue:
    composer = _Composer()
    try:
        for event in cast("Iterable[Event]", yaml.parse(text, Loader=_LOADER)):
            composer.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        told = error.problem or error.context or "is no YAML"
        place = (None, None) if mark is None else (mark.line + 1, mark.column + 1)
        raise InvalidDocument(f"is no YAML: {told}", line=place[0], column=place[1]) from error
    except yaml.YAMLError as error:  # characters that no YAML text has
        raise InvalidDocument(f"is no YAML: {str(error).splitlines()[0][:200]}") from error
    return composer.result


def _check_size(value: JsonValue) -> None:
    left, pending = MAX_ELEMENTS, [(value, 0)]
    while pending:
        current, depth = pending.pop()
        left -= 1 + (len(current) // 64 if isinstance(current, str) else 0)
        if left < 0:
            raise InvalidDocument(_TOO_LARGE)
        if isinstance(current, dict | list):
            if depth >= MAX_DEPTH:
                raise InvalidDocument(_TOO_DEEP)
            pending.extend((part, depth + 1) for part in (current.values() if isinstance(current, dict) else current))


_TOO_LARGE: Final = f"has more than {MAX_ELEMENTS} values, those that aliases repeat included"
_TOO_DEEP: Final = f"is nested deeper than {MAX_DEPTH} levels"


class _Open(Struct, kw_only=True):
    """A mapping or list whose end has not come."""

    value: "dict[str, JsonValue] | list[JsonValue]"
    anchor: str | None
    key: str | None = None
    """Of a mapping: the name that a value is expected for."""
    size: int = 1
    depth: int = 1


class _Anchored(Struct, frozen=True, kw_only=True):
    value: JsonValue
    size: int
    depth: int
    """Containers within each other."""


class _Composer:
    """Makes values of events."""

    def __init__(self) -> None:
        self.result: JsonValue = None
        self._documents = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._size = 0

    def take(self, event: Event) -> None:
        """The next event. Raises :class:`InvalidDocument`."""
        if isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise _refuse(event, "has a second document; a playbook is one")
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._begin(event)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            self._end(event)
        elif isinstance(event, ScalarEvent):
            self._take_scalar(event)
        elif isinstance(event, AliasEvent):
            self._take_alias(event)

    def _begin(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        kind = "map" if isinstance(event, MappingStartEvent) else "seq"
        if event.tag not in (None, "!", _TAG + kind):
            raise _refuse(event, f"has the tag {event.tag}; only those of JSON are read")
        if self._awaits_name():
            raise _refuse(event, "has a mapping or list for a name; names are text")
        if len(self._open) >= MAX_DEPTH:
            raise _refuse(event, _TOO_DEEP)
        self._count(1, event)
        self._open.append(_Open(value={} if kind == "map" else [], anchor=event.anchor))

    def _end(self, event: Event) -> None:
        done = self._open.pop()
        self._add(_Anchored(value=done.value, size=done.size, depth=done.depth), done.anchor, event)

    def _take_scalar(self, event: ScalarEvent) -> None:
        if self._awaits_name():
            self._take_name(event)
            return
        value = _resolve(event)
        size = 1 + (len(value) // 64 if isinstance(value, str) else 0)
        self._count(size, event)
        self._add(_Anchored(value=value, size=size, depth=0), event.anchor, event)

    def _take_name(self, event: ScalarEvent) -> None:
        """A name is the text of its scalar, whatever that would be as a value: ``200:`` is the name "200"."""
        name, parent = str(event.value), self._open[-1]
        if event.tag not in (None, "!", _TAG + "str") or _UNSTORABLE.search(name) is not None:
            raise _refuse(event, "has a name that is no text")
        if name == "<<" and event.implicit[0]:
            raise _refuse(event, "merges by <<, which YAML 1.2 does not have; write the members out")
        assert isinstance(parent.value, dict)  # noqa: S101 - only mappings await names
        if name in parent.value:
            raise _refuse(event, f"has the name {name[:60]!r} twice in one mapping", self._find_path())
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value=name, size=1 + len(name) // 64, depth=0)
        self._count(1 + len(name) // 64, event)
        parent.key = name

    def _take_alias(self, event: AliasEvent) -> None:
        known = self._anchors.get(str(event.anchor))
        if known is None:
            raise _refuse(event, f"has the alias *{event.anchor}, which is not defined before it")
        if self._awaits_name():
            raise _refuse(event, "has an alias for a name; write it out")
        if len(self._open) + known.depth > MAX_DEPTH:
            raise _refuse(event, _TOO_DEEP)
        self._count(known.size, event)
        self._add(known, None, event)

    def _add(self, part: _Anchored, anchor: str | None, event: Event) -> None:
        if anchor is not None:
            self._anchors[anchor] = part
        if not self._open:
            self.result = part.value
            return
        parent = self._open[-1]
        parent.size += part.size
        parent.depth = max(parent.depth, part.depth + 1)
        if isinstance(parent.value, list):
            parent.value.append(part.value)
        else:
            assert parent.key is not None  # noqa: S101 - a value follows a name
            parent.value[parent.key] = part.value
            parent.key = None

    def _awaits_name(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _count(self, size: int, event: Event) -> None:
        self._size += size
        if self._size > MAX_ELEMENTS:
            raise _refuse(event, _TOO_LARGE)

    def _find_path(self) -> str:
        """Where the innermost open value stands."""
        parts = [
            escape(part.key or "") if isinstance(part.value, dict) else str(len(part.value)) for part in self._open[:-1]
        ]
        return "".join(f"/{part}" for part in parts)


def _resolve(event: ScalarEvent) -> JsonValue:
    """The value of a scalar by the core schema."""
    text = str(event.value)
    if _UNSTORABLE.search(text) is not None:
        raise _refuse(event, "has text with a NUL character or half a surrogate pair")
    tag = event.tag
    if tag in ("!", _TAG + "str") or (tag is None and not event.implicit[0]):
        return text
    if tag is not None and tag not in (_TAG + "null", _TAG + "bool", _TAG + "int", _TAG + "float"):
        raise _refuse(event, f"has the tag {tag}; only those of JSON are read")
    value = _resolve_plain(event, text)
    if tag is not None and isinstance(value, str):
        raise _refuse(event, f"has the tag !!{tag.removeprefix(_TAG)} at text that is none")
    return value


def _resolve_plain(event: ScalarEvent, text: str) -> JsonValue:
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if not text[0].isdigit() and text[0] not in "+-.":
        return text
    if _NO_NUMBER.fullmatch(text) is not None:
        raise _refuse(event, "has an infinite number, or one that is none; JSON has neither")
    try:
        number = _read_number(text)
    except UnusableNumber as error:
        raise _refuse(event, str(error)) from error
    return text if number is None else number


def _read_number(text: str) -> int | Decimal | None:
    if (literal := _INT.fullmatch(text)) is not None:
        return read_number(f"{literal[1].strip('+')}{literal[2] or '0'}")
    if (literal := _OCTAL.fullmatch(text)) is not None:
        return int(literal[1], 8)
    if (literal := _HEX.fullmatch(text)) is not None:
        return int(literal[1], 16)
    literal = _FLOAT.fullmatch(text)
    if literal is None or not (literal[2] or literal[3] or text.lstrip("+-").startswith("0")):
        return None
    fraction = f".{literal[3]}" if literal[3] else ""
    return read_number(f"{literal[1].strip('+')}{literal[2] or '0'}{fraction}{literal[4] or ''}")


def _refuse(event: Event, message: str, path: str = "") -> InvalidDocument:
    mark = event.start_mark
    if mark is None:
        return InvalidDocument(message, path=path)
    return InvalidDocument(message, line=mark.line + 1, column=mark.column + 1, path=path)
