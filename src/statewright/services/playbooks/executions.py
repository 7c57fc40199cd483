"""Executions of playbooks: start, read, list, events, change, cancel, restart, draw
(docs/reference/executions.md#rest).
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.background import run_by_size
from statewright.failures import ProcessBadRequest, ProcessNotFound
from statewright.jsonval.quoting import quote
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Moment
from statewright.playbooks.context import CTX, WORKLOAD
from statewright.playbooks.execution import Execution
from statewright.playbooks.mermaid import StepStatus, render_diagram
from statewright.playbooks.operations import (
    ARGS,
    Applied,
    cancel_execution,
    inject_token,
    patch_context,
    reconsider,
    record_request,
    restart_execution,
)
from statewright.playbooks.process import PlaybookProcess
from statewright.playbooks.task_kinds import needs_credentials
from statewright.processes.changes import ExecutionStatus
from statewright.processes.language import Rejection
from statewright.services.playbooks import definitions, find_playbooks
from statewright.services.playbooks.resources import PipelineResources
from statewright.services.processes import advancing, event_log
from statewright.services.processes import instances as hosted
from statewright.services.processes.advancing import parse_instance_id
from statewright.services.processes.documents import check_reason, refuse_unstorable
from statewright.services.processes.event_log import LoggedEvent, LogPage
from statewright.services.processes.instances import AbridgedPage, HistoryPage, StartRequest
from statewright.services.runtime import Caller, Runtime
from statewright.storage.processes.instances import InstanceFilter

Operation: TypeAlias = Callable[[PlaybookProcess, Execution, Moment], Applied | Rejection]

_TEXT_WEIGHT: Final = 8
"""Bytes of JSON that a character of a playbook is as much work as, when it is drawn."""
_STATUSES: Final[dict[ExecutionStatus, StepStatus]] = {
    "RUNNING": "RUNNING",
    "COMPLETED": "COMPLETED",
    "FAILED": "FAILED",
    "SKIPPED": "SKIPPED",
    "BYPASSED": "COMPLETED",
}


class ExecutionStart(Struct, frozen=True, kw_only=True):
    """What to start. ``version`` of 0 or less is the latest; an empty ``business_key`` is none."""

    path: str
    version: int = 0
    workload: JsonObject = {}
    """Merged over that of the playbook."""
    ctx: JsonObject = {}
    args: JsonObject = {}
    """Of the first token."""
    business_key: str = ""


async def start(runtime: Runtime, caller: Caller, request: ExecutionStart) -> Execution:
    """Start an execution; it is durable, and as far as it comes without any worker.

    Raises ``ProcessBadRequest``, also for a credential that the service lacks, ``ProcessNotFound``,
    ``BusinessKeyInUse``.
    """
    if not request.path:
        raise ProcessBadRequest("path is required")
    return await hosted.start(
        find_playbooks(runtime),
        caller,
        StartRequest(
            definition_id=request.path,
            definition_version=request.version,
            variables={WORKLOAD: request.workload, CTX: request.ctx, ARGS: request.args},
            business_key=request.business_key,
        ),
        check=partial(_refuse_lacking_credentials, runtime, caller),
    )


async def _refuse_lacking_credentials(runtime: Runtime, caller: Caller, process: PlaybookProcess) -> None:
    """Those of a playbook that workers do alone are the workers' business."""
    playbook = process.playbook
    if not playbook.keychain or not any(needs_credentials(step.tasks) for step in playbook.steps):
        return
    found = await runtime.extensions.get(PipelineResources).keychain.resolve(caller.tenant, playbook.keychain)
    if isinstance(found, str):
        raise ProcessBadRequest(f"start: keychain: {found}")


async def get_execution(runtime: Runtime, caller: Caller, execution_id: str) -> Execution:
    """An execution as it is now. Raises ``ProcessNotFound``."""
    return await hosted.get_instance(find_playbooks(runtime), caller, execution_id)


async def list_executions(
    runtime: Runtime,
    caller: Caller,
    *,
    path: str = "",
    state: str = "",
    business_key: str = "",
    page: int = 0,
    page_size: int = 0,
) -> AbridgedPage[Execution]:
    """Executions that match all filters exactly (``processes.instances.list_abridged_instances``)."""
    matching = InstanceFilter(definition_id=path, status=state, business_key=business_key)
    return await hosted.list_abridged_instances(
        find_playbooks(runtime), caller, matching, page=page, page_size=page_size
    )


async def get_history(
    runtime: Runtime, caller: Caller, execution_id: str, *, page: int = 0, page_size: int = 0
) -> HistoryPage:
    """A page of the runs of steps, by start time, then id. Raises ``ProcessNotFound``."""
    return await hosted.list_history_page(find_playbooks(runtime), caller, execution_id, page=page, page_size=page_size)


async def list_events(
    runtime: Runtime, caller: Caller, execution_id: str, *, after: int = 0, limit: int = 100
) -> LogPage:
    """Events of the log behind a number (``processes.event_log``). Raises ``ProcessNotFound``."""
    return await event_log.list_events(find_playbooks(runtime), caller, execution_id, after=after, limit=limit)


async def read_value(runtime: Runtime, caller: Caller, execution_id: str, digest: str) -> JsonValue:
    """A value that an event names (``processes.event_log``). Raises ``ProcessNotFound``."""
    return await event_log.read_value(find_playbooks(runtime), caller, execution_id, digest)


def follow_events(
    runtime: Runtime, caller: Caller, execution_id: str, *, after: int = 0
) -> AsyncGenerator[Sequence[LoggedEvent]]:
    """Events of the log as they come (``processes.event_log``). Raises ``ProcessNotFound``, ``TooManyRequests``."""
    return event_log.follow_events(find_playbooks(runtime), caller, execution_id, after=after)


async def get_execution_diagram(
    runtime: Runtime, caller: Caller, execution_id: str, *, is_vertical: bool = False
) -> str:
    """The playbook of an execution in Mermaid's notation, its steps coloured by what became of them last.

    Raises ``ProcessNotFound``.
    """
    found = await get_execution(runtime, caller, execution_id)
    published = await definitions.get_version(runtime, caller, found.definition_id, found.definition_version)
    known = await hosted.fetch_last_statuses(find_playbooks(runtime), caller, execution_id)
    statuses: dict[str, StepStatus] = {name: _STATUSES[status] for name, status in known.items()}
    statuses |= dict.fromkeys(found.pending_steps, "PENDING")
    process = published.process
    draw = partial(render_diagram, process.playbook, statuses, is_vertical=is_vertical)
    return await run_by_size(len(process.source.text) * _TEXT_WEIGHT, draw)


async def patch(runtime: Runtime, caller: Caller, execution_id: str, ctx: JsonObject, reason: str = "") -> Execution:
    """Change members of ``ctx``; null removes one. Raises ``ProcessNotFound``, ``ProcessConflict`` for one that has
    ended.
    """
    await refuse_unstorable({"ctx": ctx, "reason": reason})
    check_reason(reason)
    return await _advance(
        runtime,
        caller,
        execution_id,
        "patch",
        lambda process, current, moment: patch_context(process, current, ctx, moment),
        given=ctx,
        reason=reason,
    )


async def inject(runtime: Runtime, caller: Caller, execution_id: str, step: str, args: JsonObject) -> Execution:
    """One more token for a step. Raises ``ProcessNotFound``, ``ProcessConflict`` for one that has ended."""
    await refuse_unstorable(args)
    return await _advance(
        runtime,
        caller,
        execution_id,
        "inject",
        lambda process, current, moment: inject_token(process, current, step, args, moment),
        given=args,
    )


async def evaluate(runtime: Runtime, caller: Caller, execution_id: str) -> Execution:
    """Ask about all denied tokens once more. Raises ``ProcessNotFound``, ``ProcessConflict`` for one that has ended."""
    return await _advance(runtime, caller, execution_id, "evaluate", reconsider)


async def cancel(runtime: Runtime, caller: Caller, execution_id: str, reason: str = "") -> Execution:
    """Stop for good. Raises ``ProcessNotFound``, ``ProcessConflict`` for one that has ended well or was cancelled."""
    check_reason(reason)
    await refuse_unstorable({"reason": reason})
    return await _advance(
        runtime,
        caller,
        execution_id,
        "cancel",
        lambda process, current, moment: cancel_execution(process, current, reason, moment),
        reason=reason,
    )


async def restart(runtime: Runtime, caller: Caller, execution_id: str) -> Execution:
    """Begin the runs that failed again. Raises ``ProcessNotFound``, ``ProcessConflict``, ``BusinessKeyInUse``."""
    return await _advance(runtime, caller, execution_id, "restart", restart_execution)


def build_not_found(execution_id: str) -> ProcessNotFound:
    """What is said of an unknown execution."""
    return ProcessNotFound(f"execution {quote(execution_id)} not found")


async def _advance(
    runtime: Runtime,
    caller: Caller,
    execution_id: str,
    kind: str,
    operation: Operation,
    *,
    given: "JsonObject | None" = None,
    reason: str = "",
) -> Execution:
    unknown = build_not_found(execution_id)
    advanced = await advancing.advance(
        find_playbooks(runtime),
        caller,
        parse_instance_id(execution_id, unknown),
        lambda process, current, moment: record_request(
            operation(process, current, moment), principal=caller.principal.id, reason=reason
        ),
        kind=f"playbook.{kind}",
        unknown=unknown,
        given=given,
    )
    return advanced.instance
