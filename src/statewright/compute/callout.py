"""One request to a calculation member, its result and its failures (docs/reference/grpc.md#callouts,
docs/reference/grpc.md#dispatch).
"""

from collections.abc import Collection
from typing import Final, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from statewright.entity import Principal
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, FailedAttempt, NoComputeMember
from statewright.ids import TenantId
from statewright.jsonval.values import JsonValue
from statewright.telemetry.tracing import TraceContext

CalloutKind: TypeAlias = Literal["processor", "criteria", "function"]
"""The kinds of callouts, as messages name them."""


class CalloutSpec(Struct, frozen=True, kw_only=True):
    """The part of a callout that its definition decides."""

    kind: CalloutKind
    name: str
    tags: tuple[str, ...]
    tags_text: str
    timeout_ms: int
    context: str
    attach_entity: bool
    target: str = ""
    execution_mode: str = ""


class Callout(Struct, frozen=True, kw_only=True):
    """One request to a member.

    All of ``tags`` are required; ``tags_text`` is how the workflow spells them. ``target`` is ``TRANSITION`` or
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
    state_from: str = ""
    state_to: str = ""
    target: str = ""
    transaction_id: str = ""
    parameters: str
    payload: bytes | None
    principal: Principal
    tx_token: str | None = None
    trace: TraceContext | None = None
    """The place in a trace that it is made at; None outside all traces."""
    has_secrets: bool = False
    """Only members whose connections are private may be asked."""


class CalloutResult(Struct, frozen=True, kw_only=True):
    """What a member answered.

    ``data`` is the JSON text of a processor's new document, not validated yet; ``UNSET`` when it changes nothing.
    ``matches`` and ``reason`` are a criterion's, ``result`` and ``result_kind`` a function's. ``error`` is the member's
    own text, None when it gave none; ``retryable`` is false when the member says that a retry is useless.
    ``member_id`` is known of failures only, and ``attempts`` of those that were tried several times.
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
    member_id: str = ""
    attempts: tuple[FailedAttempt, ...] = ()


class CalloutTimeout(DispatchTimeout):
    """The member did not answer in time, or did not even read the request."""

    def __init__(self, callout: Callout, *, member_id: str, written: bool) -> None:
        super().__init__(f"{callout.kind} dispatch timed out after {callout.timeout_ms}ms")
        self.member_id = member_id
        """The member that did not answer; another attempt should avoid it (decision W7)."""
        self.written = written
        """Whether the request had reached the stream, so that the member may have worked on it."""


MAX_LISTED_TAGS: Final = 20
"""Tags of connected members that a failure names."""
MAX_TOLD_CHARS: Final = 512
"""Of tags in a failure, which is logged and kept again whenever the callout is tried."""


def describe_tags(callout: Callout) -> str:
    """The tags that a callout requires, as its workflow spells them, for a failure."""
    return f'tags "{_cut(callout.tags_text)}"'


def _cut(tags: str) -> str:
    return tags if len(tags) <= MAX_TOLD_CHARS else f"{tags[:MAX_TOLD_CHARS]}…"


def no_member_failure(callout: Callout, connected: Collection[str] | None = None) -> NoComputeMember:
    """The failure when no connected member declares all required tags; ``connected`` are the tags of those there are,
    None when nothing is connected.
    """
    if connected is None:
        told = "no member is connected"
    else:
        listed = _cut(", ".join(sorted(connected)[:MAX_LISTED_TAGS])) or "none"
        told = f"a member needs all of them; tags of the connected members: {listed}"
    if callout.has_secrets:
        told += "; credentials are sent to members with TLS or of this machine only"
    return NoComputeMember(f"no matching calculation member: {describe_tags(callout)}; {told}")


def members_busy_failure(callout: Callout) -> NoComputeMember:
    """The failure when the outboxes of all matching members are full."""
    return NoComputeMember(f"every matching calculation member is busy: {describe_tags(callout)}")


def member_lost_failure(callout: Callout, *, written: bool, member_id: str = "") -> ComputeMemberDisconnected:
    """The failure when the member's stream ended before its result; ``written``: whether it may have the request."""
    message = f"compute member disconnected during {callout.kind} dispatch"
    return ComputeMemberDisconnected(message, written=written, member_id=member_id)
