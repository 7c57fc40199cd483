"""Where tokens go when a node is done."""

from typing import assert_never

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.identifiers import ActivationId
from statewright.net.language import Problem
from statewright.net.marking import Activation, Branch, Move
from statewright.net.nodes import Arc, Node
from statewright.net.run import Run


class Way(Struct, frozen=True):
    """How tokens go on: along these arcs, carrying these payloads."""

    arcs: tuple[Arc, ...]
    payloads: tuple[JsonValue, ...]


def way_on(run: Run, node: Node, data: JsonObject, payloads: tuple[JsonValue, ...]) -> Way | Problem:
    """The arcs that are taken; none when the node has none, or when its language lets a token end there."""
    routing = node.routing
    match routing.mode:
        case "ALL":
            arcs: tuple[Arc, ...] | Problem = routing.arcs
        case "FIRST":
            arcs = _open_arcs(run, routing.arcs, data, payloads, limit=1)
        case "EVERY":
            arcs = _open_arcs(run, routing.arcs, data, payloads, limit=len(routing.arcs))
        case unknown:
            assert_never(unknown)
    if isinstance(arcs, Problem):
        return arcs
    if not arcs and routing.arcs and routing.unmatched is not None:
        return Problem(routing.unmatched)
    for arc in arcs:
        if arc.target not in run.net.nodes:
            return Problem(f'{run.net.noun} "{node.id}" leads to unknown {run.net.noun} "{arc.target}"')
    return Way(arcs, payloads)


def depart(run: Run, node: Node, way: Way, branches: tuple[Branch, ...]) -> None:
    """Send a token along each of the arcs; as branches of a new activation where they are to be joined again."""
    memberships = [branches] * len(way.arcs)
    if node.routing.joined_at is not None:
        activation = Activation(id=ActivationId(run.mint()), join=node.routing.joined_at, size=len(way.arcs))
        run.activations[activation.id] = activation
        memberships = [(*branches, Branch(activation.id, index)) for index in range(len(way.arcs))]
    run.send(
        Move(target=arc.target, source=node.id, branches=membership, payloads=way.payloads)
        for arc, membership in zip(way.arcs, memberships, strict=True)
    )


def _open_arcs(
    run: Run, arcs: tuple[Arc, ...], data: JsonObject, payloads: tuple[JsonValue, ...], *, limit: int
) -> tuple[Arc, ...] | Problem:
    taken: list[Arc] = []
    for arc in arcs:
        verdict = True if arc.guard is None else run.language.holds(arc.guard, data, payloads, run.at)
        if isinstance(verdict, Problem):
            return verdict
        if verdict:
            taken.append(arc)
        if len(taken) == limit:
            break
    return tuple(taken)
