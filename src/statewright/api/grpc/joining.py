"""Requests that join a transaction of another node (spec/grpc.md §22): the whole call is made again, to the owner.

The owner authenticates the caller by the same metadata. What it refuses with a status is refused with it here; that it
cannot be asked is an answer like any other failure.
"""

import asyncio
from datetime import timedelta
from typing import Final

import grpc
import grpc.aio
import structlog

from statewright.api.grpc.streaming import Context
from statewright.cluster.channels import Channels
from statewright.cluster.relay import channel_to, unreachable
from statewright.identity import NodeId
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cyoda_cloud_api_pb2_grpc import CloudEventsServiceStub
from statewright.services.transactions import OpenTransactions

SERVICE: Final = "/org.cyoda.cloud.api.grpc.CloudEventsService"

FORWARDED: Final = ("authorization", "tx-token")

ITS_OWN: Final = frozenset({
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNIMPLEMENTED,
})  # fmt: skip
"""What the owner says about the call itself."""

log = structlog.get_logger(__name__)


class Joining:
    """Finds the owners of transactions and asks them. ``limit`` bounds the wait for an answer; zero: none."""

    def __init__(self, transactions: OpenTransactions, channels: Channels, *, limit: timedelta) -> None:
        self._transactions = transactions
        self._channels = channels
        self._limit_s = limit.total_seconds() or None

    def owner(self, token: str) -> NodeId | None:
        """The other node to ask; None when this one can say what is to be said."""
        return self._transactions.owner(token)

    async def call(self, owner: NodeId, method: str, event: CloudEvent, context: Context) -> list[CloudEvent]:
        """The owner's responses. Ends the call as the owner ends it. Raises ``TransactionNodeUnavailable``."""
        channel = await channel_to(owner, self._channels)
        try:
            return await self._responses(CloudEventsServiceStub(channel), owner, method, event, context)
        except grpc.aio.AioRpcError as ending:
            if ending.code() in ITS_OWN:
                await context.abort(ending.code(), ending.details() or "")
            log.warning("relay_failed", node=owner, status=ending.code().name, detail=ending.details())
            raise unreachable() from ending
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise unreachable() from None  # the channel was closed because its node is gone

    async def _responses(
        self, stub: CloudEventsServiceStub, owner: NodeId, method: str, event: CloudEvent, context: Context
    ) -> list[CloudEvent]:
        given = [(key, value) for key, value in context.invocation_metadata() or () if key in FORWARDED]
        metadata = (*given, *self._channels.sign(owner, f"{SERVICE}/{method}"))
        match method:
            case "entityManage":
                return [await stub.entityManage(event, metadata=metadata, timeout=self._limit_s)]
            case "entitySearch":
                return [await stub.entitySearch(event, metadata=metadata, timeout=self._limit_s)]
            case "entityManageCollection":
                many = stub.entityManageCollection(event, metadata=metadata, timeout=self._limit_s)
            case _:
                many = stub.entitySearchCollection(event, metadata=metadata, timeout=self._limit_s)
        return [response async for response in many]
