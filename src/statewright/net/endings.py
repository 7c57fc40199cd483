"""How an instance ends: complete, failed or cancelled."""

from msgspec.structs import replace

from statewright.net.effects import ChangePhase, HoldWork, StartChild
from statewright.net.executions import SKIPPED, close
from statewright.net.marking import Token
from statewright.net.run import Run


def finish(run: Run, successor: str | None = None) -> None:
    """The instance is complete: whatever is still going on is withdrawn, and the successor starts (decision J5)."""
    _withdraw(run)
    run.tokens.clear()
    run.phase = "COMPLETED"
    run.tell(ChangePhase(phase="COMPLETED"))
    if successor is not None:
        run.tell(StartChild(net=successor, input=run.data))


def cancel(run: Run, reason: str) -> None:
    """The instance is stopped; its tokens show where."""
    _withdraw(run)
    for token in list(run.tokens.values()):
        run.rest(replace(token, stage="WITHDRAWN"))
    run.phase = "CANCELLED"
    run.reason = reason
    run.tell(ChangePhase(phase="CANCELLED", reason=reason))


def fail(run: Run, reason: str) -> None:
    """The instance failed; everything else that goes on is kept for a retry."""
    run.phase = "FAILED"
    run.reason = reason
    run.tell(ChangePhase(phase="FAILED", reason=reason))
    run.tell(HoldWork())


def finish_when_quiet(run: Run) -> None:
    """Complete a net that has no end nodes, once nothing of it moves or waits for others."""
    if run.phase != "RUNNING" or run.net.ending != "QUIESCENCE":
        return
    if not any(token.stage in ("WORKING", "WAITING") for token in run.tokens.values()):
        finish(run)


def _withdraw(run: Run) -> None:
    for token in list(run.tokens.values()):
        if _has_running_execution(token):
            close(run, token, SKIPPED)
    run.agenda.clear()
    run.answers.clear()


def _has_running_execution(token: Token) -> bool:
    return token.stage == "WORKING"
