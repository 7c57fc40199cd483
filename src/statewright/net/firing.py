"""Firing a node, completing it, failing at it."""

from collections.abc import Sequence

from msgspec.structs import replace

from statewright.jsonval.values import JsonValue
from statewright.net import endings
from statewright.net.executions import Closing, close, enter, failing, set_up
from statewright.net.language import Completed, Problem
from statewright.net.marking import Answer, Branch, Move, Token
from statewright.net.nodes import Node, Nothing
from statewright.net.routing import Way, depart, way_on
from statewright.net.run import Run


def fire(run: Run, node: Node, move: Move, branches: tuple[Branch, ...]) -> None:
    """Enter a node with the tokens of ``move`` and begin its work; one without activity is completed at once."""
    entry_input = run.language.consume(run.data, node, move.payloads)
    token = enter(run, node.id, move, branches, entry_input)
    if run.entered > run.net.max_entries:
        fail(run, token, f"{run.net.noun} budget exceeded ({run.net.max_entries} {run.net.noun}s without a pause)")
    elif node.defect is not None:
        fail(run, token, node.defect)
    elif isinstance(node.activity, Nothing):
        complete(run, token)
    elif isinstance(begun := set_up(run, token, node, entry_input), Problem):
        fail(run, token, begun.reason)


def complete(run: Run, token: Token, output: JsonValue = None, by: str | None = None) -> None:
    """The node's activity is done: apply its result and let the token go on."""
    node = run.node_of(token)
    outcome = run.language.complete(run.data, node, output, run.at)
    if isinstance(outcome, Problem):
        fail(run, token, outcome.reason)
        return
    way = way_on(run, node, outcome.data, outcome.payloads)
    if isinstance(way, Problem) and isinstance(node.activity, Nothing):
        fail(run, token, way.reason)  # a node without activity has no other work than to find the way on
        return
    run.data = outcome.data
    _leave(run, _closed(run, token, outcome, output, by), way)


def fail(run: Run, token: Token, reason: str) -> None:
    """The execution failed, and the instance with it."""
    idle = close(run, token, failing(reason))
    run.rest(replace(idle, stage="FAILED"))
    endings.fail(run, reason)


def keep_answer(run: Run, token: Token, output: JsonValue) -> None:
    """The activity is done, but the instance is failed: the result waits for a retry."""
    closing = Closing(status="COMPLETED", work="COMPLETED", output=output)
    run.rest(replace(close(run, token, closing), stage="ANSWERED"))
    run.answers.append(Answer(token=token.id, output=output))


def keep_failure(run: Run, token: Token, reason: str) -> None:
    """The activity failed while the instance was failed already: it will fail it once more after a retry."""
    run.rest(replace(close(run, token, failing(reason)), stage="ANSWERED"))
    run.answers.append(Answer(token=token.id, reason=reason))


def resume(run: Run, answer: Answer) -> None:
    """Let a token go on whose execution ended while the instance was failed."""
    token = run.tokens[answer.token]
    if answer.reason is not None:
        run.rest(replace(token, stage="FAILED"))
        endings.fail(run, answer.reason)
        return
    node = run.node_of(token)
    outcome = run.language.complete(run.data, node, answer.output, run.at)
    if isinstance(outcome, Problem):
        _strand(run, token, outcome.reason)
        return
    run.data = outcome.data
    _leave(run, token, way_on(run, node, outcome.data, outcome.payloads))


def common_branches(memberships: Sequence[tuple[Branch, ...]]) -> tuple[Branch, ...]:
    """The branches that all of some tokens belong to."""
    shared = memberships[0]
    for other in memberships[1:]:
        length = next((n for n, (a, b) in enumerate(zip(shared, other, strict=False)) if a != b), None)
        shared = shared[: min(len(shared), len(other)) if length is None else length]
    return shared


def _closed(run: Run, token: Token, outcome: Completed, output: JsonValue, by: str | None) -> Token:
    closing = Closing(status="COMPLETED", work="COMPLETED", output=outcome.output, result=output, by=by)
    return close(run, token, closing)


def _leave(run: Run, token: Token, way: Way | Problem) -> None:
    node = run.node_of(token)
    if isinstance(way, Problem):
        _strand(run, token, way.reason)
    elif node.ends:
        run.take(token)
        endings.finish(run, node.successor)
    elif not node.routing.arcs and node.routing.stays:
        run.rest(replace(token, stage="PARKED"))
    else:
        run.take(token)
        depart(run, node, way, token.branches)


def _strand(run: Run, token: Token, reason: str) -> None:
    """The work is done and stays done, but there is no way on."""
    run.rest(replace(token, stage="STRANDED"))
    endings.fail(run, reason)
