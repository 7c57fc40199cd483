"""Executions: entering a node, and leaving it with everything that was set up for it taken down."""

from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonValue
from statewright.net.durations import due
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
    WorkStatus,
)
from statewright.net.identifiers import ExecutionId, NodeId, TimerId, WorkId
from statewright.net.language import Problem
from statewright.net.marking import Branch, Move, PendingTimer, Token
from statewright.net.nodes import Human, Node, Nothing, SubNet, Task, Wait
from statewright.net.run import Run


class Closing(Struct, frozen=True, kw_only=True):
    """How an execution ends."""

    status: ExitStatus
    work: WorkStatus
    """What becomes of its task."""
    output: JsonValue = None
    """For the history."""
    reason: str | None = None
    result: JsonValue = None
    """What a person sent."""
    by: str | None = None


SKIPPED = Closing(status="SKIPPED", work="CANCELLED")
"""The instance ended elsewhere."""


def failing(reason: str, *, work: WorkStatus = "FAILED") -> Closing:
    """The end of an execution that failed."""
    return Closing(status="FAILED", work=work, reason=reason)


def enter(run: Run, node: NodeId, move: Move, branches: tuple[Branch, ...], entry_input: JsonValue) -> Token:
    """A new execution of a node, with its token put down there."""
    attempt = run.attempts.get(node, 0) + 1
    run.attempts[node] = attempt
    run.entered += 1
    token = Token(
        id=ExecutionId(run.mint()),
        node=node,
        attempt=attempt,
        branches=branches,
        source=move.source,
        payloads=move.payloads,
    )
    run.rest(token)
    run.tell(RecordEntry(execution=token.id, node=node, attempt=attempt, input=entry_input))
    return token


def set_up(run: Run, token: Token, node: Node, entry_input: JsonValue) -> Token | Problem:
    """Begin the node's activity and arm its timers."""
    token = _begun(run, token, node, entry_input)
    run.rest(token)
    for index, timer in enumerate(node.timers):
        at = due(run.at, timer.delay)
        if at is None:
            return Problem(f'{run.net.noun} "{node.id}" boundaryEvents[{index}]: duration ends after the year 9999')
        armed = PendingTimer(TimerId(run.mint()), index)
        token = replace(token, timers=(*token.timers, armed))
        run.rest(token)
        run.tell(
            ArmTimer(
                timer=armed.id,
                execution=token.id,
                node=node.id,
                at=at,
                target=timer.target,
                interrupting=timer.interrupting,
            )
        )
    return token


def _begun(run: Run, token: Token, node: Node, entry_input: JsonValue) -> Token:
    match node.activity:
        case Task(kind=kind, retries=retries):
            work = WorkId(run.mint())
            run.tell(
                EnqueueTask(task=work, execution=token.id, node=node.id, kind=kind, retries=retries, input=entry_input)
            )
            return replace(token, work=work)
        case Human(kind=kind):
            work = WorkId(run.mint())
            run.tell(OpenHumanTask(task=work, execution=token.id, node=node.id, kind=kind, input=entry_input))
            return replace(token, work=work)
        case SubNet(net=net):
            run.tell(StartChild(net=net, input=entry_input, awaited_by=token.id))
            return token
        case Nothing() | Wait():
            return token
        case unknown:
            assert_never(unknown)


def close(run: Run, token: Token, closing: Closing) -> Token:
    """End a token's execution. The token stays where it is, without work and timers."""
    current = run.tokens.get(token.id, token)
    for timer in current.timers:
        run.tell(DisarmTimer(timer.id))
    _close_work(run, current, closing)
    run.tell(
        RecordExit(
            execution=current.id,
            node=current.node,
            status=closing.status,
            output=closing.output,
            reason=closing.reason,
        )
    )
    idle = replace(current, work=None, timers=())
    run.rest(idle)
    return idle


def _close_work(run: Run, token: Token, closing: Closing) -> None:
    match run.node_of(token).activity:
        case Task() if token.work is not None:
            run.tell(CloseTask(task=token.work, status=closing.work))
        case Human() if token.work is not None:
            run.tell(
                CloseHumanTask(task=token.work, status=closing.work, result=closing.result, by=closing.by),
            )
        case SubNet() if closing.work == "CANCELLED":
            run.tell(CancelChild(token.id))
        case _:
            pass
