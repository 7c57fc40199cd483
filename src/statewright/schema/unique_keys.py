"""Composite unique keys: which definitions a schema allows, and what a document claims under them
(docs/reference/models.md#unique-keys).

A claim is the key's id and its values as bytes. Equal bytes mean equal values: each value is written with its type and
its length, so no choice of texts in one field can imitate another split over two.

Numbers are compared by value, and what disqualifies one is decided by value too, because a stored document keeps the
value of a number and not its spelling: a key once accepted must not be refused when its document is read and saved.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from msgspec import Struct

from statewright.failures import Failure
from statewright.jsonval.values import JsonValue
from statewright.schema.node import Kind, SchemaNode, is_mixed

MAX_KEYS_AND_FIELDS: Final = 1_000
"""Unique keys of a model and their fields, all together: each write looks at all of them."""

_PREFIX: Final = "$."
_MAX_DIGITS: Final = 64
_MAX_EXPONENT: Final = 6144
"""Bounds of a number's significant digits and of its exponent in a key (docs/reference/models.md#claims)."""


class UniqueKey(Struct, frozen=True):
    """No two live entities of a model may agree in all ``fields``: paths like ``$.customer.no``, in given order."""

    id: str
    fields: tuple[str, ...]


class Claim(Struct, frozen=True):
    """One combination of values that an entity holds; ``values`` are compared, not read."""

    key_id: str
    values: bytes


class InvalidUniqueKeyDefinition(Failure):
    """A unique key names something that is not one scalar per document."""

    code, status = "INVALID_UNIQUE_KEY_DEFINITION", 422


class InvalidUniqueKey(Failure):
    """A document has some of a key's fields but not all, or one whose value cannot be part of a key."""

    code, status = "INVALID_UNIQUE_KEY", 422


INCOMPLETE: Final = "composite unique key incomplete"
"""The message about a document as submitted (docs/reference/models.md#enforcement)."""

NULL_OR_INVALID: Final = "one or more unique key fields are null or invalid"
"""The message about a document as processors left it (docs/reference/models.md#enforcement)."""


def find_definition_fault(keys: Sequence[UniqueKey], node: SchemaNode) -> str | None:
    """A message about the first rule that the keys break on this schema; ``None`` when they break none
    (docs/reference/models.md#definition).
    """
    if len(keys) + sum(len(key.fields) for key in keys) > MAX_KEYS_AND_FIELDS:
        return f"there are more than {MAX_KEYS_AND_FIELDS} unique keys and fields of them"
    seen = set[str]()
    for key in keys:
        if not key.id:
            return "key ID must not be empty"
        if key.id in seen:
            return f'duplicate key ID "{key.id}"'
        seen.add(key.id)
        if fault := _find_field_fault(key, node):
            return fault
    return None


def read_claims(keys: Sequence[UniqueKey], document: JsonValue, *, refusal: str = INCOMPLETE) -> tuple[Claim, ...]:
    """The document's claims, one per key of which it has any field (docs/reference/models.md#claims).

    Raises :class:`InvalidUniqueKey` with the message ``refusal``.
    """
    try:
        found = [_read_claim(key, document) for key in keys]
    except _Unusable:
        raise InvalidUniqueKey(refusal) from None
    return tuple(claim for claim in found if claim is not None)


def build_claim(key: UniqueKey, values: Mapping[str, JsonValue]) -> Claim | None:
    """What a document claims that has these values in the fields of the key; None when no document can have them."""
    try:
        return Claim(key.id, b"".join(_encode_value(values[field]) for field in key.fields))
    except (_Unusable, UnicodeEncodeError):
        return None


class _Unusable(Exception):
    """A value that cannot be part of a key."""


def _find_field_fault(key: UniqueKey, node: SchemaNode) -> str | None:
    if not key.fields:
        return f'key "{key.id}" has no fields'
    for path, occurrences in Counter(key.fields).items():
        if occurrences > 1:
            return f'key "{key.id}": duplicate field "{path}"'
    for path in key.fields:
        if not _is_scalar(path, node):
            return f'key "{key.id}": field "{path}" is not a known scalar leaf'
    return None


def _is_scalar(path: str, root: SchemaNode) -> bool:
    """Whether the path leads, by member names only, to a leaf or to a slot that is also a scalar."""
    if not path.startswith(_PREFIX) or "[" in path or "*" in path:
        return False
    node: SchemaNode | None = root
    for name in _split_path(path):
        if node is None or node.kind is not Kind.OBJECT:
            return False
        node = node.children.get(name)
    return node is not None and (node.kind is Kind.LEAF or (node.kind is Kind.OBJECT and is_mixed(node)))


def _split_path(path: str) -> list[str]:
    return path.removeprefix(_PREFIX).split(".")


def _read_claim(key: UniqueKey, document: JsonValue) -> Claim | None:
    values = [_resolve(_split_path(path), document) for path in key.fields]
    if all(value is None for value in values):
        return None
    return Claim(key.id, b"".join(_encode_value(value) for value in values))


def _resolve(steps: Sequence[str], document: JsonValue) -> JsonValue:
    value = document
    for name in steps:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _encode_value(value: JsonValue) -> bytes:
    """Type, length and value: no two sequences of values are written alike. Null is missing, and so are containers."""
    if isinstance(value, str):
        return _frame(b"s", value.encode())
    if isinstance(value, bool):
        return _frame(b"b", b"1" if value else b"0")
    if isinstance(value, int | Decimal):
        return _frame(b"n", _format_number(value).encode())
    raise _Unusable


def _frame(kind: bytes, payload: bytes) -> bytes:
    return b"%s%d:%s" % (kind, len(payload), payload)


def _format_number(value: int | Decimal) -> str:
    """Significant digits and exponent: ``7``, ``7.0`` and ``0.7e1`` are all ``7e0``."""
    number = Decimal(value)
    if not number:
        return "0"
    sign, digits, exponent = number.as_tuple()
    spelled = "".join(map(str, digits))
    significant = spelled.rstrip("0")
    power = int(exponent) + len(spelled) - len(significant)
    if len(significant) > _MAX_DIGITS or abs(power) > _MAX_EXPONENT:
        raise _Unusable
    return f"{'-' if sign else ''}{significant}e{power}"
