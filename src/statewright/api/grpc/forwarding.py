"""Forwarding of requests that join a transaction of another node (docs/reference/grpc.md#callbacks-to-other-nodes):
the whole call is made again, to the owner.

The owner authenticates the caller by the same metadata. A status with which it ends the call ends the call here; a
failure to reach it becomes a response like any other failure.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from typing import Final

import grpc
import grpc.aio

from statewright import logs
from statewright.api.grpc.calls import Context
from statewright.cluster.channels import Channels
from statewright.cluster.http_proxy import build_unreachable, connect_to_owner
from statewright.ids import NodeId
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cyoda_cloud_api_pb2_grpc import CloudEventsServiceStub
from statewright.services.transactions import OpenTransactions
from statewright.tracing import get_trace, list_trace_headers

SERVICE: Final = "/org.cyoda.cloud.api.grpc.CloudEventsService"

FORWARDED_KEYS: Final = ("authorization", "tx-token")

OWNER_STATUSES: Final = frozenset({
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNIMPLEMENTED,
})  # fmt: skip
"""Statuses with which the owner refuses the call itself."""

log = logs.logger(__name__)


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
            task = asyncio.current_task()
            if task is None or task.cancelling():
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
