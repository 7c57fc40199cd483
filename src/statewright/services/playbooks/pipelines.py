"""Pipelines that the service runs itself: of ``noop``, ``http``, ``wait`` and what calculation members do
(docs/reference/playbooks.md#tasks).

To be called outside of every transaction, with a lease that is renewed meanwhile: a run takes as long as its requests,
their retries and the pauses between them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final, Protocol, TypeAlias

from statewright.background import run_by_size
from statewright.egress import Egress, HttpFailure, HttpRequest
from statewright.ids import TenantId
from statewright.jsonval.values import JsonObject
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.http_tasks import HTTP, build_call, read_response, report_failure
from statewright.playbooks.outcomes import Outcome, fail, succeed
from statewright.playbooks.pipeline import PipelineEnd, PipelineState, ToolCall, Turn, begin, prepare, settle
from statewright.playbooks.run_record import RunRecord
from statewright.playbooks.task_kinds import SERVICE_KINDS
from statewright.playbooks.waits import WAIT, find_due

Report: TypeAlias = Callable[[JsonObject], Awaitable["JsonObject | None"]]
"""Awaited with a progress report; its answer is what was taken of it, None where that is not known."""

MAX_WAIT_S: Final = 300
"""Of a wait among other tasks."""

_REPEATABLE: Final = frozenset(
    {"name_unresolved", "too_many_requests", "connection_failed", "connection_lost", "timed_out", "response_malformed"}
)
"""Reasons after which the same request may succeed."""


class DoTask(Protocol):
    """Has a task done that the service does not do itself."""

    def __call__(self, tenant: TenantId, call: ToolCall, dispatch: Dispatch) -> Awaitable[Outcome]:
        """The outcome of the task; nothing is raised."""
        ...


async def run_pipeline(
    egress: "Egress | None", tenant: TenantId, dispatch: Dispatch, report: Report, *, others: "DoTask | None" = None
) -> JsonObject:
    """The completion of a run, in the form that those of workers have. ``report`` is awaited with new patches;
    what it raises ends the run. Without ``egress`` requests fail; ``others`` does the tasks of other kinds.
    """
    run = _Run(dispatch)
    state = await asyncio.to_thread(begin, dispatch)
    while not isinstance(state, PipelineEnd):
        begun = time.monotonic()
        prepared = await asyncio.to_thread(run.prepare, state)
        outcome = prepared if isinstance(prepared, Outcome) else await _call(egress, tenant, prepared, dispatch, others)
        duration_ms = int((time.monotonic() - begun) * 1000)
        turn, progress = await asyncio.to_thread(run.settle, state, outcome, duration_ms)
        if progress is not None and (taken := await report(progress)) is not None:
            run.record.acknowledge(taken)
        if turn.end is not None:
            return await asyncio.to_thread(run.record.complete, turn.end, turn.state.results)
        await asyncio.sleep(turn.wait_ms / 1000)
        state = turn.state
    return run.record.complete(state, {})


class _Run:
    """What a run computes between its calls: in threads, since a template may take 250 ms."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self.record = RunRecord(dispatch)

    def prepare(self, state: PipelineState) -> ToolCall | Outcome:
        self.record.begin_attempt(state)
        return prepare(self._dispatch, state)

    def settle(self, state: PipelineState, outcome: Outcome, duration_ms: int) -> "tuple[Turn, JsonObject | None]":
        ts = datetime.now(UTC).isoformat()
        measured = self.record.end_attempt(state, outcome, duration_ms=duration_ms, ts=ts)
        turn = settle(self._dispatch, state, measured)
        return turn, self.record.take_turn(state, measured, turn)


async def _call(
    egress: "Egress | None", tenant: TenantId, call: ToolCall, dispatch: Dispatch, others: "DoTask | None"
) -> Outcome:
    if call.kind == HTTP:
        if egress is None:
            return report_failure("the service is not set to send requests", retryable=False, code="disabled")
        return await send_task(egress, tenant, call.fields, dispatch.keychain)
    if call.kind == WAIT:
        return await _wait(call.fields, is_alone=len(dispatch.tasks) == 1)
    if others is not None and call.kind not in SERVICE_KINDS:
        return await others(tenant, call, dispatch)
    return fail("no_handler", f"the service does no tasks of the kind {call.kind}", retryable=False)


async def _wait(fields: JsonObject, *, is_alone: bool) -> Outcome:
    """A wait among other tasks. One that is alone is over when it comes here: its job has rested for so long."""
    now = time.time_ns() // 1_000
    due = find_due(fields, now)
    if isinstance(due, str):
        return fail("wait", due, retryable=False)
    left_s = (due - now) / 1_000_000
    if not is_alone:
        if left_s > MAX_WAIT_S:
            limit = f"among other tasks a wait has {MAX_WAIT_S} s at most; make it a step of its own"
            return fail("wait", limit, retryable=False)
        await asyncio.sleep(max(left_s, 0))
    return succeed(None)


async def send_task(egress: Egress, tenant: TenantId, fields: JsonObject, keychain: JsonObject) -> Outcome:
    """The outcome of an ``http`` task, sent where the policy for requests permits. Redirects are answers."""
    call = build_call(fields, keychain)
    if isinstance(call, Outcome):
        return call
    answer = await egress.send(
        HttpRequest(
            url=call.url,
            method=call.method,
            headers=call.headers,
            body=call.body,
            tenant=tenant,
            timeout_s=call.connect_s + call.read_s,
        )
    )
    if isinstance(answer, HttpFailure):
        return report_failure(str(answer), retryable=answer.reason in _REPEATABLE, code=answer.reason)
    return await run_by_size(len(answer.body), lambda: read_response(answer.status, answer.headers, answer.body))
