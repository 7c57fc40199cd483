"""Reading a JSON text with an eye on what is wrong with it: slower than the codec's first attempt, and only made when
that has failed or is in doubt.

The standard library's scanner reads the text, leaving marks where a hook meets something to refuse; then a search finds
the first mark together with its path.

Number literals of JSON, read without losing a digit and refused before they could cost anything.

Whole literals become ``int``, others ``Decimal``. A whole literal longer than :data:`MAX_INT_DIGITS` becomes a
``Decimal`` too: Python converts an ``int`` of n digits to and from text in n² steps and therefore refuses more than
4300 digits, while ``Decimal`` is linear, equal by value and written as the same literal.
"""

import json
import re
from collections import Counter
from decimal import Decimal, InvalidOperation
from typing import Final, NoReturn, cast

from statewright.jsonval.pieces import Container, Piece
from statewright.jsonval.values import JsonValue, item_path, member_path

MAX_EXPONENT: Final = 6144
"""Largest magnitude of an exponent, as written and of the first digit (decision S20)."""

MAX_DIGITS: Final = 4000
"""Most significant digits (decision S20): leading zeros, and those at the end of a whole number, are none. So what the
database makes of a number, which it writes without exponent, is within the limits, too.
"""

MAX_INT_DIGITS: Final = 4300
"""Digits of a literal that becomes an ``int``; ``sys.int_info.default_max_str_digits`` of CPython."""

_MAX_SHORT_CHARS: Final = 64
_MAX_SAFE_MAGNITUDE: Final = MAX_EXPONENT - _MAX_SHORT_CHARS
"""Magnitude and written exponent of a literal differ by less than its length, so below this magnitude the exponent is
certainly small enough.
"""

_LITERAL: Final = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


class UnusableNumber(ValueError):
    """A literal that is valid JSON and larger, smaller or longer than anything that could be stored."""


def read_number(text: str) -> int | Decimal | None:
    """The value of a JSON number literal, ``None`` for any other text. Raises :class:`UnusableNumber`."""
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        return None
    return read_whole(text) if literal[2] is None and literal[3] is None else read_fraction(text)


def read_fraction(text: str) -> Decimal:
    """The value of a literal known to have a fraction or an exponent. Raises :class:`UnusableNumber`."""
    if len(text) <= _MAX_SHORT_CHARS:
        try:
            value = Decimal(text)
        except InvalidOperation:
            raise UnusableNumber(_format_exponent_error()) from None
        if -_MAX_SAFE_MAGNITUDE < value.adjusted() < _MAX_SAFE_MAGNITUDE:
            return value
    _require_usable(text)
    return Decimal(text)


def is_in_range(value: int | Decimal) -> bool:
    """Whether a number that was computed could also have been read (decision S20)."""
    number = Decimal(value)
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    return len(digits) <= MAX_DIGITS and (not digits or abs(number.adjusted()) <= MAX_EXPONENT)


def read_whole(text: str) -> int | Decimal:
    """The value of a literal known to be digits with an optional sign. Raises :class:`UnusableNumber`."""
    if len(text) > MAX_DIGITS:
        _require_usable(text)
    return read_stored_whole(text)


def read_stored_whole(text: str) -> int | Decimal:
    """The same of what was accepted before, by whatever rules."""
    return int(text) if len(text) <= MAX_INT_DIGITS else Decimal(text)


def _require_usable(text: str) -> None:
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        raise UnusableNumber("number is malformed")
    whole, fraction, exponent = literal[1], literal[2] or "", _read_exponent(literal[3] or "0")
    digits = (whole + fraction).lstrip("0")
    if len(digits if fraction else digits.rstrip("0")) > MAX_DIGITS:
        raise UnusableNumber(f"number has more than {MAX_DIGITS} significant digits")
    if abs(len(digits or "0") - len(fraction) + exponent - 1) > MAX_EXPONENT:
        raise UnusableNumber(_format_exponent_error())


def _read_exponent(text: str) -> int:
    digits = text.lstrip("+-0") or "0"
    if len(digits) > len(str(MAX_EXPONENT)) or int(digits) > MAX_EXPONENT:
        raise UnusableNumber(_format_exponent_error())
    return -int(digits) if text.startswith("-") else int(digits)


def _format_exponent_error() -> str:
    return f"number has an exponent outside ±{MAX_EXPONENT}"


MAX_NESTING: Final = 256
"""Arrays and objects that may surround a value."""


class MalformedJson(ValueError):
    """A text that is no JSON document, or one whose content cannot be kept as it is.

    ``path`` is empty when the defect is the text itself or its outermost value.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{reason} at {path}" if path else reason)
        self.reason = reason
        self.path = path


def scan(raw: bytes | str) -> JsonValue:
    """The value of a text. Raises :class:`MalformedJson` for the first defect in document order."""
    try:
        value = _scan(raw)
    except json.JSONDecodeError as error:
        raise _explain(error, error.lineno, error.colno) from None
    inspect(value, "", 1)
    return cast("JsonValue", value)  # no marks were found, so only JSON values are left


def scan_piece(data: bytes, piece: Piece) -> JsonValue:
    """The value of a piece of a text, as :func:`scan` would find it there. Raises :class:`MalformedJson`."""
    try:
        value = _scan(piece.text, piece.start - len(piece.head))
    except json.JSONDecodeError as error:
        offset = piece.start - len(piece.head) + len(error.doc[: error.pos].encode())
        line_start = data.rfind(b"\n", 0, offset) + 1
        column = len(data[line_start:offset].decode(errors="replace")) + 1
        raise _explain(error, data.count(b"\n", 0, offset) + 1, column) from None
    _inspect_piece(value, "", 1, piece.open, piece.filler)
    return cast("JsonValue", value)


def _inspect_piece(value: object, path: str, nesting: int, around: tuple[Container, ...], filler: str) -> None:
    """:func:`inspect`, where the first member of each container that is ``around`` the piece stands for others."""
    if not around:
        inspect(value, path, nesting)
        return
    container, inner = around[0], around[1:]
    if isinstance(value, list) and isinstance(container, list):
        before = len(container) - (1 if inner else 0)
        for index, item in enumerate(cast("list[object]", value)):
            if index or inner:
                at = item_path(path, before + index - (0 if inner else 1))
                _inspect_piece(item, at, nesting + 1, () if index else inner, filler)
    elif isinstance(value, dict) and isinstance(container, dict):
        members = cast("dict[str, object]", value)
        _inspect_names(members, path)
        for name, member in members.items():
            if name != filler:
                inspect(member, member_path(path, name), nesting + 1)
            elif inner:
                _inspect_piece(member, member_path(path, next(reversed(container))), nesting + 1, inner, filler)


class _InvalidValue:
    """Stands in a scanned document where a value cannot be accepted."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class _RepeatedMembers(dict[str, object]):
    """An object that names a member twice."""

    name = ""


_SUSPICIOUS_NUMBER: Final = re.compile(rb"[0-9][eE][+-]?0*[0-9]{4}|(?<![0-9])[0-9]{%d}" % (MAX_DIGITS // 2))
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
    except json.JSONDecodeError as error:
        raise _explain(error, error.lineno, error.colno) from None
    except RecursionError:
        raise MalformedJson(format_depth_error()) from None


def _inspect_numbers(value: object, path: str) -> None:
    if isinstance(value, _InvalidValue):
        raise MalformedJson(value.reason, path)
    if isinstance(value, dict):
        for name, member in cast("dict[str, object]", value).items():
            _inspect_numbers(member, member_path(path, name))
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            _inspect_numbers(item, item_path(path, index))


def _scan(raw: bytes | str, offset: int = 0) -> object:
    """Raises ``JSONDecodeError`` beside :class:`MalformedJson`; ``offset`` is that of the first byte."""
    try:
        text = raw if isinstance(raw, str) else raw.decode()
        return cast("object", _SCANNER.decode(text))
    except UnicodeDecodeError as error:
        raise MalformedJson(f"not UTF-8 at byte {offset + error.start}") from None
    except RecursionError:
        raise MalformedJson(format_depth_error()) from None


def _explain(error: json.JSONDecodeError, line: int, column: int) -> MalformedJson:
    if not error.doc.strip():
        return MalformedJson("the document is empty")
    defect = "a byte order mark is no JSON" if error.doc[error.pos : error.pos + 1] == "\ufeff" else error.msg
    return MalformedJson(f"{defect} (line {line}, column {column})")


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


_SCANNER: Final = json.JSONDecoder(
    object_pairs_hook=_scan_object,
    parse_int=_scan_whole,
    parse_float=_scan_fraction,
    parse_constant=_scan_constant,
)


def inspect(value: object, path: str, nesting: int) -> None:
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
    _inspect_names(value, path)
    for name, member in value.items():
        inspect(member, member_path(path, name), nesting + 1)


def _inspect_names(value: dict[str, object], path: str) -> None:
    for name in value:
        _inspect_text(name, "member name", path)
    if isinstance(value, _RepeatedMembers):
        raise MalformedJson("duplicate member", member_path(path, value.name))


def _inspect_array(value: list[object], path: str, nesting: int) -> None:
    if nesting > MAX_NESTING:
        _refuse_depth(path)
    for index, item in enumerate(value):
        inspect(item, item_path(path, index), nesting + 1)


def _inspect_text(text: str, kind: str, path: str) -> None:
    if "\0" in text:
        raise MalformedJson(f"{kind} contains a NUL character", path)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MalformedJson(f"{kind} contains a lone surrogate", path) from None


def _refuse_depth(path: str) -> NoReturn:
    raise MalformedJson(format_depth_error(), path)


def format_depth_error() -> str:
    return f"nested more than {MAX_NESTING} levels deep"
