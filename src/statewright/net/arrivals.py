"""What happens when a token reaches a node: its arrival rule decides whether the node fires."""

from typing import Final, assert_never

from msgspec.structs import replace

from statewright.net.admission import release
from statewright.net.executions import Closing, close, enter, find_common_branches, place_token
from statewright.net.firing import fail
from statewright.net.language import Problem
from statewright.net.marking import Activation, Branch, Move, Token
from statewright.net.nodes import AllInputs, AnyInput, BranchJoin, Node, RoundJoin
from statewright.net.rounds import arrive_at_round
from statewright.net.routing import choose_departure, depart
from statewright.net.run import KernelRun

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
