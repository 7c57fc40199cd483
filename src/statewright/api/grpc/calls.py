"""What gRPC calls have in common: their context, and how they are authenticated
(docs/reference/grpc.md#authentication-and-roles).
"""

import asyncio
from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar

import grpc
import grpc.aio

from statewright import logs
from statewright.auth import AuthenticationFailed, Authenticator, KeyNotKnownYet
from statewright.entity import Principal
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.rpc.context import CallContext
from statewright.rpc.headers import CallRefused, RequestHeaders
from statewright.rpc.incidents import Incidents
from statewright.rpc.server import Authorize
from statewright.tracing import TRACEPARENT, TRACESTATE, Attribute, Span, TraceContext, Tracer, parse_trace

log = logs.logger(__name__)

Context: TypeAlias = grpc.aio.ServicerContext[CloudEvent, CloudEvent]
"""Of a call of the CloudEvents service."""

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

COMPUTE_ROLE: Final = "ROLE_M2M"
"""The role that the principal of a calculation member must have."""


MAX_UNDECIDED: Final = 16
"""Calls of a server that wait until the key of their token has been looked for."""

REFUSAL: Final = "authentication failed"
"""All that a caller is told."""


def authorize_at_head(
    authenticators: Mapping[str, Authenticator], default: Authenticator, public: frozenset[str], incidents: Incidents
) -> Authorize:
    """Authenticates calls before anything of a message is taken; the principal is the ``authorization`` of the call.

    ``authenticators`` are by service, and the ``default`` decides on all others, those that do not exist too. The
    services in ``public`` ask for no credentials. Of a token whose key has to be looked for the call has a future; only
    so many calls wait for theirs, since messages are taken meanwhile.
    """
    undecided: set[asyncio.Task[Principal]] = set()

    def report(refused: AuthenticationFailed, path: str, peer: str) -> CallRefused:
        incidents.report(
            "authentication_failed",
            cause=f"{refused.reason} {peer.rpartition(':')[0]}",
            is_warning=True,
            reason=refused.reason,
            detail=refused.detail_for_log,
            peer=peer,
            method=path,
        )
        return CallRefused(grpc.StatusCode.UNAUTHENTICATED, REFUSAL)

    async def decide(authenticator: Authenticator, header: str | None, path: str, peer: str) -> Principal:
        try:
            return await authenticator.authenticate_later(header)
        except AuthenticationFailed as refused:
            raise report(refused, path, peer) from refused

    def authorize(call: RequestHeaders, peer: str) -> Principal | asyncio.Task[Principal] | None:
        service = call.path[1:].rpartition("/")[0]
        if service in public:
            return None
        given = next((value for name, value in call.metadata if name == "authorization"), None)
        header = given if isinstance(given, str) else None
        authenticator = authenticators.get(service, default)
        try:
            return authenticator.authenticate(header)
        except AuthenticationFailed as refused:
            if not isinstance(refused, KeyNotKnownYet) or len(undecided) >= MAX_UNDECIDED:
                raise report(refused, call.path, peer) from refused
        task = asyncio.get_running_loop().create_task(decide(authenticator, header, call.path, peer), name="late-key")
        undecided.add(task)
        task.add_done_callback(undecided.discard)
        return task

    return authorize


async def authenticate_call(
    context: grpc.aio.ServicerContext[RequestT, ReplyT], authenticator: Authenticator
) -> Principal:
    """The principal of a call, who is known already unless it comes from another node. Ends the call with
    ``UNAUTHENTICATED`` if it cannot be authenticated for any reason.
    """
    if isinstance(context, CallContext) and isinstance(context.authorization, Principal):
        return context.authorization
    try:
        if isinstance(context, CallContext) and isinstance(context.authorization, asyncio.Task):
            task: asyncio.Task[Principal] = context.authorization
            return await asyncio.shield(task)
        header = get_first_value(context, "authorization")
        try:
            return authenticator.authenticate(header)
        except KeyNotKnownYet:
            return await authenticator.authenticate_later(header)
    except AuthenticationFailed as refused:
        log.warning(
            "authentication_failed",
            reason=refused.reason,
            detail=refused.detail_for_log,
            peer=context.peer(),
            method=context.method if isinstance(context, CallContext) else "",
        )
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, REFUSAL)


def begin_call_span(
    tracer: Tracer | None,
    method: str,
    principal: Principal,
    context: grpc.aio.ServicerContext[RequestT, ReplyT],
    event: CloudEvent | None = None,
) -> Span | None:
    """Take up the trace that an authenticated call names in its metadata, or else its event does.

    None where none is named and no spans are made; else :meth:`Span.end` is to be called when the call ends.
    """
    trace = _read_trace(context, event)
    if tracer is None:
        return None if trace is None else Span(trace)
    attributes: dict[str, Attribute] = {"rpc.system": "grpc", "rpc.method": method, "tenant": principal.tenant}
    if event is not None:
        attributes["cloudevents.event_type"] = event.type
    return tracer.begin(method, "server", attributes, parent=trace)


def _read_trace(context: grpc.aio.ServicerContext[RequestT, ReplyT], event: CloudEvent | None) -> TraceContext | None:
    given = get_first_value(context, TRACEPARENT)
    if given is not None:
        return parse_trace(given, get_first_value(context, TRACESTATE))
    # Asking a protobuf map for a key it lacks would add it.
    if event is None or TRACEPARENT not in event.attributes:
        return None
    state = event.attributes[TRACESTATE].ce_string if TRACESTATE in event.attributes else ""
    return parse_trace(event.attributes[TRACEPARENT].ce_string, state)


def get_first_value(context: grpc.aio.ServicerContext[RequestT, ReplyT], key: str) -> str | None:
    """The first value of a metadata key, which counts when there are several."""
    for name, value in context.invocation_metadata() or ():
        if name == key and isinstance(value, str):
            return value
    return None
