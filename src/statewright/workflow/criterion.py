"""A criterion as its author wrote it, beside what the engine evaluates."""

from msgspec import Struct

from statewright.conditions import Condition, MalformedCondition, parse
from statewright.jsonval.values import JsonValue


class Criterion(Struct, frozen=True, kw_only=True):
    """A condition that selects a workflow or guards a transition.

    ``source`` is the JSON as imported; it is returned and sent to members verbatim, and must not be changed.
    ``condition`` is ``None`` when the source is no condition at all; ``defect`` says why then. Such a criterion is
    accepted at import and fails when it is evaluated (spec/workflows.md §5.2).
    ``label`` is what audit events call it: the name of an external criterion, else the condition type (§14.1).
    """

    source: JsonValue
    condition: Condition | None
    defect: str
    label: str


def criterion_of(source: JsonValue) -> Criterion:
    """The criterion that ``source`` describes; never fails."""
    try:
        condition = parse(source)
    except MalformedCondition as malformed:
        return Criterion(source=source, condition=None, defect=str(malformed), label=_label(source))
    return Criterion(source=source, condition=condition, defect="", label=_label(source))


def _label(source: JsonValue) -> str:
    if not isinstance(source, dict):
        return ""
    kind = source.get("type")
    function = source.get("function")
    if kind == "function" and isinstance(function, dict) and isinstance(name := function.get("name"), str):
        return name
    return kind if isinstance(kind, str) else ""
