"""What happens when a token reaches a node: its arrival rule decides whether the node fires.

Joins in rounds: one token from each source, and one that goes on for all of them
(docs/reference/kernel.md#rounds).

The tokens of a round wait at the node until it fires. From then on the marking has the round itself, with the sources
that have sent their token, until it is over.

Which branches a join still waits for, for who looks at an instance from outside.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.admission import release
from statewright.net.effects import Trace
from statewright.net.executions import (
    INCOMPLETE_JOIN,
    Closing,
    close,
    discard,
    end_badly,
    enter,
    find_common_branches,
    place_token,
)
from statewright.net.firing import build_return, fail
from statewright.net.language import Problem
from statewright.net.marking import Activation, Branch, Marking, Move, NodeId, Place, Round, Token
from statewright.net.nodes import AllInputs, AnyInput, BranchJoin, Node, RoundJoin
from statewright.net.routing import choose_departure, depart
from statewright.net.run import KernelRun


def arrive_at_round(run: KernelRun, node: Node, rule: RoundJoin, move: Move) -> None:
    """Have a token take part in the round of its source, or fire the node by itself when it comes from elsewhere."""
    if move.admitted or move.source not in rule.sources:
        release(run, node, move, move.branches)
        return
    token = place_token(run, move, move.branches, "WAITING")
    if run.is_draining:
        discard(run, token, "fail_fast")
        run.net.on_failure.end_branch(run, token)
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

    What may make a token comes first, and one round of it at a time, since the token may complete another: of several
    the one that no other leads to. Only when nothing can make one, the rest fails or is dropped. A round that has fired
    is over then, and what waited for the next one is a round of its own.
    """
    waiting = dict.fromkeys((token.node, token.scope) for token in run.tokens.values() if token.stage == "WAITING")
    rules = {place: run.net.nodes[place[0]].arrival for place in waiting if place[1] is None}
    joins = {place: rule for place, rule in rules.items() if isinstance(rule, RoundJoin)}
    may_fire = [place for place, rule in joins.items() if place in run.rounds or rule.on_incomplete == "FIRE"]
    if may_fire:
        first = min(may_fire, key=lambda place: run.net.ranks[place[0]]) if len(may_fire) > 1 else may_fire[0]
        _conclude_round(run, joins[first], first)
        return True
    for place, rule in joins.items():
        _give_up_rounds(run, rule, place)
    return bool(joins)


def _conclude_round(run: KernelRun, rule: RoundJoin, place: Place) -> None:
    """End the round that has fired at a place, or fire the one that is incomplete."""
    node = run.net.nodes[place[0]]
    if run.rounds.pop(place, None) is not None:
        _trace(run, "join.closed", node, {})
        _go_on(run, node, rule, place)
        return
    tokens = run.index.list_oldest(place)
    _trace_incomplete(run, node, rule, tokens)
    _fire_round(run, node, rule, tokens, is_left_over=True)


def _give_up_rounds(run: KernelRun, rule: RoundJoin, place: Place) -> None:
    """Discard all tokens that wait at a place: of this round, and of those that would have followed."""
    node = run.net.nodes[place[0]]
    while tokens := run.index.list_oldest(place):
        _trace_incomplete(run, node, rule, tokens)
        for token in tokens:
            discard(run, token, INCOMPLETE_JOIN)
            if rule.on_incomplete == "DISCARD":
                run.net.on_failure.end_branch(run, token)
        if rule.on_incomplete == "FAIL":
            arrived = tuple(replace(build_return(token), admitted=False) for token in tokens)
            end_badly(run, node.id, INCOMPLETE_JOIN, arrived=arrived)


def _trace_incomplete(run: KernelRun, node: Node, rule: RoundJoin, tokens: Sequence[Token]) -> None:
    sources: list[JsonValue] = [token.source for token in tokens]
    _trace(run, "join.incomplete", node, {"sources": sources, "action": rule.on_incomplete.lower()})


_JOIN_ARRIVAL: Final = Closing(status="COMPLETED", work="COMPLETED")


def arrive(run: KernelRun, move: Move) -> None:
    """Have a token arrive at its target: the node fires, or the token waits for others or is absorbed by a join."""
    node = run.net.nodes[move.target]
    match node.arrival:
        case AnyInput():
            release(run, node, move, move.branches)
        case AllInputs() as rule:
            _arrive_at_all_inputs(run, node, rule, move)
        case BranchJoin() as rule:
            _arrive_at_join(run, node, rule, move)
        case RoundJoin() as rule:
            arrive_at_round(run, node, rule, move)
        case unknown:
            assert_never(unknown)


def _arrive_at_all_inputs(run: KernelRun, node: Node, rule: AllInputs, move: Move) -> None:
    if move.admitted:
        release(run, node, move, move.branches)
        return
    place_token(run, move, move.branches, "WAITING")
    for sources in rule.sets:
        tokens = run.index.take_set((node.id, move.scope), sources)
        if tokens is not None:
            _fire_together(run, node, tokens)
            return


def _fire_together(run: KernelRun, node: Node, tokens: list[Token]) -> None:
    for token in tokens:
        run.remove_token(token)
    payloads = tuple(payload for token in tokens for payload in token.payloads)
    source, scope = tokens[-1].source, tokens[-1].scope
    move = Move(target=node.id, source=source, payloads=payloads, admitted=True, scope=scope)
    release(run, node, move, find_common_branches([token.branches for token in tokens]))


def _arrive_at_join(run: KernelRun, node: Node, rule: BranchJoin, move: Move) -> None:
    """Every arrival is an execution of its own, which ends at once; the last one releases the join (decision J3).

    One arrival may close several activations, when nested branches share the join.
    """
    entry_input = run.language.build_input(run.data, node, move.payloads)
    problem = entry_input if isinstance(entry_input, Problem) else None
    token = enter(run, node, move, move.branches, None if isinstance(entry_input, Problem) else entry_input)
    if problem is not None:
        fail(run, token, problem.reason)
        return
    if _find_membership(run, node, token.branches) is None:
        fail(run, token, rule.unmatched)
        return
    departure = choose_departure(run, run.data, run.build_visit(node, move.payloads, None))
    if isinstance(departure, Problem):
        fail(run, token, departure.reason)
        return
    token = close(run, token, _JOIN_ARRIVAL)
    if (onward := _count_arrival(run, node, token)) is not None:
        run.remove_token(token)
        depart(run, token, departure, onward)


def _count_arrival(run: KernelRun, node: Node, token: Token) -> tuple[Branch, ...] | None:
    """Count the token for its branch, and further out for every activation this completes.

    The branches to go on with; ``None`` when the token waits for others, or is absorbed since its branch has arrived.
    """
    branches = token.branches
    while (depth := _find_membership(run, node, branches)) is not None:
        branch, activation = branches[depth], run.activations[branches[depth].activation]
        if branch.index in activation.arrived:
            run.remove_token(token)
            return None
        if not run.record_arrival(activation, branch.index):
            run.put_token(replace(token, stage="WAITING", branches=branches[: depth + 1]))
            return None
        _remove_waiting_tokens(run, activation)
        branches = branches[:depth]
    return branches


def _find_membership(run: KernelRun, node: Node, branches: tuple[Branch, ...]) -> int | None:
    """The index, in a token's memberships, of the innermost activation that this node joins; ``None``: of none."""
    for depth in range(len(branches) - 1, -1, -1):
        activation = run.activations.get(branches[depth].activation)
        if activation is not None and activation.join == node.id:
            return depth
    return None


def _remove_waiting_tokens(run: KernelRun, activation: Activation) -> None:
    for token in run.index.list_collected(activation.id):
        run.remove_token(token)


class MissingBranch(Struct, frozen=True, kw_only=True):
    """A branch that has not reached its join. ``index`` counts from 0, as its gateway opened the branches; ``nodes``
    are those at which its tokens rest, none when all of them have ended elsewhere.
    """

    index: int
    nodes: tuple[NodeId, ...]


class OpenJoin(Struct, frozen=True, kw_only=True):
    """A join that some of the branches of one pass have reached, ``arrived`` in number."""

    node: NodeId
    arrived: int
    missing: tuple[MissingBranch, ...]


class OpenWaits(Struct, frozen=True, kw_only=True):
    """What only other tokens, or other data, can end. ``denied``: where tokens wait to be admitted."""

    joins: tuple[OpenJoin, ...] = ()
    denied: tuple[NodeId, ...] = ()


def list_open_waits(marking: Marking) -> OpenWaits:
    """What an instance waits for besides jobs, people, signals and timers."""
    denied = dict.fromkeys(token.node for token in marking.tokens if token.stage == "PENDING")
    return OpenWaits(joins=list_open_joins(marking), denied=tuple(denied))


def list_open_joins(marking: Marking) -> tuple[OpenJoin, ...]:
    """The joins that have not released although branches have arrived, in the order in which these were opened."""
    found: list[OpenJoin] = []
    for activation in marking.activations:
        if not 0 < len(activation.arrived) < activation.size:
            continue
        nodes: dict[int, list[NodeId]] = {
            index: [] for index in range(activation.size) if index not in activation.arrived
        }
        for token in marking.tokens:
            for branch in token.branches:
                if branch.activation == activation.id and branch.index in nodes:
                    nodes[branch.index].append(token.node)
        missing = tuple(
            MissingBranch(index=index, nodes=tuple(dict.fromkeys(places))) for index, places in nodes.items()
        )
        found.append(OpenJoin(node=activation.join, arrived=len(activation.arrived), missing=missing))
    return tuple(found)
