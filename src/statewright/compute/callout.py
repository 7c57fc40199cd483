"""One request to a calculation member, and what can become of it (spec/grpc.md §14, §15)."""

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from statewright.entity import Principal
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, NoComputeMember
from statewright.identity import TenantId
from statewright.jsonval.values import JsonValue

CalloutKind: TypeAlias = Literal["processor", "criteria", "function"]
"""The kinds as messages speak of them."""


class Callout(Struct, frozen=True, kw_only=True):
    """What a member is asked to do.

    ``tags`` are required all, ``tags_text`` is how the workflow spells them. ``target`` is ``TRANSITION`` or
    ``WORKFLOW`` for criteria and empty otherwise. ``parameters`` is the configured context, empty when there is none.
    ``payload`` is the JSON text ``{type, data, meta}``; None when the entity is not to be attached. ``tx_token`` is
    None outside a transaction.
    """

    kind: CalloutKind
    request_id: str
    tenant: TenantId
    name: str
    tags: tuple[str, ...]
    tags_text: str
    timeout_ms: int
    entity_id: str
    workflow: str
    transition: str
    state_from: str
    state_to: str
    target: str
    transaction_id: str
    parameters: str
    payload: bytes | None
    principal: Principal
    tx_token: str | None


class Reply(Struct, frozen=True, kw_only=True):
    """What a member answered.

    ``data`` is the JSON text of a processor's new document, which nobody has examined yet; ``UNSET`` when it changes
    nothing. ``matches`` and ``reason`` are a criterion's, ``result`` and ``result_kind`` a function's. ``error`` is the
    member's own text, None when it gave none; ``retryable`` is false when the member says that asking again is in vain.
    """

    success: bool
    error: str | None = None
    retryable: bool = True
    warnings: tuple[str, ...] = ()
    data: bytes | UnsetType = UNSET
    matches: bool = False
    reason: str | None = None
    result: JsonValue = None
    result_kind: str | None = None


class Unanswered(DispatchTimeout):
    """The member did not answer in time, or did not even read the request."""

    def __init__(self, callout: Callout, *, member_id: str, written: bool) -> None:
        super().__init__(f"{callout.kind} dispatch timed out after {callout.timeout_ms}ms")
        self.member_id = member_id
        """Who kept silent; another attempt should go elsewhere (decision W7)."""
        self.written = written
        """Whether the request had reached the stream, so that the member may have worked on it."""


def no_member(callout: Callout) -> NoComputeMember:
    """Nobody connected declares the required tags."""
    return NoComputeMember(f'no matching calculation member: tags "{callout.tags_text}"')


def members_busy(callout: Callout) -> NoComputeMember:
    """There are matching members, and none of them reads as fast as it is asked."""
    return NoComputeMember(f'every matching calculation member is busy: tags "{callout.tags_text}"')


def member_lost(callout: Callout, *, written: bool) -> ComputeMemberDisconnected:
    """The member's stream ended before its answer."""
    return ComputeMemberDisconnected(f"compute member disconnected during {callout.kind} dispatch", written=written)
