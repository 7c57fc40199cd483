"""Tokens arriving at a node, under its arrival rule."""

from typing import assert_never

from msgspec.structs import replace

from statewright.net.executions import Closing, close, enter
from statewright.net.firing import common_branches, fail, fire
from statewright.net.identifiers import ExecutionId
from statewright.net.language import Problem
from statewright.net.marking import Activation, Branch, Move, Token
from statewright.net.nodes import AllBranches, AllOf, Each, Node
from statewright.net.routing import depart, way_on
from statewright.net.run import Run

_ARRIVED = Closing(status="COMPLETED", work="COMPLETED")


def arrive(run: Run, move: Move) -> None:
    """Let a token reach its target."""
    node = run.net.nodes[move.target]
    match node.arrival:
        case Each():
            fire(run, node, move, move.branches)
        case AllOf() as rule:
            _arrive_at_all(run, node, rule, move)
        case AllBranches() as rule:
            _arrive_at_join(run, node, rule, move)
        case unknown:
            assert_never(unknown)


def _arrive_at_all(run: Run, node: Node, rule: AllOf, move: Move) -> None:
    if move.admitted:
        fire(run, node, move, move.branches)
        return
    run.rest(
        Token(
            id=ExecutionId(run.mint()),
            node=node.id,
            attempt=0,
            stage="WAITING",
            branches=move.branches,
            source=move.source,
            payloads=move.payloads,
        )
    )
    for sources in rule.sets:
        tokens = [run.oldest_at(node.id, "WAITING", source) for source in sources]
        complete = [token for token in tokens if token is not None]
        if len(complete) == len(sources):
            _fire_together(run, node, complete)
            return


def _fire_together(run: Run, node: Node, tokens: list[Token]) -> None:
    for token in tokens:
        run.take(token)
    payloads = tuple(payload for token in tokens for payload in token.payloads)
    move = Move(target=node.id, source=tokens[-1].source, payloads=payloads, admitted=True)
    fire(run, node, move, common_branches([token.branches for token in tokens]))


def _arrive_at_join(run: Run, node: Node, rule: AllBranches, move: Move) -> None:
    """Every arrival is an execution of its own, which ends at once; the last one releases the join (decision J3).

    A join may close several activations at one stroke, when nested branches share it.
    """
    token = enter(run, node.id, move, move.branches, run.language.consume(run.data, node, move.payloads))
    if _membership(run, node, token.branches) is None:
        fail(run, token, rule.unmatched)
        return
    way = way_on(run, node, run.data, ())
    if isinstance(way, Problem):
        fail(run, token, way.reason)
        return
    token = close(run, token, _ARRIVED)
    if (onward := _count(run, node, token)) is not None:
        run.take(token)
        depart(run, node, way, onward)


def _count(run: Run, node: Node, token: Token) -> tuple[Branch, ...] | None:
    """Count the token for its branch, and further out for every activation this completes.

    The branches to go on with; ``None`` when the token waits for others, or is absorbed since its branch has arrived.
    """
    branches = token.branches
    while (depth := _membership(run, node, branches)) is not None:
        branch, activation = branches[depth], run.activations[branches[depth].activation]
        if branch.index in activation.arrived:
            run.take(token)
            return None
        if not run.arrived(activation, branch.index):
            run.rest(replace(token, stage="WAITING", branches=branches[: depth + 1]))
            return None
        _take_waiting(run, node, activation)
        branches = branches[:depth]
    return branches


def _membership(run: Run, node: Node, branches: tuple[Branch, ...]) -> int | None:
    """Where in a token's memberships is the innermost activation that this node collects."""
    for depth in range(len(branches) - 1, -1, -1):
        activation = run.activations.get(branches[depth].activation)
        if activation is not None and activation.join == node.id:
            return depth
    return None


def _take_waiting(run: Run, node: Node, activation: Activation) -> None:
    for token in list(run.tokens.values()):
        if token.stage == "WAITING" and token.node == node.id and token.branches[-1].activation == activation.id:
            run.take(token)
