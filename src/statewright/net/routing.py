"""Where tokens go when a node is left: the arcs that are taken, and what is carried along them."""

from typing import assert_never

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.identifiers import ActivationId
from statewright.net.language import Problem, Visit
from statewright.net.marking import Activation, Branch, Move, Token
from statewright.net.nodes import Arc
from statewright.net.run import KernelRun


class Departure(Struct, frozen=True):
    """The arcs that tokens take, and the payloads they carry along each."""

    arcs: tuple[Arc, ...]
    payloads: tuple[tuple[JsonValue, ...], ...]


def choose_departure(run: KernelRun, data: JsonObject, visit: Visit) -> Departure | Problem:
    """The arcs that are taken; none when the node has none, or when its language lets a token end there."""
    node, routing = visit.node, visit.node.routing
    candidates = tuple(arc for arc in routing.arcs if visit.outcome in arc.on)
    match routing.mode:
        case "ALL":
            arcs: tuple[Arc, ...] | Problem = candidates
        case "FIRST":
            arcs = _select_open_arcs(run, candidates, data, visit, limit=1)
        case "EVERY":
            arcs = _select_open_arcs(run, candidates, data, visit, limit=len(candidates))
        case unknown:
            assert_never(unknown)
    if isinstance(arcs, Problem):
        return arcs
    if not arcs and routing.arcs and routing.unmatched is not None:
        return Problem(routing.unmatched)
    for arc in arcs:
        if arc.target not in run.net.nodes:
            return Problem(f'{run.net.node_label} "{node.id}" leads to unknown {run.net.node_label} "{arc.target}"')
    return _inscribe(run, arcs, data, visit)


def depart(run: KernelRun, token: Token, departure: Departure, branches: tuple[Branch, ...]) -> None:
    """Send a token along each of the arcs; as branches of a new activation where they are to be joined again."""
    node = run.get_node(token)
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
        )
        for arc, membership, payloads in zip(departure.arcs, memberships, departure.payloads, strict=True)
    )


def _select_open_arcs(
    run: KernelRun, arcs: tuple[Arc, ...], data: JsonObject, visit: Visit, *, limit: int
) -> tuple[Arc, ...] | Problem:
    taken: list[Arc] = []
    for arc in arcs:
        verdict = True if arc.guard is None else run.language.evaluate_guard(arc.guard, data, visit)
        if isinstance(verdict, Problem):
            return verdict
        if verdict:
            taken.append(arc)
        if len(taken) == limit:
            break
    return tuple(taken)


def _inscribe(run: KernelRun, arcs: tuple[Arc, ...], data: JsonObject, visit: Visit) -> Departure | Problem:
    payloads: list[tuple[JsonValue, ...]] = []
    for arc in arcs:
        if arc.payload is None:
            payloads.append(visit.outgoing)
            continue
        value = run.language.inscribe(arc.payload, data, visit)
        if isinstance(value, Problem):
            return value
        payloads.append((value,))
    return Departure(arcs, tuple(payloads))
