"""Why something is where it is (docs/reference/operations.md#explain)."""

from msgspec import Struct

from statewright.sdk.operations.calls import Instant, Operation, build_query, quote_segment
from statewright.sdk.operations.ops.answers import Members, ModelRef, build_call, build_reader


class GoverningWorkflow(Struct, frozen=True, rename="camel", kw_only=True):
    """The workflow of an entity, None if no one takes it, and by which rule it was found."""

    name: str | None
    rule: str
    revision: int | None = None
    passed_over: tuple[str, ...] = ()


class ExplainedTransition(Struct, frozen=True, rename="camel", kw_only=True):
    """A way out of the state. ``would_fire`` is None where a member would have to be asked; ``blocked_by`` has all
    reasons; leaves of ``criterion`` have what was found and the ``result``.
    """

    name: str
    next: str
    kind: str
    disabled: bool
    would_fire: bool | None
    blocked_by: tuple[str, ...]
    criterion: Members | None = None
    processors: tuple[Members, ...] = ()
    timer: Members | None = None


class Explanation(Struct, frozen=True, rename="camel", kw_only=True):
    """Why an entity is where it is. ``since`` is empty when that is too long ago to tell; ``timers`` are the armed
    ones, None for an instant of the past.
    """

    entity_id: str
    model: ModelRef
    state: str
    transaction_id: str
    workflow: GoverningWorkflow
    verdict: str
    summary: str
    transitions: tuple[ExplainedTransition, ...]
    since: str = ""
    suspensions: tuple[Members, ...] = ()
    incidents: tuple[Members, ...] = ()
    timers: tuple[Members, ...] | None = None


class AwaitedThing(Struct, frozen=True, rename="camel", kw_only=True):
    """What a token of an instance waits for: JOB, USER_TASK, SIGNAL, JOIN or NOTHING."""

    step_id: str
    waits_for: str
    step_type: str = ""
    since: str = ""
    attempt: int | None = None
    job_id: str = ""
    job_type: str = ""
    phase: str = ""
    worker: str = ""
    workers: int | None = None
    retries_remaining: int | None = None
    lease_until: str = ""
    available_at: str = ""
    user_task_id: str = ""
    arrived: int | None = None
    missing: tuple[Members, ...] = ()


class InstanceExplanation(Struct, frozen=True, rename="camel", kw_only=True):
    """What an instance of a process waits for."""

    instance_id: str
    language: str
    definition_id: str
    status: str
    verdict: str
    summary: str
    tokens: tuple[AwaitedThing, ...]
    timers: tuple[Members, ...] = ()
    suspensions: tuple[Members, ...] = ()
    incidents: tuple[Members, ...] = ()
    failure: Members | None = None
    business_key: str | None = None


def explain(entity_id: str, *, at: Instant | None = None, evaluate_functions: bool = False) -> Operation[Explanation]:
    """Why an entity is where it is, and what would move it. ``evaluate_functions`` has members judge the criteria that
    are theirs; that is for operators.
    """
    query = build_query(pointInTime=at, evaluateFunctions=evaluate_functions or None)
    path = f"/entities/{quote_segment(entity_id)}/explain"
    return Operation(build_call("explain", "GET", path, target=(entity_id,), query=query), _read_explanation)


def explain_instance(instance_id: str) -> Operation[InstanceExplanation]:
    """What an instance of a process, in whatever language, waits for."""
    path = f"/instances/{quote_segment(instance_id)}/explain"
    return Operation(build_call("explain_instance", "GET", path, target=(instance_id,)), _read_instance)


_read_explanation = build_reader(Explanation)
_read_instance = build_reader(InstanceExplanation)
