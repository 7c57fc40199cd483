"""One stream to the server, from joining to leaving (spec/grpc.md §13).

As on the server, one task reads and one writes; answers and acknowledgements wait for the writer in a queue.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeAlias

import grpc
import grpc.aio

from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk import wire
from statewright.sdk.worker import Worker

log = logging.getLogger("statewright.sdk")

Call: TypeAlias = "grpc.aio.StreamStreamCall[CloudEvent, CloudEvent]"

GREETING_SECONDS: Final = 10.0
"""How long the server may take to greet."""

FAREWELL_SECONDS: Final = 2.0
"""How long it may take to end the stream after the node has left."""


class NotAdmitted(Exception):
    """The server's greeting is a refusal, or cannot be read."""


class Session:
    """A stream that is about to join; ``greeted`` is called when the server has accepted it."""

    def __init__(self, call: Call, worker: Worker, *, greeted: Callable[[wire.Greeting], None]) -> None:
        self._call = call
        self._worker = worker
        self._greeted = greeted
        # Not bounded: it holds an answer per callout the server sent, and it is the server's part to send no more.
        self._outbox: asyncio.Queue[CloudEvent | None] = asyncio.Queue()
        self._is_leaving = False

    async def run(self, tags: tuple[str, ...], leave: asyncio.Event, *, grace: float) -> None:
        """Serves callouts until the stream ends, or until ``leave`` is set and what was begun is answered.

        ``grace`` limits, in seconds, how long that may take. Raises ``grpc.aio.AioRpcError`` when the stream ends
        badly, and ``TimeoutError`` when the server does not greet.
        """
        self._outbox.put_nowait(wire.join(tags))
        reading, writing = asyncio.create_task(self._read()), asyncio.create_task(self._write())
        leaving = asyncio.create_task(leave.wait())
        try:
            await asyncio.wait([reading, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await self._leave(writing, grace=grace)
                await asyncio.wait([reading], timeout=FAREWELL_SECONDS)
            elif not leave.is_set():
                reading.result()
        finally:
            self._call.cancel()
            for task in (reading, writing, leaving):
                task.cancel()
            await asyncio.gather(reading, writing, leaving, return_exceptions=True)

    async def _leave(self, writing: "asyncio.Task[None]", *, grace: float) -> None:
        """Takes no more callouts, answers those it has, and closes its half of the stream.

        The protocol has no word for leaving. Callouts that arrive meanwhile fail as soon as the server sees the
        half-close.
        """
        self._is_leaving = True
        await self._worker.finish(within=grace)
        self._outbox.put_nowait(None)
        await asyncio.wait([writing], timeout=FAREWELL_SECONDS)

    async def _read(self) -> None:
        async with asyncio.timeout(GREETING_SECONDS) as until_greeted:
            while isinstance(event := await self._call.read(), CloudEvent):
                if event.type == wire.GREET:
                    self._greeted(admitted(event))
                    until_greeted.reschedule(None)
                else:
                    self._take(event)

    def _take(self, event: CloudEvent) -> None:
        try:
            if event.type == wire.KEEP_ALIVE:
                self._outbox.put_nowait(wire.acknowledgement(event))
            elif event.type in wire.KINDS and not self._is_leaving:
                self._worker.take(wire.read_request(event), self._outbox.put_nowait)
        except wire.UnreadableEvent as error:
            log.warning("event_unreadable reason=%s", error)

    async def _write(self) -> None:
        try:
            while (event := await self._outbox.get()) is not None:
                await self._call.write(event)
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the stream is over; the reader learns why


def admitted(event: CloudEvent) -> wire.Greeting:
    """The greeting of a server that accepts the node. Raises :class:`NotAdmitted`."""
    try:
        greeting = wire.read_greeting(event)
    except wire.UnreadableEvent as error:
        raise NotAdmitted(str(error)) from error
    if not greeting.success:
        raise NotAdmitted(greeting.error.message if greeting.error else "the server refused")
    return greeting
