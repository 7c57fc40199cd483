"""How messages quote names and name JSON types (docs/reference/steps.md#conventions)."""

from decimal import Decimal
from typing import Final

from statewright.jsonval.values import JsonValue

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
