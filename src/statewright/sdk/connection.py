"""Keeping a node connected: when a stream ends, another one is opened after a pause."""

import asyncio
import logging
from contextlib import suppress

import grpc
import grpc.aio

from statewright.proto.cyoda_cloud_api_pb2_grpc import CloudEventsServiceStub
from statewright.sdk.endpoint import BackOff, Endpoint
from statewright.sdk.errors import TokenUnavailable
from statewright.sdk.session import JoinRejected, Session
from statewright.sdk.tokens import TokenSource
from statewright.sdk.wire import Greeting
from statewright.sdk.worker import CalloutWorker

log = logging.getLogger("statewright.sdk")


class NodeConnection:
    """Joins the server again whenever the stream ends; after a greeting the pauses start with the shortest again."""

    def __init__(
        self, endpoint: Endpoint, tokens: TokenSource, worker: CalloutWorker, *, tags: tuple[str, ...]
    ) -> None:
        self._endpoint = endpoint
        self._tokens = tokens
        self._worker = worker
        self._tags = tags
        self._backoff = BackOff()

    async def run(self, leave: asyncio.Event, *, grace: float) -> None:
        """Returns when ``leave`` is set and the last stream has ended, or when the server has drained the node.

        ``grace`` is for functions still running then.
        """
        while not leave.is_set():
            try:
                if await self._connect(leave, grace=grace):
                    log.info("node_drained endpoint=%s", self._endpoint.target)
                    return
                log.info("node_disconnected endpoint=%s", self._endpoint.target)
            except grpc.aio.AioRpcError as error:
                self._on_rejection(error)
            except (TimeoutError, JoinRejected, TokenUnavailable) as error:
                log.warning("node_disconnected endpoint=%s reason=%s", self._endpoint.target, error or "no greeting")
            await self._pause(leave)

    async def _connect(self, leave: asyncio.Event, *, grace: float) -> bool:
        token = await self._tokens.get_token()
        metadata = [("authorization", f"Bearer {token}")] if token else None
        async with self._endpoint.open_channel() as channel:
            call = CloudEventsServiceStub(channel).startStreaming(metadata=metadata)
            session = Session(call, self._worker, on_greeting=self._on_greeting)
            return await session.run(self._tags, leave, grace=grace)

    def _on_greeting(self, greeting: Greeting) -> None:
        self._backoff.reset()
        log.info(
            "node_joined endpoint=%s member=%s tenant=%s tags=%s",
            self._endpoint.target,
            greeting.member_id,
            greeting.joined_legal_entity_id,
            ",".join(self._tags),
        )

    def _on_rejection(self, error: grpc.aio.AioRpcError) -> None:
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            self._tokens.invalidate()
        log.warning(
            "node_disconnected endpoint=%s status=%s reason=%s",
            self._endpoint.target,
            error.code().name,
            describe_rejection(error),
        )

    async def _pause(self, leave: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._backoff.next()):
                await leave.wait()


def describe_rejection(error: grpc.aio.AioRpcError) -> str:
    """Why a stream could not be opened, or broke; what answers without knowing gRPC is the other port, most likely."""
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return f"{error.details()}; is this the gRPC port of the service? It is 9090 unless configured"
    return error.details() or ""
