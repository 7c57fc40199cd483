"""What happens at a node: tokens arrive under its arrival rule, it fires, completes or fails, and they go on."""

from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.executions import (
    Closing,
    begin_activity,
    build_failed_closing,
    close,
    enter,
    mark_completed,
    mark_failed,
)
from statewright.net.identifiers import ActivationId, ExecutionId
from statewright.net.language import Completed, Problem
from statewright.net.marking import Activation, Branch, HeldResult, Move, Token
from statewright.net.nodes import AllInputs, AnyInput, Arc, BranchJoin, NoActivity, Node
from statewright.net.run import KernelRun

_JOIN_ARRIVAL = Closing(status="COMPLETED", work="COMPLETED")


def arrive(run: KernelRun, move: Move) -> None:
    """Have a token arrive at its target: the node fires, or the token waits for others or is absorbed by a join."""
    node = run.net.nodes[move.target]
    match node.arrival:
        case AnyInput():
            fire(run, node, move, move.branches)
        case AllInputs() as rule:
            _arrive_at_all_inputs(run, node, rule, move)
        case BranchJoin() as rule:
            _arrive_at_join(run, node, rule, move)
        case unknown:
            assert_never(unknown)


def _arrive_at_all_inputs(run: KernelRun, node: Node, rule: AllInputs, move: Move) -> None:
    if move.admitted:
        fire(run, node, move, move.branches)
        return
    run.put_token(
        Token(
            id=ExecutionId(run.next_id()),
            node=node.id,
            attempt=0,
            stage="WAITING",
            branches=move.branches,
            source=move.source,
            payloads=move.payloads,
        )
    )
    for sources in rule.sets:
        tokens = [run.find_oldest(node.id, "WAITING", source) for source in sources]
        complete = [token for token in tokens if token is not None]
        if len(complete) == len(sources):
            _fire_together(run, node, complete)
            return


def _fire_together(run: KernelRun, node: Node, tokens: list[Token]) -> None:
    for token in tokens:
        run.remove_token(token)
    payloads = tuple(payload for token in tokens for payload in token.payloads)
    move = Move(target=node.id, source=tokens[-1].source, payloads=payloads, admitted=True)
    fire(run, node, move, find_common_branches([token.branches for token in tokens]))


def _arrive_at_join(run: KernelRun, node: Node, rule: BranchJoin, move: Move) -> None:
    """Every arrival is an execution of its own, which ends at once; the last one releases the join (decision J3).

    One arrival may close several activations, when nested branches share the join.
    """
    token = enter(run, node.id, move, move.branches, run.language.build_input(run.data, node, move.payloads))
    if _find_membership(run, node, token.branches) is None:
        fail(run, token, rule.unmatched)
        return
    departure = choose_departure(run, node, run.data, ())
    if isinstance(departure, Problem):
        fail(run, token, departure.reason)
        return
    token = close(run, token, _JOIN_ARRIVAL)
    if (onward := _count_arrival(run, node, token)) is not None:
        run.remove_token(token)
        depart(run, node, departure, onward)


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
        _remove_waiting_tokens(run, node, activation)
        branches = branches[:depth]
    return branches


def _find_membership(run: KernelRun, node: Node, branches: tuple[Branch, ...]) -> int | None:
    """The index, in a token's memberships, of the innermost activation that this node joins; ``None``: of none."""
    for depth in range(len(branches) - 1, -1, -1):
        activation = run.activations.get(branches[depth].activation)
        if activation is not None and activation.join == node.id:
            return depth
    return None


def _remove_waiting_tokens(run: KernelRun, node: Node, activation: Activation) -> None:
    for token in list(run.tokens.values()):
        if token.stage == "WAITING" and token.node == node.id and token.branches[-1].activation == activation.id:
            run.remove_token(token)


class Departure(Struct, frozen=True):
    """The arcs that tokens take, and the payloads they carry."""

    arcs: tuple[Arc, ...]
    payloads: tuple[JsonValue, ...]


def choose_departure(
    run: KernelRun, node: Node, data: JsonObject, payloads: tuple[JsonValue, ...]
) -> Departure | Problem:
    """The arcs that are taken; none when the node has none, or when its language lets a token end there."""
    routing = node.routing
    match routing.mode:
        case "ALL":
            arcs: tuple[Arc, ...] | Problem = routing.arcs
        case "FIRST":
            arcs = _select_open_arcs(run, routing.arcs, data, payloads, limit=1)
        case "EVERY":
            arcs = _select_open_arcs(run, routing.arcs, data, payloads, limit=len(routing.arcs))
        case unknown:
            assert_never(unknown)
    if isinstance(arcs, Problem):
        return arcs
    if not arcs and routing.arcs and routing.unmatched is not None:
        return Problem(routing.unmatched)
    for arc in arcs:
        if arc.target not in run.net.nodes:
            return Problem(f'{run.net.node_label} "{node.id}" leads to unknown {run.net.node_label} "{arc.target}"')
    return Departure(arcs, payloads)


def depart(run: KernelRun, node: Node, departure: Departure, branches: tuple[Branch, ...]) -> None:
    """Send a token along each of the arcs; as branches of a new activation where they are to be joined again."""
    memberships = [branches] * len(departure.arcs)
    if node.routing.join_node is not None:
        activation = Activation(id=ActivationId(run.next_id()), join=node.routing.join_node, size=len(departure.arcs))
        run.activations[activation.id] = activation
        memberships = [(*branches, Branch(activation.id, index)) for index in range(len(departure.arcs))]
    run.send(
        Move(target=arc.target, source=node.id, branches=membership, payloads=departure.payloads)
        for arc, membership in zip(departure.arcs, memberships, strict=True)
    )


def _select_open_arcs(
    run: KernelRun, arcs: tuple[Arc, ...], data: JsonObject, payloads: tuple[JsonValue, ...], *, limit: int
) -> tuple[Arc, ...] | Problem:
    taken: list[Arc] = []
    for arc in arcs:
        verdict = True if arc.guard is None else run.language.evaluate_guard(arc.guard, data, payloads, run.at)
        if isinstance(verdict, Problem):
            return verdict
        if verdict:
            taken.append(arc)
        if len(taken) == limit:
            break
    return tuple(taken)


def fire(run: KernelRun, node: Node, move: Move, branches: tuple[Branch, ...]) -> None:
    """Enter a node with the tokens of ``move`` and begin its work; one without activity is completed at once."""
    entry_input = run.language.build_input(run.data, node, move.payloads)
    token = enter(run, node.id, move, branches, entry_input)
    if run.entered > run.net.max_entries:
        fail(
            run,
            token,
            f"{run.net.node_label} budget exceeded ({run.net.max_entries} {run.net.node_label}s without a pause)",
        )
    elif node.defect is not None:
        fail(run, token, node.defect)
    elif isinstance(node.activity, NoActivity):
        complete(run, token)
    elif isinstance(begun := begin_activity(run, token, node, entry_input), Problem):
        fail(run, token, begun.reason)


def complete(run: KernelRun, token: Token, output: JsonValue = None, by: str | None = None) -> None:
    """The node's activity is done: apply its result and let the token go on."""
    node = run.get_node(token)
    outcome = run.language.complete(run.data, node, output, run.at)
    if isinstance(outcome, Problem):
        fail(run, token, outcome.reason)
        return
    departure = choose_departure(run, node, outcome.data, outcome.payloads)
    if isinstance(departure, Problem) and isinstance(node.activity, NoActivity):
        fail(run, token, departure.reason)  # a node without activity has no other work than to find the way on
        return
    run.data = outcome.data
    _leave(run, _close_completed(run, token, outcome, output, by), departure)


def fail(run: KernelRun, token: Token, reason: str) -> None:
    """The execution failed for ``reason``, and the instance with it."""
    idle = close(run, token, build_failed_closing(reason))
    run.put_token(replace(idle, stage="FAILED"))
    mark_failed(run, reason)


def hold_result(run: KernelRun, token: Token, output: JsonValue) -> None:
    """The activity is done, but the instance is failed: hold the result until a retry."""
    closing = Closing(status="COMPLETED", work="COMPLETED", output=output)
    run.put_token(replace(close(run, token, closing), stage="ANSWERED"))
    run.held_results.append(HeldResult(token=token.id, output=output))


def hold_failure(run: KernelRun, token: Token, reason: str) -> None:
    """The activity failed while the instance was failed already: hold that, to fail once more after a retry."""
    run.put_token(replace(close(run, token, build_failed_closing(reason)), stage="ANSWERED"))
    run.held_results.append(HeldResult(token=token.id, reason=reason))


def resume(run: KernelRun, held: HeldResult) -> None:
    """Apply a held result: let the token go on whose execution ended while the instance was failed."""
    token = run.tokens[held.token]
    if held.reason is not None:
        run.put_token(replace(token, stage="FAILED"))
        mark_failed(run, held.reason)
        return
    node = run.get_node(token)
    outcome = run.language.complete(run.data, node, held.output, run.at)
    if isinstance(outcome, Problem):
        _strand(run, token, outcome.reason)
        return
    run.data = outcome.data
    _leave(run, token, choose_departure(run, node, outcome.data, outcome.payloads))


def find_common_branches(memberships: Sequence[tuple[Branch, ...]]) -> tuple[Branch, ...]:
    """The branches that all of some tokens belong to."""
    shared = memberships[0]
    for other in memberships[1:]:
        length = next((n for n, (a, b) in enumerate(zip(shared, other, strict=False)) if a != b), None)
        shared = shared[: min(len(shared), len(other)) if length is None else length]
    return shared


def _close_completed(run: KernelRun, token: Token, outcome: Completed, output: JsonValue, by: str | None) -> Token:
    closing = Closing(status="COMPLETED", work="COMPLETED", output=outcome.output, result=output, by=by)
    return close(run, token, closing)


def _leave(run: KernelRun, token: Token, departure: Departure | Problem) -> None:
    node = run.get_node(token)
    if isinstance(departure, Problem):
        _strand(run, token, departure.reason)
    elif node.ends:
        run.remove_token(token)
        mark_completed(run, node.successor)
    elif not node.routing.arcs and node.routing.stays:
        run.put_token(replace(token, stage="PARKED"))
    else:
        run.remove_token(token)
        depart(run, node, departure, token.branches)


def _strand(run: KernelRun, token: Token, reason: str) -> None:
    """Fail the instance at a token whose activity is done but for which no arc could be chosen."""
    run.put_token(replace(token, stage="STRANDED"))
    mark_failed(run, reason)
