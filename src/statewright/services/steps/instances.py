"""Instances of the step language: start, read, list, history, cancel, retry, signal, draw
(docs/reference/steps.md#operations).
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

from msgspec import Struct

from statewright.failures import ProcessNotFound
from statewright.jsonval.values import JsonObject
from statewright.processes.changes import Execution
from statewright.services.processes import advancing, background
from statewright.services.processes import instances as hosted
from statewright.services.processes.advancing import parse_instance_id
from statewright.services.processes.background import PurgeResult
from statewright.services.processes.documents import cut_reason, refuse_unstorable
from statewright.services.processes.instances import StartRequest, StreamedPage, build_not_found
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import definitions, find_steps
from statewright.steps import Instance, Process, cancel_instance, draw_instance, retry_step, signal_step
from statewright.storage.processes.instances import InstanceFilter

INSTANCE_NOT_FOUND: Final = "workflow instance not found"
"""What tasks, signals and retries say of an unknown instance."""


async def start(runtime: Runtime, caller: Caller, request: StartRequest) -> Instance:
    """Start an instance (``processes.instances.start``). Render it with ``steps.render_instance``."""
    return await hosted.start(find_steps(runtime), caller, request)


async def get_instance(runtime: Runtime, caller: Caller, instance_id: str) -> Instance:
    """An instance as it is now. Raises ``ProcessNotFound`` (``instance "X" not found``)."""
    return await hosted.get_instance(find_steps(runtime), caller, instance_id)


async def stream_instances(
    runtime: Runtime,
    caller: Caller,
    *,
    definition_id: str = "",
    status: str = "",
    business_key: str = "",
    page: int = 0,
    page_size: int = 0,
) -> StreamedPage[Instance]:
    """Instances that match all filters exactly (``processes.instances.stream_instances``)."""
    matching = InstanceFilter(definition_id=definition_id, status=status, business_key=business_key)
    return await hosted.stream_instances(find_steps(runtime), caller, matching, page=page, page_size=page_size)


class StreamedHistory(Struct, frozen=True, kw_only=True):
    """A history whose lines are read while they are asked for."""

    process: Process
    portions: AsyncIterator[tuple[Execution, ...]]


async def stream_history(runtime: Runtime, caller: Caller, instance_id: str) -> StreamedHistory:
    """One line per entry into a step, by start time, then id. Render each with ``steps.render_history_item``.

    Raises ``ProcessNotFound``.
    """
    found = await get_instance(runtime, caller, instance_id)
    published = await definitions.get_version(runtime, caller, found.definition_id, found.definition_version)
    portions = hosted.stream_history(find_steps(runtime), caller, instance_id)
    return StreamedHistory(process=published.process, portions=portions)


async def cancel(runtime: Runtime, caller: Caller, instance_id: str, reason: str = "") -> Instance:
    """Stop an instance and all it has going on. Raises ``ProcessNotFound``, ``ProcessConflict`` for a terminal one."""
    reason = cut_reason(reason)
    await refuse_unstorable({"reason": reason})
    unknown = build_not_found(instance_id)
    advanced = await advancing.advance(
        find_steps(runtime),
        caller,
        parse_instance_id(instance_id, unknown),
        lambda process, current, moment: cancel_instance(process, current, reason, moment),
        kind="instance.cancel",
        unknown=unknown,
    )
    return advanced.instance


async def retry(
    runtime: Runtime, caller: Caller, instance_id: str, step_id: str, variables: "JsonObject | None" = None
) -> Instance:
    """Have the step that failed an instance run again, after a shallow merge of ``variables``
    (docs/reference/steps.md#retrying-a-failed-instance).

    Raises ``ProcessNotFound`` (``workflow instance not found``, or the step is not in the definition),
    ``ProcessConflict``, ``BusinessKeyInUse``.
    """
    await refuse_unstorable(variables)
    unknown = ProcessNotFound(INSTANCE_NOT_FOUND)
    advanced = await advancing.advance(
        find_steps(runtime),
        caller,
        parse_instance_id(instance_id, unknown),
        lambda process, current, moment: retry_step(process, current, step_id, variables, moment),
        kind="instance.retry_step",
        given=variables,
        unknown=unknown,
    )
    return advanced.instance


async def signal(
    runtime: Runtime, caller: Caller, instance_id: str, step_id: str, variables: "JsonObject | None" = None
) -> None:
    """Resume a WAIT step with a shallow merge of ``variables``. Raises the failures of the table in
    docs/reference/steps.md#user-tasks-and-signals.
    """
    await refuse_unstorable(variables)
    unknown = ProcessNotFound(INSTANCE_NOT_FOUND)
    await advancing.advance(
        find_steps(runtime),
        caller,
        parse_instance_id(instance_id, unknown),
        lambda process, current, moment: signal_step(process, current, step_id, variables, moment),
        kind="instance.signal_wait",
        given=variables,
        unknown=unknown,
    )


async def get_instance_diagram(runtime: Runtime, caller: Caller, instance_id: str) -> str:
    """The instance on its definition in Mermaid's flowchart notation. Raises ``ProcessNotFound``."""
    found = await get_instance(runtime, caller, instance_id)
    published = await definitions.get_version(runtime, caller, found.definition_id, found.definition_version)
    ended = await hosted.fetch_last_statuses(find_steps(runtime), caller, instance_id)
    return draw_instance(published.process.definition, found, ended)


async def purge(runtime: Runtime, caller: Caller, *, older_than: timedelta) -> PurgeResult:
    """Remove instances that finished so long ago, for a few seconds (``processes.background.purge``)."""
    return await background.purge(find_steps(runtime), caller, older_than=older_than)
