"""JSON text to values and back, without loss (docs/reference/entities.md#json-documents, decisions S1 and S6).

Decoding is one pass of msgspec, then byte counts that prove the text free of what msgspec lets through:

* A repeated member name. msgspec keeps the last value and drops the others, and every dropped member takes at least one
  colon with it. So a text with as many colons as its own re-encoding repeats no name. Only a colon spelled as an escape
  could upset the sum.
* A NUL character can only be spelled as an escape; PostgreSQL cannot store it.
* Nesting is no deeper than there are opening brackets.
* A whole number of more digits than are allowed has digits at many places of equal distance.
* Numbers that become much longer when the database writes them out are spelled with an exponent.

A text that fails one of the tests, or msgspec, may still be valid: :mod:`statewright.jsonval.scanning` then reads it
again, and finds the first defect together with its path. So checking costs about a microsecond in the common case, and
only a refused text pays for a good message.

Large texts are taken piece by piece (:mod:`statewright.jsonval.pieces`): a thread that decodes one lets others go on.

Removing insignificant white space from JSON text piece by piece, with digits and order of members untouched.

The text is known to be valid. It is cut anywhere but behind a backslash, and one bit is carried from piece to piece:
whether the cut is inside a string. A piece that begins inside one is read as if it began with the missing quote.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, cast

import msgspec

from statewright.jsonval.pieces import PIECE_BYTES, NotSplittable, Piece, RepeatedName, decode_pieces, encode_pieces
from statewright.jsonval.scanning import MAX_DIGITS, MAX_EXPONENT, read_fraction, read_stored_whole, scan, scan_piece
from statewright.jsonval.scanning import MAX_NESTING as MAX_NESTING
from statewright.jsonval.scanning import MalformedJson as MalformedJson
from statewright.jsonval.values import JsonValue, list_children
from statewright.loop.turns import take_apart

_DECODER: Final = msgspec.json.Decoder(float_hook=read_fraction)
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", order="deterministic")
_UNSORTED: Final = msgspec.json.Encoder(decimal_format="number")
_MAX_PLAIN_INT_BITS: Final = 14_000
"""Fewer bits than 4300 decimal digits have: an ``int`` of up to so many can be written as it is."""
_CONTAINERS: Final = frozenset((dict, list))

MAX_EXPANSION: Final = 10 * 1024 * 1024
"""Digits that the numbers of one text may have together beside those they are written with: the database spells
numbers without exponents, ``1e6000`` with 6,000 zeros, and could not give out a document full of them.
"""

EXPANDS_TOO_FAR: Final = f"numbers with large exponents have more than {MAX_EXPANSION} digits together"

_DIGIT_STRIDE: Final = MAX_DIGITS // 10
_SAMPLED_DIGITS: Final = re.compile(rb"[0-9]{10}")
_LONG_WHOLE: Final = re.compile(rb"(?<![0-9])[0-9]{%d}" % (MAX_DIGITS + 1))  # looked for at the first digit only
_TEXT_BEHIND: Final = re.compile(r"trailing characters \(byte ([0-9]+)\)")
_DECODER_OF_STORED: Final = msgspec.json.Decoder(float_hook=Decimal)
_SCANNER_OF_STORED: Final = json.JSONDecoder(parse_int=read_stored_whole, parse_float=Decimal)


def decode(raw: bytes | str) -> JsonValue:
    """The one value that the text denotes, digits and all. Raises :class:`MalformedJson`, and nothing else.

    Refused are syntax errors, text after the value, repeated member names, lone surrogates and NUL characters in
    strings and names, numbers of more than 4,000 significant digits or with an exponent outside ±6144 (decision S20),
    more of those with large exponents than :data:`MAX_EXPANSION` allows, and more than 256 nested containers.
    """
    try:
        data = raw.encode() if isinstance(raw, str) else raw
        if len(data) > PIECE_BYTES:
            return decode_large(data)[0]
        value = cast("JsonValue", _DECODER.decode(data))  # untyped decoding yields nothing else
        if _is_faithful(data, value, _UNSORTED.encode(value)):
            return value
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _decode_slowly(raw)
    return _decode_slowly(raw)


def find_text_behind(error: msgspec.DecodeError) -> int | None:
    """Where the text goes on behind its first value, in bytes, if that is all that is wrong with it. To look for the
    end of a value by reading it takes long, and the decoder has come there.
    """
    found = None if isinstance(error, msgspec.ValidationError) else _TEXT_BEHIND.search(str(error))
    return int(found[1]) - 1 if found else None  # it has read the byte that it names


def decode_stored(text: bytes | str) -> JsonValue:
    """The value of a text from the database, at a third of the cost: it was examined on its way in.

    That may have been by older rules. So no limits are applied: a number of any length must not keep others from being
    read.
    """
    if len(text) > PIECE_BYTES:
        data = text.encode() if isinstance(text, str) else text
        return decode_pieces(data, lambda piece: _decode_stored(piece.text))
    return _decode_stored(text)


def _decode_stored(text: bytes | str) -> JsonValue:
    try:
        return cast("JsonValue", _DECODER_OF_STORED.decode(text))
    except msgspec.DecodeError:  # an integer of thousands of digits: msgspec reads none
        return cast("JsonValue", _SCANNER_OF_STORED.decode(text if isinstance(text, str) else text.decode()))


def canonicalise(raw: bytes | str) -> tuple[JsonValue, bytes]:
    """What :func:`decode` makes of a text, and what :func:`encode` makes of that; cheaper than both one after the
    other. In a large text the names of objects keep their order.

    Raises :class:`MalformedJson`, and nothing else.
    """
    try:
        data = raw.encode() if isinstance(raw, str) else raw
        if len(data) > PIECE_BYTES:
            return decode_large(data)
        value = cast("JsonValue", _DECODER.decode(data))
        text = _ENCODER.encode(value)
        if _is_faithful(data, value, text):
            return value, text
    except MalformedJson:  # of a large text, which is not to be read again as a whole
        raise
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return _canonicalise_slowly(raw)  # which says what is wrong
    return _canonicalise_slowly(raw)


def decode_large(data: bytes, size: int = PIECE_BYTES) -> tuple[JsonValue, bytes]:
    """What :func:`canonicalise` makes of a text, in pieces of about ``size`` bytes. Raises :class:`MalformedJson`."""
    large = _LargeText(data, size)
    return large.decode(), b",".join(large.encoded)


def _decode_slowly(raw: bytes | str) -> JsonValue:
    value = scan(raw)
    if _measure_expansion(value) > MAX_EXPANSION:
        raise MalformedJson(EXPANDS_TOO_FAR)
    return value


def _canonicalise_slowly(raw: bytes | str) -> tuple[JsonValue, bytes]:
    value = _decode_slowly(raw)
    return value, encode(value)


class _LargeText:
    """A text that is decoded in pieces, each of which is examined as a whole text is."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = data
        self._size = size
        self._exponents = 0
        self.encoded = list[bytes]()
        """The encodings of the pieces, to be joined by commas."""

    def decode(self) -> JsonValue:
        """The value. Raises :class:`MalformedJson`."""
        try:
            value = decode_pieces(self._data, self._decode_piece, self._size)
        except NotSplittable:
            return _decode_slowly(self._data)
        except RepeatedName as repeated:
            raise MalformedJson("duplicate member", repeated.path) from None
        if self._exponents * MAX_EXPONENT > MAX_EXPANSION and _measure_expansion(value) > MAX_EXPANSION:
            if isinstance(value, list | dict):
                take_apart([value])
            raise MalformedJson(EXPANDS_TOO_FAR)
        return value

    def _decode_piece(self, piece: Piece) -> JsonValue:
        try:
            value = cast("JsonValue", _DECODER.decode(piece.text))
            text = _UNSORTED.encode(value)
            if not _is_faithful(piece.text, value, text):
                value, text = self._scan_piece(piece)
        except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
            value, text = self._scan_piece(piece)
        self._exponents += _count_exponents(text)
        self.encoded.append(text[len(piece.head) : len(text) - len(piece.tail)])
        return value

    def _scan_piece(self, piece: Piece) -> tuple[JsonValue, bytes]:
        value = scan_piece(self._data, piece)
        return value, _encode_unsorted(value)


def encode(value: JsonValue) -> bytes:
    """Compact JSON with the names of every object in order of their UTF-8 bytes; decoding it yields an equal value."""
    try:
        return _ENCODER.encode(value)
    except ValueError:  # an int of more digits than Python writes
        return _ENCODER.encode(_convert_long_ints(value))


def escape_characters(text: bytes, characters: str) -> bytes:
    """The same JSON text with the characters, which only texts in it can have, written as escapes."""
    for character in characters:
        text = text.replace(character.encode(), f"\\u{ord(character):04x}".encode())
    return text


_LINE_ENDS: Final = "\x85\u2028\u2029"
"""Characters that JSON allows within texts, and at which Python's ``str.splitlines`` and clients like it end a line."""


def escape_line_ends(text: bytes) -> bytes:
    """JSON text that is one line to every client, if it has no line breaks between its values."""
    return text if text.isascii() else escape_characters(text, _LINE_ENDS)


def encode_large(value: JsonValue) -> bytes:
    """The same in pieces, for a thread that lets others go on."""
    return b"".join(encode_pieces(value, encode))


def _encode_unsorted(value: JsonValue) -> bytes:
    try:
        return _UNSORTED.encode(value)
    except ValueError:
        return _UNSORTED.encode(_convert_long_ints(value))


def _is_faithful(data: bytes, value: JsonValue, encoded: bytes) -> bool:
    """Whether the counts prove that the text has no defect; ``False`` means that they do not show it.

    ``encoded`` is any encoding of the value.
    """
    if b"\\" in data and (b"u0000" in data or b"u003a" in data or b"u003A" in data):
        return False
    if data.count(b"{") + data.count(b"[") > MAX_NESTING and is_nested_too_deep(value):
        return False
    if len(data) > MAX_DIGITS:
        if _SAMPLED_DIGITS.search(data[::_DIGIT_STRIDE]) and _LONG_WHOLE.search(data):
            return False
        if expands_too_far(value, encoded):
            return False
    return data.count(b":") == encoded.count(b":")


def expands_too_far(value: JsonValue, encoded: bytes) -> bool:
    """Whether the numbers of a value, of which there is an encoding, have more than :data:`MAX_EXPANSION`."""
    return _count_exponents(encoded) * MAX_EXPONENT > MAX_EXPANSION and _measure_expansion(value) > MAX_EXPANSION


def _count_exponents(encoded: bytes) -> int:
    return encoded.count(b"E+") + encoded.count(b"E-")


def _measure_expansion(value: JsonValue) -> int:
    total, pending = 0, [value]
    while pending:
        current = pending.pop()
        if isinstance(current, Decimal):
            total += _count_added_digits(current)
        elif isinstance(current, (dict, list)):
            pending.extend(list_children(current))
    return total


def _count_added_digits(number: Decimal) -> int:
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "JSON has no NaN and no Infinity"  # noqa: S101
    return exponent if exponent > 0 else max(0, -exponent - len(digits))


def is_nested_too_deep(value: JsonValue) -> bool:
    """Whether more than :data:`MAX_NESTING` arrays and objects surround some value."""
    level = [value]
    for _ in range(MAX_NESTING):
        level = [child for parent in level for child in list_children(parent) if type(child) in _CONTAINERS]
        if not level:
            return False
    return True


def _convert_long_ints(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _convert_long_ints(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_convert_long_ints(item) for item in value]
    if isinstance(value, int) and value.bit_length() > _MAX_PLAIN_INT_BITS:
        return Decimal(value)
    return value


MAX_PIECE_BYTES: Final = 64 * 1024
"""Bytes of a piece, unless the caller chooses another size."""

_WHITE: Final = b" \t\n\r"
_ANY_WHITE: Final = re.compile(rb"[ \t\n\r]")
# White space leads to what follows it, so that a long run of it costs one step; at the end nothing would follow.
_TOKENS: Final = re.compile(rb'[ \t\n\r]*((?:[^ \t\n\r"]+|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z))+)', re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)


def compact_json(text: memoryview, *, size: int = MAX_PIECE_BYTES) -> Iterator[bytes]:
    """The compacted text in pieces, none of them empty or longer than ``size`` bytes, which must be at least 2."""
    start, inside = 0, False
    while start < len(text):
        piece = _trim_backslash(bytes(text[start : start + size]))
        start += len(piece)
        ends_inside = inside ^ (_count_quotes(piece) % 2 == 1)
        if kept := _strip_white_space(piece, inside, ends_inside):
            yield kept
        inside = ends_inside


def _trim_backslash(piece: bytes) -> bytes:
    """The piece without a last backslash that escapes the character after it."""
    backslashes = len(piece) - len(piece.rstrip(b"\\"))
    return piece[:-1] if backslashes % 2 else piece


def _count_quotes(piece: bytes) -> int:
    """The number of quotes that begin or end a string, escaped ones left out."""
    return (_ESCAPE.sub(b"", piece) if b"\\" in piece else piece).count(b'"')


def _strip_white_space(piece: bytes, begins_inside: bool, ends_inside: bool) -> bytes:
    if not _ANY_WHITE.search(piece):
        return piece
    opened = b'"' + piece if begins_inside else piece
    return b"".join(_TOKENS.findall(opened if ends_inside else opened.rstrip(_WHITE)))[begins_inside:]
