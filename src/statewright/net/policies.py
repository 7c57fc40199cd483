"""What a language hands to the kernel with its nets: how failures are taken, and how a quiet instance ends.

:data:`HOLD` and :data:`DRAIN` fail the instance, :data:`ROUTE` the branch.

An instance is quiet when nothing moves or works in it any more (docs/reference/kernel.md#quiescence). In this order:
tokens that are not admitted, joins that are incomplete, the node that comes after all others, the end. Whatever begins
something puts the rest off until the instance is quiet again.
"""

from typing import Final

from msgspec.structs import replace

from statewright.jsonval.values import JsonValue
from statewright.net.admission import expire
from statewright.net.arrivals import resolve_rounds
from statewright.net.effects import Cancelled, HoldWork, Patched, ReleaseWork, TaskFailed
from statewright.net.endings import mark_completed, mark_failed
from statewright.net.executions import PENDING_TOKENS, count_success, discard, end_badly
from statewright.net.language import Concluded, Problem, Visit
from statewright.net.marking import Move, Token
from statewright.net.nodes import NoActivity
from statewright.net.routing import Departure, choose_departure, trace_departure
from statewright.net.run import FailureRule, KernelRun


def begin_if_quiescent(run: KernelRun) -> bool:
    """Have a quiet instance begin something, else end as its net says; True when something was begun."""
    if run.net.ending is None or not run.is_live or run.agenda:
        return False
    index = run.index
    if index.count("WORKING") or index.count("QUEUED") or index.count("READY"):
        return False
    if index.count("PENDING"):
        return _resolve_pending(run)
    if resolve_rounds(run) or _begin_finalizer(run):
        return True
    run.net.ending(run)
    return False


def conclude_by_language(run: KernelRun) -> None:
    """The end of an instance by what its last nodes yielded."""
    waiting = dict.fromkeys(token.node for token in run.tokens.values() if token.stage == "WAITING")
    concluded = run.language.conclude(run.data, run.yielded, tuple(waiting))
    if isinstance(concluded, Problem):
        mark_failed(run, concluded.reason)
    elif concluded is not None:
        _end(run, concluded)


def judge_branches(run: KernelRun) -> None:
    """The end of an instance by what became of its branches, where they are counted."""
    _end(run, run.language.judge(run.data, run.tally))


def _end(run: KernelRun, concluded: Concluded) -> None:
    run.result, run.warning = concluded.result, concluded.warning
    run.yielded = None
    if concluded.failure is None:
        mark_completed(run)
    else:
        mark_failed(run, concluded.failure)


def _resolve_pending(run: KernelRun) -> bool:
    """Decide about tokens that are not admitted, when nothing else is left; False when they wait on."""
    if run.net.on_pending == "WAIT":
        if run.phase == "RUNNING":
            run.change_phase("WAITING")
        return False
    fails = run.net.on_pending == "FAIL"
    if fails:
        run.tally = replace(run.tally, verdict=PENDING_TOKENS)
    for token in [token for token in run.tokens.values() if token.stage == "PENDING"]:
        if token.id not in run.tokens:
            continue  # the first of them discarded the rest
        if fails:
            expire(run, token, PENDING_TOKENS)
        else:
            discard(run, token, "quiescence")
            run.net.on_failure.end_branch(run, token)
    return True


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
        run.change_phase("RUNNING")
    run.send([Move(target=finalizer, payloads=(summary,), admitted=True, is_final=True, cause="final")])
    return True


def _fail_instance(run: KernelRun, _token: Token, reason: str, _error: JsonValue, _visit: Visit | None) -> None:
    mark_failed(run, reason)


def _fail_branch(run: KernelRun, token: Token, reason: str, error: JsonValue, visit: Visit | None) -> None:
    """Tell that no arc was taken, and end the branch."""
    if visit is not None and run.net.traces:
        departure = choose_departure(run, run.data, visit)
        defects = ((-1, departure.reason),) if isinstance(departure, Problem) else departure.defects
        trace_departure(run, token, Departure(data=run.data, defects=defects))
    end_badly(run, token.node, reason, error, token.id, is_final=token.is_final)


DRAIN: Final = FailureRule(
    settle=_fail_instance,
    end_branch=lambda _run, _token: None,
    judge_dead_end=lambda problem: problem,
    # a node without activity has no other work than to find the way on
    fails_without_way_on=lambda node: isinstance(node.activity, NoActivity),
    is_handled_by=lambda _: True,
)
"""The instance fails; what runs is left to end, further failures are listed, and a restart begins all of them again."""

HOLD: Final = replace(
    DRAIN,
    told_when_failed=(HoldWork(),),
    told_when_resumed=(ReleaseWork(),),
    refused_while_stopped=(TaskFailed, Cancelled, Patched),
    refused_result="STRANDED",
)
"""The instance fails; its tasks and timers are held, to go on after the retry of the node."""

ROUTE: Final = FailureRule(
    settle=_fail_branch,
    end_branch=count_success,
    judge_dead_end=lambda _: None,
    fails_without_way_on=lambda _: True,  # there may be one after the failure
    is_handled_by=lambda arcs: any(arc.guard is not None for arc in arcs),  # else nobody said that it is expected
)
"""A failure ends its branch; the instance is judged when it is quiet."""
