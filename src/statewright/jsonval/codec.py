"""JSON text to values and back, without loss (docs/reference/entities.md#json-documents, decisions S1 and S6).

Decoding is one pass of msgspec, then byte counts that prove the text free of what msgspec lets through:

* A repeated member name. msgspec keeps the last value and drops the others, and every dropped member takes at least one
  colon with it. So a text with as many colons as its own re-encoding repeats no name. Only a colon spelled as an escape
  could upset the sum.
* A NUL character can only be spelled as an escape; PostgreSQL cannot store it.
* Nesting is no deeper than there are opening brackets.
* A whole number of more digits than are allowed has digits at many places of equal distance.
* Numbers that become much longer when the database writes them out are spelled with an exponent.

A text that fails one of the tests, or msgspec, may still be valid: the standard library's scanner then reads it again,
leaving marks where a hook meets something to refuse, and a search finds the first mark together with its path. So
checking costs about a microsecond in the common case, and only a refused text pays for a good message.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Final, NoReturn, cast

import msgspec

from statewright.jsonval.literals import (
    MAX_DIGITS,
    MAX_EXPONENT,
    UnusableNumber,
    read_fraction,
    read_stored_whole,
    read_whole,
)
from statewright.jsonval.values import JsonValue, item_path, member_path

MAX_NESTING: Final = 256
"""Arrays and objects that may surround a value."""

_DECODER = msgspec.json.Decoder(float_hook=read_fraction)
_ENCODER = msgspec.json.Encoder(decimal_format="number", order="deterministic")
_UNSORTED = msgspec.json.Encoder(decimal_format="number")
_MAX_PLAIN_INT_BITS: Final = 14_000
"""Fewer bits than 4300 decimal digits have: an ``int`` of up to so many can be written as it is."""
_CONTAINERS: Final = frozenset((dict, list))

MAX_EXPANSION: Final = 10 * 1024 * 1024
"""Digits that the numbers of one text may have together beside those they are written with: the database spells
numbers without exponents, ``1e6000`` with 6,000 zeros, and could not give out a document full of them.
"""

EXPANDS_TOO_FAR: Final = f"numbers with large exponents have more than {MAX_EXPANSION} digits together"

_DIGIT_STRIDE: Final = MAX_DIGITS // 10
_SAMPLED_DIGITS = re.compile(rb"[0-9]{10}")
_LONG_WHOLE = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))
_DECODER_OF_STORED = msgspec.json.Decoder(float_hook=Decimal)
_SCANNER_OF_STORED = json.JSONDecoder(parse_int=read_stored_whole, parse_float=Decimal)


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
    strings and names, numbers of more than 4,000 significant digits or with an exponent outside ±6144 (decision S20),
    more of those with large exponents than :data:`MAX_EXPANSION` allows, and more than 256 nested containers.
    """
    try:
        data = raw.encode() if isinstance(raw, str) else raw
        value = cast("JsonValue", _DECODER.decode(data))  # untyped decoding yields nothing else
        if _is_faithful(data, value):
            return value
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _decode_slowly(raw)
    return _decode_slowly(raw)


def decode_stored(text: bytes | str) -> JsonValue:
    """The value of a text from the database, at a third of the cost: it was examined on its way in.

    That may have been by older rules. So no limits are applied: a number of any length must not keep others from being
    read.
    """
    try:
        return cast("JsonValue", _DECODER_OF_STORED.decode(text))
    except msgspec.DecodeError:  # an integer of thousands of digits: msgspec reads none
        return cast("JsonValue", _SCANNER_OF_STORED.decode(text if isinstance(text, str) else text.decode()))


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
    text = encoded or _UNSORTED.encode(value)
    if len(data) > MAX_DIGITS:
        if _SAMPLED_DIGITS.search(data[::_DIGIT_STRIDE]) and _LONG_WHOLE.search(data):
            return False
        if expands_too_far(value, text):
            return False
    return data.count(b":") == text.count(b":")


def expands_too_far(value: JsonValue, encoded: bytes) -> bool:
    """Whether the numbers of a value, of which there is an encoding, have more than :data:`MAX_EXPANSION`."""
    exponents = encoded.count(b"E+") + encoded.count(b"E-")
    return exponents * MAX_EXPONENT > MAX_EXPANSION and _measure_expansion(value) > MAX_EXPANSION


def _measure_expansion(value: JsonValue) -> int:
    total, pending = 0, [value]
    while pending:
        current = pending.pop()
        if isinstance(current, Decimal):
            total += _count_added_digits(current)
        elif isinstance(current, (dict, list)):
            pending.extend(_list_children(current))
    return total


def _count_added_digits(number: Decimal) -> int:
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "JSON has no NaN and no Infinity"  # noqa: S101
    return exponent if exponent > 0 else max(0, -exponent - len(digits))


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


_SUSPICIOUS_NUMBER = re.compile(rb"[0-9][eE][+-]?0*[0-9]{4}|[0-9]{%d}" % (MAX_DIGITS // 2))
_OVERLAP_BYTES: Final = MAX_DIGITS
_SEARCHED_BYTES: Final = 64 * 1024


def require_usable_numbers(text: memoryview) -> None:
    """Refuse numbers beyond the limits in a JSON text that is kept as it is, so that whoever reads it can decode it
    (decision S20). Raises :class:`MalformedJson`.
    """
    starts = range(0, len(text), _SEARCHED_BYTES)
    if not any(_SUSPICIOUS_NUMBER.search(text[at : at + _SEARCHED_BYTES + _OVERLAP_BYTES]) for at in starts):
        return
    try:
        _inspect_numbers(_scan(bytes(text)), "")
    except RecursionError:
        raise MalformedJson(_format_depth_error()) from None


def _inspect_numbers(value: object, path: str) -> None:
    if isinstance(value, _InvalidValue):
        raise MalformedJson(value.reason, path)
    if isinstance(value, dict):
        for name, member in cast("dict[str, object]", value).items():
            _inspect_numbers(member, member_path(path, name))
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            _inspect_numbers(item, item_path(path, index))


def _decode_slowly(raw: bytes | str) -> JsonValue:
    scanned = _scan(raw)
    _inspect(scanned, "", 1)
    value = cast("JsonValue", scanned)  # _inspect found no marks, so only JSON values are left
    if _measure_expansion(value) > MAX_EXPANSION:
        raise MalformedJson(EXPANDS_TOO_FAR)
    return value


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
