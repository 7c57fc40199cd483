"""A node and its server (docs/reference/grpc.md#member-streams): one stream, from joining to leaving, and another one
after a pause when it ends.

As on the server, one task reads and one writes; answers and acknowledgements wait for the writer in a queue.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import grpc
import grpc.aio

from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cyoda_cloud_api_pb2_grpc import CloudEventsServiceStub
from statewright.sdk import wire
from statewright.sdk.endpoint import BackOff, Endpoint, advise_on_tls
from statewright.sdk.errors import TokenUnavailable
from statewright.sdk.tokens import TokenSource
from statewright.sdk.worker import CalloutWorker

log = logging.getLogger("statewright.sdk")

EventStream: TypeAlias = "grpc.aio.StreamStreamCall[CloudEvent, CloudEvent]"

GREETING_TIMEOUT_S: Final = 10.0
"""Limit of the wait for the server's greeting."""

LEAVE_TIMEOUT_S: Final = 2.0
"""Limit of the wait for the server to end the stream after the node has left."""


class JoinRejected(Exception):
    """The server refused the node in its greeting, or the greeting cannot be read."""


class Session:
    """A stream that is about to join; ``on_greeting`` is called when the server has accepted it."""

    def __init__(
        self, call: EventStream, worker: CalloutWorker, *, on_greeting: Callable[[wire.Greeting], None]
    ) -> None:
        self._call = call
        self._worker = worker
        self._on_greeting = on_greeting
        # Not bounded: it holds an answer per callout, and the server bounds those.
        self._outbox: asyncio.Queue[CloudEvent | None] = asyncio.Queue()
        self._is_leaving = False
        self._max_bytes = wire.MAX_MESSAGE_BYTES

    async def run(self, tags: tuple[str, ...], leave: asyncio.Event, *, grace: float) -> bool:
        """Serves callouts until the stream ends, or until ``leave`` is set and what was begun is answered; whether the
        server has drained the node, so that it is not to join again.

        ``grace`` limits, in seconds, how long that may take. Raises ``grpc.aio.AioRpcError`` when the stream ends
        badly, and ``TimeoutError`` when the server does not greet.
        """
        self._outbox.put_nowait(wire.build_join(tags))
        reading, writing = asyncio.create_task(self._read()), asyncio.create_task(self._write())
        leaving = asyncio.create_task(leave.wait())
        try:
            await asyncio.wait([reading, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await self._leave(writing, grace=grace)
                await asyncio.wait([reading], timeout=LEAVE_TIMEOUT_S)
            elif not leave.is_set():
                reading.result()
                return wire.DRAINED in (await self._call.trailing_metadata() or ())
            return False
        finally:
            self._call.cancel()
            for task in (reading, writing, leaving):
                task.cancel()
            await asyncio.gather(reading, writing, leaving, return_exceptions=True)

    async def _leave(self, writing: "asyncio.Task[None]", *, grace: float) -> None:
        """Takes no more callouts, answers those it has, and closes its half of the stream.

        The protocol has no message for leaving. Callouts that arrive meanwhile fail as soon as the server sees the
        half-close.
        """
        self._is_leaving = True
        await self._worker.wait_finished(within=grace)
        self._outbox.put_nowait(None)
        await asyncio.wait([writing], timeout=LEAVE_TIMEOUT_S)

    async def _read(self) -> None:
        async with asyncio.timeout(GREETING_TIMEOUT_S) as until_greeted:
            while isinstance(event := await self._call.read(), CloudEvent):
                if event.type == wire.GREET:
                    metadata = await self._call.initial_metadata()
                    self._max_bytes = wire.read_max_message(metadata.get(wire.MAX_MESSAGE))
                    self._on_greeting(check_greeting(event))
                    until_greeted.reschedule(None)
                else:
                    self._handle_event(event)

    def _handle_event(self, event: CloudEvent) -> None:
        try:
            if event.type == wire.KEEP_ALIVE:
                self._outbox.put_nowait(wire.build_acknowledgement(event))
            elif event.type in wire.KINDS and not self._is_leaving:
                request = wire.read_request(event)
                self._worker.submit(request, partial(self._answer, request))
        except wire.UnreadableEvent as error:
            log.warning("event_unreadable reason=%s", error)

    def _answer(self, request: wire.CalloutRequest, answer: CloudEvent) -> None:
        """An answer that is too long would end the stream, and with it all callouts under way."""
        size = answer.ByteSize()
        if size > self._max_bytes:
            text = f"the answer has {size} bytes, and the service takes {self._max_bytes} at most"
            log.error("answer_too_large kind=%s name=%s reason=%s", request.kind, request.context.name, text)
            answer = wire.build_too_large_answer(request, text)
        self._outbox.put_nowait(answer)

    async def _write(self) -> None:
        try:
            while (event := await self._outbox.get()) is not None:
                await self._call.write(event)
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the stream has ended; the reader finds out why


def check_greeting(event: CloudEvent) -> wire.Greeting:
    """The greeting of a server that accepts the node. Raises :class:`JoinRejected`."""
    try:
        greeting = wire.read_greeting(event)
    except wire.UnreadableEvent as error:
        raise JoinRejected(str(error)) from error
    if not greeting.success:
        raise JoinRejected(greeting.error.message if greeting.error else "the server refused")
    return greeting


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

    def _on_greeting(self, greeting: wire.Greeting) -> None:
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
    return advise_on_tls(error.details() or "")
