"""Definitions of the *Workflow JSON Format*: decoded, but not yet checked
(docs/reference/steps.md#definitions).

Members keep what the author wrote. An absent member, ``null`` and the empty value of its type are the same. The fields
below, in the spelling of documents, are the members that :mod:`statewright.steps.documents` reads and writes.

To add a step type, name it here, then say what it is compiled to and what it does with the variables
(``language.py``), what it must have (``validation.py``), where it leads (``upload.py``) and its shape (``mermaid.py``).
docs/architecture.md#where-things-go has all places.

How long failed jobs rest before they can be claimed again: ``metadata.retryBackoff`` of a definition
(docs/reference/steps.md#backoff).

Metadata are the author's own, so what has another shape there has no effect; it is a warning.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal, TypeAlias, TypeVar, get_args

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue, is_number, is_whole, quote
from statewright.net.durations import parse_delay
from statewright.processes.changes import Backoff, JobPolicy

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

STEP_TYPES: Final[Mapping[str, StepType]] = {name: name for name in get_args(StepType)}

TIMED_TYPES: Final[frozenset[str]] = frozenset({"SERVICE_TASK", "USER_TASK", "WAIT"})
"""The step types whose boundary events fire; on others they are kept and never do."""

DEFAULT_HIT_POLICY: Final = "U"


class BoundaryEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that may happen while its step is active."""

    type: str = ""
    duration: str = ""
    interrupting: bool = False
    target_step_id: str = ""


class Rule(Struct, frozen=True, kw_only=True, rename="camel"):
    """A row of a decision table: cells to hold, variables to set. Both keep their order."""

    when: Mapping[str, str] = {}
    outputs: JsonObject = {}


class DecisionTable(Struct, frozen=True, kw_only=True, rename="camel"):
    """The rows of a decision table, in order."""

    rules: tuple[Rule, ...] = ()


class Step(Struct, frozen=True, kw_only=True, rename="camel"):
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


class Definition(Struct, frozen=True, kw_only=True, rename="camel"):
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


V = TypeVar("V")

RETRY_BACKOFF: Final = "retryBackoff"

ANY_TYPE: Final = "*"

DELIVERIES: Final = "deliveries"

MAX_PAUSE_S: Final = 30 * 86_400
MAX_DELIVERIES: Final = 1_000
MAX_RETRIES: Final = 2**31 - 1
"""As many as a job can count; more are as good as these."""


def find_policy(definition: Definition, step: Step) -> JobPolicy:
    """How the jobs of a step are done; what metadata say in another way has no effect (:func:`list_misfits`)."""
    retries = min(max(step.retry_count, 0), MAX_RETRIES)
    return JobPolicy(
        retries=retries,
        backoff=_read_of_type(definition, RETRY_BACKOFF, step.job_type, partial(_parse, retries=retries)),
        deliveries=_read_of_type(definition, DELIVERIES, step.job_type, _read_deliveries),
    )


def _read_of_type(definition: Definition, member: str, job_type: str, read: Callable[[JsonValue], V]) -> V | None:
    declared = (definition.metadata or {}).get(member)
    if not isinstance(declared, dict):
        return None
    source = declared[job_type] if job_type in declared else declared.get(ANY_TYPE)
    try:
        return None if source is None else read(source)
    except ValueError:
        return None


def list_misfits(definition: Definition) -> tuple[str, ...]:
    """What stands in ``metadata.retryBackoff`` and ``metadata.deliveries``, and has no effect."""
    known = {step.job_type for step in definition.steps if step.type == "SERVICE_TASK"} | {ANY_TYPE}
    found: list[str] = []
    for member, read in _BY_TYPE.items():
        declared = (definition.metadata or {}).get(member)
        if declared is not None and not isinstance(declared, dict):
            found.append(f"metadata.{member} has no effect: it must be an object")
        for job_type, source in declared.items() if isinstance(declared, dict) else ():
            place = f"metadata.{member} {quote(job_type)} has no effect"
            if job_type not in known:
                found.append(f"{place}: no step has such jobs")
            try:
                read(source)
            except ValueError as misfit:
                found.append(f"{place}: {misfit}")
    return tuple(found)


def _parse(source: JsonValue, retries: int) -> Backoff:
    """Raises ``ValueError``."""
    if not isinstance(source, dict):
        raise ValueError("it must be an object")  # noqa: TRY004 - one kind of finding
    fields: dict[str, float] = {}
    for name, value in source.items():
        if name not in _MEMBERS:
            raise ValueError(f"{quote(name)} is unknown")
        field, read = _MEMBERS[name]
        fields[field] = read(name, value)
    return Backoff(retries=retries, **fields)


def _read_seconds(name: str, value: JsonValue) -> float:
    delay = parse_delay(value) if isinstance(value, str) else None
    if delay is None or delay.months or delay.microseconds > MAX_PAUSE_S * 1_000_000:
        raise ValueError(f"{name} must be an ISO 8601 duration up to P30D, without months")
    return delay.microseconds / 1_000_000


def _read_number(name: str, value: JsonValue, least: int, most: int) -> float:
    if not is_number(value) or not least <= value <= most:
        raise ValueError(f"{name} must be a number from {least} to {most}")
    return float(value)


def _read_deliveries(value: JsonValue) -> int:
    """Raises ``ValueError``."""
    if not is_whole(value) or not 1 <= value <= MAX_DELIVERIES:
        raise ValueError(f"it must be a whole number from 1 to {MAX_DELIVERIES}")
    return int(value)


_MEMBERS: Final[Mapping[str, tuple[str, Callable[[str, JsonValue], float]]]] = {
    "delay": ("delay_s", _read_seconds),
    "maxDelay": ("max_delay_s", _read_seconds),
    "factor": ("factor", lambda name, value: _read_number(name, value, 1, 10)),
    "jitter": ("jitter", lambda name, value: _read_number(name, value, 0, 1)),
}
_BY_TYPE: Final[Mapping[str, Callable[[JsonValue], object]]] = {
    RETRY_BACKOFF: lambda source: _parse(source, 0),
    DELIVERIES: _read_deliveries,
}
"""What metadata may say by types of jobs, and what reads it, which raises ``ValueError``."""
