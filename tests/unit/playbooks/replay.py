"""The state of an execution, made of its log and its definition alone (docs/reference/executions.md#event-log).

Written apart from the kernel: it knows what each entry of the log says, and decides nothing.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from statewright.net import (
    ElementResult,
    ExecutionId,
    Loop,
    Many,
    Marking,
    NodeId,
    PendingTimer,
    RoundJoin,
    TimerId,
    Token,
    WorkId,
)
from statewright.net.marking import LIFECYCLE, MAX_FAILURES, PAUSE, BranchFailure, Move, Round, Tally
from statewright.playbooks.compiling import CompiledPlaybook
from statewright.playbooks.context import HAS_GAPS, LAST, RESULTS, change_context
from statewright.playbooks.events import LogEvent

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue


def replay(compiled: CompiledPlaybook, log: Iterable[LogEvent]) -> Marking:
    """The marking after all that a log tells of."""
    reader = _Reader(compiled)
    for event in log:
        handler = getattr(reader, event.type.replace(".", "_"), None)
        if handler is not None:
            handler(event, event.payload)
    return reader.to_marking()


def sort_tokens(marking: Marking) -> Marking:
    """Tokens, loops and rounds by what names them: a log does not tell in which order a document lists them.

    Nor does it tell which of the denied tokens are to be asked about again once there is capacity. When a run began
    only the timestamps of stored entries say.
    """
    tokens = [
        replace(token, begun_at=None, stage="PENDING" if token.was_denied and token.stage == "READY" else token.stage)
        for token in marking.tokens
    ]
    return replace(
        marking,
        tokens=tuple(sorted(tokens, key=lambda token: token.id)),
        loops=tuple(sorted(marking.loops, key=lambda loop: loop.token)),
        rounds=tuple(sorted(marking.rounds, key=lambda each: each.node)),
    )


class _Reader:
    def __init__(self, compiled: CompiledPlaybook) -> None:
        self._net = compiled.net
        self._max_ctx = compiled.playbook.limits.max_ctx_bytes
        self._marking = Marking(data={})
        self._tokens: dict[str, Token] = {}
        self._attempts: dict[NodeId, int] = {}
        self._loops: dict[str, Loop] = {}
        self._rounds: dict[str, Round] = {}
        self._failed: dict[str, Token] = {}
        self._lost: list[Move] = []
        """Of the join that could not be completed last."""
        self._tally = Tally()

    def to_marking(self) -> Marking:
        return replace(
            self._marking,
            tokens=tuple(self._tokens.values()),
            attempts=self._attempts,
            loops=tuple(self._loops.values()),
            rounds=tuple(self._rounds.values()),
            tally=self._tally,
        )

    def playbook_started(self, event: LogEvent, payload: "JsonObject") -> None:
        self._marking = Marking(data=cast("JsonObject", payload["data"]))

    def token_created(self, event: LogEvent, payload: "JsonObject") -> None:
        source = payload["source"]
        token = Token(
            id=ExecutionId(str(payload["token"])),
            node=NodeId(str(event.step)),
            attempt=0,
            stage="WAITING" if payload["waits"] else "READY",
            source=None if source is None else NodeId(str(source)),
            payloads=tuple(cast("list[JsonValue]", payload["payloads"])),
            is_final=payload["final"] is True,
        )
        self._tokens[token.id] = token
        if token.is_final:
            self._tally = replace(self._tally, final="RUNNING")

    def token_discarded(self, event: LogEvent, payload: "JsonObject") -> None:
        token = self._tokens.pop(str(payload["token"]))
        if payload["reason"] == "INCOMPLETE_JOIN":
            again = Move(target=token.node, source=token.source, payloads=token.payloads, cause="again")
            self._lost.append(again)

    def join_incomplete(self, event: LogEvent, payload: "JsonObject") -> None:
        self._lost = []

    def policy_admit_evaluated(self, event: LogEvent, payload: "JsonObject") -> None:
        token = self._tokens[str(payload["token"])]
        if payload["allow"]:
            return
        timers = (PendingTimer(TimerId(str(payload["timer"])), LIFECYCLE),) if "timer" in payload else ()
        self._tokens[token.id] = replace(token, stage="PENDING", was_denied=True, timers=timers)

    def run_paused(self, event: LogEvent, payload: "JsonObject") -> None:
        token = self._tokens[str(payload["token"])]
        timers = (PendingTimer(TimerId(str(payload["timer"])), PAUSE),) if "timer" in payload else ()
        self._tokens[token.id] = replace(token, work=None, is_paused=True, timers=(*token.timers, *timers))

    def run_resumed(self, event: LogEvent, payload: "JsonObject") -> None:
        token = self._tokens[str(payload["token"])]
        timers = tuple(timer for timer in token.timers if timer.index != PAUSE)
        self._tokens[token.id] = replace(token, work=WorkId(str(payload["job"])), is_paused=False, timers=timers)

    def join_fired(self, event: LogEvent, payload: "JsonObject") -> None:
        for token in cast("list[str]", payload["tokens"]):
            del self._tokens[token]
        if not payload["leftOver"]:
            self._arrive(str(event.step), cast("list[str]", payload["sources"]))

    def join_absorbed(self, event: LogEvent, payload: "JsonObject") -> None:
        del self._tokens[str(payload["token"])]
        self._arrive(str(event.step), [str(payload["source"])])

    def _arrive(self, step: str, sources: list[str]) -> None:
        rule = self._net.nodes[NodeId(step)].arrival
        assert isinstance(rule, RoundJoin)
        before = self._rounds.pop(step, None)
        arrived = (*(() if before is None else before.arrived), *map(NodeId, sources))
        if len(arrived) < len(rule.sources):
            self._rounds[step] = Round(node=NodeId(step), arrived=arrived)

    def join_closed(self, event: LogEvent, payload: "JsonObject") -> None:
        del self._rounds[str(event.step)]

    def step_scheduled(self, event: LogEvent, payload: "JsonObject") -> None:
        given = self._tokens.pop(str(payload["token"]))
        node = NodeId(str(event.step))
        self._attempts[node] = self._attempts.get(node, 0) + 1
        self._tokens[event.entity_id] = Token(
            id=ExecutionId(event.entity_id),
            node=node,
            attempt=int(str(payload["run"])),
            source=given.source,
            payloads=given.payloads,
            work=WorkId(str(payload["job"])) if "job" in payload else None,
            timers=(PendingTimer(TimerId(str(payload["timer"])), LIFECYCLE),) if "timer" in payload else (),
            input=payload["input"] if self._net.nodes[node].keeps_input else None,
            is_final=given.is_final,
        )

    def loop_started(self, event: LogEvent, payload: "JsonObject") -> None:
        limit = payload["limit"]
        self._loops[event.entity_id] = Loop(
            token=ExecutionId(event.entity_id), size=int(str(payload["size"])), limit=cast("int | None", limit)
        )

    def loop_iteration_scheduled(self, event: LogEvent, payload: "JsonObject") -> None:
        owner = self._find_owner(event)
        assert event.iteration is not None
        self._tokens[event.entity_id] = Token(
            id=ExecutionId(event.entity_id),
            node=owner.node,
            attempt=owner.attempt,
            payloads=(payload["input"],),
            owner=owner.id,
            element=event.iteration,
            work=WorkId(str(payload["job"])) if "job" in payload else None,
        )
        loop = self._loops[owner.id]
        self._loops[owner.id] = replace(loop, next=max(loop.next, event.iteration + 1))

    def _find_owner(self, event: LogEvent) -> Token:
        """The run of the loop whose next element this is; runs of one step are begun in their order."""
        running = [
            token
            for token in self._tokens.values()
            if token.node == event.step and token.id in self._loops and token.owner is None
        ]
        return next(token for token in running if token.id == event.payload["loop"])

    def loop_iteration_done(self, event: LogEvent, payload: "JsonObject") -> None:
        token = self._tokens.pop(event.entity_id)
        self._add_result(token, ElementResult(token.element or 0, (payload["output"],)))

    def loop_iteration_failed(self, event: LogEvent, payload: "JsonObject") -> None:
        token = self._tokens.pop(event.entity_id)
        error = payload["reason"] if payload["output"] is None else payload["output"]
        self._add_result(token, ElementResult(token.element or 0, (error,), "FAILED"))

    def loop_iteration_cancelled(self, event: LogEvent, payload: "JsonObject") -> None:
        self._idle(event)

    def _add_result(self, token: Token, result: ElementResult) -> None:
        assert token.owner is not None
        loop = self._loops[token.owner]
        failed = loop.failed + (result.outcome == "FAILED")
        self._loops[token.owner] = replace(loop, results=(*loop.results, result), failed=failed)

    def step_done(self, event: LogEvent, payload: "JsonObject") -> None:
        token = self._tokens.pop(event.entity_id)
        data = self._marking.data
        results = cast("JsonObject", data[RESULTS])
        after: JsonObject = {**data, RESULTS: {**results, token.node: payload["result"]}, LAST: token.node}
        output = payload["output"]
        if isinstance(self._net.nodes[token.node].activity, Many) and isinstance(output, dict) and output["failed"]:
            after[HAS_GAPS] = True
        self._marking = replace(self._marking, data=after)
        self._drop_loop(event.entity_id)

    loop_done = step_done

    def step_failed(self, event: LogEvent, payload: "JsonObject") -> None:
        token = self._tokens.pop(event.entity_id)
        self._failed[token.id] = replace(
            token, stage="FAILED", work=None, timers=(), reason=cast("str | None", payload["reason"])
        )
        self._drop_loop(event.entity_id)

    def step_cancelled(self, event: LogEvent, payload: "JsonObject") -> None:
        self._idle(event)

    def _idle(self, event: LogEvent) -> None:
        token = self._tokens[event.entity_id]
        self._tokens[token.id] = replace(token, work=None, timers=())

    def _drop_loop(self, run: str) -> None:
        if self._loops.pop(run, None) is not None:
            self._tokens = {name: token for name, token in self._tokens.items() if token.owner != run}

    def ctx_patched(self, event: LogEvent, payload: "JsonObject") -> None:
        changes = cast("JsonObject", payload["changes"])
        data = change_context(self._marking.data, changes, self._max_ctx)
        assert isinstance(data, dict)
        self._marking = replace(self._marking, data=data)
        token = self._tokens.get(str(payload["origin"]))
        if token is not None and token.owner is not None and self._loops[token.owner].limit != 1:
            loop = self._loops[token.owner]
            self._loops[token.owner] = replace(loop, written={**loop.written, **changes})

    def ctx_patch_held(self, event: LogEvent, payload: "JsonObject") -> None:
        token = self._tokens[str(payload["origin"])]
        changes = cast("JsonObject", payload["changes"])
        self._tokens[token.id] = replace(token, changes=(*token.changes, changes))

    def branch_done(self, event: LogEvent, payload: "JsonObject") -> None:
        if payload["final"]:
            self._tally = replace(self._tally, final="DONE")
        else:
            self._tally = replace(self._tally, succeeded=self._tally.succeeded + 1)

    def branch_failed(self, event: LogEvent, payload: "JsonObject") -> None:
        execution = payload["token"]
        failure = BranchFailure(
            node=NodeId(str(event.step)),
            reason=str(payload["reason"]),
            error=payload["error"],
            execution=None if execution is None else ExecutionId(str(execution)),
            arrived=tuple(self._lost) if payload["reason"] == "INCOMPLETE_JOIN" else (),
        )
        tally = self._tally
        tally = replace(tally, failures=(*tally.failures, failure)[:MAX_FAILURES])
        if failure.reason == "PENDING_TOKENS":
            tally = replace(tally, verdict=failure.reason)
        if payload["final"]:
            self._tally = replace(tally, final="FAILED")
        else:
            self._tally = replace(tally, failed=tally.failed + 1)
        if str(execution) in self._failed:
            self._tokens[str(execution)] = self._failed.pop(str(execution))
        is_out_of_time = self._tally.verdict == "EXECUTION_TIMEOUT"
        if is_out_of_time or (self._net.fails_fast and self._tally.failed > self._tally.overlooked):
            self._rounds.clear()

    def workflow_limited(self, event: LogEvent, payload: "JsonObject") -> None:
        self._marking = replace(self._marking, deadline=TimerId(str(payload["timer"])))

    def workflow_timed_out(self, event: LogEvent, payload: "JsonObject") -> None:
        self._marking = replace(self._marking, deadline=None)
        self._tally = replace(self._tally, verdict="EXECUTION_TIMEOUT")

    def workflow_waiting(self, event: LogEvent, payload: "JsonObject") -> None:
        self._marking = replace(self._marking, phase="WAITING")

    def workflow_resumed(self, event: LogEvent, payload: "JsonObject") -> None:
        self._marking = replace(self._marking, phase="RUNNING")

    def execution_restarted(self, event: LogEvent, payload: "JsonObject") -> None:
        for token in [token for token in self._tokens.values() if token.stage == "FAILED"]:
            del self._tokens[token.id]
            tally = self._tally
            failures = tuple(failure for failure in tally.failures if failure.execution != token.id)
            if token.is_final:
                self._tally = replace(tally, failures=failures, final="AGAIN")
            else:
                self._tally = replace(tally, failures=failures, failed=tally.failed - 1)
        tally = self._tally
        failures = tuple(failure for failure in tally.failures if not failure.arrived)
        failed = tally.failed - len(tally.failures) + len(failures)
        self._tally = replace(tally, failures=failures, failed=failed, verdict=None, overlooked=failed)
        self._marking = replace(self._marking, phase="RUNNING", reason=None, result=None)

    def execution_cancelled(self, event: LogEvent, payload: "JsonObject") -> None:
        self._tokens = {name: replace(token, stage="WITHDRAWN", timers=()) for name, token in self._tokens.items()}
        self._marking = replace(
            self._marking, phase="CANCELLED", reason=cast("str | None", payload["reason"]), deadline=None
        )

    def workflow_finished(self, event: LogEvent, payload: "JsonObject") -> None:
        phase, reason = payload["phase"], payload["reason"]
        self._marking = replace(
            self._marking,
            phase="COMPLETED" if phase == "COMPLETED" else "FAILED",
            reason=cast("str | None", reason),
            result=payload["summary"],
            deadline=None,
        )
        if phase == "COMPLETED":
            self._tokens.clear()
            self._rounds.clear()
            self._loops.clear()
