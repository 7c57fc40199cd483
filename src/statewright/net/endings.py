"""How an instance ends, rests in a failure, or is stopped."""

from msgspec.structs import replace

from statewright.net.effects import StartChild
from statewright.net.executions import SKIPPED, close, disarm
from statewright.net.marking import Token
from statewright.net.run import KernelRun


def mark_completed(run: KernelRun, successor: str | None = None) -> None:
    """The instance is complete: executions that still run are skipped, and the successor starts (decision J5)."""
    _withdraw(run)
    run.clear()
    run.change_phase("COMPLETED")
    if successor is not None:
        run.emit(StartChild(net=successor, input=run.data))


def mark_cancelled(run: KernelRun, reason: str) -> None:
    """The instance is cancelled for ``reason``; its tokens stay and show how far it came."""
    _withdraw(run)
    for token in list(run.tokens.values()):
        run.put_token(replace(token, stage="WITHDRAWN"))
    run.change_phase("CANCELLED", reason)


def mark_failed(run: KernelRun, reason: str) -> None:
    """The instance failed for ``reason``; what else goes on is held for a retry, or left to end.

    One that has failed before, or is being terminated, stays what it is.
    """
    if not run.is_live:
        return
    run.change_phase("FAILED", reason)
    run.effects += run.net.on_failure.told_when_failed


def terminate(run: KernelRun) -> None:
    """Stop an instance so that it can be restarted: tasks are left to end, everything else is interrupted.

    At once, tasks too, when that was asked for before.
    """
    is_second = run.phase == "TERMINATING"
    for token in list(run.tokens.values()):
        if token.stage == "WORKING" and _is_interrupted(run, token, is_second=is_second):
            run.put_token(replace(close(run, token, SKIPPED), stage="INTERRUPTED"))
        elif token.timers:
            disarm(run, token)
            run.put_token(replace(token, timers=()))
    if not is_second:
        run.change_phase("TERMINATING")
    terminate_if_drained(run)


def _is_interrupted(run: KernelRun, token: Token, *, is_second: bool) -> bool:
    if token.id in run.loops:
        return False  # it does nothing itself, and goes on with the elements that have no result yet
    return is_second or token.work is None or run.get_node(token).waits_for_outside


def terminate_if_drained(run: KernelRun) -> None:
    """The instance is terminated once its last task has ended."""
    if run.phase == "TERMINATING" and not run.index.count_tasks():
        run.change_phase("TERMINATED")


def _withdraw(run: KernelRun) -> None:
    for token in list(run.tokens.values()):
        if token.stage == "WORKING":
            close(run, token, SKIPPED)
        elif token.timers:
            disarm(run, token)
            run.put_token(replace(token, timers=()))
    run.agenda.clear()
    run.held_results.clear()
