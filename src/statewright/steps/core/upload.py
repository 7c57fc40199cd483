"""Taking in a definition: read, check, compare, warn (spec/step-engine.md §3)."""

from collections.abc import Iterable

from msgspec import Struct

from statewright.steps.core.definition import Definition
from statewright.steps.core.lint import warnings
from statewright.steps.core.members import UnreadableDefinition
from statewright.steps.core.operations import Refusal
from statewright.steps.core.reading import read_definition
from statewright.steps.core.validation import violations
from statewright.steps.core.versions import content_hash


class Accepted(Struct, frozen=True, kw_only=True):
    """A definition that may be stored; :func:`statewright.steps.core.versions.assign_version` says as what version."""

    definition: Definition
    content: str
    """Its content hash."""
    warnings: tuple[str, ...]
    """What is allowed but looks like a mistake."""


def accept_text(raw: bytes | str) -> Accepted | Refusal:
    """What was posted as a definition (§3.1)."""
    try:
        definition = read_definition(raw)
    except UnreadableDefinition as defect:
        return Refusal("bad-request", f"parse error: parse: {defect}")
    found = violations(definition)
    if found:
        return Refusal("bad-request", f"validation error: {_together(found)}")
    return _accepted(definition)


def accept_definition(definition: Definition) -> Accepted | Refusal:
    """A definition that came in another form than text (§12); the reasons are worded for gRPC."""
    found = violations(definition)
    return Refusal("bad-request", _together(found)) if found else _accepted(definition)


def _accepted(definition: Definition) -> Accepted:
    return Accepted(definition=definition, content=content_hash(definition), warnings=warnings(definition))


def _together(found: Iterable[str]) -> str:
    return "".join(["validation errors:", *(f"\n  {message}" for message in found)])
