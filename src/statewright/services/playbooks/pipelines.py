"""Pipelines that the service runs itself: of ``noop``, ``http``, ``wait`` and what calculation members do
(docs/reference/playbooks.md#tasks).

To be called outside of every transaction, with a lease that is renewed meanwhile: a run takes as long as its requests,
their retries and the pauses between them.

Credentials of playbooks: files in a directory of the operator's choice (docs/reference/executions.md#keychain).

A credential of a playbook is a file of its tenant, ``<directory>/<tenant>/<name>``, as mounted secrets are. It holds a
JSON object, or a text. What is in it goes into rendered fields of tasks and nowhere else.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeAlias, TypeVar, TypeVarTuple, Unpack

from msgspec import Struct
from msgspec.structs import replace

from statewright.computations import ComputationPool, compute_in_turn
from statewright.egress import Egress, HttpFailure, HttpRequest
from statewright.failures import ComputationKilled, ComputationsBusy
from statewright.ids import TenantId
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject
from statewright.loop.background import run_in_thread
from statewright.loop.turns import is_large
from statewright.playbooks import templates
from statewright.playbooks.dispatch import Dispatch, NeededCredential, send_run
from statewright.playbooks.pipeline import (
    PipelineEnd,
    PipelineState,
    ToolCall,
    begin,
    get_given_outcome,
    prepare,
    settle,
)
from statewright.playbooks.policies import Outcome, fail, succeed
from statewright.playbooks.run_record import RunRecord
from statewright.playbooks.task_requests import (
    build_call,
    find_pause,
    measure_pause_s,
    measure_wait,
    read_response,
    report_failure,
)
from statewright.playbooks.tasks import HTTP, SERVICE_KINDS, WAIT, find_due

Args = TypeVarTuple("Args")
R = TypeVar("R")

Report: TypeAlias = Callable[[JsonObject], Awaitable["JsonObject | None"]]
"""Awaited with a progress report; its answer is what was taken of it, None where that is not known."""

BUSY_PAUSE_S: Final = 1
"""Before a run asks again for a process."""


class DoTask(Protocol):
    """Has a task done that the service does not do itself."""

    def __call__(self, tenant: TenantId, call: ToolCall, dispatch: Dispatch) -> Awaitable[Outcome]:
        """The outcome of the task; nothing is raised."""
        ...


class PipelineComputer(Struct, frozen=True):
    """Computes what a run decides between its calls: within a turn, or in a process that can be killed."""

    pool: ComputationPool
    tenant: TenantId
    dispatch: Dispatch

    async def compute(self, function: Callable[[Dispatch, Unpack[Args]], R], *args: *Args) -> R:
        """What ``begin``, ``prepare`` or ``settle`` come to. While the tenant has too much to compute, the run waits.

        Raises ``ComputationKilled``.
        """
        name = f"pipeline.{function.__name__}"
        apply = partial(_apply, args=args, function=function)
        sent = partial(send_run(self.dispatch).compute, apply)
        while True:
            brief = replace(self.dispatch, context=replace(self.dispatch.context, turn=templates.Turn()))
            try:
                result, _ = await compute_in_turn(self.pool, self.tenant, name, partial(apply, brief), sent)
            except ComputationsBusy:
                await asyncio.sleep(BUSY_PAUSE_S)
            else:
                return result


async def run_pipeline(
    pool: ComputationPool,
    egress: "Egress | None",
    tenant: TenantId,
    dispatch: Dispatch,
    report: Report,
    *,
    others: "DoTask | None" = None,
) -> JsonObject:
    """The completion of a run, in the form that those of workers have. ``report`` is awaited with new patches;
    what it raises ends the run. Without ``egress`` requests fail; ``others`` does the tasks of other kinds. What is too
    long to compute is an error of the run.
    """
    computer, record = PipelineComputer(pool, tenant, dispatch), RunRecord(dispatch)
    state = PipelineState()
    try:
        begun, given = await computer.compute(begin), get_given_outcome(dispatch)
        while not isinstance(begun, PipelineEnd):
            state = begun
            began = time.monotonic()
            if given is None:
                record.begin_attempt(state)
                outcome = await computer.compute(prepare, state)
                if isinstance(outcome, ToolCall):
                    call = outcome
                    done = await _pause(record, dispatch, state, call)
                    if isinstance(done, dict):
                        return done
                    outcome = done or await _call(egress, tenant, call, dispatch, others)
            else:
                outcome, given = given, None
                began -= measure_pause_s(dispatch, time.time_ns() // 1_000)
            duration_ms = int((time.monotonic() - began) * 1000)
            ts = datetime.now(UTC).isoformat()
            # What is written down is no more than what was made and answered: its size bounds the work of a thread.
            measured = await run_in_thread(partial(record.end_attempt, state, outcome, duration_ms=duration_ms, ts=ts))
            turn = await computer.compute(settle, state, measured)
            progress = await run_in_thread(partial(record.take_turn, state, measured, turn))
            if progress is not None and (taken := await report(progress)) is not None:
                record.acknowledge(taken)
            state = turn.state
            if turn.end is None:
                await asyncio.sleep(turn.wait_ms / 1000)
            begun = turn.end or state
    except ComputationKilled as killed:
        error: JsonObject = {"kind": "computation", "code": killed.code, "message": killed.message}
        begun = PipelineEnd(error=error, result=state.previous)
    return await run_in_thread(partial(record.complete, begun, state.results))


def _apply(dispatch: Dispatch, *, function: Callable[..., R], args: tuple[object, ...]) -> R:
    return function(dispatch, *args)


async def _pause(
    record: RunRecord, dispatch: Dispatch, state: PipelineState, call: ToolCall
) -> "JsonObject | Outcome | None":
    """What a run is given back with for a task, or the outcome of one that it cannot be given back for; ``None``: the
    run goes on, as where it is one wait, whose job has rested.
    """
    if call.kind == WAIT and len(dispatch.tasks) == 1:
        return None
    paused = find_pause(call, dispatch, time.time_ns() // 1_000)
    if isinstance(paused, Outcome):
        return paused
    return await run_in_thread(partial(record.pause, state, call)) if paused else None


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
    if is_alone:
        due = find_due(fields, now)
        return fail("wait", due, retryable=False) if isinstance(due, str) else succeed(None)
    left_s = measure_wait(fields, now)
    if isinstance(left_s, Outcome):
        return left_s
    await asyncio.sleep(left_s)
    return succeed(None)


async def send_task(egress: Egress, tenant: TenantId, fields: JsonObject, keychain: JsonObject) -> Outcome:
    """The outcome of an ``http`` task, sent where the policy for requests permits. Redirects are answers."""
    build = partial(build_call, fields, keychain)
    call = await run_in_thread(build) if is_large(fields) else build()
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
        return report_failure(str(answer), retryable=answer.may_pass, code=answer.reason)
    return await answer.read(lambda response: read_response(response.status, response.headers, response.body))


MAX_BYTES: Final = 64 * 1024
FILE_MEMBER: Final = "secret"
"""The member of a credential that names its file; its own name where there is none."""


class Keychain:
    """Reads credentials. ``directory`` is ``None`` where there are none."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    async def open(self, tenant: TenantId, needed: Sequence[NeededCredential]) -> "JsonObject | str":
        """The credentials by name, as they are now; a text says which one cannot be had, and nothing of any."""
        return await asyncio.to_thread(self._open, tenant, needed)

    def _open(self, tenant: TenantId, needed: Sequence[NeededCredential]) -> "JsonObject | str":
        found: JsonObject = {}
        for one in needed:
            credential = one.credential
            named = credential.fields.get(FILE_MEMBER, credential.name)
            value = self._read(tenant, named) if isinstance(named, str) else None
            if value is not None:
                found[credential.name] = value
            elif one.is_required:
                return f"the credential {credential.name} is not there"
        return found

    def _read(self, tenant: TenantId, name: str) -> "JsonObject | str | None":
        if self._directory is None or not _is_file_name(name) or not _is_file_name(tenant):
            return None
        try:
            with (self._directory / tenant / name).open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError:
            return None
        if len(content) > MAX_BYTES:
            return None
        try:
            value = decode(content)
        except MalformedJson:
            value = None
        if isinstance(value, dict):
            return value
        try:
            return content.decode().strip()
        except UnicodeDecodeError:
            return None


def _is_file_name(name: str) -> bool:
    """Whether it can be no path that leads elsewhere."""
    return bool(name) and name not in (".", "..") and not any(sign in name for sign in "/\\\0")
