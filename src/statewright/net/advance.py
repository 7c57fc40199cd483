"""The kernel: one function from a state and an event to a new state and effects.

``advance`` does no I/O, reads no clock and draws no random numbers: instant and ids come in with the event. Everything
between two pauses happens in one call: tokens move until each of them rests (at an activity that the outside world must
finish, at a join, where there is no way on) or the instance is over (docs/reference/steps.md#advancing). A branch goes
on until it rests before the next one starts.

No effects means that nothing happened: the event no longer applied, and the very same marking comes back.
"""

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject
from statewright.net.effects import ChangePhase, Effect, FireTimer, ReleaseWork
from statewright.net.events import (
    Cancelled,
    ChildEnded,
    Event,
    HumanTaskCompleted,
    Retried,
    Signalled,
    Started,
    TaskCompleted,
    TaskFailed,
    TimerFired,
)
from statewright.net.executions import build_failed_closing, close, complete_if_quiescent, mark_cancelled
from statewright.net.firing import arrive, complete, fail, hold_failure, hold_result, resume
from statewright.net.identifiers import ExecutionId, Moment, NodeId, TimerId, WorkId
from statewright.net.language import Language
from statewright.net.marking import Marking, Move, Token
from statewright.net.nodes import HumanTask, Net, SubNet, Task, Wait
from statewright.net.run import KernelRun

INTERRUPTED = "interrupted by boundary timer"
"""The reason in the history of an execution that an interrupting timer ended; the instance goes on."""


class KernelResult(Struct, frozen=True):
    """The marking after an event, and the effects to carry out in the transaction that stores it."""

    marking: Marking
    effects: tuple[Effect, ...]


def start(net: Net, language: Language, data: JsonObject, moment: Moment) -> KernelResult:
    """A new instance with these data, advanced until every token rests or the instance has ended."""
    return advance(net, language, Marking(data=data), Started(), moment)


def advance(net: Net, language: Language, marking: Marking, event: Event, moment: Moment) -> KernelResult:
    """The instance after an event: the same marking and no effects when the event does not apply."""
    run = KernelRun(net, language, marking, moment)
    if run.phase == "RUNNING":
        _apply_while_running(run, event)
    elif run.phase == "FAILED":
        _apply_while_failed(run, event)
    if not run.effects and not run.agenda:
        return KernelResult(marking, ())
    _settle(run)
    complete_if_quiescent(run)
    return KernelResult(run.to_marking(), tuple(run.effects))


def is_waiting(net: Net, marking: Marking) -> bool:
    """Whether a running instance waits for a person or a signal at one of its nodes
    (docs/reference/steps.md#states).
    """
    return any(token.stage == "WORKING" and net.nodes[token.node].waits_for_outside for token in marking.tokens)


def _apply_while_running(run: KernelRun, event: Event) -> None:
    match event:
        case Started():
            _start(run)
        case TaskCompleted(task=task, output=output) if token := _find_token_for_work(run, task, Task):
            complete(run, token, output)
        case TaskFailed(task=task, reason=reason) if token := _find_token_for_work(run, task, Task):
            fail(run, token, reason)
        case HumanTaskCompleted(task=task, output=output, by=by) if token := _find_token_for_work(run, task, HumanTask):
            complete(run, token, output, by)
        case Signalled(node=node, output=output) if token := _find_token_for_signal(run, node):
            complete(run, token, output)
        case TimerFired(timer=timer):
            _fire_timer(run, timer)
        case ChildEnded() if token := _find_token_for_child(run, event.execution):
            if event.reason is None:
                complete(run, token, event.output)
            else:
                fail(run, token, event.reason)
        case Cancelled(reason=reason):
            mark_cancelled(run, reason)
        case _:
            pass  # it came too late, or does not apply


def _apply_while_failed(run: KernelRun, event: Event) -> None:
    """Hold what workers and children report; people, signals and timers have to wait for a retry
    (docs/reference/steps.md#retrying-a-failed-instance).
    """
    match event:
        case TaskCompleted(task=task, output=output) if token := _find_token_for_work(run, task, Task):
            hold_result(run, token, output)
        case ChildEnded() if token := _find_token_for_child(run, event.execution):
            if event.reason is None:
                hold_result(run, token, event.output)
            else:
                hold_failure(run, token, event.reason)
        case Retried() if token := run.find_oldest(event.node, "FAILED"):
            _retry(run, token, event.changes)
        case _:
            pass  # as above


def _settle(run: KernelRun) -> None:
    while run.phase == "RUNNING":
        if run.agenda:
            arrive(run, run.agenda.pop())
        elif run.held_results:
            resume(run, run.held_results.pop(0))
        else:
            return


def _start(run: KernelRun) -> None:
    if not run.attempts and not run.tokens:
        run.send(Move(target=entry) for entry in run.net.entries)


def _retry(run: KernelRun, token: Token, changes: JsonObject) -> None:
    """Enter the failed node again; then go on with the moves the failure stopped and the results held since."""
    run.data = run.language.patch(run.data, changes)
    run.phase = "RUNNING"
    run.reason = None
    run.emit(ChangePhase(phase="RUNNING"))
    run.emit(ReleaseWork())
    run.remove_token(token)
    run.send(
        [
            Move(
                target=token.node,
                source=token.source,
                branches=token.branches,
                payloads=token.payloads,
                admitted=True,
            )
        ]
    )


def _fire_timer(run: KernelRun, fired: TimerId) -> None:
    found = next(((token, armed) for token in run.tokens.values() for armed in token.timers if armed.id == fired), None)
    if found is None:
        return
    token, armed = found
    timer = run.get_node(token).timers[armed.index]
    run.emit(FireTimer(fired))
    token = replace(token, timers=tuple(other for other in token.timers if other is not armed))
    run.put_token(token)
    if timer.interrupting:
        run.remove_token(close(run, token, build_failed_closing(INTERRUPTED, work="CANCELLED")))
    run.send([Move(target=timer.target, source=token.node, branches=token.branches, payloads=token.payloads)])


def _find_token_for_work(run: KernelRun, work: WorkId, activity: type[Task | HumanTask]) -> Token | None:
    """The token that waits for this task; none when the task is done, withdrawn or of another kind."""
    token = next((token for token in run.tokens.values() if token.work == work), None)
    return token if token is not None and isinstance(run.get_node(token).activity, activity) else None


def _find_token_for_signal(run: KernelRun, node: NodeId) -> Token | None:
    token = run.find_oldest(node, "WORKING")
    return token if token is not None and isinstance(run.get_node(token).activity, Wait) else None


def _find_token_for_child(run: KernelRun, execution: ExecutionId) -> Token | None:
    token = run.tokens.get(execution)
    if token is None or token.stage != "WORKING" or not isinstance(run.get_node(token).activity, SubNet):
        return None
    return token
