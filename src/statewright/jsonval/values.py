"""What a decoded JSON document is made of: values, their data types, and the paths by which messages name a place.

A path looks like ``lines[0].sku``; that of the document itself is empty. Names are inserted verbatim
(docs/reference/models.md#strict-validation), so a dot inside a name cannot be told from a step: paths are for people to
read, not for programs to follow.

Reading the members of a JSON object by name and type.

How messages quote names and name JSON types (docs/reference/steps.md#conventions).

Merging a delta into the variables of an instance: always a new object, the old one stays as it was (decision J1).

How much there is in a value.
"""

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from itertools import accumulate, chain, islice
from typing import Any, Final, Literal, TypeAlias, TypeGuard, cast

JsonScalar: TypeAlias = None | bool | int | Decimal | str
"""Whole literals arrive as ``int``, all other numbers as ``Decimal`` with every digit kept; ``float`` never occurs."""

JsonValue: TypeAlias = "JsonScalar | list[JsonValue] | dict[str, JsonValue]"
JsonObject: TypeAlias = "dict[str, JsonValue]"


class DataType(StrEnum):
    """Type of a JSON scalar as exports of models name it; declaration order is the canonical order of listings
    (docs/reference/models.md#data-types).
    """

    INTEGER = "INTEGER"
    LONG = "LONG"
    BIG_INTEGER = "BIG_INTEGER"
    UNBOUND_INTEGER = "UNBOUND_INTEGER"
    DOUBLE = "DOUBLE"
    BIG_DECIMAL = "BIG_DECIMAL"
    UNBOUND_DECIMAL = "UNBOUND_DECIMAL"
    STRING = "STRING"
    CHARACTER = "CHARACTER"
    LOCAL_DATE = "LOCAL_DATE"
    LOCAL_DATE_TIME = "LOCAL_DATE_TIME"
    LOCAL_TIME = "LOCAL_TIME"
    ZONED_DATE_TIME = "ZONED_DATE_TIME"
    YEAR = "YEAR"
    YEAR_MONTH = "YEAR_MONTH"
    UUID_TYPE = "UUID_TYPE"
    TIME_UUID_TYPE = "TIME_UUID_TYPE"
    BYTE_ARRAY = "BYTE_ARRAY"
    BOOLEAN = "BOOLEAN"
    NULL = "NULL"


MAX_PATH_CHARS: Final = 2048
"""Characters of a path that messages show: a long name with many members below it would cost its length for each."""


def member_path(path: str, name: str) -> str:
    """The path of a member of the object at ``path``."""
    return extend_path(path, f".{name}" if path else name)


def read_index(text: str, size: int) -> int | None:
    """The place in a list of ``size`` items that a text names; None: there is none."""
    digits = text.lstrip("0") or text[:1]
    if not (text.isascii() and text.isdigit()) or len(digits) > len(str(size)):  # Python reads no number of any length
        return None
    return index if (index := int(digits)) < size else None


def item_path(path: str, index: int) -> str:
    """The path of an item of the array at ``path``."""
    return extend_path(path, f"[{index}]")


def extend_path(path: str, step: str) -> str:
    """The path and a further step, cut off where it is very long; what was cut is not extended."""
    if len(path) > MAX_PATH_CHARS:
        return path
    extended = path + step
    return extended if len(extended) <= MAX_PATH_CHARS else f"{extended[:MAX_PATH_CHARS]}…"


WantedType = Literal["string", "bool", "int", "array", "object"]

INT64_LIMIT: Final = 2**63


class MemberReader(ABC):
    """The members of one object, each read as the type that is expected of it; ``null`` counts as absent.

    How a member is found (in which spellings, and whether others may be there) and how a wrong type is refused differs
    between the kinds of documents, so each has a reader of its own, derived from this one.
    """

    __slots__ = ()

    @abstractmethod
    def get(self, name: str) -> JsonValue:
        """The member as it is; ``None`` when absent."""

    @abstractmethod
    def build_type_error(self, name: str, value: JsonValue, wanted: WantedType) -> Exception:
        """What is raised for a member of another type than is wanted."""

    def text(self, name: str) -> str:
        """A string, empty when absent."""
        value = self.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.build_type_error(name, value, "string")
        return value

    def flag(self, name: str) -> bool | None:
        """A boolean; ``None`` when absent."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.build_type_error(name, value, "bool")
        return value

    def integer(self, name: str) -> int | None:
        """A signed 64-bit integer, written without point and exponent; ``None`` when absent."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not -INT64_LIMIT <= value < INT64_LIMIT:
            raise self.build_type_error(name, value, "int")
        return value

    def array(self, name: str) -> list[JsonValue]:
        """An array, empty when absent."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.build_type_error(name, value, "array")
        return value

    def object(self, name: str) -> "JsonObject | None":
        """An object; ``None`` when absent."""
        value = self.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.build_type_error(name, value, "object")
        return value


_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


_JSON_ESCAPES: Final = {character: _ESCAPES[character] for character in '"\\\n\r\t'}


def quote(text: str) -> str:
    """``text`` in double quotes on one line, with backslash escapes for what does not print."""
    return f'"{"".join([_ESCAPES.get(character) or _escape_character(character) for character in text])}"'


def quote_name(text: str) -> str:
    """As :func:`quote`, but control characters without an escape of JSON are written ``\\u0007``, not ``\\a``."""
    escapes = (_JSON_ESCAPES.get(character) or _escape_character(character, has_short_form=False) for character in text)
    return f'"{"".join(escapes)}"'


def json_type(value: JsonValue) -> str:
    """``object``, ``array``, ``string``, ``number``, ``bool`` or ``null``."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | Decimal():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"


def _escape_character(character: str, has_short_form: bool = True) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80 and has_short_form:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_MAX_PLAIN_DIGITS: Final = 21
"""Digits up to which integral numbers are written without fraction and exponent
(docs/reference/steps.md#variables).
"""

_MAX_PLAIN_INT: Final = 10**_MAX_PLAIN_DIGITS

_MAX_DOUBLE_DIGITS: Final = 17
"""Significant digits of the longest number that the shortest form of a double has."""

_TRAILING_ZEROS: Final = re.compile(r"00000[,}\]]")
"""How numbers end that are longer than 21 digits and have no more than 17 significant ones. Ids end with zeros, too,
but then with a quotation mark.
"""


def merge_shallow(variables: JsonObject, delta: JsonObject) -> JsonObject:
    """Each member of ``delta`` replaces the whole member of its name; ``null`` is kept, nothing is removed."""
    return {**variables, **delta} if delta else variables


def merge_deep(variables: JsonObject, delta: JsonObject) -> JsonObject:
    """As :func:`merge_shallow`, but where both sides are objects their members are merged in turn.

    Arrays are replaced. Nesting is bounded by the decoder.
    """
    if not delta:
        return variables
    result = dict(variables)
    for name, value in delta.items():
        current = result.get(name)
        if isinstance(current, dict) and isinstance(value, dict):
            result[name] = merge_deep(current, value)
        else:
            result[name] = value
    return result


def list_children(value: JsonValue) -> Iterable[JsonValue]:
    """The items of an array, the values of an object; none of what is neither."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def is_number(value: object) -> TypeGuard[int | Decimal]:
    """Whether a value is a number; a boolean is none."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a number without a fraction, and written so."""
    return isinstance(value, int) and not isinstance(value, bool)


def to_whole(value: Decimal, max_digits: int) -> int | Decimal:
    """A number without a fraction as ``int``, if it has at most so many digits; else as it is."""
    return int(value) if value.adjusted() < max_digits and value == value.to_integral_value() else value


def tidy_numbers(value: JsonObject) -> JsonObject:
    """The same object with integral numbers written without a fraction: ``1.0`` is stored as ``1``."""
    return {name: _tidy(member) for name, member in value.items()}


def tidy_number(value: int | Decimal) -> int | Decimal:
    """The number in the form that clients with typed numbers can read: integral ones of up to 21 digits as ``int``,
    longer ones with an exponent unless they have more digits than a double can tell apart. The value stays the same.
    """
    if isinstance(value, int):
        return value if -_MAX_PLAIN_INT < value < _MAX_PLAIN_INT else _shorten(value)
    return _shorten(value) if value.adjusted() >= _MAX_PLAIN_DIGITS else to_whole(value, _MAX_PLAIN_DIGITS)


def tidy_stored(value: JsonValue, text: str) -> JsonValue:
    """A value read from the database, which gave it as ``text``: it writes ``1e300`` as three hundred digits."""
    for zeros in _TRAILING_ZEROS.finditer(text):
        if text[max(zeros.start() - _MAX_DOUBLE_DIGITS, 0) : zeros.start()].isdigit():
            return _tidy(value)
    return value


def _shorten(value: int | Decimal) -> int | Decimal:
    """A number of more than 21 digits before its point, with an exponent if it has few significant ones."""
    sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int), "JSON has no NaN and no Infinity"  # noqa: S101
    significant = bytes(digits).rstrip(b"\0")
    if len(significant) > _MAX_DOUBLE_DIGITS or exponent + len(digits) - len(significant) < 0:
        return value
    return Decimal((sign, tuple(significant), exponent + len(digits) - len(significant)))


def _tidy(value: JsonValue) -> JsonValue:
    """The value itself when there is nothing to tidy: a large one is not held twice."""
    if isinstance(value, dict):
        members: Iterable[tuple[Any, JsonValue]] = value.items()  # Any: a name or an index
    elif isinstance(value, list):
        members = enumerate(value)
    else:
        return tidy_number(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value
    tidied: Any = value
    for place, member in members:
        other = _tidy(member)
        if other is not member:
            tidied = value.copy() if tidied is value else tidied
            tidied[place] = other
    return cast("JsonValue", tidied)


_MAX_GUESSED: Final = 200
_MAX_GUESSED_CHARS: Final = 64
_MAX_GUESSED_PAIRS: Final = 20_000
"""Of a character of the name and one of those it is compared with: about half a millisecond."""
_NEAR: Final = 0.7
"""How like the name must be that is meant, from 0 to 1."""


def guess_name(name: str, known: Iterable[str]) -> str:
    """What may be meant, for the end of a message: ``; did you mean …?``, or nothing. Of many names the first are
    compared, of longer ones fewer, and of long ones none, since comparing takes the product of their lengths.
    """
    if len(name) > _MAX_GUESSED_CHARS:
        return ""
    names = [one for one in islice(known, _MAX_GUESSED) if len(one) <= _MAX_GUESSED_CHARS]
    pairs = accumulate(len(name) * len(one) for one in names)
    names = [one for one, most in zip(names, pairs, strict=True) if most <= _MAX_GUESSED_PAIRS]
    nearest = get_close_matches(name, names, n=1, cutoff=_NEAR)
    return f"; did you mean {nearest[0]}?" if nearest else ""


_CHARS_PER_WEIGHT: Final = 64
_DECIMAL_BYTES_PER_WEIGHT: Final = 16
_BITS_PER_WEIGHT: Final = 256
_MAX_SHORT_WHOLE: Final = 1 << _BITS_PER_WEIGHT
_DECIMAL_BYTES: Final = sys.getsizeof(Decimal(0))


def weigh(value: JsonValue, most: int) -> int:
    """How many values there are, in short texts and numbers; when it is more than ``most``, at least how many.

    Each level by few passes, and none over kinds of values that it does not have: to encode a value takes far less time
    than to look at its members in Python.
    """
    total, level = 0, [value]
    while level:
        total += len(level)
        kinds = {*map(type, level)}
        if str in kinds:
            total += sum(map(len, [item for item in level if type(item) is str])) // _CHARS_PER_WEIGHT
        if int in kinds or Decimal in kinds:
            total += _weigh_numbers([item for item in level if type(item) is int or type(item) is Decimal])
        objects = [item for item in level if type(item) is dict] if dict in kinds else []
        lists = [item for item in level if type(item) is list] if list in kinds else []
        total += sum(map(len, objects))  # names, which can be long, too
        count = sum(map(len, objects)) + sum(map(len, lists))
        if total + count > most:
            return total + count
        total += sum(map(len, chain.from_iterable(objects))) // _CHARS_PER_WEIGHT
        level = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(lists)]
    return total


def _weigh_numbers(values: Sequence[int | Decimal]) -> int:
    """What long numbers weigh beside being values. Fractions are written in a time that grows with
    their length, whole numbers in one that grows with its square: 0.2 ms for 4,000 digits.
    """
    fractions = [sys.getsizeof(value) - _DECIMAL_BYTES for value in values if type(value) is Decimal]
    wholes = [value for value in values if type(value) is int] if fractions else values
    if not wholes or (min(wholes) > -_MAX_SHORT_WHOLE and max(wholes) < _MAX_SHORT_WHOLE):
        squares = 0
    else:
        squares = sum([(int(value).bit_length() // _BITS_PER_WEIGHT) ** 2 for value in wholes])
    return sum(fractions) // _DECIMAL_BYTES_PER_WEIGHT + squares
