"""Executions: entering a node, and leaving it with all that was set up for it taken down.

Taking down what goes on in a loop: because something interrupts it, or because a failure costs one element only.

How branches end where failures are routed: well, badly, or by being discarded; and what is counted of it.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonValue
from statewright.net.durations import Delay, add_delay
from statewright.net.effects import (
    ArmTimer,
    CancelChild,
    CloseHumanTask,
    CloseTask,
    DisarmTimer,
    EnqueueTask,
    ExitStatus,
    OpenHumanTask,
    RecordEntry,
    RecordExit,
    StartChild,
    TaskPaused,
    Trace,
    WorkStatus,
)
from statewright.net.language import Problem
from statewright.net.marking import (
    LIFECYCLE,
    MAX_FAILURES,
    PAUSE,
    Branch,
    BranchFailure,
    ElementResult,
    ExecutionId,
    Move,
    NodeId,
    PendingTimer,
    ScopeId,
    Stage,
    TimerId,
    Token,
    WorkId,
)
from statewright.net.nodes import HumanTask, Inline, Many, NoActivity, Node, SubNet, Task, Wait
from statewright.net.run import KernelRun

TIMED_OUT: Final = "TIMEOUT"
"""The reason of what took longer than its node allows."""
PENDING_TOKENS: Final = "PENDING_TOKENS"
INCOMPLETE_JOIN: Final = "INCOMPLETE_JOIN"
GUARD_ERROR: Final = "GUARD_ERROR"
"""The reason of a branch that has no way on since guards could not be evaluated."""

_NOT_BEGUN: Final[frozenset[Stage]] = frozenset({"READY", "PENDING", "WAITING", "QUEUED"})


def trace(run: KernelRun, token: Token, kind: str, **details: JsonValue) -> None:
    """Tell a decision about a token, in nets that are traced."""
    if run.net.traces:
        run.emit(Trace(kind=kind, node=token.node, token=token.id, details=details))


def count_success(run: KernelRun, token: Token) -> None:
    """Count a branch that came to its end; those in the body of a loop are no branches of the instance."""
    if token.scope is not None:
        return
    if token.is_final:
        run.tally = replace(run.tally, final="DONE")
    else:
        run.tally = replace(run.tally, succeeded=run.tally.succeeded + 1)
    trace(run, token, "branch.done", final=token.is_final)


def end_badly(
    run: KernelRun,
    node: NodeId,
    reason: str,
    error: JsonValue = None,
    execution: ExecutionId | None = None,
    *,
    is_final: bool = False,
    arrived: tuple[Move, ...] = (),
) -> None:
    """A branch failed, and nothing was there for it; ``execution``, ``arrived``: what a restart begins again."""
    failure = BranchFailure(node=node, reason=reason, error=error, execution=execution, arrived=arrived)
    tally = run.tally
    failures = (*tally.failures, failure) if len(tally.failures) < MAX_FAILURES else tally.failures
    if is_final:
        run.tally = replace(tally, failures=failures, final="FAILED")
    else:
        run.tally = replace(tally, failures=failures, failed=tally.failed + 1)
    if run.net.traces:
        details: dict[str, JsonValue] = {"reason": reason, "error": error, "final": is_final}
        run.emit(Trace(kind="branch.failed", node=node, token=execution, details=details))
    if run.is_draining:
        _discard_what_has_not_begun(run)


def give_up(run: KernelRun, node: NodeId, reason: str) -> None:
    """The instance fails, whatever becomes of its branches: what has not begun is discarded."""
    run.tally = replace(run.tally, verdict=reason)
    end_badly(run, node, reason)


def forgive(run: KernelRun, token: Token) -> None:
    """A failed execution begins again: its branch has not ended."""
    tally = run.tally
    if not tally.failures and not tally.failed:
        return  # nothing is counted, and an equal tally would be written: defaults are told by identity
    failures = tuple(failure for failure in tally.failures if failure.execution != token.id)
    if token.is_final:
        run.tally = replace(tally, failures=failures, final="AGAIN")
    else:
        run.tally = replace(tally, failures=failures, failed=max(0, tally.failed - 1))


def take_back_arrivals(run: KernelRun) -> list[Move]:
    """What had come to joins that could not be completed, to wait there again: their branches have not ended."""
    tally = run.tally
    left = tuple(failure for failure in tally.failures if not failure.arrived)
    if incomplete := len(tally.failures) - len(left):
        run.tally = replace(tally, failures=left, failed=tally.failed - incomplete)
    return [move for failure in tally.failures for move in failure.arrived]


def discard(run: KernelRun, token: Token, reason: str) -> None:
    """Remove a token that has not begun."""
    disarm(run, token)
    run.remove_token(token)
    trace(run, token, "token.discarded", reason=reason)


def disarm(run: KernelRun, token: Token) -> None:
    """Take down the timers of a token that has not begun."""
    for timer in token.timers:
        run.emit(DisarmTimer(timer.id))


def _discard_what_has_not_begun(run: KernelRun) -> None:
    for token in [token for token in run.tokens.values() if token.stage in _NOT_BEGUN and token.scope is None]:
        discard(run, token, "fail_fast")
        run.net.on_failure.end_branch(run, token)
    run.rounds = {place: each for place, each in run.rounds.items() if place[1] is not None}


class Closing(Struct, frozen=True, kw_only=True):
    """How an execution ends."""

    status: ExitStatus
    work: WorkStatus
    """The status with which its task is closed, if it has one."""
    output: JsonValue = None
    """The output that the history shows."""
    reason: str | None = None
    result: JsonValue = None
    """The result that is stored with a human task."""
    by: str | None = None


SKIPPED: Final = Closing(status="SKIPPED", work="CANCELLED")
"""The closing of what still ran when the instance ended."""


def build_failed_closing(reason: str, error: JsonValue = None, *, work: WorkStatus = "FAILED") -> Closing:
    """The end of an execution that failed."""
    return Closing(status="FAILED", work=work, reason=reason, output=error)


def place_token(run: KernelRun, move: Move, branches: tuple[Branch, ...], stage: Stage) -> Token:
    """Put a token at a node that has not fired for it."""
    token = Token(
        id=ExecutionId(run.next_id()),
        node=move.target,
        attempt=0,
        stage=stage,
        branches=branches,
        source=move.source,
        payloads=move.payloads,
        scope=move.scope,
        is_final=move.is_final,
    )
    run.put_token(token)
    payloads = list(token.payloads) if run.net.traces else []
    trace(
        run,
        token,
        "token.created",
        payloads=payloads,
        source=token.source,
        cause=move.cause,
        waits=stage == "WAITING",
        final=token.is_final,
    )
    return token


def enter(run: KernelRun, node: Node, move: Move, branches: tuple[Branch, ...], entry_input: JsonValue) -> Token:
    """Begin a new execution of a node: record it with its input, and put its token at the node."""
    attempt, visit = run.count_visit(node.id, move.scope)
    run.entered += 1
    token = Token(
        id=ExecutionId(run.next_id()),
        node=node.id,
        attempt=attempt,
        branches=branches,
        source=move.source,
        payloads=move.payloads,
        scope=move.scope,
        input=entry_input if node.keeps_input else None,
        is_final=move.is_final,
        begun_at=run.begun_at,
    )
    run.put_token(token)
    run.emit(RecordEntry(execution=token.id, node=node.id, attempt=attempt, input=entry_input, token=move.token))
    if visit > (run.net.max_visits or visit):
        return replace(token, reason=_describe_visits(run))
    if run.net.max_runs is not None and run.executions > run.net.max_runs:
        return replace(token, reason=f"RUN_LIMIT: an instance can enter {run.net.max_runs} {run.net.node_label}s")
    return token


def _describe_visits(run: KernelRun) -> str:
    return f"VISIT_LIMIT: a {run.net.node_label} can be entered {run.net.max_visits} times"


def begin_activity(run: KernelRun, token: Token, node: Node, entry_input: JsonValue) -> Problem | None:
    """Begin the node's activity and arm its timers."""
    token = _request_activity(run, token, node, entry_input)
    run.put_token(token)
    if node.time_limit is not None:
        token = arm_time_limit(run, token, node.time_limit)
        run.put_token(token)
    for index, timer in enumerate(node.timers):
        at = add_delay(run.at, timer.delay)
        if at is None:
            return Problem(
                f'{run.net.node_label} "{node.id}" boundaryEvents[{index}]: duration ends after the year 9999'
            )
        armed = PendingTimer(TimerId(run.next_id()), index)
        token = replace(token, timers=(*token.timers, armed))
        run.put_token(token)
        run.emit(
            ArmTimer(
                timer=armed.id,
                execution=token.id,
                node=node.id,
                at=at,
                target=timer.target,
                interrupting=timer.interrupting,
            )
        )
    return None


def arm_time_limit(run: KernelRun, token: Token, limit: Delay) -> Token:
    """The token with a timer that ends what it does or waits for; without one where that is beyond the calendar."""
    at = add_delay(run.at, limit)
    if at is None:
        return token
    return _arm(run, token, LIFECYCLE, at)


def _arm(run: KernelRun, token: Token, index: int, at: int) -> Token:
    armed = PendingTimer(TimerId(run.next_id()), index)
    run.emit(ArmTimer(timer=armed.id, execution=token.id, node=token.node, at=at, target=token.node, interrupting=True))
    return replace(token, timers=(*token.timers, armed))


def enqueue_task(run: KernelRun, token: Token, task: Task, task_input: JsonValue) -> Token:
    """Request a task for a token, which waits for it from now on."""
    work = WorkId(run.next_id())
    run.emit(
        EnqueueTask(
            task=work,
            execution=token.id,
            node=token.node,
            kind=task.kind,
            retries=task.retries,
            input=task_input,
            element=token.element,
        )
    )
    return replace(token, work=work)


def _request_activity(run: KernelRun, token: Token, node: Node, entry_input: JsonValue) -> Token:
    match node.activity:
        case Task() as task:
            return enqueue_task(run, token, task, entry_input)
        case HumanTask(kind=kind):
            work = WorkId(run.next_id())
            run.emit(OpenHumanTask(task=work, execution=token.id, node=node.id, kind=kind, input=entry_input))
            return replace(token, work=work)
        case SubNet(net=net):
            run.emit(StartChild(net=net, input=entry_input, awaited_by=token.id))
            return token
        case NoActivity() | Inline() | Wait() | Many():
            return token
        case unknown:
            assert_never(unknown)


def pause_task(run: KernelRun, token: Token, paused: TaskPaused) -> None:
    """Take a task back until a time, or the end of an instance that is started."""
    run.emit(CloseTask(task=paused.task, status="COMPLETED"))
    token = replace(token, work=None, is_paused=True)
    if paused.until is not None:
        trace(run, token, "task.paused", timer=end_pause_at(run, token, paused.until))
        return
    run.put_token(token)
    run.emit(StartChild(net=paused.net, input=paused.input, awaited_by=token.id))
    trace(run, token, "task.paused", child=True)


def end_pause_at(run: KernelRun, token: Token, at: int) -> TimerId:
    """Have the task of a token go on at an instant."""
    token = _arm(run, token, PAUSE, at)
    run.put_token(token)
    return token.timers[-1].id


def awaits_child(token: Token) -> bool:
    """Whether the task of a token rests until another instance ends."""
    return token.is_paused and all(timer.index != PAUSE for timer in token.timers)


def close(run: KernelRun, token: Token, closing: Closing) -> Token:
    """End a token's execution: record it, close its task and disarm its timers. The token stays where it is."""
    current = run.tokens.get(token.id, token)
    for timer in current.timers:
        run.emit(DisarmTimer(timer.id))
    _close_work(run, current, closing)
    run.emit(
        RecordExit(
            execution=current.id,
            node=current.node,
            status=closing.status,
            output=closing.output,
            reason=closing.reason,
            element=current.element,
        )
    )
    idle = replace(current, work=None, timers=(), is_paused=False)
    run.put_token(idle)
    return idle


def _close_work(run: KernelRun, token: Token, closing: Closing) -> None:
    match run.get_node(token).activity:
        case Task() | Many() if awaits_child(token):
            run.emit(CancelChild(token.id))
        case Task() | Many() if token.work is not None:
            run.emit(CloseTask(task=token.work, status=closing.work))
        case HumanTask() if token.work is not None:
            run.emit(
                CloseHumanTask(task=token.work, status=closing.work, result=closing.result, by=closing.by),
            )
        case SubNet() if closing.work == "CANCELLED" and closing.status != "BYPASSED":  # then none was started
            run.emit(CancelChild(token.id))
        case Many(body=SubNet()) if closing.work == "CANCELLED" and token.owner is not None:
            run.emit(CancelChild(token.id))
        case _:
            pass


def find_common_branches(memberships: Sequence[tuple[Branch, ...]]) -> tuple[Branch, ...]:
    """The branches that all of some tokens belong to."""
    shared = memberships[0]
    for other in memberships[1:]:
        length = next((n for n, (a, b) in enumerate(zip(shared, other, strict=False)) if a != b), None)
        shared = shared[: min(len(shared), len(other)) if length is None else length]
    return shared


def withdraw_elements(run: KernelRun, owner: Token) -> None:
    """Take down all that a loop has going on, before its own token is closed."""
    if not run.drop_loop(owner.id):
        return
    for scope in [scope.id for scope in run.scopes.values() if scope.owner == owner.id]:
        _withdraw_pass(run, scope)
    for token in run.index.list_elements(owner.id):
        _withdraw_token(run, token)
    run.held_results = [held for held in run.held_results if held.token in run.tokens]


def absorb_failure(run: KernelRun, token: Token, closing: Closing, *, is_closed: bool = False) -> bool:
    """Let a failure cost one element of the innermost loop that survives it; False where there is none.

    A pass over the body of such a loop ends with the first failure in it. ``is_closed``: the execution of the token is
    recorded as ended already.
    """
    error = closing.reason if closing.output is None else closing.output
    if token.owner is not None and token.element is not None and _goes_on(run, token.owner):
        run.remove_token(token if is_closed else close(run, token, closing))
        run.add_result(token.owner, ElementResult(token.element, (error,), "FAILED"))
        return True
    scope_id = token.scope
    while scope_id is not None:
        scope = run.scopes[scope_id]
        if _goes_on(run, scope.owner):
            idle = token if is_closed else close(run, token, closing)
            run.put_token(replace(idle, stage="FAILED"))  # so that it is not closed with the rest of the pass
            _withdraw_pass(run, scope_id)
            run.held_results = [held for held in run.held_results if held.token in run.tokens]
            run.add_result(scope.owner, ElementResult(scope.element, (error,), "FAILED"))
            return True
        scope_id = run.tokens[scope.owner].scope
    return False


def _goes_on(run: KernelRun, owner: ExecutionId) -> bool:
    activity = run.get_node(run.tokens[owner]).activity
    return owner in run.loops and isinstance(activity, Many) and activity.on_failure != "FAIL"


def _withdraw_pass(run: KernelRun, scope: ScopeId) -> None:
    for token in run.index.list_scope(scope):
        _withdraw_token(run, token)
    run.agenda = deque(move for move in run.agenda if move.scope != scope)
    del run.scopes[scope]


def _withdraw_token(run: KernelRun, token: Token) -> None:
    withdraw_elements(run, token)
    if token.id not in run.tokens:
        return  # the token of an element goes with that of its loop
    if token.stage == "WORKING":
        close(run, token, SKIPPED)
    elif token.timers:
        disarm(run, token)
    run.remove_token(token)
