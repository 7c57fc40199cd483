"""What gRPC calls have in common: their context, and how they are authenticated
(docs/reference/grpc.md#authentication-and-roles).

Forwarding of requests that join a transaction of another node (docs/reference/grpc.md#callbacks-to-other-nodes):
the whole call is made again, to the owner.

The owner authenticates the caller by the same metadata. A status with which it ends the call ends the call here; a
failure to reach it becomes a response like any other failure.

Failures as the ``error`` of a response (docs/reference/grpc.md#failures), and as gRPC statuses of the step engine
(docs/reference/steps.md#statuses). No other module translates failures into gRPC.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import timedelta
from typing import Final, TypeAlias, TypeVar

import grpc
import grpc.aio
from grpc import StatusCode
from msgspec import UNSET

from grpc_h2 import Authorize, CallContext, CallRefused, Incidents, RequestHeaders
from statewright.api.grpc.payloads import Error
from statewright.auth import AuthenticationFailed, Authenticator, KeyNotKnownYet
from statewright.cluster.channels import Channels
from statewright.cluster.http_proxy import build_unreachable, connect_to_owner
from statewright.entity import Principal
from statewright.failures import BusinessKeyInUse, Failure
from statewright.ids import NodeId
from statewright.loop.background import is_cancelled
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cyoda_cloud_api_pb2_grpc import CloudEventsServiceStub
from statewright.services.transactions import OpenTransactions
from statewright.telemetry import logs
from statewright.telemetry.tracing import (
    TRACEPARENT,
    TRACESTATE,
    Attribute,
    Span,
    TraceContext,
    Tracer,
    get_trace,
    list_trace_headers,
    parse_trace,
)

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


SERVICE: Final = "/org.cyoda.cloud.api.grpc.CloudEventsService"

FORWARDED_KEYS: Final = ("authorization", "tx-token")

OWNER_STATUSES: Final = frozenset({
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNIMPLEMENTED,
})  # fmt: skip
"""Statuses with which the owner refuses the call itself."""


class TransactionForwarder:
    """Finds the owners of transactions and forwards calls to them. ``limit`` bounds the wait for an answer; zero: no
    bound.
    """

    def __init__(self, transactions: OpenTransactions, channels: Channels, *, limit: timedelta) -> None:
        self._transactions = transactions
        self._channels = channels
        self._limit_s = limit.total_seconds() or None

    def find_owner(self, token: str) -> NodeId | None:
        """The node that owns the token's transaction; None for this one, and for a token that this one can refuse."""
        return self._transactions.find_owner(token)

    async def forward(
        self, owner: NodeId, method: str, event: CloudEvent, context: Context
    ) -> AsyncGenerator[CloudEvent]:
        """The owner's responses. Ends the call as the owner ends it. Raises ``TransactionNodeUnavailable``."""
        channel = await connect_to_owner(owner, self._channels)
        try:
            async with aclosing(
                self._call_owner(CloudEventsServiceStub(channel), owner, method, event, context)
            ) as responses:
                async for response in responses:
                    yield response
        except grpc.aio.AioRpcError as ending:
            if ending.code() in OWNER_STATUSES:
                await context.abort(ending.code(), ending.details() or "")
            log.warning("relay_failed", node=owner, status=ending.code().name, detail=ending.details())
            raise build_unreachable() from ending
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            raise build_unreachable() from None  # the channel was closed because its node is gone

    async def _call_owner(
        self, stub: CloudEventsServiceStub, owner: NodeId, method: str, event: CloudEvent, context: Context
    ) -> AsyncGenerator[CloudEvent]:
        given = [(key, value) for key, value in context.invocation_metadata() or () if key in FORWARDED_KEYS]
        metadata = (*given, *list_trace_headers(get_trace()), *self._channels.sign(owner, f"{SERVICE}/{method}"))
        match method:
            case "entityManage":
                yield await stub.entityManage(event, metadata=metadata, timeout=self._limit_s)
                return
            case "entitySearch":
                yield await stub.entitySearch(event, metadata=metadata, timeout=self._limit_s)
                return
            case "entityManageCollection":
                many = stub.entityManageCollection(event, metadata=metadata, timeout=self._limit_s)
            case _:
                many = stub.entitySearchCollection(event, metadata=metadata, timeout=self._limit_s)
        try:
            async for response in many:
                yield response
        finally:
            many.cancel()  # it has ended, or nobody wants the rest


INTERNAL_STATUS: Final = 500
"""Status of failures whose cause clients are not told."""


def to_client_error(failure: Failure, method: str, event_type: str) -> Error:
    """The error for an expected failure. ``method`` and ``event_type`` are those of the request, for the log."""
    if failure.status == INTERNAL_STATUS:
        return to_server_error(failure, method, event_type)
    log.info("request_refused", method=method, type=event_type, code=failure.code, message=failure.message)
    return Error("CLIENT_ERROR", failure.detail, True if failure.retryable else UNSET)


def to_server_error(error: BaseException, method: str, event_type: str) -> Error:
    """A defect: a ticket to the client, the cause to the log."""
    ticket = log.error_with_ticket("internal_error", method=method, type=event_type, exc_info=error)
    return Error("SERVER_ERROR", f"SERVER_ERROR: internal error [ticket: {ticket}]")


STATUS_CODES: Final = {
    400: StatusCode.INVALID_ARGUMENT,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.NOT_FOUND,
    409: StatusCode.FAILED_PRECONDITION,
    413: StatusCode.INVALID_ARGUMENT,
    503: StatusCode.UNAVAILABLE,
}


def to_status(failure: Failure, method: str) -> tuple[StatusCode, str]:
    """Code and message of an expected failure."""
    code = _select_code(failure)
    if code is None:
        return to_internal_status(failure, method)
    log.info("request_refused", method=method, code=failure.code, message=failure.message)
    return code, failure.detail if failure.names_its_code else failure.message


def to_internal_status(error: BaseException, method: str) -> tuple[StatusCode, str]:
    """Code and message of a defect: a ticket to the client, the cause to the log."""
    ticket = log.error_with_ticket("internal_error", method=method, exc_info=error)
    return StatusCode.INTERNAL, f"internal error: [ticket: {ticket}]"


def _select_code(failure: Failure) -> StatusCode | None:
    if isinstance(failure, BusinessKeyInUse):
        return StatusCode.ALREADY_EXISTS
    if failure.status == 409 and failure.retryable:
        return StatusCode.ABORTED
    return STATUS_CODES.get(failure.status)
