"""The stream of a calculation member, from joining to its status (docs/reference/grpc.md#member-streams,
docs/reference/grpc.md#leniencies).

Three parts share a stream once its member has joined. The *reader* takes what the member sends: answers go to the
callouts that wait for them, and each of them counts as a sign of life. The *writer* alone calls ``context.write``,
since gRPC allows one write at a time; all other messages go through the member's outbox. The *prober* sends keep-alive
messages at intervals and ends the stream of a member that has been silent for too long.

Each part runs until it returns the status with which the stream is to end, and so do those that wait for the member to
be drained and for the server to close. The first status decides; the other parts are cancelled. In every case the
member is removed and its callouts fail.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Final, Protocol
from uuid import uuid4

import grpc
import grpc.aio
from msgspec import Struct

from grpc_h2 import CallContext, CallRefused
from statewright.api.grpc.calls import COMPUTE_ROLE, Context, authenticate_call, get_first_value
from statewright.api.grpc.envelope import (
    ACK,
    JOIN,
    KEEP_ALIVE,
    RESPONSE_TYPES,
    UnusableEvent,
    encode_message,
    get_data,
    read_by_size,
    read_join,
    read_response,
)
from statewright.auth import Authenticator
from statewright.compute.members import Member, MemberOrigin, Members, PendingCallout
from statewright.entity import READ_ONLY_ROLE, Principal
from statewright.loop.background import wait_at_most
from statewright.network.sockets import LOOPBACK_ONLY, PrivateConnections
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.telemetry import logs

log = logs.logger(__name__)

DRAINED_TRAILER: Final = "statewright-drained"
"""What tells a node that it was drained, and is not to connect anew."""

MAX_MESSAGE_HEADER: Final = "statewright-max-message-bytes"
"""What tells a node how long its answers may be, or the stream would end: those of its other callouts as well."""

MAX_SOFTWARE_CHARS: Final = 200

LIVENESS_EVENTS: Final = RESPONSE_TYPES | {KEEP_ALIVE, ACK}


class KeepAlive(Struct, frozen=True, kw_only=True):
    """When members are probed and their streams are ended, in seconds (docs/reference/grpc.md#liveness,
    docs/reference/grpc.md#settings).

    ``status_timeout`` is how long a member that has stopped reading may delay its final status.
    """

    interval: float = 10.0
    timeout: float = 30.0
    status_timeout: float = 5.0


class StreamStatus(Struct, frozen=True):
    """The status with which a stream ends."""

    code: grpc.StatusCode
    text: str = ""


HALF_CLOSED: Final = StreamStatus(grpc.StatusCode.OK)
BROKEN: Final = StreamStatus(grpc.StatusCode.CANCELLED)
SILENT: Final = StreamStatus(grpc.StatusCode.DEADLINE_EXCEEDED, "keep-alive timeout")
DRAINED: Final = StreamStatus(grpc.StatusCode.OK, "drained")
"""Upon ``OK`` known members stop for good (docs/reference/grpc.md#members-in-the-field)."""
CLOSING: Final = StreamStatus(grpc.StatusCode.UNAVAILABLE, "server is shutting down")
ROLE_MISSING: Final = StreamStatus(grpc.StatusCode.PERMISSION_DENIED, f"{COMPUTE_ROLE} required for streaming")
READ_ONLY: Final = StreamStatus(grpc.StatusCode.PERMISSION_DENIED, f"{READ_ONLY_ROLE} allows no streaming")
OTHER_TENANT: Final = StreamStatus(grpc.StatusCode.PERMISSION_DENIED, "tenant mismatch")


class MemberStreams:
    """Serves the streams of all calculation members of this process. ``message_bytes`` is their longest message."""

    def __init__(
        self,
        members: Members,
        authenticator: Authenticator,
        *,
        keep_alive: KeepAlive,
        message_bytes: int,
        connections: PrivateConnections = LOOPBACK_ONLY,
    ) -> None:
        self._members = members
        self._message_bytes = message_bytes
        self._connections = connections
        self._authenticator = authenticator
        self._keep_alive = keep_alive
        self._closing = asyncio.Event()

    def drain(self) -> None:
        """Send members no more callouts; those under way go on."""
        self._members.drain()

    def close(self) -> None:
        """End all streams with ``UNAVAILABLE``, upon which every known client connects anew
        (docs/reference/grpc.md#members-in-the-field).
        """
        self._closing.set()

    async def serve(self, events: AsyncIterator[CloudEvent], context: Context) -> None:
        """One stream, from its first event to its end."""
        principal = await authenticate_call(context, self._authenticator)
        if COMPUTE_ROLE not in principal.roles:
            await context.abort(ROLE_MISSING.code, ROLE_MISSING.text)
        if principal.is_read_only:
            await context.abort(READ_ONLY.code, READ_ONLY.text)
        ending = await wait_first_status(self._run_session(principal, events, context), self._wait_closing())
        if ending is DRAINED:
            context.set_trailing_metadata(((DRAINED_TRAILER, "true"),))
        elif ending not in (HALF_CLOSED, BROKEN):
            await self._send_status(ending, context)

    async def _run_session(
        self, principal: Principal, events: AsyncIterator[CloudEvent], context: Context
    ) -> StreamStatus:
        try:
            async with asyncio.timeout(self._keep_alive.timeout):
                opening = await anext(events, None)
        except TimeoutError:
            return SILENT
        except CallRefused as torn:
            return StreamStatus(torn.code, str(torn))
        if opening is None:
            return HALF_CLOSED
        tags = _check_join(opening, principal)
        if isinstance(tags, StreamStatus):
            return tags
        await context.send_initial_metadata(((MAX_MESSAGE_HEADER, str(self._message_bytes)),))
        software = get_first_value(context, "statewright-software") or get_first_value(context, "user-agent") or ""
        member = self._members.join(
            principal.tenant,
            tags,
            member_id=str(uuid4()),
            origin=MemberOrigin(
                principal=principal.actor,
                software="".join(filter(str.isprintable, software[:MAX_SOFTWARE_CHARS])),
                is_private=self._connections.is_private(context.peer()),
            ),
        )
        log.info("member_joined", tenant=member.tenant, member=member.id, tags=sorted(member.tags))
        try:
            return await self._run_stream(member, events, context)
        finally:
            self._members.leave(member)
            log.info("member_left", tenant=member.tenant, member=member.id)

    async def _run_stream(self, member: Member, events: AsyncIterator[CloudEvent], context: Context) -> StreamStatus:
        liveness = Liveness(self._keep_alive.timeout, context if isinstance(context, CallContext) else None)
        return await wait_first_status(
            _read(member, liveness, events),
            _write(member, liveness, context),
            self._ping(member, liveness),
            _wait_drained(member),
        )

    async def _ping(self, member: Member, liveness: "Liveness") -> StreamStatus:
        while True:
            await asyncio.sleep(self._keep_alive.interval)
            if liveness.is_expired:
                return SILENT
            member.ping()

    async def _wait_closing(self) -> StreamStatus:
        await self._closing.wait()
        return CLOSING

    async def _send_status(self, status: StreamStatus, context: Context) -> None:
        await wait_at_most(context.abort(status.code, status.text), self._keep_alive.status_timeout)
        log.warning("member_stuck", status=status.text)


class Connected(Protocol):
    """What is known of a member's connection."""

    @property
    def last_ping(self) -> float | None:
        """When the member has sent an HTTP/2 ping, by ``time.monotonic``."""
        ...


class Liveness:
    """When a member last gave a sign of life. ``timeout`` in seconds.

    Joining is one, its events are, and so are HTTP/2 pings by which it keeps its ``connection`` alive, as long as
    nothing was asked of it that it did not answer: pings come from a library that goes on when its program hangs.
    """

    def __init__(self, timeout: float, connection: Connected | None) -> None:
        self._timeout = timeout
        self._connection = connection
        self._last = time.monotonic()
        self._asked: float | None = None
        """When something was asked of it for the first time after its last event."""

    def renew(self) -> None:
        """The member has sent an event."""
        self._last = time.monotonic()
        self._asked = None

    def ask(self) -> None:
        """The member was sent a callout."""
        if self._asked is None:
            self._asked = time.monotonic()

    @property
    def is_expired(self) -> bool:
        pinged = self._connection.last_ping if self._connection is not None else None
        last = max(self._last, min(pinged or 0.0, self._asked or pinged or 0.0))
        return time.monotonic() - last > self._timeout


async def wait_first_status(*parts: Coroutine[None, None, StreamStatus]) -> StreamStatus:
    """The status of the part that ends first; the others are cancelled."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in parts]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
    return done.pop().result()


def _check_join(opening: CloudEvent, principal: Principal) -> tuple[str, ...] | StreamStatus:
    """The tags of a new member, or the status of its stream when it did not join properly
    (docs/reference/grpc.md#joining).
    """
    if opening.type != JOIN:
        return _invalid_status(f"first message must be {JOIN}, got {opening.type}")
    try:
        data = get_data(opening)
    except UnusableEvent as error:
        return _invalid_status(f"failed to parse first message: {error}")
    try:
        join = read_join(data)
    except UnusableEvent as error:
        return _invalid_status(f"invalid join event payload: {error}")
    if join.joined_legal_entity_id and join.joined_legal_entity_id != principal.tenant:
        return OTHER_TENANT
    return join.tags or ()


def _invalid_status(text: str) -> StreamStatus:
    return StreamStatus(grpc.StatusCode.INVALID_ARGUMENT, text)


async def _wait_drained(member: Member) -> StreamStatus:
    await member.wait_drained()
    log.info("member_drained", tenant=member.tenant, member=member.id)
    return DRAINED


async def _read(member: Member, liveness: Liveness, events: AsyncIterator[CloudEvent]) -> StreamStatus:
    try:
        async for event in events:
            await _accept(event, member, liveness)
    except CallRefused as torn:
        return StreamStatus(torn.code, str(torn))
    return HALF_CLOSED


async def _accept(event: CloudEvent, member: Member, liveness: Liveness) -> None:
    """Handle one event of a member; one that cannot be read is skipped and the stream goes on
    (docs/reference/grpc.md#unusable-events).
    """
    if event.type not in LIVENESS_EVENTS:
        log.debug("member_event_ignored", member=member.id, type=event.type)
        return
    try:
        data = get_data(event)
        liveness.renew()
        member.note_sign()
        if event.type in RESPONSE_TYPES:
            answer = await read_by_size(data, read_response)
            member.answer(answer.request_id, answer.result)
    except UnusableEvent as error:
        # Its callout is unknown, and will run into its time limit.
        log.warning("member_event_unusable", tenant=member.tenant, member=member.id, type=event.type, reason=str(error))


async def _write(member: Member, liveness: Liveness, context: Context) -> StreamStatus:
    while True:
        message = await member.outbox.take()
        try:
            event = encode_message(message)
        except ValueError as error:
            if not isinstance(message, PendingCallout):
                raise
            message.fail(error)
            continue
        try:
            await context.write(event)
        except grpc.aio.BaseError:
            return BROKEN
        if isinstance(message, PendingCallout):
            message.mark_written()
            liveness.ask()
