"""How messages of the step engine quote names and name JSON types (spec/step-engine.md §1)."""

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


def quoted(text: str) -> str:
    """``text`` in double quotes on one line, with backslash escapes for what does not print."""
    return f'"{"".join([_ESCAPES.get(character) or _shown(character) for character in text])}"'


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


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
