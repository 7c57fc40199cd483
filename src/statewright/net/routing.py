"""Where tokens go when a node is left: the arcs that are taken, and what is carried along them."""

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.effects import RecordPatch, Trace
from statewright.net.executions import GUARD_ERROR, give_up
from statewright.net.language import Problem, Visit
from statewright.net.marking import Activation, ActivationId, Branch, Move, Token
from statewright.net.nodes import Arc
from statewright.net.run import TOO_MANY, KernelRun


class Departure(Struct, frozen=True, kw_only=True):
    """The arcs that tokens take, and the payloads they carry along each."""

    data: JsonObject
    """With what taking the arcs has changed."""
    arcs: tuple[Arc, ...] = ()
    payloads: tuple[tuple[JsonValue, ...], ...] = ()
    changes: tuple[JsonObject, ...] = ()
    defects: tuple[tuple[int, str], ...] = ()
    """Arcs whose guard could not be evaluated, and why, where that does not fail the node."""
    failure: str | None = None
    """Why the branch ends badly, where failures are routed."""


def choose_departure(run: KernelRun, data: JsonObject, visit: Visit) -> Departure | Problem:
    """The arcs that are taken; none when the node has none, or when its language lets a token end there."""
    node, routing = visit.node, visit.node.routing
    candidates = tuple(arc for arc in routing.arcs if visit.outcome in arc.on)
    chosen = _choose_arcs(run, candidates, data, visit)
    if isinstance(chosen, Problem):
        return chosen
    arcs, defects = chosen
    if not arcs:
        failure = GUARD_ERROR if defects else routing.unmatched if routing.arcs else None
        problem = None if failure is None else run.net.on_failure.judge_dead_end(Problem(failure))
        return problem or Departure(data=data, defects=defects, failure=failure)
    for arc in arcs:
        if arc.target not in run.net.nodes:
            return Problem(f'{run.net.node_label} "{node.id}" leads to unknown {run.net.node_label} "{arc.target}"')
    return _inscribe(run, arcs, data, visit, defects)


def depart(run: KernelRun, token: Token, departure: Departure, branches: tuple[Branch, ...]) -> None:
    """Send a token along each of the arcs; as branches of a new activation where they are to be joined again."""
    node = run.get_node(token)
    for changes in departure.changes:
        run.emit(RecordPatch(changes, token.id))
    limit = run.net.max_tokens
    if limit is not None and len(run.tokens) + len(run.agenda) + len(departure.arcs) > limit:
        give_up(run, node.id, TOO_MANY)
        return
    memberships = [branches] * len(departure.arcs)
    if node.routing.join_node is not None:
        activation = Activation(id=ActivationId(run.next_id()), join=node.routing.join_node, size=len(departure.arcs))
        run.activations[activation.id] = activation
        memberships = [(*branches, Branch(activation.id, index)) for index in range(len(departure.arcs))]
    run.send(
        Move(
            target=arc.target,
            source=arc.source or node.id,
            branches=membership,
            payloads=payloads,
            scope=token.scope,
            cause=f"{token.id}#{node.routing.arcs.index(arc)}" if run.net.traces else None,
        )
        for arc, membership, payloads in zip(departure.arcs, memberships, departure.payloads, strict=True)
    )


def trace_departure(run: KernelRun, token: Token, departure: Departure) -> None:
    """Tell which arcs of a node that has some are taken."""
    routing = run.get_node(token).routing
    if not run.net.traces or not routing.arcs:
        return
    selected: list[JsonValue] = [
        {"arc": routing.arcs.index(arc), "target": arc.target, "payloads": list(payloads)}
        for arc, payloads in zip(departure.arcs, departure.payloads, strict=True)
    ]
    defects: list[JsonValue] = [{"arc": arc, "reason": reason} for arc, reason in departure.defects]
    details: JsonObject = {"mode": routing.mode, "selected": selected, "defects": defects}
    run.emit(Trace(kind="arcs.evaluated", node=token.node, token=token.id, details=details))


def _choose_arcs(
    run: KernelRun, arcs: tuple[Arc, ...], data: JsonObject, visit: Visit
) -> tuple[tuple[Arc, ...], tuple[tuple[int, str], ...]] | Problem:
    """The arcs that are open, as many as the mode takes, and those that could not be evaluated."""
    mode = visit.node.routing.mode
    if mode == "ALL":
        return arcs, ()
    taken: list[Arc] = []
    defects: list[tuple[int, str]] = []
    for arc in arcs:
        verdict = True if arc.guard is None else run.language.evaluate_guard(arc.guard, data, visit)
        if isinstance(verdict, Problem):
            if (problem := run.net.on_failure.judge_dead_end(verdict)) is not None:
                return problem
            defects.append((visit.node.routing.arcs.index(arc), verdict.reason))
        elif verdict:
            taken.append(arc)
            if mode == "FIRST":
                break
    return tuple(taken), tuple(defects)


def _inscribe(
    run: KernelRun, arcs: tuple[Arc, ...], data: JsonObject, visit: Visit, defects: tuple[tuple[int, str], ...]
) -> Departure | Problem:
    """First what the arcs change, then what they carry, which sees all of that."""
    all_changes: list[JsonObject] = []
    for arc in arcs:
        if arc.assignment is None:
            continue
        changes = run.language.assign(arc.assignment, data, visit)
        if isinstance(changes, Problem):
            return changes
        changed = run.language.patch(data, changes)
        if isinstance(changed, Problem):
            return changed
        all_changes.append(changes)
        data = changed
    payloads: list[tuple[JsonValue, ...]] = []
    for arc in arcs:
        if arc.payload is None:
            payloads.append(visit.outgoing)
            continue
        value = run.language.inscribe(arc.payload, data, visit)
        if isinstance(value, Problem):
            return value
        payloads.append((value,))
    return Departure(data=data, arcs=arcs, payloads=tuple(payloads), changes=tuple(all_changes), defects=defects)
