"""What a decoded JSON document is made of."""

from decimal import Decimal
from typing import TypeAlias

JsonScalar: TypeAlias = None | bool | int | Decimal | str
"""Whole literals arrive as ``int``, all other numbers as ``Decimal`` with every digit kept; ``float`` never occurs."""

JsonValue: TypeAlias = "JsonScalar | list[JsonValue] | dict[str, JsonValue]"
JsonObject: TypeAlias = "dict[str, JsonValue]"
