"""The marking: the whole state of an instance as one value, and its form as JSON.

A marking is stored as a document beside the data it belongs to, and read back unchanged.

Where tokens are, and which of them do nothing there.

Identifiers of what the kernel creates, counted from the event's moment so that the kernel stays a function.

An event carries the first of a range of free 128-bit numbers, whose first 48 bits are the milliseconds of its instant;
whatever the kernel creates is numbered upwards from there and written as a ULID (docs/reference/steps.md#conventions,
docs/reference/steps.md#as-entities). The same number written as a UUID is the id of an entity.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, NewType, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.ids import format_ulid
from statewright.jsonval.values import JsonObject

NodeId = NewType("NodeId", str)
"""Chosen by the author of a definition."""
ExecutionId = NewType("ExecutionId", str)
"""One entry into a node; also the id of the token that made it."""
WorkId = NewType("WorkId", str)
"""A task in the job queue, or a task for a person."""
TimerId = NewType("TimerId", str)
ActivationId = NewType("ActivationId", str)
"""One pass over a node that opens branches."""
ScopeId = NewType("ScopeId", str)
"""One pass over the body of a loop."""

IDS_PER_MOMENT: Final = 1 << 32
"""How many numbers from :attr:`Moment.first_id` on must be free; no event can use up more."""


class Moment(Struct, frozen=True, kw_only=True):
    """When an event arrives, and the ids it may use."""

    at: int
    """Microseconds since 1970-01-01T00:00:00Z."""
    first_id: int
    """The first of :data:`IDS_PER_MOMENT` free numbers."""


class IdGenerator:
    """Gives the ids of one moment, in rising order."""

    def __init__(self, moment: Moment) -> None:
        self._next = moment.first_id

    @property
    def upcoming(self) -> int:
        """The first number that was not given."""
        return self._next

    def __call__(self) -> str:
        number = self._next
        self._next = number + 1
        return format_ulid(number)


if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue
else:  # Any: msgspec, which reads markings back, cannot resolve an alias that contains itself
    JsonValue, JsonObject = Any, dict[str, Any]

Phase: TypeAlias = Literal["RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED", "TERMINATING", "TERMINATED"]
"""While ``WAITING``, only tokens that are not admitted are left: a change of the data, or time, goes on with it.
``COMPLETED`` and ``CANCELLED`` are final; ``FAILED`` and ``TERMINATED`` can be restarted. While ``TERMINATING``,
tasks that run are left to end, and nothing begins.
"""

Outcome: TypeAlias = Literal["DONE", "SKIPPED", "FAILED"]
"""How a node, or an element of a loop, was left: its activity done, not begun because the guard of the node does not
hold, or failed.
"""

Stage: TypeAlias = Literal[
    "WORKING",
    "ANSWERED",
    "READY",
    "PENDING",
    "QUEUED",
    "WAITING",
    "PARKED",
    "FAILED",
    "STRANDED",
    "INTERRUPTED",
    "WITHDRAWN",
]
"""What a token is doing, or waiting for.

| stage | its execution | moves on when |
|---|---|---|
| WORKING | runs | the activity is done, or an interrupting timer fires |
| ANSWERED | has ended | the instance is retried or restarted: the result came while it was not running |
| READY | has not begun | it is its turn, and the instance has capacity for one more |
| PENDING | has not begun | what the admission of its node looks at changes, or its time is over |
| QUEUED | has not begun | one of the activities at its node ends |
| WAITING | is completed, or has not begun | the other tokens have arrived as well |
| PARKED | is completed | never: the node has no way on |
| FAILED | failed, and the instance with it, or one branch of it | the node is retried, or the instance restarted |
| STRANDED | is completed, but no way on could be chosen, and the instance failed | the instance is restarted |
| INTERRUPTED | was stopped when the instance was terminated | the instance is restarted |
| WITHDRAWN | was skipped | never: the instance was cancelled |
"""


class Branch(Struct, frozen=True, array_like=True):
    """A token's membership: the n-th branch of an activation."""

    activation: ActivationId
    index: int


class Activation(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One pass over a node that opened ``size`` branches, to be collected at ``join``."""

    id: ActivationId
    join: NodeId
    size: int
    arrived: frozenset[int] = frozenset()
    """The branches that have reached the join; once it is all of them, the join has released."""


class PendingTimer(Struct, frozen=True, array_like=True):
    """An armed timer: the n-th boundary timer of the token's node, :data:`LIFECYCLE` for its time limit, or
    :data:`PAUSE`.
    """

    id: TimerId
    index: int


LIFECYCLE: Final = -1
"""The index of the timer that ends an execution, or a token that is not admitted, when the time of its node is over."""
PAUSE: Final = -2
"""The index of the timer that ends the pause of a task."""


class Token(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A token that rests at a node."""

    id: ExecutionId
    node: NodeId
    attempt: int
    """Which entry into this node it is, from 1; 0 while it waits for others before the node fires."""
    stage: Stage = "WORKING"
    branches: tuple[Branch, ...] = ()
    """Outermost first."""
    work: WorkId | None = None
    is_paused: bool = False
    """Whether its task rests, until a time or the end of another instance: nobody has it, and there is no ``work``."""
    timers: tuple[PendingTimer, ...] = ()
    source: NodeId | None = None
    """The node it came from; ``None`` at the entry."""
    payloads: tuple[JsonValue, ...] = ()
    """What it brought along; of a stranded token, what it carries on."""
    scope: ScopeId | None = None
    """The pass over the body of a loop that it is part of. Tokens of different passes never meet."""
    owner: ExecutionId | None = None
    """The token of the loop that it does one element of; the loop's own token stays at the node meanwhile."""
    element: int | None = None
    """Which element."""
    reason: str | None = None
    """Why it failed."""
    input: JsonValue = None
    """The input of its activity, at a node that keeps it."""
    changes: tuple[JsonObject, ...] = ()
    """Changes to the data that are held back until the element it does has ended."""
    was_denied: bool = False
    """Whether it was refused admission before."""
    is_final: bool = False
    """Whether it runs the node that comes after all others."""
    begun_at: int | None = None
    """When its execution began, in microseconds of the epoch, where tokens take turns."""


class ElementResult(Struct, frozen=True, array_like=True):
    """What one element of a loop came to."""

    element: int
    payloads: tuple[JsonValue, ...]
    """Of a skipped element, the item; of one that failed, the reason."""
    outcome: Outcome = "DONE"
    """``SKIPPED``: the guard of the node did not hold for the item. ``FAILED``: the loop goes on without it."""


class Loop(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How far a loop over items has come. Its elements run as tokens of their own, or as passes over its body."""

    token: ExecutionId
    size: int
    next: int = 0
    """The first element that was never begun."""
    again: tuple[int, ...] = ()
    """Elements to begin once more, since what they depended on failed."""
    limit: int | None = None
    """How many may run at once; ``None``: all."""
    failed: int = 0
    """Elements that failed, where the loop survives them."""
    written: JsonObject = {}
    """What elements that have ended changed in the data, where several run at once."""
    results: tuple[ElementResult, ...] = ()
    """In the order in which they came."""


class Scope(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One pass over the body of a loop."""

    id: ScopeId
    owner: ExecutionId
    """The token of the loop."""
    element: int
    visits: Mapping[NodeId, int] = {}
    """Entries into each node of the body."""
    yielded: tuple[JsonValue, ...] | None = None
    """What a node that yields the result sent last."""


class Move(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A token on its way along an arc."""

    target: NodeId
    source: NodeId | None = None
    branches: tuple[Branch, ...] = ()
    payloads: tuple[JsonValue, ...] = ()
    admitted: bool = False
    """Whether it fires its target at once, whatever the arrival rule: tokens it had to wait for are part of it already.
    """
    scope: ScopeId | None = None
    cause: str | None = None
    """Where it comes from, for the trace."""
    token: ExecutionId | None = None
    """The token whose turn it was."""
    is_final: bool = False


class Round(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A round of a join that has fired, until all sources have sent their token."""

    node: NodeId
    scope: ScopeId | None = None
    arrived: tuple[NodeId, ...] = ()


class BranchFailure(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Why a branch ended badly."""

    node: NodeId
    reason: str
    error: JsonValue = None
    """What the activity reported, where it did."""
    execution: ExecutionId | None = None
    """The execution that failed, which a restart begins again; ``None``: there is none."""
    arrived: tuple[Move, ...] = ()
    """What had come to a join that could not be completed: a restart sends it there again."""


class Tally(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How the branches of an instance ended, where failures are routed."""

    succeeded: int = 0
    failed: int = 0
    overlooked: int = 0
    """How many had failed before the last restart: they discard nothing any more."""
    failures: tuple[BranchFailure, ...] = ()
    """The first :data:`MAX_FAILURES` of them."""
    verdict: str | None = None
    """Why the instance fails, whatever became of its branches."""
    final: Literal["RUNNING", "DONE", "FAILED", "AGAIN"] | None = None
    """What became of the node that comes after all others; ``AGAIN``: it failed, and is run once more at the end."""


MAX_FAILURES: Final = 1_000
"""Failures that are kept one by one; the rest is counted."""


class HeldResult(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A result that came while the instance was failed."""

    token: ExecutionId
    output: JsonValue = None
    reason: str | None = None
    """Why the activity failed; ``None`` when it did not."""


MAX_CHANGED_COUNTS: Final = 128


class Counts(Mapping[NodeId, int]):
    """Entries into the nodes of an instance. Those of many nodes are shared with the marking before but for the few
    that have changed since, so that an event costs as much at the end of a long chain as at its beginning.
    """

    __slots__ = ("_changed", "_shared", "total")

    def __init__(self, counts: Mapping[NodeId, int]) -> None:
        self.total: int
        self._shared, self._changed = counts, dict[NodeId, int]()
        if isinstance(counts, Counts):
            self._shared, self._changed, self.total = counts._shared, {**counts._changed}, counts.total
        else:
            self.total = sum(counts.values())

    def __getitem__(self, node: NodeId) -> int:
        found = self._changed.get(node)
        return self._shared[node] if found is None else found

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self._shared) + sum(node not in self._shared for node in self._changed)

    def count(self, node: NodeId) -> int:
        """Count an entry: how many there were into this node."""
        self.total += 1
        known = self._changed[node] = self.get(node, 0) + 1
        if len(self._changed) > MAX_CHANGED_COUNTS:
            self._shared, self._changed = self.to_dict(), {}
        return known

    def to_dict(self) -> dict[NodeId, int]:
        """All of them, for a document."""
        return {**self._shared, **self._changed}

    def freeze(self) -> Mapping[NodeId, int]:
        """The counts as they are now, whatever is counted later."""
        return Counts(self) if len(self._shared) > MAX_CHANGED_COUNTS else self.to_dict()


class Marking(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", dict=True):
    """The state of an instance. A large one keeps more than its members, for the kernel alone
    (:mod:`statewright.net.run`).
    """

    data: JsonObject
    """Shared by all tokens; never changed in place."""
    phase: Phase = "RUNNING"
    reason: str | None = None
    """Why it failed or was cancelled."""
    tokens: tuple[Token, ...] = ()
    """In the order in which they came to rest."""
    activations: tuple[Activation, ...] = ()
    attempts: Mapping[NodeId, int] = {}
    """Entries into each node so far."""
    pending: tuple[Move, ...] = ()
    """Moves that a failure stopped, the next one last."""
    answers: tuple[HeldResult, ...] = ()
    """Results held while the instance is failed or terminated, in the order in which they came."""
    loops: tuple[Loop, ...] = ()
    scopes: tuple[Scope, ...] = ()
    rounds: tuple[Round, ...] = ()
    tally: Tally = Tally()
    yielded: tuple[JsonValue, ...] | None = None
    """What a node that yields the result of the instance sent last."""
    result: JsonValue = None
    """Of an instance that has ended, where the language gives it one."""
    warning: str | None = None
    """What the language found odd when the instance completed."""
    deadline: TimerId | None = None
    """The timer at whose end the instance has taken too long."""

    @property
    def current_nodes(self) -> tuple[NodeId, ...]:
        """The nodes that hold a token, each once, in order."""
        return tuple(dict.fromkeys(token.node for token in self.tokens))

    @property
    def failures(self) -> tuple[Token, ...]:
        """The tokens whose activity failed, or for which no way on was found, and which a restart begins again."""
        return tuple(token for token in self.tokens if token.stage in ("FAILED", "STRANDED"))


_Document: TypeAlias = dict[str, Any]
"""A document while it is made. Any: msgspec does not tell what it made of which struct."""


def marking_to_document(marking: Marking) -> JsonObject:
    """The marking as JSON, without its data, which are stored in a place of their own.

    What tokens carry and what elements of loops came to are not copied: the document shares them with the marking, and
    neither is changed in place. Thousands of items would be copied for every one of them that is done.
    """
    bare = replace(
        marking,
        data={},
        attempts=Counts(marking.attempts).to_dict(),
        tokens=tuple([_strip(token) for token in marking.tokens]),
        loops=tuple([replace(loop, results=()) for loop in marking.loops]),
    )
    document = cast("_Document", msgspec.to_builtins(bare, builtin_types=(Decimal,), order="deterministic"))
    del document["data"]
    for name in ("tokens", "loops", "yielded"):
        if document.get(name):  # a list can be encoded in pieces, however much its items carry
            document[name] = list(document[name])
    for token, written in zip(marking.tokens, document.get("tokens", ()), strict=True):
        if token.payloads:
            written["payloads"] = list(token.payloads)
        if token.input is not None:
            written["input"] = token.input
    for loop, written in zip(marking.loops, document.get("loops", ()), strict=True):
        if loop.results:
            written["results"] = [[each.element, list(each.payloads), each.outcome] for each in loop.results]
    return cast("JsonObject", document)  # structs of JSON values become nothing else


def _strip(token: Token) -> Token:
    if token.input is not None:
        return replace(token, payloads=(), input=None)
    return replace(token, payloads=()) if token.payloads else token


def marking_from_document(document: JsonObject, data: JsonObject) -> Marking:
    """The marking that :func:`marking_to_document` wrote. Raises ValueError for anything else."""
    try:
        return replace(msgspec.convert({**document, "data": {}}, Marking), data=data)
    except msgspec.ValidationError as defect:
        raise ValueError(f"stored marking is damaged: {defect}") from defect


Place: TypeAlias = tuple[NodeId, ScopeId | None]
"""A node, in one pass over the body of a loop it may be part of."""

RESTING: Final[frozenset[Stage]] = frozenset({"READY", "PENDING", "WAITING", "QUEUED", "PARKED", "WITHDRAWN"})
"""No activity was begun, or it has left the node for good."""
QUIET: Final[frozenset[Stage]] = frozenset({"WAITING", "PARKED"})
"""The token does not go on by itself, nor by what it does."""
