"""The kernel: one function from a state and an event to a new state and effects.

``advance`` does no I/O, reads no clock and draws no random numbers: instant and ids come in with the event. Everything
between two pauses happens in one call: tokens move until each of them rests (at an activity that the outside world must
finish, at a join, where there is no way on) or the instance is over (docs/reference/steps.md#advancing). A branch goes
on until it rests before the next one starts.

No effects means that nothing happened: the event no longer applied, and the very same marking comes back.

Instances that are not running: results that come meanwhile, and how they go on.
"""

from types import UnionType
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.admission import expire, give_turn, reconsider
from statewright.net.arrivals import arrive
from statewright.net.effects import (
    Cancelled,
    ChildEnded,
    Effect,
    Event,
    FireTimer,
    HumanTaskCompleted,
    Injected,
    Patched,
    Reconsidered,
    RecordPatch,
    Restarted,
    Retried,
    Signalled,
    Started,
    TaskCompleted,
    TaskFailed,
    TaskPatched,
    TaskPaused,
    Terminated,
    TimerFired,
    Trace,
)
from statewright.net.endings import mark_cancelled, terminate, terminate_if_drained
from statewright.net.executions import (
    TIMED_OUT,
    Closing,
    absorb_failure,
    awaits_child,
    build_failed_closing,
    close,
    end_pause_at,
    forgive,
    pause_task,
    take_back_arrivals,
    withdraw_elements,
)
from statewright.net.firing import build_return, depart_again, fail, finish, resume, resume_task
from statewright.net.language import Language, Problem
from statewright.net.loops import (
    advance_loop,
    change_data,
    complete_element,
    conclude_pass,
    fail_element,
    repeat_element,
)
from statewright.net.marking import (
    LIFECYCLE,
    PAUSE,
    ExecutionId,
    HeldResult,
    Marking,
    Moment,
    Move,
    NodeId,
    TimerId,
    Token,
    WorkId,
)
from statewright.net.nodes import HumanTask, Many, SubNet, Task, Wait
from statewright.net.policies import begin_if_quiescent
from statewright.net.run import OUT_OF_TIME, KernelRun, Net


def hold_result(run: KernelRun, token: Token, output: JsonValue) -> None:
    """The activity is done, but the instance is not running: hold the result until it does."""
    closing = Closing(status="COMPLETED", work="COMPLETED", output=output)
    run.put_token(replace(close(run, token, closing), stage="ANSWERED"))
    run.held_results.append(HeldResult(token=token.id, output=output))


def hold_failure(run: KernelRun, token: Token, reason: str) -> None:
    """The activity failed while the instance was failed already: hold that, to fail once more after a retry."""
    run.put_token(replace(close(run, token, build_failed_closing(reason)), stage="ANSWERED"))
    run.held_results.append(HeldResult(token=token.id, reason=reason))


def resume_held(run: KernelRun, held: HeldResult) -> None:
    """Apply a held result: let the token go on whose execution ended meanwhile."""
    token = run.tokens[held.token]
    if held.reason is not None:
        if absorb_failure(run, token, build_failed_closing(held.reason), is_closed=True):
            return
        run.put_token(replace(token, stage="FAILED", reason=held.reason))
        run.net.on_failure.settle(run, token, held.reason, None, None)
    elif token.owner is not None:
        complete_element(run, token, held.output, is_closed=True)
    else:
        resume(run, token, held.output)


def retry(run: KernelRun, token: Token, changes: JsonObject) -> None:
    """Enter the failed node again; then go on with the moves the failure stopped and the results held since."""
    data = run.language.patch(run.data, changes)
    if isinstance(data, Problem):
        return
    run.data = data
    _go_on(run)
    moves = _take_back(run, token)
    _overlook_failures(run)
    run.send_next(moves)


def restart(run: KernelRun) -> None:
    """Begin all that failed or was interrupted again, with the same input; then go on with what was stopped.

    Without effect where there is nothing of the kind. What still runs from before is not begun twice.
    """
    stopped = [token for token in run.tokens.values() if token.stage in ("FAILED", "STRANDED", "INTERRUPTED")]
    not_begun = run.index.count("READY") + run.index.count("PENDING")
    if not stopped and not run.agenda and not run.held_results and not run.loops and not not_begun:
        return
    _go_on(run)
    moves: list[Move] = []
    for token in stopped:
        if token.id not in run.tokens:
            continue  # it was part of a pass that ended with the failure of another
        if token.stage == "STRANDED":
            depart_again(run, token)
        elif token.owner is not None:
            repeat_element(run, token)
        else:
            moves += _take_back(run, token)
    moves += take_back_arrivals(run)
    _overlook_failures(run)
    reconsider(run)
    run.send_next(moves)
    run.due_loops |= dict.fromkeys(run.loops)
    run.due_scopes |= dict.fromkeys(run.scopes)


def _take_back(run: KernelRun, token: Token) -> list[Move]:
    """Have a token begin again; the one that comes after all others does when the instance is quiet."""
    if token.stage == "FAILED":
        forgive(run, token)
    run.remove_token(token)
    return [] if token.is_final else [build_return(token)]


def _overlook_failures(run: KernelRun) -> None:
    """Branches that nothing can repair shall not discard what begins again."""
    if run.tally.overlooked != run.tally.failed:
        run.tally = replace(run.tally, overlooked=run.tally.failed)


def _go_on(run: KernelRun) -> None:
    run.result = None
    if run.tally.verdict is not None:  # an equal one would be written: defaults are told by identity
        run.tally = replace(run.tally, verdict=None)
    run.change_phase("RUNNING")
    run.arm_deadline()
    run.effects += run.net.on_failure.told_when_resumed


T = TypeVar("T")

INTERRUPTED: Final = "interrupted by boundary timer"
"""The reason in the history of an execution that an interrupting timer ended; the instance goes on."""


class KernelResult(Struct, frozen=True):
    """The marking after an event, and the effects to carry out in the transaction that stores it."""

    marking: Marking
    effects: tuple[Effect, ...]
    next_id: int = 0
    """The first number of the moment that was not used."""


def start(
    net: Net, language: Language, data: JsonObject, moment: Moment, payloads: tuple[JsonValue, ...] = ()
) -> KernelResult:
    """A new instance with these data, advanced until every token rests or the instance has ended.

    ``payloads``: what the first tokens carry.
    """
    return advance(net, language, Marking(data=data), Started(payloads), moment)


def advance(net: Net, language: Language, marking: Marking, event: Event, moment: Moment) -> KernelResult:
    """The instance after an event: the same marking and no effects when the event does not apply."""
    run = KernelRun.take_up(net, language, marking, moment)
    if run.is_live:
        _apply_while_running(run, event)
    elif run.phase not in ("COMPLETED", "CANCELLED"):
        _apply_while_stopped(run, event)
    if not run.effects and not (run.agenda and run.is_live):
        run.keep_with(marking)
        return KernelResult(marking, (), run.next_id.upcoming)
    _settle(run)
    while begin_if_quiescent(run):
        _settle(run)
    terminate_if_drained(run)
    result = KernelResult(run.to_marking(), tuple(run.effects), run.next_id.upcoming)
    run.keep_with(result.marking)
    return result


def is_waiting(net: Net, marking: Marking) -> bool:
    """Whether a running instance waits for a person or a signal at one of its nodes
    (docs/reference/steps.md#states).
    """
    return any(token.stage == "WORKING" and net.nodes[token.node].waits_for_outside for token in marking.tokens)


def _apply_while_running(run: KernelRun, event: Event) -> None:
    match event:
        case Started(payloads=payloads):
            _start(run, payloads)
        case Cancelled(reason=reason):
            mark_cancelled(run, reason)
        case Terminated():
            terminate(run)
        case Patched(changes=changes):
            _patch(run, changes)
        case Injected(node=node, payloads=payloads) if node in run.net.nodes and run.net.capacity is not None:
            run.send([Move(target=node, payloads=payloads, cause="inject")])
        case Reconsidered():
            _reconsider(run)
        case TimerFired(timer=timer):
            _fire_timer(run, timer)
        case _:
            _apply_report(run, event)


def _apply_report(run: KernelRun, event: Event) -> None:
    """What comes from those that do the activities."""
    match event:
        case TaskCompleted(task=task, output=output) if token := _find_token_for_task(run, task):
            _finish_task(run, token, output)
        case TaskFailed(task=task, reason=reason, error=error) if token := _find_token_for_task(run, task):
            fail_element(run, token, reason, error)
        case TaskPatched(task=task, changes=changes) if token := _find_token_for_task(run, task):
            change_data(run, token, changes)
        case TaskPaused(task=task) if token := _find_token_for_task(run, task):
            pause_task(run, token, event)
        case HumanTaskCompleted(task=task, output=output, by=by) if token := _find_token_for_person(run, task):
            finish(run, token, output, by)
        case Signalled(node=node, output=output) if token := _find_token_for_signal(run, node):
            finish(run, token, output)
        case ChildEnded() if token := _find_token_for_child(run, event.execution):
            if token.is_paused:
                resume_task(run, token)
            elif event.reason is None:
                _finish_task(run, token, event.output)
            else:
                fail_element(run, token, event.reason, event.error)
        case _:
            pass  # it came too late, or does not apply


def _apply_while_stopped(run: KernelRun, event: Event) -> None:
    """Hold what workers and children report until the instance goes on; people, signals and timers have to wait
    (docs/reference/steps.md#retrying-a-failed-instance).
    """
    if isinstance(event, run.net.on_failure.refused_while_stopped):
        return
    match event:
        case TaskCompleted(task=task, output=output) if token := _find_token_for_task(run, task):
            hold_result(run, token, output)
        case TaskFailed(task=task, reason=reason, error=error) if token := _find_token_for_task(run, task):
            fail_element(run, token, reason, error)
        case TaskPatched(task=task, changes=changes) if token := _find_token_for_task(run, task):
            change_data(run, token, changes)
        case ChildEnded() if token := _find_token_for_child(run, event.execution):
            _hold_end_of_child(run, token, event)
        case Retried() if run.phase == "FAILED" and (token := run.find_failed(event.node)):
            retry(run, token, event.changes)
        case Restarted() if run.phase != "TERMINATING":
            restart(run)
        case Terminated() if run.phase == "TERMINATING":
            terminate(run)
        case Cancelled(reason=reason):
            mark_cancelled(run, reason)
        case Patched(changes=changes):
            _patch(run, changes)
        case _:
            pass  # it came too late, or does not apply


def _hold_end_of_child(run: KernelRun, token: Token, ended: ChildEnded) -> None:
    if token.is_paused:
        end_pause_at(run, token, run.at)
    elif ended.reason is None:
        hold_result(run, token, ended.output)
    else:
        hold_failure(run, token, ended.reason)


def _settle(run: KernelRun) -> None:
    while run.is_live:
        if run.agenda:
            arrive(run, run.agenda.pop())
        elif run.due_loops:
            advance_loop(run, _take_first(run.due_loops))
        elif run.due_scopes:
            conclude_pass(run, _take_first(run.due_scopes))
        elif run.held_results:
            resume_held(run, run.held_results.pop(0))
        elif not give_turn(run):
            return


def _take_first(due: dict[T, None]) -> T:
    first = next(iter(due))
    del due[first]
    return first


def _start(run: KernelRun, payloads: tuple[JsonValue, ...]) -> None:
    if not run.attempts and not run.tokens:
        run.arm_deadline()
        run.send(Move(target=entry, payloads=payloads, cause="start") for entry in run.net.entries)


def _finish_task(run: KernelRun, token: Token, output: JsonValue) -> None:
    if token.owner is None:
        finish(run, token, output)
    else:
        complete_element(run, token, output)


def _patch(run: KernelRun, changes: JsonObject) -> None:
    data = run.language.patch(run.data, changes)
    if not isinstance(data, Problem):
        run.data = data
        run.emit(RecordPatch(changes))


def _reconsider(run: KernelRun) -> None:
    pending = run.index.list_pending_nodes()
    if pending:
        run.emit(Trace(kind="admission.requested", node=pending[0]))
        reconsider(run)


def _fire_timer(run: KernelRun, fired: TimerId) -> None:
    if fired == run.deadline:
        _end_instance_in_time(run, fired)
        return
    execution = run.index.find_for_timer(fired)
    if execution is None:
        return
    token = run.tokens[execution]
    armed = next(timer for timer in token.timers if timer.id == fired)
    run.emit(FireTimer(fired))
    token = replace(token, timers=tuple(other for other in token.timers if other is not armed))
    run.put_token(token)
    if armed.index == LIFECYCLE:
        _end_in_time(run, token)
        return
    if armed.index == PAUSE:
        resume_task(run, token)
        return
    timer = run.get_node(token).timers[armed.index]
    if timer.interrupting:
        withdraw_elements(run, token)
        run.remove_token(close(run, token, build_failed_closing(INTERRUPTED, work="CANCELLED")))
    run.send(
        [
            Move(
                target=timer.target,
                source=token.node,
                branches=token.branches,
                payloads=token.payloads,
                scope=token.scope,
            )
        ]
    )


def _end_instance_in_time(run: KernelRun, fired: TimerId) -> None:
    """The instance has taken longer than its net allows: what runs fails, what has not begun is discarded."""
    run.emit(FireTimer(fired))
    run.deadline = None
    run.tally = replace(run.tally, verdict=OUT_OF_TIME)
    if run.net.traces:
        run.emit(Trace(kind="deadline.passed", node=run.net.entries[0], details={"timer": fired}))
    for token in list(run.tokens.values()):
        if token.id not in run.tokens:
            continue  # the failure of one before it has discarded it
        if token.stage in ("READY", "PENDING"):
            expire(run, token, OUT_OF_TIME)
        elif token.stage == "WORKING" and token.owner is None:
            withdraw_elements(run, token)
            fail(run, token, OUT_OF_TIME, work="CANCELLED")


def _end_in_time(run: KernelRun, token: Token) -> None:
    """A token has taken longer than its node allows, to be admitted or to be done."""
    if token.stage in ("READY", "PENDING"):
        expire(run, token, TIMED_OUT)
        return
    withdraw_elements(run, token)
    fail(run, token, TIMED_OUT, work="CANCELLED")


def _find_token_for_task(run: KernelRun, work: WorkId) -> Token | None:
    """The token that waits for this task; none when the task is done, withdrawn or a person's."""
    return _find_token_for_work(run, work, Task | Many)


def _find_token_for_person(run: KernelRun, work: WorkId) -> Token | None:
    return _find_token_for_work(run, work, HumanTask)


def _find_token_for_work(run: KernelRun, work: WorkId, activity: type | UnionType) -> Token | None:
    execution = run.index.find_for_work(work)
    if execution is None:
        return None
    token = run.tokens[execution]
    return token if isinstance(run.get_node(token).activity, activity) else None


def _find_token_for_signal(run: KernelRun, node: NodeId) -> Token | None:
    token = run.index.find_working(node)
    return token if token is not None and isinstance(run.get_node(token).activity, Wait) else None


def _find_token_for_child(run: KernelRun, execution: ExecutionId) -> Token | None:
    token = run.tokens.get(execution)
    if token is None or token.stage != "WORKING":
        return None
    if awaits_child(token):
        return token
    match run.get_node(token).activity:
        case SubNet():
            return token
        case Many(body=SubNet()) if token.owner is not None:
            return token
        case _:
            return None
