"""Pipelines of playbooks, run by this program (docs/reference/playbooks.md#pipelines): one job is one run of one.

The runner does what :mod:`statewright.playbooks.pipeline` says: renders the fields of a task, calls the handler of its
kind, and goes on by the policy of the task. What a pipeline comes to is one completion, whose form
:mod:`statewright.playbooks.dispatch` has. Patches are reported on the way, where the engine takes reports.

Tasks of the kind ``http`` within a pipeline that this program runs, with its own network: what the service permits
for requests of its own does not apply here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, TypeAlias

import httpx

from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject
from statewright.network.sockets import translate_resets
from statewright.playbooks.dispatch import JOB_PREFIX, Dispatch, MalformedDispatch, dispatch_from_document
from statewright.playbooks.pipeline import (
    PipelineDecision,
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
    HttpCall,
    build_call,
    find_pause,
    measure_pause_s,
    measure_wait,
    read_response,
    report_failure,
)
from statewright.playbooks.tasks import HTTP, WAIT
from statewright.sdk.functions import Function, describe_error
from statewright.sdk.jobs import NonRetryable, TaskCall
from statewright.sdk.outcomes import NotJson, encode_json

MAX_RESPONSE_BYTES: Final = 10 * 1024 * 1024


async def send_http(
    fields: JsonObject, keychain: JsonObject, *, transport: httpx.AsyncBaseTransport | None = None
) -> Outcome:
    """Send the request of a task. Redirects are answers like any other. ``transport``: who sends it, and closes with
    it; None: the network as the environment says.
    """
    call = build_call(fields, keychain)
    if isinstance(call, Outcome):
        return call
    try:
        with translate_resets(httpx.ConnectError):
            async with asyncio.timeout(call.connect_s + call.read_s):
                return await _send(call, transport)
    except TimeoutError:
        return report_failure("no response in time", code="timed_out")
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError):
        return report_failure("the request cannot be sent: check the URL", retryable=False, code="url_malformed")
    except httpx.HTTPError as error:
        return report_failure(f"no response: {type(error).__name__}", code="connection_failed")


async def _send(call: HttpCall, transport: httpx.AsyncBaseTransport | None) -> Outcome:
    timeout = httpx.Timeout(call.read_s, connect=call.connect_s)
    headers = [(name, value.encode()) for name, value in call.headers]
    async with (
        httpx.AsyncClient(timeout=timeout, follow_redirects=False, transport=transport) as client,
        client.stream(
            call.method, call.url, headers=[(name.encode(), value) for name, value in headers], content=call.body
        ) as response,
    ):
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_RESPONSE_BYTES:
                return report_failure(
                    f"a response of more than {MAX_RESPONSE_BYTES} bytes", retryable=False, code="body_too_large"
                )
        return read_response(response.status_code, response.headers.multi_items(), bytes(body))


Report: TypeAlias = Callable[[JsonObject], Awaitable["JsonObject | None"]]
"""Awaited with a progress report; its answer is what was taken of it, None where that is not known."""


class PipelineRunner:
    """Runs pipelines whose tasks are of kinds that there are handlers for, of ``noop``, ``http`` and ``wait``; it gives
    one back for a wait or another playbook, where it may.
    """

    def __init__(self, kinds: Mapping[str, Function]) -> None:
        self._kinds = kinds

    @property
    def job_types(self) -> tuple[str, ...]:
        """The types of jobs that the runner can do."""
        return tuple(f"{JOB_PREFIX}{kind}" for kind in self._kinds)

    async def run(self, payload: JsonObject, threads: Executor, report: Report) -> JsonObject:
        """The completion of a run. Raises :class:`NonRetryable` for a payload that is none.

        ``report`` is called with the patches that are new, while the pipeline runs; what it raises ends the run.
        """
        try:
            dispatch = dispatch_from_document(payload)
        except MalformedDispatch as malformed:
            raise NonRetryable(f"the job is no pipeline of a playbook: {malformed}") from malformed
        return await _Run(dispatch, self._kinds, threads, report).run()


class _Run:
    """One run of a pipeline."""

    def __init__(self, dispatch: Dispatch, kinds: Mapping[str, Function], threads: Executor, report: Report) -> None:
        self._dispatch = dispatch
        self._kinds = kinds
        self._threads = threads
        self._report = report
        self._record = RunRecord(dispatch)

    async def run(self) -> JsonObject:
        """Run it to its end."""
        state = begin(self._dispatch)
        if isinstance(state, PipelineEnd):
            return self._record.complete(state, {})
        given = get_given_outcome(self._dispatch)
        while True:
            turn = await self._execute(state, given)
            if isinstance(turn, dict):
                return turn
            state, given = turn.state, None
            if turn.end is not None:
                return self._record.complete(turn.end, state.results)
            await asyncio.sleep(turn.wait_ms / 1000)

    async def _execute(self, state: PipelineState, given: Outcome | None) -> "PipelineDecision | JsonObject":
        """One execution of the task that is next, unless its outcome is given, and what it leads to; or what the run is
        given back with for it.
        """
        begun = time.monotonic()
        if given is None:
            self._record.begin_attempt(state)
            outcome = prepare(self._dispatch, state)
            if isinstance(outcome, ToolCall):
                done = await self._pause_or_call(state, outcome)
                if isinstance(done, dict):
                    return done
                outcome = done
        else:
            outcome = given
            begun -= measure_pause_s(self._dispatch, time.time_ns() // 1_000)
        duration_ms = int((time.monotonic() - begun) * 1000)
        ts = datetime.now(UTC).isoformat()
        outcome = self._record.end_attempt(state, outcome, duration_ms=duration_ms, ts=ts)
        turn = settle(self._dispatch, state, outcome)
        progress = self._record.take_turn(state, outcome, turn)
        if progress is not None and (taken := await self._report(progress)) is not None:
            self._record.acknowledge(taken)
        return turn

    async def _pause_or_call(self, state: PipelineState, call: ToolCall) -> "Outcome | JsonObject":
        if call.kind not in self._kinds:
            paused = find_pause(call, self._dispatch, time.time_ns() // 1_000)
            if paused:
                return paused if isinstance(paused, Outcome) else self._record.pause(state, call)
        return await self._call(call)

    async def _call(self, call: ToolCall) -> Outcome:
        """The outcome of a task, whatever its handler does."""
        if call.kind == HTTP and HTTP not in self._kinds:
            return await send_http(call.fields, self._dispatch.keychain)
        if call.kind == WAIT and WAIT not in self._kinds:
            left_s = measure_wait(call.fields, time.time_ns() // 1_000)
            if isinstance(left_s, Outcome):
                return left_s
            await asyncio.sleep(left_s)
            return succeed(None)
        function = self._kinds.get(call.kind)
        if function is None:
            known = ", ".join(sorted(self._kinds))
            return fail("no_handler", f"this worker has no handler for {call.kind}; it has {known}", retryable=True)
        try:
            async with asyncio.timeout(_read_timeout(call.spec)):
                returned = await function.call(encode(call.fields), self._describe(call), self._threads)
            return returned if isinstance(returned, Outcome) else succeed(decode(encode_json(returned)))
        except TimeoutError as error:
            return fail("timeout", str(error) or "the task took longer than spec.timeout_s", retryable=True)
        except Exception as error:  # whatever goes wrong in a user's handler is its outcome
            retryable = not isinstance(error, NonRetryable | NotJson)
            return fail("tool", describe_error(error), code=type(error).__name__, retryable=retryable)

    def _describe(self, call: ToolCall) -> TaskCall:
        dispatch = self._dispatch
        return TaskCall(
            kind=call.kind,
            label=call.label,
            step=dispatch.step,
            execution_id=dispatch.execution_id,
            step_run=dispatch.step_run,
            attempt=call.attempt,
            spec=call.spec,
            element=None if dispatch.element is None else dispatch.element.index,
            credentials=dispatch.keychain,
        )


def _read_timeout(spec: JsonObject) -> float | None:
    """``spec.timeout_s``, if it is a number above 0."""
    value = spec.get("timeout_s")
    return float(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) and value > 0 else None
