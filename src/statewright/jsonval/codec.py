"""JSON text to values and back, without loss (docs/reference/entities.md#json-documents, decisions S1 and S6).

Decoding is one pass of msgspec, then byte counts that prove the text free of what msgspec lets through:

* A repeated member name. msgspec keeps the last value and drops the others, and every dropped member takes at least one
  colon with it. So a text with as many colons as its own re-encoding repeats no name. Only a colon spelled as an escape
  could upset the sum.
* A NUL character can only be spelled as an escape; PostgreSQL cannot store it.
* Nesting is no deeper than there are opening brackets.

A text that fails one of the tests, or msgspec, may still be valid: the standard library's scanner then reads it again,
leaving marks where a hook meets something to refuse, and a search finds the first mark together with its path. So
checking costs about a microsecond in the common case, and only a refused text pays for a good message.
"""

import json
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Final, NoReturn, cast

import msgspec

from statewright.jsonval.literals import UnusableNumber, read_fraction, read_whole
from statewright.jsonval.values import JsonValue, item_path, member_path

MAX_NESTING: Final = 256
"""Arrays and objects that may surround a value."""

_DECODER = msgspec.json.Decoder(float_hook=read_fraction)
_ENCODER = msgspec.json.Encoder(decimal_format="number", order="deterministic")
_UNSORTED = msgspec.json.Encoder(decimal_format="number")
_MAX_PLAIN_INT_BITS: Final = 14_000
"""Fewer bits than 4300 decimal digits have: an ``int`` of up to so many can be written as it is."""
_CONTAINERS: Final = frozenset((dict, list))


class MalformedJson(ValueError):
    """A text that is no JSON document, or one whose content cannot be kept as it is.

    ``path`` is empty when the defect is the text itself or its outermost value.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{reason} at {path}" if path else reason)
        self.reason = reason
        self.path = path


def decode(raw: bytes | str) -> JsonValue:
    """The one value that the text denotes, digits and all. Raises :class:`MalformedJson`, and nothing else.

    Refused are syntax errors, text after the value, repeated member names, lone surrogates and NUL characters in
    strings and names, exponents outside ±6144, numbers longer than PostgreSQL can hold, and more than 256 nested
    containers.
    """
    try:
        data = raw.encode() if isinstance(raw, str) else raw
        value = cast("JsonValue", _DECODER.decode(data))  # untyped decoding yields nothing else
        if _is_faithful(data, value):
            return value
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _decode_slowly(raw)
    return _decode_slowly(raw)


def canonicalise(raw: bytes | str) -> tuple[JsonValue, bytes]:
    """What :func:`decode` makes of a text, and what :func:`encode` makes of that; cheaper than both one after the
    other.

    Raises :class:`MalformedJson`, and nothing else.
    """
    try:
        data = raw.encode() if isinstance(raw, str) else raw
        value = cast("JsonValue", _DECODER.decode(data))
        text = _ENCODER.encode(value)
        if _is_faithful(data, value, text):
            return value, text
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return _canonicalise_slowly(raw)  # which says what is wrong
    return _canonicalise_slowly(raw)


def _canonicalise_slowly(raw: bytes | str) -> tuple[JsonValue, bytes]:
    value = _decode_slowly(raw)
    return value, encode(value)


def encode(value: JsonValue) -> bytes:
    """Compact JSON with the names of every object in order of their UTF-8 bytes; decoding it yields an equal value."""
    try:
        return _ENCODER.encode(value)
    except ValueError:  # an int of more digits than Python writes
        return _ENCODER.encode(_convert_long_ints(value))


def _is_faithful(data: bytes, value: JsonValue, encoded: bytes | None = None) -> bool:
    """Whether the counts prove that the text has no defect; ``False`` means that they do not show it.

    ``encoded`` is any encoding of the value, when there is one already.
    """
    if b"\\" in data and (b"u0000" in data or b"u003a" in data or b"u003A" in data):
        return False
    if data.count(b"{") + data.count(b"[") > MAX_NESTING and is_nested_too_deep(value):
        return False
    return data.count(b":") == (encoded or _UNSORTED.encode(value)).count(b":")


def is_nested_too_deep(value: JsonValue) -> bool:
    """Whether more than :data:`MAX_NESTING` arrays and objects surround some value."""
    level = [value]
    for _ in range(MAX_NESTING):
        level = [child for parent in level for child in _list_children(parent) if type(child) in _CONTAINERS]
        if not level:
            return False
    return True


def _list_children(value: JsonValue) -> Iterable[JsonValue]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _convert_long_ints(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _convert_long_ints(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_convert_long_ints(item) for item in value]
    if isinstance(value, int) and value.bit_length() > _MAX_PLAIN_INT_BITS:
        return Decimal(value)
    return value


class _InvalidValue:
    """Stands in a scanned document where a value cannot be accepted."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class _RepeatedMembers(dict[str, object]):
    """An object that names a member twice."""

    name = ""


def _decode_slowly(raw: bytes | str) -> JsonValue:
    value = _scan(raw)
    _inspect(value, "", 1)
    return cast("JsonValue", value)  # _inspect found no marks, so only JSON values are left


def _scan(raw: bytes | str) -> object:
    try:
        text = raw if isinstance(raw, str) else raw.decode()
        return cast("object", _SCANNER.decode(text))
    except UnicodeDecodeError as error:
        raise MalformedJson(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        if not error.doc.strip():
            raise MalformedJson("the document is empty") from None
        raise MalformedJson(f"{error.msg} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise MalformedJson(_format_depth_error()) from None


def _scan_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    repeating = _RepeatedMembers(members)
    occurrences = Counter(name for name, _ in pairs)
    repeating.name = next(name for name, count in occurrences.items() if count > 1)
    return repeating


def _scan_whole(text: str) -> object:
    try:
        return read_whole(text)
    except UnusableNumber as refusal:
        return _InvalidValue(str(refusal))


def _scan_fraction(text: str) -> object:
    try:
        return read_fraction(text)
    except UnusableNumber as refusal:
        return _InvalidValue(str(refusal))


def _scan_constant(text: str) -> object:
    return _InvalidValue(f"{text} is not JSON")


_SCANNER = json.JSONDecoder(
    object_pairs_hook=_scan_object,
    parse_int=_scan_whole,
    parse_float=_scan_fraction,
    parse_constant=_scan_constant,
)


def _inspect(value: object, path: str, nesting: int) -> None:
    """Raises the first defect in document order below ``path``; ``nesting`` counts ``value`` itself."""
    if isinstance(value, str):
        _inspect_text(value, "string", path)
    elif isinstance(value, _InvalidValue):
        raise MalformedJson(value.reason, path)
    elif isinstance(value, dict):
        _inspect_object(cast("dict[str, object]", value), path, nesting)
    elif isinstance(value, list):
        _inspect_array(cast("list[object]", value), path, nesting)


def _inspect_object(value: dict[str, object], path: str, nesting: int) -> None:
    if nesting > MAX_NESTING:
        _refuse_depth(path)
    for name in value:
        _inspect_text(name, "member name", path)
    if isinstance(value, _RepeatedMembers):
        raise MalformedJson("duplicate member", member_path(path, value.name))
    for name, member in value.items():
        _inspect(member, member_path(path, name), nesting + 1)


def _inspect_array(value: list[object], path: str, nesting: int) -> None:
    if nesting > MAX_NESTING:
        _refuse_depth(path)
    for index, item in enumerate(value):
        _inspect(item, item_path(path, index), nesting + 1)


def _inspect_text(text: str, kind: str, path: str) -> None:
    if "\0" in text:
        raise MalformedJson(f"{kind} contains a NUL character", path)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MalformedJson(f"{kind} contains a lone surrogate", path) from None


def _refuse_depth(path: str) -> NoReturn:
    raise MalformedJson(_format_depth_error(), path)


def _format_depth_error() -> str:
    return f"nested more than {MAX_NESTING} levels deep"
