"""What a process language brings to the kernel: its data rule and its expressions
(docs/reference/kernel.md#languages).
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.nodes import Node


class Problem(Struct, frozen=True):
    """Why something cannot be done; it becomes the reason for which an instance fails."""

    reason: str


class Completed(Struct, frozen=True, kw_only=True):
    """What the result of an activity changes."""

    data: JsonObject
    """The instance's shared data from now on."""
    payloads: tuple[JsonValue, ...] = ()
    """What every token that leaves carries along its arc; empty in a language without values on edges."""
    output: JsonValue = None
    """What the history shows as the result; ``None`` = nothing."""


class Language(Protocol):
    """Pure functions over the shared data of an instance, which they never change in place.

    A language with shared variables ignores payloads; one that sends values along edges ignores the data.
    """

    def build_input(self, data: JsonObject, node: Node, payloads: Sequence[JsonValue]) -> JsonValue:
        """The input of the node's activity, made when tokens with these payloads fire it."""
        ...

    def complete(self, data: JsonObject, node: Node, output: JsonValue, at: int) -> Completed | Problem:
        """The result of the node's activity; ``output`` is what a worker, a person, a signal or a child sent."""
        ...

    def evaluate_guard(self, guard: str, data: JsonObject, payloads: Sequence[JsonValue], at: int) -> bool | Problem:
        """Whether an arc with this guard may be taken."""
        ...

    def patch(self, data: JsonObject, changes: JsonObject) -> JsonObject:
        """The data after the changes of a retry."""
        ...
