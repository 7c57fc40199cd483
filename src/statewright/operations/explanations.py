"""Why something is where it is (docs/reference/operations.md#explain)."""

from typing import Annotated, ClassVar, Literal, TypeAlias

from statewright.entity import ModelKey
from statewright.operations.records import Instant, Int32, Int64, Members, Record, Uuid, name_words
from statewright.operations.suspensions import Scope

TransitionKind: TypeAlias = Literal["AUTOMATED", "MANUAL", "SCHEDULED"]
Rule: TypeAlias = Literal["REMEMBERED", "FIRST_WITH_STATE", "DEFAULT", "NONE"]
Block: TypeAlias = Literal["CRITERION", "DISABLED", "NO_MEMBER", "NOT_DUE", "SHADOWED", "SUSPENDED", "UNKNOWN"]
Verdict: TypeAlias = Literal[
    "SUSPENDED",
    "FAILED",
    "READY",
    "STATE_UNKNOWN",
    "TERMINAL",
    "WAITS_FOR_WORKER",
    "WAITS_FOR_TIMER",
    "WAITS_FOR_CRITERION",
    "WAITS_FOR_MANUAL",
]
WaitsFor: TypeAlias = Literal["JOB", "USER_TASK", "SIGNAL", "JOIN", "NOTHING"]
Phase: TypeAlias = Literal["QUEUED", "LEASED", "DELAYED", "HELD", "REPORTED"]


class BlockingSuspension(Record, frozen=True, kw_only=True):
    """A suspension that holds."""

    id: Uuid
    scope: Annotated[str, name_words(Scope)]
    reason: str
    since: Instant


class OpenIncident(Record, frozen=True, kw_only=True):
    """An incident that nobody has closed."""

    id: Uuid
    kind: str
    last_at: Instant
    message: str


class GoverningWorkflow(Record, frozen=True, kw_only=True):
    """The workflow of an entity, None if no one takes it, and by which rule it was found. ``passed_over`` are the
    active workflows that the entity could have had in place of the default one.
    """

    name: str | None
    revision: Int64
    rule: Annotated[str, name_words(Rule)]
    passed_over: tuple[str, ...]


class ProcessorOutlook(Record, frozen=True, kw_only=True):
    """A processor and how many members there are for it; None when that is not known."""

    name: str
    mode: str
    tags: tuple[str, ...]
    members: Int32 | None = None


class Refusal(Record, frozen=True, kw_only=True):
    """Why something is not allowed."""

    code: str
    message: str


class Permission(Record, frozen=True, kw_only=True):
    """Whether who asks may fire a transition, and why not."""

    allowed: bool
    why_not: tuple[Refusal, ...]


class ArmedTimer(Record, frozen=True, kw_only=True):
    """A scheduled transition that fires at ``due_at``; of a transition that is told, the name is left out."""

    transition: str | None = None
    due_at: Instant
    attempts: Int32


class ExplainedTransition(Record, frozen=True, kw_only=True):
    """A way out of the state. ``would_fire`` is None where a member would have to be asked; ``blocked_by`` has all
    reasons; leaves of ``criterion`` have what was found and the ``result``.
    """

    SCHEMA: ClassVar[str] = "OpsTransition"

    name: str
    next: str
    kind: Annotated[str, name_words(TransitionKind)]
    disabled: bool
    would_fire: bool | None
    blocked_by: tuple[Annotated[str, name_words(Block)], ...]
    criterion: Members | None
    processors: tuple[ProcessorOutlook, ...]
    permission: Permission
    timer: ArmedTimer | None


class ExplainedEntity(Record, frozen=True, kw_only=True):
    """Why an entity is where it is. ``since`` is None when that is too long ago to tell; ``timers`` are the armed
    ones, None for an instant of the past, as suspensions and incidents are.
    """

    SCHEMA: ClassVar[str] = "OpsExplanation"

    entity_id: Uuid
    model: ModelKey
    state: str
    since: Instant | None = None
    transaction_id: Uuid
    workflow: GoverningWorkflow
    verdict: Annotated[str, name_words(Verdict)]
    summary: str
    transitions: tuple[ExplainedTransition, ...]
    suspensions: tuple[BlockingSuspension, ...] | None = None
    incidents: tuple[OpenIncident, ...] | None = None
    timers: tuple[ArmedTimer, ...] | None = None


class AwaitedBranch(Record, frozen=True, kw_only=True):
    """A branch, counted from one, that has not come to a join, and the steps where it is."""

    branch: Int32
    at: tuple[str, ...]


class AwaitedThing(Record, frozen=True, kw_only=True):
    """What a token of an instance waits for."""

    step_id: str
    step_type: str | None = None
    attempt: Int32 | None = None
    since: Instant | None = None
    waits_for: Annotated[str, name_words(WaitsFor)]
    arrived: Int32 | None = None
    missing: tuple[AwaitedBranch, ...] | None = None
    user_task_id: str | None = None
    job_id: str | None = None
    job_type: str | None = None
    phase: Annotated[str, name_words(Phase)] | None = None
    retries_remaining: Int32 | None = None
    workers: Int32 | None = None
    worker: str | None = None
    lease_until: Instant | None = None
    available_at: Instant | None = None


class InstanceTimer(Record, frozen=True, kw_only=True):
    """A timer of an instance."""

    timer_id: str
    due_at: Instant


class ExplainedInstance(Record, frozen=True, kw_only=True):
    """What an instance of a process waits for."""

    SCHEMA: ClassVar[str] = "OpsInstanceExplanation"

    instance_id: str
    language: str
    definition_id: str
    status: str
    business_key: str | None = None
    verdict: str
    summary: str
    suspensions: tuple[BlockingSuspension, ...]
    incidents: tuple[OpenIncident, ...]
    failure: Members | None = None
    tokens: tuple[AwaitedThing, ...]
    timers: tuple[InstanceTimer, ...]
