"""What a process language brings to the kernel: its data rules, its expressions, and what an instance comes to
(docs/reference/kernel.md#languages).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.marking import ElementResult, NodeId, Outcome, Tally
from statewright.net.nodes import Node


class Problem(Struct, frozen=True):
    """Why something cannot be done; it becomes the reason for which an instance fails."""

    reason: str
    error: JsonValue = None
    """What the language sees of it when it is routed; ``None``: the reason."""


class Visit(Struct, frozen=True, kw_only=True):
    """One firing of a node, as far as it has come."""

    node: Node
    at: int
    """The instant, in microseconds of the epoch."""
    payloads: tuple[JsonValue, ...] = ()
    """Of the tokens that fired the node; for an element of a loop, the item alone."""
    input: JsonValue = None
    """What :meth:`DataRules.build_input` made of them; for an element, the item."""
    outcome: Outcome = "DONE"
    output: JsonValue = None
    """What a worker, a person, a signal or a child sent; after ``FAILED`` the reason."""
    element: int | None = None
    """The place of the element in its loop; ``None``: the node as a whole."""
    outgoing: tuple[JsonValue, ...] = ()
    """The payloads of the result, when arcs are chosen."""


class Completed(Struct, frozen=True, kw_only=True):
    """What the result of an activity changes."""

    data: JsonObject
    """The instance's shared data from now on."""
    payloads: tuple[JsonValue, ...] = ()
    """What every token that leaves carries along its arc; empty in a language without values on edges."""
    output: JsonValue = None
    """What the history shows as the result; ``None`` = nothing."""
    changes: JsonObject = {}
    """A change of the data that is to be told as one, on top of ``data``."""


class Note(Struct, frozen=True, kw_only=True):
    """Something that happened in work done at once, and what it changed in the data."""

    kind: str = ""
    """Of the trace; empty: none."""
    details: JsonObject = {}
    changes: JsonObject = {}


class Performed(Struct, frozen=True, kw_only=True):
    """What came of work done at once."""

    notes: tuple[Note, ...] = ()
    output: JsonValue = None
    problem: Problem | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether a token is admitted, and what the trace says about it."""

    allows: bool
    details: JsonObject = {}


class Concluded(Struct, frozen=True, kw_only=True):
    """What a quiet instance, or a pass over the body of a loop, comes to."""

    result: JsonValue = None
    warning: str | None = None
    failure: str | None = None
    """Why the instance has failed, although it came to an end."""


class DataRules(Protocol):
    """How data reach an activity, and what its result changes."""

    def build_input(self, data: JsonObject, node: Node, payloads: Sequence[JsonValue]) -> "JsonValue | Problem":
        """The input of the node's activity, made of the tokens with these payloads.

        A node that fails before its activity begins, and one that is begun again, builds it once more, unless the node
        keeps it.
        """
        ...

    def perform(self, data: JsonObject, visit: Visit) -> Performed:
        """Do the work of a node whose activity is :class:`~statewright.net.nodes.Inline`."""
        return Performed()

    def complete(self, data: JsonObject, visit: Visit) -> Completed | Problem:
        """The result of the node: of its activity, of having been skipped, or of a failure that an arc is there for."""
        ...

    def patch(self, data: JsonObject, changes: JsonObject) -> "JsonObject | Problem":
        """The data after changes: of a retry, of a running task, of an arc, or from outside. Those that cannot be made
        fail what made them, and have no effect where they come from outside.
        """
        ...


class Expressions(Protocol):
    """The expressions that a net contains as text."""

    def evaluate_guard(self, guard: str, data: JsonObject, visit: Visit) -> bool | Problem:
        """Whether an arc with this guard may be taken, or a node with it is not skipped."""
        ...

    def inscribe(self, expression: str, data: JsonObject, visit: Visit) -> "JsonValue | Problem":
        """What a token carries along an arc with this payload."""
        return Problem(f"no payloads can be computed: {expression}")

    def assign(self, expression: str, data: JsonObject, visit: Visit) -> "JsonObject | Problem":
        """What taking an arc with this assignment changes in the data, for :meth:`DataRules.patch`."""
        return Problem(f"nothing can be assigned: {expression}")


class AdmissionRules(Protocol):
    """Which tokens may fire a node, and when that is worth asking again."""

    def admit(self, rule: str, data: JsonObject, visit: Visit) -> Verdict:
        """Whether the token of a visit that has not begun may fire its node now."""
        return Verdict(allows=True)

    def find_changes(self, before: JsonObject, after: JsonObject) -> frozenset[str] | None:
        """The parts of the data that are others than before; ``None``: any may be."""
        return None


class LoopRules(Protocol):
    """The items of a loop, and what its results come to."""

    def list_items(self, data: JsonObject, visit: Visit) -> Sequence[JsonValue] | Problem:
        """The items to loop over. They must follow from the input alone: they are listed again as the loop goes on."""
        return visit.input if isinstance(visit.input, list) else [visit.input]

    def choose_limit(self, data: JsonObject, visit: Visit, limit: int | None) -> int | Problem | None:
        """How many elements run at once, where the net says ``limit``; asked once, as the loop begins."""
        return limit

    def build_child_input(self, data: JsonObject, visit: Visit) -> "JsonValue | Problem":
        """What the instance is started with that does an element; asked as it begins."""
        return visit.input

    def collect(self, data: JsonObject, visit: Visit, results: Sequence[ElementResult]) -> "JsonValue | Problem":
        """The output of the loop, from the results in the order of the items."""
        return [result.payloads[0] if result.payloads else None for result in results]

    def explain_loop(self, failed: int, size: int, output: JsonValue) -> str:
        """Why a loop fails that begins no others since of its ``size`` elements some failed; ``output``: its own."""
        return f"LOOP: {failed} of {size} elements failed"


class EndingRules(Protocol):
    """What becomes of an instance in which nothing moves or works any more."""

    def conclude(
        self, data: JsonObject, yielded: tuple[JsonValue, ...] | None, waiting: Sequence[NodeId]
    ) -> Concluded | Problem | None:
        """The end of an instance, or of a pass over the body of a loop; a problem fails it; ``None``: it rests on.

        ``yielded``: the last payloads of a node that yields the result, ``None`` when there were none. ``waiting``: the
        nodes where tokens wait for others.
        """
        return None if waiting else Concluded(result=list(yielded or ()))

    def judge(self, data: JsonObject, tally: Tally) -> Concluded:
        """The end of an instance whose failures are routed."""
        return Concluded(failure=tally.verdict or (tally.failures[0].reason if tally.failures else None))

    def summarize(self, data: JsonObject, tally: Tally, visits: Mapping[NodeId, int]) -> JsonValue:
        """What the token of the node that comes after all others carries; ``visits``: executions of each node."""
        return None


class Language(DataRules, Expressions, AdmissionRules, LoopRules, EndingRules, Protocol):
    """Pure functions over the shared data of an instance, which they never change in place.

    A language with shared variables ignores payloads; one that sends values along edges ignores the data. Subclasses
    inherit what they have no rule for.
    """
