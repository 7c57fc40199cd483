"""Joins in rounds: one token from each source, and one that goes on for all of them
(docs/reference/kernel.md#rounds).

The tokens of a round wait at the node until it fires. From then on the marking has the round itself, with the sources
that have sent their token, until it is over.
"""

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.admission import release
from statewright.net.branches import INCOMPLETE_JOIN, discard, end_badly, end_well
from statewright.net.effects import Trace
from statewright.net.executions import find_common_branches, place_token
from statewright.net.identifiers import NodeId
from statewright.net.marking import Move, Round, Token
from statewright.net.nodes import Node, RoundJoin
from statewright.net.places import Place
from statewright.net.run import KernelRun


def arrive_at_round(run: KernelRun, node: Node, rule: RoundJoin, move: Move) -> None:
    """Have a token take part in the round of its source, or fire the node by itself when it comes from elsewhere."""
    if move.admitted or move.source not in rule.sources:
        release(run, node, move, move.branches)
        return
    token = place_token(run, move, move.branches, "WAITING")
    if run.is_draining:
        discard(run, token, "fail_fast")
        end_well(run, token)
    else:
        _go_on(run, node, rule, (node.id, move.scope))


def _go_on(run: KernelRun, node: Node, rule: RoundJoin, place: Place) -> None:
    """Fire and end rounds as far as the tokens at a place go."""
    while True:
        current = run.rounds.get(place)
        if current is None:
            if run.index.count_sources(place) < rule.count:
                return
            arrived = _fire_round(run, node, rule, run.index.list_oldest(place)[: rule.count])
        else:
            late = [token for token in run.index.list_oldest(place) if token.source not in current.arrived]
            if not late:
                return
            arrived = (*current.arrived, *(_absorb(run, token) for token in late))
        if len(arrived) == len(rule.sources):
            run.rounds.pop(place, None)
        else:
            run.rounds[place] = Round(node=node.id, scope=place[1], arrived=arrived)


def _fire_round(
    run: KernelRun, node: Node, rule: RoundJoin, tokens: list[Token], *, is_left_over: bool = False
) -> tuple[NodeId, ...]:
    """One token for all of these, with what they carry in the order of the sources."""
    for token in tokens:
        run.remove_token(token)
    by_source = sorted(tokens, key=lambda token: rule.sources.index(token.source or node.id))
    sources = tuple(token.source for token in by_source if token.source is not None)
    payloads = tuple(payload for token in by_source for payload in token.payloads)
    details: JsonObject = {
        "sources": list(sources),
        "tokens": [token.id for token in by_source],
        "leftOver": is_left_over,
    }
    _trace(run, "join.fired", node, details)
    move = Move(
        target=node.id,
        source=tokens[-1].source,
        payloads=payloads,
        admitted=True,
        scope=tokens[-1].scope,
        cause="join",
    )
    release(run, node, move, find_common_branches([token.branches for token in tokens]))
    return sources


def _absorb(run: KernelRun, token: Token) -> NodeId:
    run.remove_token(token)
    if run.net.traces:
        details: JsonObject = {"source": token.source}
        run.emit(Trace(kind="join.absorbed", node=token.node, token=token.id, details=details))
    return token.source or token.node


def _trace(run: KernelRun, kind: str, node: Node, details: JsonObject) -> None:
    if run.net.traces:
        run.emit(Trace(kind=kind, node=node.id, details=details))


def resolve_rounds(run: KernelRun) -> bool:
    """Decide about rounds that nothing can complete any more; False when there were none.

    A round that has fired is over then, and what waited for the next one is a round of its own.
    """
    places = dict.fromkeys((token.node, token.scope) for token in run.tokens.values() if token.stage == "WAITING")
    is_resolved = False
    for place in [place for place in places if place[1] is None]:
        node = run.net.nodes[place[0]]
        if isinstance(rule := node.arrival, RoundJoin):
            is_resolved = True
            if run.rounds.pop(place, None) is None:
                _resolve(run, node, rule, place)
            else:
                _trace(run, "join.closed", node, {})
                _go_on(run, node, rule, place)
    return is_resolved


def _resolve(run: KernelRun, node: Node, rule: RoundJoin, place: Place) -> None:
    """Decide about all tokens that wait at a place: of this round, and of those that would have followed."""
    while tokens := run.index.list_oldest(place):
        sources: list[JsonValue] = [token.source for token in tokens]
        _trace(run, "join.incomplete", node, {"sources": sources, "action": rule.on_incomplete.lower()})
        if rule.on_incomplete == "FIRE":
            _fire_round(run, node, rule, tokens, is_left_over=True)
            continue
        for token in tokens:
            discard(run, token, INCOMPLETE_JOIN)
            if rule.on_incomplete == "DISCARD":
                end_well(run, token)
        if rule.on_incomplete == "FAIL":
            end_badly(run, node.id, INCOMPLETE_JOIN)
