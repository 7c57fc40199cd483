"""Instances: start, read, list, history, cancel, retry, signal, draw (spec/step-engine.md §11.3–11.5, §11.7, §14.3)."""

from typing import Final, cast

from msgspec import Struct

from statewright.failures import StepBadRequest, StepNotFound
from statewright.jsonval.values import JsonObject
from statewright.net import Moment, ulid, uuid_to_ulid
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import definitions, hosting
from statewright.services.steps.documents import instance_of, read, refuse_unstorable
from statewright.services.steps.hosting import wanted
from statewright.services.steps.paging import page_of
from statewright.steps.core import (
    Execution,
    Instance,
    NewInstance,
    instance_diagram,
    retry_step,
    start_instance,
)
from statewright.steps.core import cancel as cancel_instance
from statewright.steps.core import signal as signal_step
from statewright.steps.core.history import ExecutionStatus
from statewright.steps.core.texts import quoted
from statewright.storage.steps import instances as stored
from statewright.storage.steps.instances import InstanceFilter, StoredExecution

UNKNOWN: Final = "workflow instance not found"
"""What tasks, signals and retries say of an unknown instance."""


LONGEST_KEY: Final = 512
"""Characters of a business key, which is in an index."""


class Start(Struct, frozen=True, kw_only=True):
    """What to start. ``definition_version`` of 0 or less is the latest; an empty ``business_key`` is none."""

    definition_id: str
    definition_version: int = 0
    variables: JsonObject = {}
    business_key: str = ""


class Instances(Struct, frozen=True, kw_only=True):
    """A page of instances, the newest first. ``total`` counts all that match."""

    items: tuple[Instance, ...]
    page: int
    page_size: int
    total: int


async def start(runtime: Runtime, caller: Caller, request: Start) -> Instance:
    """Start an instance; it is durable, and as it stands after all the steps that need nobody.

    Render it with ``steps.core.instance_record``. Raises ``StepBadRequest`` without a definition id, for a business key
    that is too long and variables that cannot be stored, ``StepNotFound`` for an unknown definition and
    ``BusinessKeyInUse``.
    """
    if not request.definition_id:
        raise StepBadRequest("definitionId is required")
    refuse_unstorable(request.variables)
    refuse_unstorable({"businessKey": request.business_key})
    if len(request.business_key) > LONGEST_KEY:
        raise StepBadRequest(f"businessKey must be ≤ {LONGEST_KEY} characters, got {len(request.business_key)}")
    published = await definitions.find(runtime, caller.tenant, request.definition_id, request.definition_version)
    if published is None:
        raise StepNotFound(f"start: load definition {quoted(request.definition_id)}: {definitions.NOT_FOUND}")
    moment = runtime.steps.moments()
    new = NewInstance(id=ulid(moment.first_id), variables=request.variables, business_key=request.business_key)
    inner = Moment(at=moment.at, first_id=moment.first_id + 1)
    applied = start_instance(published.process, new, inner)
    return await hosting.create(runtime, caller, applied, published.process, moment)


async def instance(runtime: Runtime, caller: Caller, instance_id: str) -> Instance:
    """An instance as it is now. Raises ``StepNotFound`` (``instance "X" not found``)."""
    found = await hosting.find(runtime, caller.tenant, instance_id)
    if found is None:
        raise not_found(instance_id)
    return found


async def listing(
    runtime: Runtime,
    caller: Caller,
    *,
    definition_id: str = "",
    status: str = "",
    business_key: str = "",
    page: int = 0,
    page_size: int = 0,
) -> Instances:
    """Instances that match all filters exactly; an empty filter matches all, an unknown status nothing.

    Pages are as in ``definitions.listing``.
    """
    asked = page_of(page, page_size)
    matching = InstanceFilter(definition_id=definition_id, status=status, business_key=business_key)
    documents, total = await stored.listed(runtime.pool, caller.tenant, matching, offset=asked.offset, limit=asked.size)
    items = tuple(instance_of(document) for document in documents)
    return Instances(items=items, page=asked.number, page_size=asked.size, total=total)


async def history(runtime: Runtime, caller: Caller, instance_id: str) -> tuple[Execution, ...]:
    """One line per entry into a step, by start time, then id. Render each with ``steps.core.history_item``.

    Raises ``StepNotFound``.
    """
    id_ = wanted(instance_id, not_found(instance_id))
    lines = await stored.history(runtime.pool, caller.tenant, id_)
    if not lines:
        raise not_found(instance_id)
    name = uuid_to_ulid(id_)
    return tuple(_execution(name, line) for line in lines)


async def cancel(runtime: Runtime, caller: Caller, instance_id: str, reason: str = "") -> Instance:
    """Stop an instance and all it has going on. Raises ``StepNotFound``, ``StepConflict`` for a terminal one."""
    refuse_unstorable({"reason": reason})
    unknown = not_found(instance_id)
    advanced = await hosting.advance(
        runtime,
        caller,
        wanted(instance_id, unknown),
        lambda process, current, moment: cancel_instance(process, current, reason, moment),
        kind="instance.cancel",
        unknown=unknown,
    )
    return advanced.instance


async def retry(
    runtime: Runtime, caller: Caller, instance_id: str, step_id: str, variables: "JsonObject | None" = None
) -> Instance:
    """Have the step that failed an instance run again, after a shallow merge of ``variables`` (§14.3).

    Raises ``StepNotFound`` (``workflow instance not found``, or the step is not in the definition), ``StepConflict``,
    ``BusinessKeyInUse``.
    """
    refuse_unstorable(variables)
    unknown = StepNotFound(UNKNOWN)
    advanced = await hosting.advance(
        runtime,
        caller,
        wanted(instance_id, unknown),
        lambda process, current, moment: retry_step(process, current, step_id, variables, moment),
        kind="instance.retry_step",
        unknown=unknown,
    )
    return advanced.instance


async def signal(
    runtime: Runtime, caller: Caller, instance_id: str, step_id: str, variables: "JsonObject | None" = None
) -> None:
    """Resume a WAIT step with a shallow merge of ``variables``. Raises the failures of the table in §11.7."""
    refuse_unstorable(variables)
    unknown = StepNotFound(UNKNOWN)
    await hosting.advance(
        runtime,
        caller,
        wanted(instance_id, unknown),
        lambda process, current, moment: signal_step(process, current, step_id, variables, moment),
        kind="instance.signal_wait",
        unknown=unknown,
    )


async def diagram(runtime: Runtime, caller: Caller, instance_id: str) -> str:
    """The instance on its definition in Mermaid's flowchart notation. Raises ``StepNotFound``."""
    found = await instance(runtime, caller, instance_id)
    published = await definitions.published(runtime, caller, found.definition_id, found.definition_version)
    return instance_diagram(published.process.definition, found)


def not_found(instance_id: str) -> StepNotFound:
    """What is said of an unknown instance, except by tasks, signals and retries."""
    return StepNotFound(f"instance {quoted(instance_id)} not found")


def _execution(instance_id: str, line: StoredExecution) -> Execution:
    return Execution(
        id=uuid_to_ulid(line.id),
        instance_id=instance_id,
        step_id=line.step_id,
        step_type=line.step_type,
        attempt_number=line.attempt,
        status=cast("ExecutionStatus", line.status),  # as it was written
        started_at=line.started_at,
        ended_at=line.ended_at,
        input_snapshot=None if line.input is None else read(line.input),
        output_snapshot=None if line.output is None else read(line.output),
        failure_reason=line.failure_reason,
    )
