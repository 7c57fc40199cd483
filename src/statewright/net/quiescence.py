"""What becomes of an instance in which nothing moves or works any more (docs/reference/kernel.md#quiescence).

In this order: tokens that are not admitted, joins that are incomplete, the node that comes after all others, the end.
Whatever begins something puts the rest off until the instance is quiet again.
"""

from msgspec.structs import replace

from statewright.net.admission import expire
from statewright.net.arrivals import resolve_rounds
from statewright.net.endings import change_phase, complete_if_quiescent, mark_completed, mark_failed
from statewright.net.executions import PENDING_TOKENS, discard, end_well
from statewright.net.marking import Move, Token
from statewright.net.run import KernelRun


def conclude_if_quiescent(run: KernelRun) -> bool:
    """Conclude a net that ends by quiescence; True when something was begun instead."""
    if run.net.on_failure != "ROUTE":
        complete_if_quiescent(run)
        return False
    if not run.is_live or run.agenda or any(run.index.count(stage) for stage in ("WORKING", "QUEUED", "READY")):
        return False
    if pending := [token for token in run.tokens.values() if token.stage == "PENDING"]:
        if run.net.on_pending == "WAIT":
            if run.phase == "RUNNING":
                change_phase(run, "WAITING")
            return False
        _discard_pending(run, pending)
        return True
    if resolve_rounds(run):
        return True
    if _begin_finalizer(run):
        return True
    _judge(run)
    return False


def _discard_pending(run: KernelRun, pending: list[Token]) -> None:
    fails = run.net.on_pending == "FAIL"
    if fails:
        run.tally = replace(run.tally, verdict=PENDING_TOKENS)
    for token in pending:
        if token.id not in run.tokens:
            continue  # the first of them discarded the rest
        if fails:
            expire(run, token, PENDING_TOKENS)
        else:
            discard(run, token, "quiescence")
            end_well(run, token)


def _begin_finalizer(run: KernelRun) -> bool:
    finalizer = run.net.finalizer
    if finalizer is None:
        return False
    is_due = run.tally.final == "AGAIN" or (run.tally.final is None and not run.attempts.get(finalizer, 0))
    if not is_due:
        return False
    summary = run.language.summarize(run.data, run.tally, run.attempts)
    run.tally = replace(run.tally, final="RUNNING")
    if run.phase == "WAITING":
        change_phase(run, "RUNNING")
    run.send([Move(target=finalizer, payloads=(summary,), admitted=True, is_final=True, cause="final")])
    return True


def _judge(run: KernelRun) -> None:
    concluded = run.language.judge(run.data, run.tally)
    run.result, run.warning = concluded.result, concluded.warning
    run.yielded = None
    if concluded.failure is None:
        mark_completed(run)
    else:
        mark_failed(run, concluded.failure)
