"""Who calls (spec/grpc.md §3)."""

from typing import TypeVar

import grpc
import grpc.aio
import structlog

from statewright.auth import AuthenticationFailed, Authenticator
from statewright.entity import Principal

log = structlog.get_logger(__name__)

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

COMPUTE_ROLE = "ROLE_M2M"
"""What a calculation member's principal must have."""


async def authenticated(context: grpc.aio.ServicerContext[RequestT, ReplyT], authenticator: Authenticator) -> Principal:
    """The caller of an RPC; ends the call with ``UNAUTHENTICATED`` when there is none, whatever the cause."""
    try:
        return authenticator.authenticate(first_value(context, "authorization"))
    except AuthenticationFailed as refused:
        log.warning("authentication_failed", reason=refused.reason, detail=refused.detail_for_log, peer=context.peer())
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "authentication failed")


def first_value(context: grpc.aio.ServicerContext[RequestT, ReplyT], key: str) -> str | None:
    """The first value of a metadata key, which counts when there are several."""
    for name, value in context.invocation_metadata() or ():
        if name == key and isinstance(value, str):
            return value
    return None
