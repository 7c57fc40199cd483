"""Definitions of the *Workflow JSON Format*: decoded, but not yet checked
(docs/reference/steps.md#definitions).

Members keep what the author wrote. An absent member, ``null`` and the empty value of its type are the same.

To add a step type, name it here, then say what it is compiled to (``compiling.py``), what it does with the variables
(``language.py``), what it must have (``validation.py``), where it leads (``lint.py``) and its shape (``mermaid.py``).
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue

StepType: TypeAlias = Literal[
    "SERVICE_TASK",
    "USER_TASK",
    "DECISION",
    "DECISION_TABLE",
    "TRANSFORMATION",
    "WAIT",
    "PARALLEL_GATEWAY",
    "JOIN_GATEWAY",
    "END",
]

STEP_TYPES: Final[Mapping[str, StepType]] = {
    "SERVICE_TASK": "SERVICE_TASK",
    "USER_TASK": "USER_TASK",
    "DECISION": "DECISION",
    "DECISION_TABLE": "DECISION_TABLE",
    "TRANSFORMATION": "TRANSFORMATION",
    "WAIT": "WAIT",
    "PARALLEL_GATEWAY": "PARALLEL_GATEWAY",
    "JOIN_GATEWAY": "JOIN_GATEWAY",
    "END": "END",
}

TIMED_TYPES: Final[frozenset[str]] = frozenset({"SERVICE_TASK", "USER_TASK", "WAIT"})
"""The step types whose boundary events fire; on others they are kept and never do."""

DEFAULT_HIT_POLICY: Final = "U"


class BoundaryEvent(Struct, frozen=True, kw_only=True):
    """Something that may happen while its step is active."""

    type: str = ""
    duration: str = ""
    interrupting: bool = False
    target_step_id: str = ""


class Rule(Struct, frozen=True, kw_only=True):
    """A row of a decision table: cells to hold, variables to set. Both keep their order."""

    when: Mapping[str, str] = {}
    outputs: JsonObject = {}


class DecisionTable(Struct, frozen=True, kw_only=True):
    """The rows of a decision table, in order."""

    rules: tuple[Rule, ...] = ()


class Step(Struct, frozen=True, kw_only=True):
    """One element of ``steps``. ``type`` may be unknown; members of other step types may be set and are ignored."""

    id: str = ""
    name: str = ""
    type: str = ""
    description: str = ""
    next_step: str = ""
    parallel_next_steps: tuple[str, ...] = ()
    join_step: str = ""
    conditional_next_steps: Mapping[str, str] = {}
    """Expression → step id, in order."""
    transformations: Mapping[str, JsonValue] = {}
    """Variable → literal or ``${expression}``, in order."""
    job_type: str = ""
    delegate_class: str = ""
    retry_count: int = 0
    boundary_events: tuple[BoundaryEvent, ...] = ()
    hit_policy: str = ""
    decision_table: DecisionTable | None = None


class Definition(Struct, frozen=True, kw_only=True):
    """A whole definition, without its version, which is not the author's to choose."""

    id: str = ""
    name: str = ""
    description: str = ""
    auto_start_next_workflow: bool = False
    next_workflow_id: str = ""
    steps: tuple[Step, ...] = ()
    metadata: "JsonObject | None" = None

    @property
    def successor(self) -> str | None:
        """The definition that is started when an instance of this one reaches one of its chaining ENDs."""
        return self.next_workflow_id or None if self.auto_start_next_workflow else None

    @property
    def main_end(self) -> str | None:
        """The first END of the document: the outcome the author had in mind, and the only one that chains.

        Seed 000 has its loan application chain when it is approved, and not when it ends rejected or escalated; the
        order of its END steps is all that tells them apart.
        """
        return next(iter(self.ends), None)

    @property
    def ends(self) -> tuple[str, ...]:
        """Its END steps, in order."""
        return tuple(step.id for step in self.steps if step.type == "END")

    @property
    def chaining_ends(self) -> tuple[str, ...]:
        """The END steps at which an instance starts the successor: those that the author named, else the main END
        (decision J10, docs/reference/steps.md#chaining).
        """
        if self.successor is None:
            return ()
        named = read_chain_at_ends(self)
        if named is None:
            return self.ends[:1]
        return self.ends if named == "*" else tuple(end for end in self.ends if end in named)


def list_references(step: Step) -> tuple[str, ...]:
    """Every step id that ``step`` names, whatever its type, empty ones left out
    (docs/reference/steps.md#validation).
    """
    named = (
        step.next_step,
        *step.conditional_next_steps.values(),
        *step.parallel_next_steps,
        step.join_step,
        *(event.target_step_id for event in step.boundary_events),
    )
    return tuple(reference for reference in named if reference)


CHAIN_AT_ENDS: Final = "chainAtEnds"


def read_chain_at_ends(definition: Definition) -> "Literal['*'] | tuple[str, ...] | None":
    """The ``metadata.chainAtEnds`` of a definition: ``*``, or the ids of END steps. None when there is nothing of this
    shape: metadata are the author's own.
    """
    named = (definition.metadata or {}).get(CHAIN_AT_ENDS)
    if named == "*":
        return "*"
    ids = tuple(one for one in named if isinstance(one, str)) if isinstance(named, list) else ()
    return ids if isinstance(named, list) and len(ids) == len(named) else None


# Which calculation members a job is pushed to (docs/reference/steps.md#pushed-jobs).

MEMBER_TAGS: Final = "calculationNodesTags"


def find_member_tags(definition: Definition, job_type: str) -> str | None:
    """The ``metadata.dispatch.<jobType>.calculationNodesTags`` of a definition; None when there is no such text: then
    the job type is the tag.

    Metadata are the author's own, so what has another shape there has another meaning, and none to us.
    """
    place: object = definition.metadata
    for name in ("dispatch", job_type, MEMBER_TAGS):
        place = place.get(name) if isinstance(place, dict) else None
    return place if isinstance(place, str) and place.strip(" ,;") else None
