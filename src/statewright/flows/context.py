"""Changing what a stopped node works on, before it is begun again (docs/reference/flows.md#change-of-context)."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.flows.definition import FlowProcess
from statewright.jsonval.values import JsonValue
from statewright.net import ExecutionId, Marking, Problem, Token

STOPPED: Final = frozenset({"FAILED", "INTERRUPTED"})


class ContextChange(Struct, frozen=True, kw_only=True):
    """Another input for a node that failed or was interrupted."""

    node: int
    input: JsonValue
    """An object or an array; of an element of an iteration any value."""
    element: int | None = None
    """Of an iteration over a task: which element. Of a node within an iterated subflow: which pass."""
    reason: str = ""


class UnchangeableContext(ValueError):
    """A change that cannot be made; the message says why."""


def change_input(process: FlowProcess, marking: Marking, change: ContextChange) -> tuple[Marking, ExecutionId | None]:
    """The instance with another input of a node, and the loop whose sequence was changed, if one was.

    Raises :class:`UnchangeableContext`.
    """
    found = list(_find_tokens(marking, change))
    if len(found) != 1:
        place = f"node {change.node}" + ("" if change.element is None else f", element {change.element}")
        raise UnchangeableContext(
            f"nothing has failed or was interrupted at {place}"
            if not found
            else f"several have failed or were interrupted at {place}: name the element"
        )
    [token] = found
    if token.owner is not None:
        return _change_item(process, marking, token, change.input), token.owner
    if not isinstance(change.input, dict | list):
        raise UnchangeableContext("the input of a node is an object or an array")
    return _put(marking, replace(token, payloads=(change.input,))), None


def _find_tokens(marking: Marking, change: ContextChange) -> Iterator[Token]:
    passes = {scope.id: scope.element for scope in marking.scopes}
    for token in marking.tokens:
        if token.stage not in STOPPED or int(token.node) != change.node:
            continue
        element = passes.get(token.scope) if token.owner is None and token.scope is not None else token.element
        if change.element is None or element == change.element:
            yield token


def _change_item(process: FlowProcess, marking: Marking, token: Token, item: JsonValue) -> Marking:
    """An element is begun again from the sequence of its loop: that is changed."""
    [owner] = [other for other in marking.tokens if other.id == token.owner]
    node = process.flow.net.nodes[owner.node]
    given = process.create_language().build_input(marking.data, node, owner.payloads)
    if isinstance(given, Problem) or token.element is None:
        raise UnchangeableContext("the sequence of the iteration cannot be read")
    items: list[JsonValue] = list(given) if isinstance(given, list) else [given]
    items[token.element] = item
    return _put(_put(marking, replace(owner, payloads=(items,))), replace(token, payloads=(item,)))


def _put(marking: Marking, changed: Token) -> Marking:
    return replace(marking, tokens=tuple(changed if token.id == changed.id else token for token in marking.tokens))
