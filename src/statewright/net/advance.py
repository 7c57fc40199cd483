"""The kernel: one function from a state and an event to a new state and effects.

``advance`` does no I/O, reads no clock and draws no random numbers: instant and ids come in with the event. Everything
between two pauses happens in one call: tokens move until each of them rests (at an activity that the outside world
must finish, at a join, where there is no way on) or the instance is over (spec/step-engine.md §5.1). A branch goes on
until it rests before the next one starts.

No effects means that nothing happened: the event no longer applied, and the very same marking comes back.
"""

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject
from statewright.net import endings
from statewright.net.arrivals import arrive
from statewright.net.effects import ChangePhase, Effect, FireTimer, ReleaseWork
from statewright.net.events import (
    Cancelled,
    ChildEnded,
    Event,
    HumanCompleted,
    Retried,
    Signalled,
    Started,
    TaskCompleted,
    TaskFailed,
    TimerFired,
)
from statewright.net.executions import close, failing
from statewright.net.firing import complete, fail, keep_answer, keep_failure, resume
from statewright.net.identifiers import ExecutionId, Moment, NodeId, TimerId, WorkId
from statewright.net.language import Language
from statewright.net.marking import Marking, Move, Token
from statewright.net.nodes import Human, Net, SubNet, Task, Wait
from statewright.net.run import Run

INTERRUPTED = "interrupted by boundary timer"
"""Why an execution failed that a timer ended; the instance goes on."""


class Advance(Struct, frozen=True):
    """A new state, and what the shell has to carry out together with storing it."""

    marking: Marking
    effects: tuple[Effect, ...]


def start(net: Net, language: Language, data: JsonObject, moment: Moment) -> Advance:
    """A new instance, moved as far as it goes without the outside world."""
    return advance(net, language, Marking(data=data), Started(), moment)


def advance(net: Net, language: Language, marking: Marking, event: Event, moment: Moment) -> Advance:
    """The instance after an event."""
    run = Run(net, language, marking, moment)
    if run.phase == "RUNNING":
        _while_running(run, event)
    elif run.phase == "FAILED":
        _while_failed(run, event)
    if not run.effects and not run.agenda:
        return Advance(marking, ())
    _settle(run)
    endings.finish_when_quiet(run)
    return Advance(run.marking(), tuple(run.effects))


def is_waiting(net: Net, marking: Marking) -> bool:
    """Whether a running instance waits for a person or a signal at one of its nodes (spec/step-engine.md §4)."""
    return any(token.stage == "WORKING" and net.nodes[token.node].parks for token in marking.tokens)


def _while_running(run: Run, event: Event) -> None:
    match event:
        case Started():
            _start(run)
        case TaskCompleted(task=task, output=output) if token := _at_work(run, task, Task):
            complete(run, token, output)
        case TaskFailed(task=task, reason=reason) if token := _at_work(run, task, Task):
            fail(run, token, reason)
        case HumanCompleted(task=task, output=output, by=by) if token := _at_work(run, task, Human):
            complete(run, token, output, by)
        case Signalled(node=node, output=output) if token := _parked(run, node):
            complete(run, token, output)
        case TimerFired(timer=timer):
            _fire_timer(run, timer)
        case ChildEnded() if token := _awaiting(run, event.execution):
            if event.reason is None:
                complete(run, token, event.output)
            else:
                fail(run, token, event.reason)
        case Cancelled(reason=reason):
            endings.cancel(run, reason)
        case _:
            pass  # it came too late, or does not apply


def _while_failed(run: Run, event: Event) -> None:
    """What others report is kept; people, signals and timers have to wait for a retry (spec/step-engine.md §14.3)."""
    match event:
        case TaskCompleted(task=task, output=output) if token := _at_work(run, task, Task):
            keep_answer(run, token, output)
        case ChildEnded() if token := _awaiting(run, event.execution):
            if event.reason is None:
                keep_answer(run, token, event.output)
            else:
                keep_failure(run, token, event.reason)
        case Retried() if token := run.oldest_at(event.node, "FAILED"):
            _retry(run, token, event.changes)
        case _:
            pass  # as above


def _settle(run: Run) -> None:
    while run.phase == "RUNNING":
        if run.agenda:
            arrive(run, run.agenda.pop())
        elif run.answers:
            resume(run, run.answers.pop(0))
        else:
            return


def _start(run: Run) -> None:
    if not run.attempts and not run.tokens:
        run.send(Move(target=entry) for entry in run.net.entries)


def _retry(run: Run, token: Token, changes: JsonObject) -> None:
    """Have the failed node entered again; then go on with what the failure stopped, and with what came since."""
    run.data = run.language.patch(run.data, changes)
    run.phase = "RUNNING"
    run.reason = None
    run.tell(ChangePhase(phase="RUNNING"))
    run.tell(ReleaseWork())
    run.take(token)
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


def _fire_timer(run: Run, fired: TimerId) -> None:
    found = next(((token, armed) for token in run.tokens.values() for armed in token.timers if armed.id == fired), None)
    if found is None:
        return
    token, armed = found
    timer = run.node_of(token).timers[armed.index]
    run.tell(FireTimer(fired))
    token = replace(token, timers=tuple(other for other in token.timers if other is not armed))
    run.rest(token)
    if timer.interrupting:
        run.take(close(run, token, failing(INTERRUPTED, work="CANCELLED")))
    run.send([Move(target=timer.target, source=token.node, branches=token.branches, payloads=token.payloads)])


def _at_work(run: Run, work: WorkId, activity: type[Task | Human]) -> Token | None:
    """The token that waits for this task; none when the task is done, withdrawn or of another kind."""
    token = next((token for token in run.tokens.values() if token.work == work), None)
    return token if token is not None and isinstance(run.node_of(token).activity, activity) else None


def _parked(run: Run, node: NodeId) -> Token | None:
    token = run.oldest_at(node, "WORKING")
    return token if token is not None and isinstance(run.node_of(token).activity, Wait) else None


def _awaiting(run: Run, execution: ExecutionId) -> Token | None:
    token = run.tokens.get(execution)
    if token is None or token.stage != "WORKING" or not isinstance(run.node_of(token).activity, SubNet):
        return None
    return token
