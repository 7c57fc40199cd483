"""Taking in a definition: read, check, compare, warn (docs/reference/steps.md#definitions)."""

import hashlib
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from msgspec import Struct

from statewright.freeing import take_apart, use_once
from statewright.jsonval.codec import encode_large
from statewright.jsonval.values import JsonValue
from statewright.processes.language import Rejection
from statewright.steps.definition import Definition
from statewright.steps.documents import definition_to_document, read_definition
from statewright.steps.lint import lint_definition
from statewright.steps.members import UnreadableDefinition
from statewright.steps.validation import find_violations

MAX_STEPS: Final = 10_000
"""Steps of a definition."""


class Accepted(Struct, frozen=True, kw_only=True):
    """A definition that may be stored."""

    definition: Definition
    content: str
    """Its content hash."""
    warnings: tuple[str, ...]
    """What is allowed but looks like a mistake."""


def accept_text(raw: bytes | str) -> Accepted | Rejection:
    """What was posted as a definition (docs/reference/steps.md#parsing)."""
    try:
        definition = read_definition(raw)
    except UnreadableDefinition as defect:
        return Rejection("bad-request", f"parse error: parse: {defect}")
    found = _find_violations(definition)
    if found:
        take_apart([definition.metadata or {}])
        return Rejection("bad-request", f"validation error: {_join_violations(found)}")
    return _accept(definition)


def accept_definition(definition: Definition) -> Accepted | Rejection:
    """A definition that came in another form than text (docs/reference/steps.md#grpc); the reasons are worded for
    gRPC.
    """
    found = _find_violations(definition)
    return Rejection("bad-request", _join_violations(found)) if found else _accept(definition)


def _find_violations(definition: Definition) -> tuple[str, ...]:
    """What keeps a definition from being stored; one that is too large is not looked at. Those stored stay usable."""
    if len(definition.steps) > MAX_STEPS:
        return (f"steps must be ≤ {MAX_STEPS}, got {len(definition.steps)}",)
    return find_violations(definition)


def _accept(definition: Definition) -> Accepted:
    return Accepted(definition=definition, content=hash_content(definition), warnings=lint_definition(definition))


def _join_violations(found: Iterable[str]) -> str:
    return "".join(["validation errors:", *(f"\n  {message}" for message in found)])


# Which version an uploaded definition gets: uploading the same content twice makes one
# (docs/reference/steps.md#versions).
#
# Content is equal as JSON is: the order of members and the spelling of numbers do not count. The exception are the
# places where order has a meaning: branches, transformations and the cells of a rule.

_ORDERED: Final = frozenset({"conditionalNextSteps", "transformations", "when"})


def hash_content(definition: Definition) -> str:
    """Equal for definitions of equal content, 64 hexadecimal digits."""
    document = definition_to_document(definition)
    metadata = document.pop("metadata", None)  # the author's own: no member of it has a meaning to us
    canonical: JsonValue = [_canonicalize(document, _ORDERED), _canonicalize(metadata, frozenset())]
    return hashlib.sha256(use_once(canonical, encode_large)).hexdigest()


def _canonicalize(value: JsonValue, ordered: frozenset[str]) -> JsonValue:
    if isinstance(value, dict):
        return {name: _canonicalize_member(name, member, ordered) for name, member in value.items()}
    if isinstance(value, list):
        return [_canonicalize(item, ordered) for item in value]
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return {"number": _canonicalize_number(value)}
    return value


def _canonicalize_member(name: str, value: JsonValue, ordered: frozenset[str]) -> JsonValue:
    if name in ordered and isinstance(value, dict):
        return [[key, _canonicalize(item, frozenset())] for key, item in value.items()]
    if name == "outputs":
        return _canonicalize(value, frozenset())
    return _canonicalize(value, ordered)


def _canonicalize_number(value: int | Decimal) -> str:
    """One text for all spellings of a number."""
    sign, digits, exponent = Decimal(value).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    significant = text.rstrip("0")
    if not significant or not isinstance(exponent, int):
        return "0"
    return f"{'-' * sign}{significant}e{exponent + len(text) - len(significant)}"
