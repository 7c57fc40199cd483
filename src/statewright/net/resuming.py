"""Instances that are not running: results that come meanwhile, and how they go on."""

from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.admission import reconsider
from statewright.net.branches import end_badly, forgive
from statewright.net.effects import ReleaseWork
from statewright.net.endings import change_phase, mark_failed
from statewright.net.executions import Closing, build_failed_closing, close
from statewright.net.firing import build_return, depart_again, resume
from statewright.net.language import Problem
from statewright.net.loops import complete_element, repeat_element
from statewright.net.marking import HeldResult, Move, Token
from statewright.net.run import KernelRun
from statewright.net.withdrawals import absorb_failure


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
        if run.net.on_failure == "ROUTE":
            end_badly(run, token.node, held.reason, execution=token.id, is_final=token.is_final)
        else:
            mark_failed(run, held.reason)
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
    run.send(moves)


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
    _overlook_failures(run)
    reconsider(run)
    run.send(moves)
    run.due_loops |= dict.fromkeys(run.loops)
    run.due_scopes |= dict.fromkeys(run.scopes)


def _take_back(run: KernelRun, token: Token) -> list[Move]:
    """Have a token begin again; the one that comes after all others does when the instance is quiet."""
    if token.stage == "FAILED" and run.net.on_failure == "ROUTE":
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
    change_phase(run, "RUNNING")
    if run.net.on_failure == "HOLD":
        run.emit(ReleaseWork())
