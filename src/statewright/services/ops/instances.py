"""What an instance of a process waits for (docs/reference/operations.md#instances)."""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.failures import ProcessNotFound
from statewright.ids import EntityId
from statewright.net.open_joins import OpenJoin
from statewright.services.ops.metrics import OpsMetrics
from statewright.services.ops.queues import get_queue
from statewright.services.processes.hosting import ProcessHosts
from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops.incidents import Incident, list_open_of
from statewright.storage.ops.instances import ObservedExecution, ObservedInstance, ObservedJob, observe_instance
from statewright.suspensions import Suspension

WaitsFor: TypeAlias = Literal["JOB", "USER_TASK", "SIGNAL", "JOIN", "NOTHING"]
Phase: TypeAlias = Literal["QUEUED", "LEASED", "DELAYED", "HELD", "REPORTED"]

ENDED: Final = frozenset({"COMPLETED", "CANCELLED", "TERMINATED"})

_WAITING_TYPES: Final[dict[str, WaitsFor]] = {"WAIT": "SIGNAL", "JOIN_GATEWAY": "JOIN"}

_VERDICTS: Final[tuple[tuple[WaitsFor, str, str], ...]] = (
    ("JOB", "WAITS_FOR_JOB", "Waits for a job of {0}."),
    ("USER_TASK", "WAITS_FOR_TASK", "Waits for a person at {0}."),
    ("SIGNAL", "WAITS_FOR_SIGNAL", "Waits for a signal at {0}."),
    ("JOIN", "WAITS_FOR_JOIN", "Waits for other branches at {0}."),
)

MAX_INCIDENTS: Final = 10


class Place(Struct, frozen=True, kw_only=True):
    """Where an instance stands, and what has to happen there. ``workers`` could take the job; None without one."""

    execution: ObservedExecution
    waits_for: WaitsFor
    phase: Phase | None = None
    workers: int | None = None


class InstanceExplanation(Struct, frozen=True, kw_only=True):
    """What an instance waits for, or how it ended."""

    id: EntityId
    observed: ObservedInstance
    verdict: str
    summary: str
    places: tuple[Place, ...]
    suspensions: tuple[Suspension, ...]
    incidents: tuple[Incident, ...]
    joins: tuple[OpenJoin, ...]


async def explain_instance(
    runtime: Runtime, caller: Caller, instance: EntityId, unknown: ProcessNotFound
) -> InstanceExplanation:
    """Explain an instance of whatever process language, as it is now. Raises ``unknown``."""
    runtime.extensions.get(OpsMetrics).explains += 1
    observed = await observe_instance(runtime.pool, caller.tenant, instance)
    if observed is None:
        raise unknown
    places = tuple([await _find_place(runtime, caller, each) for each in observed.executions])
    suspensions = _list_suspensions(runtime, caller, instance, observed, places)
    incidents = tuple(await list_open_of(runtime.pool, caller.tenant, instance, limit=MAX_INCIDENTS))
    verdict, summary = _decide_verdict(observed, places, suspensions)
    return InstanceExplanation(
        id=instance,
        observed=observed,
        verdict=verdict,
        summary=summary,
        places=places,
        suspensions=suspensions,
        incidents=incidents,
        joins=await _list_joins(runtime, caller, instance, observed),
    )


async def _list_joins(
    runtime: Runtime, caller: Caller, instance: EntityId, observed: ObservedInstance
) -> tuple[OpenJoin, ...]:
    if observed.status in ENDED:
        return ()
    hosted = runtime.extensions.get(ProcessHosts).get_hosted(observed.language)
    return await hosted.list_joins(caller.tenant, instance)


async def _find_place(runtime: Runtime, caller: Caller, execution: ObservedExecution) -> Place:
    if execution.job is not None:
        queue = await get_queue(runtime, caller, execution.job.type)
        return Place(execution=execution, waits_for="JOB", phase=_find_phase(execution.job), workers=queue.workers)
    if execution.task is not None:
        return Place(execution=execution, waits_for="USER_TASK")
    return Place(execution=execution, waits_for=_WAITING_TYPES.get(execution.node_type, "NOTHING"))


def _find_phase(job: ObservedJob) -> Phase:
    if job.kept:
        return "REPORTED"
    if job.held:
        return "HELD"
    if job.lock_expires_at is None:
        return "QUEUED"
    return "DELAYED" if job.locked_at is None else "LEASED"


def _list_suspensions(
    runtime: Runtime, caller: Caller, instance: EntityId, observed: ObservedInstance, places: tuple[Place, ...]
) -> tuple[Suspension, ...]:
    active, tenant = runtime.suspensions, caller.tenant
    types = dict.fromkeys(place.execution.job.type for place in places if place.execution.job is not None)
    of_types = [held for each in types if (held := active.find_job_type(tenant, each)) is not None]
    found = (*active.list_process(tenant, instance, observed.definition_id), *of_types)
    return tuple({each.id: each for each in found}.values())


def _decide_verdict(
    observed: ObservedInstance, places: tuple[Place, ...], suspensions: tuple[Suspension, ...]
) -> tuple[str, str]:
    """The first that holds, and one sentence."""
    if observed.status in ENDED:
        return observed.status, f"It is {observed.status.lower()}."
    if suspensions:
        return "SUSPENDED", f"Suspended: {suspensions[0].reason}"
    if observed.status == "FAILED":
        return "FAILED", f"Failed at {observed.failed_node or 'its start'}: {observed.failure or 'no reason is known'}"
    alone = next((place for place in places if place.phase == "QUEUED" and not place.workers), None)
    if alone is not None and alone.execution.job is not None:
        return "WAITS_FOR_WORKER", f"Nobody is there for jobs of {alone.execution.job.type}."
    for waits_for, verdict, summary in _VERDICTS:
        place = next((each for each in places if each.waits_for == waits_for), None)
        if place is not None:
            named = place.execution.job.type if place.execution.job is not None else place.execution.node
            return verdict, summary.format(named)
    if observed.timers:
        return "WAITS_FOR_TIMER", "Waits for a timer."
    return "TERMINAL", "Nothing leads on from where it stands."
