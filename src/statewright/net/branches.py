"""How branches end where failures are routed: well, badly, or by being discarded; and what is counted of it."""

from typing import Final

from msgspec.structs import replace

from statewright.jsonval.values import JsonValue
from statewright.net.effects import DisarmTimer, Trace
from statewright.net.identifiers import ExecutionId, NodeId
from statewright.net.marking import MAX_FAILURES, BranchFailure, Stage, Token
from statewright.net.run import KernelRun

TIMED_OUT: Final = "TIMEOUT"
"""The reason of what took longer than its node allows."""
PENDING_TOKENS: Final = "PENDING_TOKENS"
INCOMPLETE_JOIN: Final = "INCOMPLETE_JOIN"
GUARD_ERROR: Final = "GUARD_ERROR"
"""The reason of a branch that has no way on since guards could not be evaluated."""

_NOT_BEGUN: Final[frozenset[Stage]] = frozenset({"READY", "PENDING", "WAITING", "QUEUED"})


def end_well(run: KernelRun, token: Token) -> None:
    """A branch came to its end."""
    if run.net.on_failure != "ROUTE" or token.scope is not None:
        return
    if token.is_final:
        run.tally = replace(run.tally, final="DONE")
    else:
        run.tally = replace(run.tally, succeeded=run.tally.succeeded + 1)
    if run.net.traces:
        run.emit(Trace(kind="branch.done", node=token.node, token=token.id, details={"final": token.is_final}))


def end_badly(
    run: KernelRun,
    node: NodeId,
    reason: str,
    error: JsonValue = None,
    execution: ExecutionId | None = None,
    *,
    is_final: bool = False,
) -> None:
    """A branch failed, and nothing was there for it; ``execution``: what a restart begins again."""
    failure = BranchFailure(node=node, reason=reason, error=error, execution=execution)
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
    failures = tuple(failure for failure in tally.failures if failure.execution != token.id)
    if token.is_final:
        run.tally = replace(tally, failures=failures, final="AGAIN")
    else:
        run.tally = replace(tally, failures=failures, failed=max(0, tally.failed - 1))


def discard(run: KernelRun, token: Token, reason: str) -> None:
    """Remove a token that has not begun."""
    disarm(run, token)
    run.remove_token(token)
    if run.net.traces:
        run.emit(Trace(kind="token.discarded", node=token.node, token=token.id, details={"reason": reason}))


def disarm(run: KernelRun, token: Token) -> None:
    """Take down the timers of a token that has not begun."""
    for timer in token.timers:
        run.emit(DisarmTimer(timer.id))


def _discard_what_has_not_begun(run: KernelRun) -> None:
    for token in [token for token in run.tokens.values() if token.stage in _NOT_BEGUN and token.scope is None]:
        discard(run, token, "fail_fast")
        end_well(run, token)
    run.rounds = {place: each for place, each in run.rounds.items() if place[1] is not None}
