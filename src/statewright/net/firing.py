"""What happens at a node: it fires, completes, is skipped or fails, and its token goes on."""

from msgspec.structs import replace

from statewright.jsonval.values import JsonValue
from statewright.net.endings import mark_completed, mark_failed
from statewright.net.executions import Closing, begin_activity, build_failed_closing, close, enter
from statewright.net.identifiers import ExecutionId
from statewright.net.language import Completed, Problem, Visit
from statewright.net.marking import Branch, Loop, Move, Outcome, Stage, Token
from statewright.net.nodes import Many, NoActivity, Node
from statewright.net.routing import Departure, choose_departure, depart
from statewright.net.run import KernelRun
from statewright.net.withdrawals import absorb_failure


def fire(run: KernelRun, node: Node, move: Move, branches: tuple[Branch, ...]) -> None:
    """Enter a node with the tokens of ``move`` and begin its work; one without activity is completed at once.

    Where enough activities run at the node, the token queues up instead.
    """
    if node.concurrency is not None and run.index.count_occupied((node.id, move.scope)) >= node.concurrency:
        _queue(run, move, branches)
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
        fail(run, token, verdict.reason)
    elif not verdict:
        skip(run, token, visit)
    elif isinstance(node.activity, NoActivity):
        complete(run, token, visit)
    elif isinstance(begun := begin_activity(run, token, node, entry_input), Problem):
        fail(run, token, begun.reason)
    elif isinstance(node.activity, Many):
        _begin_loop(run, token, visit)


def _queue(run: KernelRun, move: Move, branches: tuple[Branch, ...]) -> None:
    run.put_token(
        Token(
            id=ExecutionId(run.next_id()),
            node=move.target,
            attempt=0,
            stage="QUEUED",
            branches=branches,
            source=move.source,
            payloads=move.payloads,
            scope=move.scope,
        )
    )


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
        fail(run, token, items.reason)
        return
    run.loops[token.id] = Loop(token=token.id, size=len(items))
    run.due_loops[token.id] = None


def build_visit(run: KernelRun, token: Token, output: JsonValue = None, outcome: Outcome = "DONE") -> Visit | Problem:
    """The firing that a token at a node is about, with what came of it."""
    node = run.get_node(token)
    if token.owner is not None:
        entry_input: JsonValue | Problem = token.payloads[0]
    else:
        entry_input = run.language.build_input(run.data, node, token.payloads)
    if isinstance(entry_input, Problem):
        return entry_input
    visit = run.build_visit(node, token.payloads, entry_input)
    return replace(visit, output=output, outcome=outcome, element=token.element)


def finish(run: KernelRun, token: Token, output: JsonValue = None, by: str | None = None) -> None:
    """The outside world has done the node's activity."""
    visit = build_visit(run, token, output)
    if isinstance(visit, Problem):
        fail(run, token, visit.reason)
    else:
        complete(run, token, visit, by)


def complete(run: KernelRun, token: Token, visit: Visit, by: str | None = None) -> None:
    """The node's activity is done: apply its result and let the token go on."""
    node = visit.node
    completed = run.language.complete(run.data, visit)
    if isinstance(completed, Problem):
        fail(run, token, completed.reason)
        return
    departure = choose_departure(run, completed.data, replace(visit, outgoing=completed.payloads))
    if isinstance(departure, Problem) and isinstance(node.activity, NoActivity):
        fail(run, token, departure.reason)  # a node without activity has no other work than to find the way on
        return
    closing = Closing(status="COMPLETED", work="COMPLETED", output=completed.output, result=visit.output, by=by)
    _leave(run, close(run, token, closing), completed, departure)


def skip(run: KernelRun, token: Token, visit: Visit) -> None:
    """The guard of the node does not hold: let the token go on without the activity."""
    skipped = replace(visit, outcome="SKIPPED")
    completed = run.language.complete(run.data, skipped)
    if isinstance(completed, Problem):
        fail(run, token, completed.reason)
        return
    departure = choose_departure(run, completed.data, replace(skipped, outgoing=completed.payloads))
    closing = Closing(status="BYPASSED", work="CANCELLED", output=completed.output)
    _leave(run, close(run, token, closing), completed, departure)


def fail(run: KernelRun, token: Token, reason: str) -> None:
    """The execution failed for ``reason``: its token goes along the arcs for that, or a loop goes on without one
    element, or the instance fails.
    """
    has_budget = run.entered <= run.net.max_entries
    may_leave = has_budget and token.reason is None  # its arcs could lead round for ever
    if (may_leave and _leave_by_failure(run, token, reason)) or (has_budget and absorb_failure(run, token, reason)):
        return
    idle = close(run, token, build_failed_closing(reason))
    run.put_token(replace(idle, stage="FAILED", reason=reason))
    mark_failed(run, reason)


def resume(run: KernelRun, token: Token, output: JsonValue) -> None:
    """Let a token go on whose execution ended while the instance was not running."""
    visit = build_visit(run, token, output)
    completed = visit if isinstance(visit, Problem) else run.language.complete(run.data, visit)
    if isinstance(visit, Problem) or isinstance(completed, Problem):
        reason = completed.reason if isinstance(completed, Problem) else ""
        if absorb_failure(run, token, reason, is_closed=True):
            return
        stage: Stage = "STRANDED" if run.net.on_failure == "HOLD" else "FAILED"
        run.put_token(replace(token, stage=stage, reason=reason))
        mark_failed(run, reason)
        return
    departure = choose_departure(run, completed.data, replace(visit, outgoing=completed.payloads))
    _leave(run, token, completed, departure)


def depart_again(run: KernelRun, token: Token) -> None:
    """Look once more for a way on for a stranded token."""
    visit = run.build_visit(run.get_node(token), token.payloads, None)
    completed = Completed(data=run.data, payloads=token.payloads)
    _leave(run, token, completed, choose_departure(run, run.data, replace(visit, outgoing=token.payloads)))


def _leave(run: KernelRun, token: Token, completed: Completed, departure: Departure | Problem) -> None:
    node = run.get_node(token)
    run.data = completed.data
    if isinstance(departure, Problem):
        if absorb_failure(run, token, departure.reason, is_closed=True):
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
    run.remove_token(token)
    depart(run, token, departure, token.branches)
    node = run.get_node(token)
    if node.concurrency is None or (queued := run.index.find_queued((token.node, token.scope))) is None:
        return
    run.remove_token(queued)
    run.send([build_return(queued)])  # the next move, so that no token overtakes it


def build_return(token: Token) -> Move:
    """The move by which a token that rests at a node fires it on its own."""
    return Move(
        target=token.node,
        source=token.source,
        branches=token.branches,
        payloads=token.payloads,
        admitted=True,
        scope=token.scope,
    )


def _leave_by_failure(run: KernelRun, token: Token, reason: str) -> bool:
    """Take the arcs that are there for a failure; False when there is none, or none is open."""
    node = run.get_node(token)
    if token.owner is not None or not any("FAILED" in arc.on for arc in node.routing.arcs):
        return False
    visit = build_visit(run, token, reason, "FAILED")
    completed = visit if isinstance(visit, Problem) else run.language.complete(run.data, visit)
    if isinstance(visit, Problem) or isinstance(completed, Problem):
        return False
    departure = choose_departure(run, completed.data, replace(visit, outgoing=completed.payloads))
    if isinstance(departure, Problem) or not departure.arcs:
        return False
    run.data = completed.data
    _go_on(run, close(run, token, build_failed_closing(reason)), departure)
    return True
