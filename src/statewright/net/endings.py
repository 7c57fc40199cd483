"""How an instance ends, rests in a failure, or is stopped."""

from msgspec.structs import replace

from statewright.net.effects import ChangePhase, DisarmTimer, HoldWork, StartChild
from statewright.net.executions import SKIPPED, close
from statewright.net.language import Problem
from statewright.net.marking import Phase, Token
from statewright.net.run import KernelRun


def mark_completed(run: KernelRun, successor: str | None = None) -> None:
    """The instance is complete: executions that still run are skipped, and the successor starts (decision J5)."""
    _withdraw(run)
    run.clear()
    change_phase(run, "COMPLETED")
    if successor is not None:
        run.emit(StartChild(net=successor, input=run.data))


def mark_cancelled(run: KernelRun, reason: str) -> None:
    """The instance is cancelled for ``reason``; its tokens stay and show how far it came."""
    _withdraw(run)
    for token in list(run.tokens.values()):
        run.put_token(replace(token, stage="WITHDRAWN"))
    change_phase(run, "CANCELLED", reason)


def mark_failed(run: KernelRun, reason: str) -> None:
    """The instance failed for ``reason``; what else goes on is held for a retry, or left to end.

    One that has failed before, or is being terminated, stays what it is.
    """
    if not run.is_live:
        return
    change_phase(run, "FAILED", reason)
    if run.net.on_failure == "HOLD":
        run.emit(HoldWork())


def change_phase(run: KernelRun, phase: Phase, reason: str | None = None) -> None:
    """Record another phase; ``reason`` replaces the present one."""
    run.phase = phase
    run.reason = reason
    run.emit(ChangePhase(phase=phase, reason=reason))


def complete_if_quiescent(run: KernelRun) -> None:
    """Conclude a net that has no end nodes, once no token moves or works."""
    if run.phase != "RUNNING" or run.net.ending != "QUIESCENCE":
        return
    if run.index.count("WORKING") or run.index.count("QUEUED"):
        return
    waiting = dict.fromkeys(token.node for token in run.tokens.values() if token.stage == "WAITING")
    concluded = run.language.conclude(run.data, run.yielded, tuple(waiting))
    if isinstance(concluded, Problem):
        mark_failed(run, concluded.reason)
    elif concluded is not None:
        run.result, run.warning = concluded.result, concluded.warning
        run.yielded = None
        mark_completed(run)


def terminate(run: KernelRun) -> None:
    """Stop an instance so that it can be restarted: tasks are left to end, everything else is interrupted.

    At once, tasks too, when that was asked for before.
    """
    is_second = run.phase == "TERMINATING"
    for token in list(run.tokens.values()):
        if token.stage == "WORKING" and _is_interrupted(run, token, is_second=is_second):
            run.put_token(replace(close(run, token, SKIPPED), stage="INTERRUPTED"))
        elif token.timers:
            for timer in token.timers:
                run.emit(DisarmTimer(timer.id))
            run.put_token(replace(token, timers=()))
    if not is_second:
        change_phase(run, "TERMINATING")
    terminate_if_drained(run)


def _is_interrupted(run: KernelRun, token: Token, *, is_second: bool) -> bool:
    if token.id in run.loops:
        return False  # it does nothing itself, and goes on with the elements that have no result yet
    return is_second or token.work is None or run.get_node(token).waits_for_outside


def terminate_if_drained(run: KernelRun) -> None:
    """The instance is terminated once its last task has ended."""
    if run.phase == "TERMINATING" and not run.index.count_tasks():
        change_phase(run, "TERMINATED")


def _withdraw(run: KernelRun) -> None:
    for token in list(run.tokens.values()):
        if token.stage == "WORKING":
            close(run, token, SKIPPED)
        elif token.timers:
            for timer in token.timers:
                run.emit(DisarmTimer(timer.id))
            run.put_token(replace(token, timers=()))
    run.agenda.clear()
    run.held_results.clear()
