"""Which version an uploaded definition gets: uploading the same content twice makes one (spec/step-engine.md §3.3).

Content is equal as JSON is: the order of members and the spelling of numbers do not count. The exception are the places
where order has a meaning (decision J2): branches, transformations and the cells of a rule.
"""

import hashlib
from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue
from statewright.steps.core.definition import Definition
from statewright.steps.core.writing import to_document

_ORDERED = frozenset({"conditionalNextSteps", "transformations", "when"})


class Assigned(Struct, frozen=True):
    """The version an upload is answered with, and whether it has to be stored."""

    version: int
    is_new: bool


def content_hash(definition: Definition) -> str:
    """Equal for definitions of equal content, 64 hexadecimal digits."""
    document = to_document(definition)
    metadata = document.pop("metadata", None)  # the author's own: no member of it has a meaning to us
    return hashlib.sha256(encode([_canonical(document, _ORDERED), _canonical(metadata, frozenset())])).hexdigest()


def assign_version(content: str, stored: Mapping[int, str]) -> Assigned:
    """The highest stored version of the same content, else the next one. ``stored``: content hashes by version."""
    same = [version for version, known in stored.items() if known == content]
    if same:
        return Assigned(max(same), is_new=False)
    return Assigned(max(stored, default=0) + 1, is_new=True)


def _canonical(value: JsonValue, ordered: frozenset[str]) -> JsonValue:
    if isinstance(value, dict):
        return {name: _member(name, member, ordered) for name, member in value.items()}
    if isinstance(value, list):
        return [_canonical(item, ordered) for item in value]
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return {"number": _number(value)}
    return value


def _member(name: str, value: JsonValue, ordered: frozenset[str]) -> JsonValue:
    if name in ordered and isinstance(value, dict):
        return [[key, _canonical(item, frozenset())] for key, item in value.items()]
    if name == "outputs":
        return _canonical(value, frozenset())
    return _canonical(value, ordered)


def _number(value: int | Decimal) -> str:
    """One text for all spellings of a number."""
    sign, digits, exponent = Decimal(value).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    significant = text.rstrip("0")
    if not significant or not isinstance(exponent, int):
        return "0"
    return f"{'-' * sign}{significant}e{exponent + len(text) - len(significant)}"
