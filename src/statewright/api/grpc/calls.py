"""What gRPC calls have in common: their context, and how they are authenticated
(docs/reference/grpc.md#authentication-and-roles).
"""

from typing import TypeAlias, TypeVar

import grpc
import grpc.aio

from statewright import logs
from statewright.auth import AuthenticationFailed, Authenticator
from statewright.entity import Principal
from statewright.proto.cloudevents_pb2 import CloudEvent

log = logs.logger(__name__)

Context: TypeAlias = grpc.aio.ServicerContext[CloudEvent, CloudEvent]
"""Of a call of the CloudEvents service."""

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

COMPUTE_ROLE = "ROLE_M2M"
"""The role that the principal of a calculation member must have."""


async def authenticate_call(
    context: grpc.aio.ServicerContext[RequestT, ReplyT], authenticator: Authenticator
) -> Principal:
    """The principal of a call. Ends the call with ``UNAUTHENTICATED`` if it cannot be authenticated for any reason."""
    try:
        return authenticator.authenticate(get_first_value(context, "authorization"))
    except AuthenticationFailed as refused:
        log.warning("authentication_failed", reason=refused.reason, detail=refused.detail_for_log, peer=context.peer())
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "authentication failed")


def get_first_value(context: grpc.aio.ServicerContext[RequestT, ReplyT], key: str) -> str | None:
    """The first value of a metadata key, which counts when there are several."""
    for name, value in context.invocation_metadata() or ():
        if name == key and isinstance(value, str):
            return value
    return None
