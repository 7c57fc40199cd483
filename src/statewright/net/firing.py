"""What happens at a node: it fires, completes, is skipped or fails, and its token goes on."""

from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.effects import RecordPatch, Trace, WorkStatus
from statewright.net.endings import mark_completed, mark_failed
from statewright.net.executions import (
    Closing,
    absorb_failure,
    begin_activity,
    build_failed_closing,
    close,
    end_badly,
    enqueue_task,
    enter,
    place_token,
    trace,
)
from statewright.net.language import Completed, Problem, Visit
from statewright.net.marking import Branch, Loop, Move, Outcome, Token
from statewright.net.nodes import Inline, Many, NoActivity, Node, Task
from statewright.net.routing import Departure, choose_departure, depart, trace_departure
from statewright.net.run import KernelRun


def fire(run: KernelRun, node: Node, move: Move, branches: tuple[Branch, ...]) -> None:
    """Enter a node with the tokens of ``move`` and begin its work; one without activity is completed at once.

    Where enough activities run at the node, the token queues up instead.
    """
    if node.concurrency is not None and run.index.count_occupied((node.id, move.scope)) >= node.concurrency:
        place_token(run, move, branches, "QUEUED")
        return
    built = run.language.build_input(run.data, node, move.payloads)
    entry_input = None if isinstance(built, Problem) else built
    token = enter(run, node, move, branches, entry_input)
    if (defect := _find_defect(run, node, token, built)) is not None:
        fail(run, token, defect)
        return
    visit = run.build_visit(node, move.payloads, entry_input)
    verdict = _decide_skipping(run, visit)
    if isinstance(verdict, Problem):
        fail(run, token, verdict.reason, verdict.error)
    elif not verdict:
        skip(run, token, visit)
    elif isinstance(node.activity, NoActivity):
        complete(run, token, visit)
    elif isinstance(node.activity, Inline):
        _perform(run, token, visit)
    elif isinstance(begun := begin_activity(run, token, node, entry_input), Problem):
        fail(run, token, begun.reason, begun.error)
    elif isinstance(node.activity, Many):
        _begin_loop(run, token, visit)


def _perform(run: KernelRun, token: Token, visit: Visit) -> None:
    performed = run.language.perform(run.data, visit)
    for note in performed.notes:
        if note.kind and run.net.traces:
            run.emit(Trace(kind=note.kind, node=token.node, token=token.id, details=note.details))
        if note.changes and (problem := apply_changes(run, token, note.changes)) is not None:
            fail(run, token, problem.reason, problem.error)
            return
    if performed.problem is None:
        complete(run, token, replace(visit, output=performed.output))
    else:
        fail(run, token, performed.problem.reason, performed.problem.error)


def apply_changes(run: KernelRun, token: Token, changes: JsonObject) -> Problem | None:
    """Have an execution change the shared data."""
    data = run.language.patch(run.data, changes)
    if isinstance(data, Problem):
        return data
    run.data = data
    run.emit(RecordPatch(changes, token.id))
    return None


def _find_defect(run: KernelRun, node: Node, token: Token, built: "JsonValue | Problem") -> str | None:
    if run.entered > run.net.max_entries:
        label = run.net.node_label
        return f"{label} budget exceeded ({run.net.max_entries} {label}s without a pause)"
    if token.reason is not None:
        return token.reason
    if node.defect is not None:
        return node.defect
    return built.reason if isinstance(built, Problem) else None


def _decide_skipping(run: KernelRun, visit: Visit) -> bool | Problem:
    """Whether the activity is begun. The guard of a loop is one of its items."""
    if visit.node.skip_unless is None or isinstance(visit.node.activity, Many):
        return True
    return run.language.evaluate_guard(visit.node.skip_unless, run.data, visit)


def _begin_loop(run: KernelRun, token: Token, visit: Visit) -> None:
    items = run.language.list_items(run.data, visit)
    if isinstance(items, Problem):
        fail(run, token, items.reason, items.error)
        return
    many = visit.node.activity
    static = many.limit if isinstance(many, Many) else None
    limit = run.language.choose_limit(run.data, visit, static)
    if isinstance(limit, Problem):
        fail(run, token, limit.reason, limit.error)
        return
    run.loops[token.id] = Loop(token=token.id, size=len(items), limit=limit)
    trace(run, token, "loop.started", size=len(items), limit=limit)
    run.due_loops[token.id] = None


def build_visit(run: KernelRun, token: Token, output: JsonValue = None, outcome: Outcome = "DONE") -> Visit | Problem:
    """The firing that a token at a node is about, with what came of it."""
    node = run.get_node(token)
    if token.owner is not None:
        entry_input: JsonValue | Problem = token.payloads[0]
    elif node.keeps_input:
        entry_input = token.input
    else:
        entry_input = run.language.build_input(run.data, node, token.payloads)
    if isinstance(entry_input, Problem):
        return entry_input
    visit = run.build_visit(node, token.payloads, entry_input)
    return replace(visit, output=output, outcome=outcome, element=token.element)


def resume_task(run: KernelRun, token: Token) -> None:
    """Request the task of a token that was paused."""
    visit, activity = build_visit(run, token), run.get_node(token).activity
    if isinstance(visit, Problem):
        fail(run, token, visit.reason, visit.error)
        return
    task = activity.body if isinstance(activity, Many) else activity
    assert isinstance(task, Task)  # noqa: S101 - nothing else is paused
    token = enqueue_task(run, replace(token, is_paused=False), task, visit.input)
    run.put_token(token)
    trace(run, token, "task.resumed", job=token.work)


def finish(run: KernelRun, token: Token, output: JsonValue = None, by: str | None = None) -> None:
    """The outside world has done the node's activity."""
    visit = build_visit(run, token, output)
    if isinstance(visit, Problem):
        fail(run, token, visit.reason, visit.error)
    else:
        complete(run, token, visit, by)


def complete(run: KernelRun, token: Token, visit: Visit, by: str | None = None) -> None:
    """The node's activity is done: apply its result and let the token go on."""
    node = visit.node
    completed = run.language.complete(run.data, visit)
    if isinstance(completed, Problem):
        fail(run, token, completed.reason, completed.error)
        return
    departure = _choose_way_on(run, token, visit, completed)
    if isinstance(departure, Problem) and run.net.on_failure.fails_without_way_on(node):
        fail(run, token, departure.reason, departure.error)
        return
    closing = Closing(status="COMPLETED", work="COMPLETED", output=completed.output, result=visit.output, by=by)
    _leave(run, close(run, token, closing), completed, departure)


def _choose_way_on(run: KernelRun, token: Token, visit: Visit, completed: Completed) -> Departure | Problem:
    """Where the token goes with what the node's activity changed, which is told if there is a way."""
    data = run.language.patch(completed.data, completed.changes) if completed.changes else completed.data
    if isinstance(data, Problem):
        return data
    departure: Departure | Problem = Departure(data=data)  # nothing comes after it
    if not token.is_final and not run.is_draining:
        departure = choose_departure(run, data, replace(visit, outgoing=completed.payloads))
    if completed.changes and not isinstance(departure, Problem):
        run.emit(RecordPatch(completed.changes, token.id))
    return departure


def skip(run: KernelRun, token: Token, visit: Visit) -> None:
    """The guard of the node does not hold: let the token go on without the activity."""
    skipped = replace(visit, outcome="SKIPPED")
    completed = run.language.complete(run.data, skipped)
    if isinstance(completed, Problem):
        fail(run, token, completed.reason, completed.error)
        return
    departure = choose_departure(run, completed.data, replace(skipped, outgoing=completed.payloads))
    closing = Closing(status="BYPASSED", work="CANCELLED", output=completed.output)
    _leave(run, close(run, token, closing), completed, departure)


def fail(run: KernelRun, token: Token, reason: str, error: JsonValue = None, *, work: WorkStatus = "FAILED") -> None:
    """The execution failed for ``reason``: its token goes along the arcs for that, or a loop goes on without one
    element, or the branch ends badly, or the instance fails.

    ``error``: what the language sees of it. ``work``: how its task is closed.
    """
    has_budget = run.entered <= run.net.max_entries
    closing = build_failed_closing(reason, error, work=work)
    visit = _build_failed_visit(run, token, reason if error is None else error) if has_budget else None
    if visit is not None and _leave_by_failure(run, token, visit, closing):
        return
    if has_budget and absorb_failure(run, token, closing):
        return
    idle = close(run, token, closing)
    run.put_token(replace(idle, stage="FAILED", reason=reason))
    if has_budget:
        run.net.on_failure.settle(run, token, reason, error, visit)
    else:
        mark_failed(run, reason)


def resume(run: KernelRun, token: Token, output: JsonValue) -> None:
    """Let a token go on whose execution ended while the instance was not running."""
    visit = build_visit(run, token, output)
    completed = visit if isinstance(visit, Problem) else run.language.complete(run.data, visit)
    if isinstance(visit, Problem) or isinstance(completed, Problem):
        reason = completed.reason if isinstance(completed, Problem) else ""
        if absorb_failure(run, token, build_failed_closing(reason), is_closed=True):
            return
        run.put_token(replace(token, stage=run.net.on_failure.refused_result, reason=reason))
        run.net.on_failure.settle(run, token, reason, None, None)
        return
    _leave(run, token, completed, _choose_way_on(run, token, visit, completed))


def depart_again(run: KernelRun, token: Token) -> None:
    """Look once more for a way on for a stranded token."""
    visit = run.build_visit(run.get_node(token), token.payloads, None)
    completed = Completed(data=run.data, payloads=token.payloads)
    _leave(run, token, completed, choose_departure(run, run.data, replace(visit, outgoing=token.payloads)))


def _leave(run: KernelRun, token: Token, completed: Completed, departure: Departure | Problem) -> None:
    node = run.get_node(token)
    run.data = completed.data if isinstance(departure, Problem) else departure.data
    if isinstance(departure, Problem):
        if absorb_failure(run, token, build_failed_closing(departure.reason), is_closed=True):
            return
        run.put_token(
            replace(token, stage="STRANDED", reason=departure.reason, payloads=completed.payloads)
        )  # its activity is done, and only a way on is missing
        mark_failed(run, departure.reason)
    elif node.ends:
        run.remove_token(token)
        mark_completed(run, node.successor)
    elif not node.routing.arcs and node.routing.stays:
        run.put_token(replace(token, stage="PARKED"))
    else:
        if node.yields:
            run.set_yielded(token.scope, completed.payloads)
        _go_on(run, token, departure)


def _go_on(run: KernelRun, token: Token, departure: Departure) -> None:
    if not token.is_final and not run.is_draining:
        trace_departure(run, token, departure)
    run.remove_token(token)
    if departure.failure is not None:
        end_badly(run, token.node, departure.failure)
    elif departure.arcs:
        depart(run, token, departure, token.branches)
    else:
        run.net.on_failure.end_branch(run, token)
    node = run.get_node(token)
    if node.concurrency is None or (queued := run.index.find_queued((token.node, token.scope))) is None:
        return
    run.remove_token(queued)
    run.send_next([build_return(queued)])  # the next move, so that no token overtakes it


def build_return(token: Token) -> Move:
    """The move by which a token that rests at a node fires it on its own."""
    return Move(
        target=token.node,
        source=token.source,
        branches=token.branches,
        payloads=token.payloads,
        admitted=True,
        scope=token.scope,
        is_final=token.is_final,
        cause="again",
    )


def _build_failed_visit(run: KernelRun, token: Token, error: JsonValue) -> Visit | None:
    """The firing that failed, where there are arcs for that; ``None``: the token does not go on."""
    if token.reason is not None or token.owner is not None:  # beyond a limit, arcs could lead round for ever
        return None
    if token.is_final or run.is_draining or not any("FAILED" in arc.on for arc in run.get_node(token).routing.arcs):
        return None
    visit = build_visit(run, token, error, "FAILED")
    return None if isinstance(visit, Problem) else visit


def _leave_by_failure(run: KernelRun, token: Token, visit: Visit, closing: Closing) -> bool:
    """Take the arcs that are there for a failure; False when none is open."""
    completed = run.language.complete(run.data, visit)
    if isinstance(completed, Problem):
        return False
    departure = choose_departure(run, completed.data, replace(visit, outgoing=completed.payloads))
    if isinstance(departure, Problem) or not departure.arcs:
        return False
    run.data = departure.data
    token = close(run, token, closing)
    if run.net.on_failure.is_handled_by(departure.arcs):
        _go_on(run, token, departure)
        return True
    # it moves on, though nobody said that this is expected: the failure counts, and the execution stays for a restart
    trace_departure(run, token, departure)
    run.put_token(replace(token, stage="FAILED", reason=closing.reason))
    depart(run, token, departure, token.branches)
    end_badly(run, token.node, closing.reason or "", closing.output, token.id)
    return True
