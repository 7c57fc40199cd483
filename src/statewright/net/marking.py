"""The marking: the whole state of an instance as one value, and its form as JSON.

A marking is stored as a document beside the data it belongs to, and read back unchanged.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject
from statewright.net.identifiers import ActivationId, ExecutionId, NodeId, TimerId, WorkId

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue
else:  # Any: msgspec, which reads markings back, cannot resolve an alias that contains itself
    JsonValue, JsonObject = Any, dict[str, Any]

Phase: TypeAlias = Literal["RUNNING", "COMPLETED", "FAILED", "CANCELLED"]
"""``COMPLETED`` and ``CANCELLED`` are final; ``FAILED`` can be retried."""

Stage: TypeAlias = Literal["WORKING", "ANSWERED", "WAITING", "PARKED", "FAILED", "STRANDED", "WITHDRAWN"]
"""What a token is doing, or waiting for.

| stage | its execution | moves on when |
|---|---|---|
| WORKING | runs | the activity is done, or an interrupting timer fires |
| ANSWERED | has ended | the failed instance is retried: the result came while it was failed |
| WAITING | is completed, or has not begun | the other tokens have arrived as well |
| PARKED | is completed | never: the node has no way on |
| FAILED | failed, and the instance with it | the node is retried |
| STRANDED | is completed, but no way on could be chosen, and the instance failed | never |
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
    """An armed timer: the n-th boundary timer of the token's node."""

    id: TimerId
    index: int


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
    timers: tuple[PendingTimer, ...] = ()
    source: NodeId | None = None
    """The node it came from; ``None`` at the entry."""
    payloads: tuple[JsonValue, ...] = ()


class Move(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A token on its way along an arc."""

    target: NodeId
    source: NodeId | None = None
    branches: tuple[Branch, ...] = ()
    payloads: tuple[JsonValue, ...] = ()
    admitted: bool = False
    """Whether it fires its target at once, whatever the arrival rule: tokens it had to wait for are part of it already.
    """


class HeldResult(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A result that came while the instance was failed."""

    token: ExecutionId
    output: JsonValue = None
    reason: str | None = None
    """Why the activity failed; ``None`` when it did not."""


class Marking(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The state of an instance."""

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
    """Results held while the instance is failed, in the order in which they came."""

    @property
    def current_nodes(self) -> tuple[NodeId, ...]:
        """The nodes that hold a token, each once, in order."""
        return tuple(dict.fromkeys(token.node for token in self.tokens))


def marking_to_document(marking: Marking) -> JsonObject:
    """The marking as JSON, without its data, which are stored in a place of their own."""
    bare = replace(marking, data={})
    document = msgspec.to_builtins(bare, builtin_types=(Decimal,), order="deterministic")
    members = cast("JsonObject", document)  # structs of JSON values become nothing else
    del members["data"]
    return members


def marking_from_document(document: JsonObject, data: JsonObject) -> Marking:
    """The marking that :func:`marking_to_document` wrote. Raises ValueError for anything else."""
    try:
        return replace(msgspec.convert({**document, "data": {}}, Marking), data=data)
    except msgspec.ValidationError as defect:
        raise ValueError(f"stored marking is damaged: {defect}") from defect
