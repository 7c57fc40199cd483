"""Texts with places that a value of the input or of the parameters fills: ``order-{input[id]}``
(docs/reference/flows.md#templates).
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from statewright.jsonval.values import JsonValue

_PLACE: Final = re.compile(r"\{(input|parameters)((?:\[[^\[\]{}]+\])+)\}")
_KEY: Final = re.compile(r"\[([^\[\]]+)\]")


class UnfilledTemplate(ValueError):
    """A place of a template for which there is no value, or none that can stand in a text."""


def fill_template(
    text: str, given: JsonValue, parameters: JsonValue, escape: Callable[[str, int], str] | None = None
) -> str:
    """The text with its places filled from the input and the parameters of a task.

    ``escape`` makes of a value, and of the place at which it is going to stand, what stands there. Raises
    :class:`UnfilledTemplate`.
    """
    values = {"input": given, "parameters": parameters}
    parts: list[str] = []
    length = end = 0
    for place in _PLACE.finditer(text):
        parts.append(text[end : place.start()])
        length += len(parts[-1])
        filled = _find_text(values[place.group(1)], place)
        parts.append(filled if escape is None else escape(filled, length))
        length += len(parts[-1])
        end = place.end()
    return "".join((*parts, text[end:]))


def _find_text(value: JsonValue, place: re.Match[str]) -> str:
    for key in _KEY.findall(place.group(2)):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            raise UnfilledTemplate(f"there is nothing for {place.group()}")
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case _:
            raise UnfilledTemplate(f"the value for {place.group()} is no text, number or boolean")
