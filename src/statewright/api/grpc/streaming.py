"""The connection of a calculation member, from join to farewell (spec/grpc.md §13, leniencies of §28).

Three parts share a stream once its member has joined. The *reader* takes what the member sends: answers go to the
callouts that wait for them, and whatever a live member would send counts as a sign of life. The *writer* is the only
one to call ``context.write``, since gRPC allows one write at a time; everybody else puts messages into the member's
outbox. The *prober* asks for signs of life at intervals and gives up on a member that has shown none for too long.

Each part runs until it knows how the stream should end, and so does a fourth that waits for the server to close. The
first one to know decides; the others are cancelled. Whatever happens, the member is removed and its callouts fail.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Final, TypeAlias
from uuid import uuid4

import grpc
import grpc.aio
import structlog
from msgspec import Struct

from statewright.api.grpc.authentication import COMPUTE_ROLE, authenticated
from statewright.api.grpc.envelope import (
    ACK,
    ANSWERS,
    JOIN,
    KEEP_ALIVE,
    UnusableEvent,
    data_of,
    event_of,
    read_answer,
    read_join,
)
from statewright.auth import Authenticator
from statewright.compute.members import Member, Members, PendingCallout
from statewright.entity import Principal
from statewright.proto.cloudevents_pb2 import CloudEvent

log = structlog.get_logger(__name__)

Context: TypeAlias = grpc.aio.ServicerContext[CloudEvent, CloudEvent]

SIGNS_OF_LIFE: Final = ANSWERS | {KEEP_ALIVE, ACK}


class KeepAlive(Struct, frozen=True, kw_only=True):
    """When members are probed and given up, in seconds (spec/grpc.md §13.4, §18).

    ``farewell`` is how long a member that has stopped reading may keep the server from telling it the final status.
    """

    interval: float = 10.0
    timeout: float = 30.0
    farewell: float = 5.0


class Ending(Struct, frozen=True):
    """How a stream ends."""

    code: grpc.StatusCode
    text: str = ""


HALF_CLOSED: Final = Ending(grpc.StatusCode.OK)
BROKEN: Final = Ending(grpc.StatusCode.CANCELLED)
SILENT: Final = Ending(grpc.StatusCode.DEADLINE_EXCEEDED, "keep-alive timeout")
CLOSING: Final = Ending(grpc.StatusCode.UNAVAILABLE, "server is shutting down")
ROLE_MISSING: Final = Ending(grpc.StatusCode.PERMISSION_DENIED, f"{COMPUTE_ROLE} required for streaming")
OTHER_TENANT: Final = Ending(grpc.StatusCode.PERMISSION_DENIED, "tenant mismatch")


class MemberStreams:
    """Serves the streams of all calculation members of this process."""

    def __init__(self, members: Members, authenticator: Authenticator, *, keep_alive: KeepAlive) -> None:
        self._members = members
        self._authenticator = authenticator
        self._keep_alive = keep_alive
        self._closing = asyncio.Event()

    def retire(self) -> None:
        """Gives members no more callouts; those under way go on."""
        self._members.retire()

    def close(self) -> None:
        """Ends all streams with ``UNAVAILABLE``, upon which every known client connects anew (spec/grpc.md §25)."""
        self._closing.set()

    async def serve(self, events: AsyncIterator[CloudEvent], context: Context) -> None:
        """One stream, from its first event to its end."""
        principal = await authenticated(context, self._authenticator)
        if COMPUTE_ROLE not in principal.roles:
            await context.abort(ROLE_MISSING.code, ROLE_MISSING.text)
        ending = await first(self._session(principal, events, context), self._closed())
        if ending not in (HALF_CLOSED, BROKEN):
            await self._say(ending, context)

    async def _session(self, principal: Principal, events: AsyncIterator[CloudEvent], context: Context) -> Ending:
        opening = await anext(events, None)
        if opening is None:
            return HALF_CLOSED
        tags = _joining(opening, principal)
        if isinstance(tags, Ending):
            return tags
        member = self._members.join(principal.tenant, tags, member_id=str(uuid4()))
        log.info("member_joined", tenant=member.tenant, member=member.id, tags=sorted(member.tags))
        try:
            return await self._converse(member, events, context)
        finally:
            self._members.leave(member)
            log.info("member_left", tenant=member.tenant, member=member.id)

    async def _converse(self, member: Member, events: AsyncIterator[CloudEvent], context: Context) -> Ending:
        life = Life(self._keep_alive.timeout)
        return await first(_read(member, life, events), _write(member, context), self._probe(member, life))

    async def _probe(self, member: Member, life: "Life") -> Ending:
        while True:
            await asyncio.sleep(self._keep_alive.interval)
            if life.is_over:
                return SILENT
            member.probe()

    async def _closed(self) -> Ending:
        await self._closing.wait()
        return CLOSING

    async def _say(self, ending: Ending, context: Context) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._keep_alive.farewell):
                await context.abort(ending.code, ending.text)
        log.warning("member_stuck", status=ending.text)


class Life:
    """When a member last showed that it lives. Joining counts."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._last = time.monotonic()

    def sign(self) -> None:
        self._last = time.monotonic()

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._last > self._timeout


async def first(*parts: Coroutine[None, None, Ending]) -> Ending:
    """The ending that one of the parts comes to first; the others are cancelled."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in parts]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
    return done.pop().result()


def _joining(opening: CloudEvent, principal: Principal) -> tuple[str, ...] | Ending:
    """The tags of a new member, or how its stream ends because it did not join properly (spec/grpc.md §13.2)."""
    if opening.type != JOIN:
        return _invalid(f"first message must be {JOIN}, got {opening.type}")
    try:
        data = data_of(opening)
    except UnusableEvent as error:
        return _invalid(f"failed to parse first message: {error}")
    try:
        join = read_join(data)
    except UnusableEvent as error:
        return _invalid(f"invalid join event payload: {error}")
    if join.joined_legal_entity_id and join.joined_legal_entity_id != principal.tenant:
        return OTHER_TENANT
    return join.tags or ()


def _invalid(text: str) -> Ending:
    return Ending(grpc.StatusCode.INVALID_ARGUMENT, text)


async def _read(member: Member, life: Life, events: AsyncIterator[CloudEvent]) -> Ending:
    async for event in events:
        _accept(event, member, life)
    return HALF_CLOSED


def _accept(event: CloudEvent, member: Member, life: Life) -> None:
    """Takes notice of an event; what cannot be understood is skipped and the stream goes on (spec/grpc.md §13.5)."""
    if event.type not in SIGNS_OF_LIFE:
        log.debug("member_event_ignored", member=member.id, type=event.type)
        return
    try:
        data = data_of(event)
        life.sign()
        if event.type in ANSWERS:
            answer = read_answer(data)
            member.answer(answer.request_id, answer.reply)
    except UnusableEvent as error:
        # Nobody can tell which callout it belongs to: that one runs into its time limit.
        log.warning("member_event_unusable", tenant=member.tenant, member=member.id, type=event.type, reason=str(error))


async def _write(member: Member, context: Context) -> Ending:
    while True:
        message = await member.outbox.take()
        try:
            event = event_of(message)
        except ValueError as error:
            if not isinstance(message, PendingCallout):
                raise
            message.failed(error)
            continue
        try:
            await context.write(event)
        except grpc.aio.BaseError:
            return BROKEN
        if isinstance(message, PendingCallout):
            message.written()
