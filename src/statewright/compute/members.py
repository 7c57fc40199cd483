"""The connected calculation members, and the messages and callouts on their way to each of them; sending a callout to
one and waiting for its result (docs/reference/grpc.md#dispatch).

A member is one stream. Messages for it wait in its outbox, from where the stream's only writer takes them one by one.
A callout goes through these states:

    waiting ──taken by the writer──▶ taken ──written──▶ written ──answer──▶ replied
       │                               │                  │
       └────────── its time is up, its caller went away, or the member is lost ──────────▶ cancelled

*Time.* The limit of a callout counts from the moment it is written (docs/reference/grpc.md#time-limit). Before that
the same limit bounds the wait for the stream, so a member that stopped reading costs its callers no more than the limit
(docs/reference/grpc.md#leniencies).

*Certainty.* Only a callout that was never taken has certainly not reached the member. From then on it counts as
written, even if the stream breaks in the middle: the last bytes may have arrived.

*Memory.* A cancelled callout leaves the outbox at once, so every callout there has a caller that waits for it; besides,
an outbox that is full takes no more callouts.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from statewright.compute.callout import (
    Callout,
    CalloutKind,
    CalloutResult,
    CalloutTimeout,
    member_lost_failure,
    members_busy_failure,
    no_member_failure,
)
from statewright.entity import Actor
from statewright.ids import TenantId, system_clock
from statewright.loop.background import wait_at_most
from statewright.loop.deadlines import Deadlines
from statewright.telemetry.histogram import Histogram, MinuteCounts

MAX_OUTBOX_MESSAGES: Final = 10_000
"""Messages that may wait in the outbox of one member."""


class Greeting(Struct, frozen=True):
    """The first message to a member: its id, and the tenant it was registered for."""

    member_id: str
    tenant: TenantId


class Ping(Struct, frozen=True):
    """A keep-alive message, which the member has to answer."""

    member_id: str


class CalloutWithdrawn(Exception):
    """The member is being drained, and has not been sent the callout: another one may take it."""


class PendingCallout:
    """A callout under way to one member. ``reply`` is a future for its result; it fails when time is up or the member
    is lost.
    """

    __slots__ = ("_bucket", "_deadline", "_deadlines", "_loop", "_taken", "begun", "callout", "member_id", "reply")

    def __init__(self, callout: Callout, member_id: str, deadlines: Deadlines) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self.callout = callout
        self.member_id = member_id
        self.reply: asyncio.Future[CalloutResult] = loop.create_future()
        self._taken = False
        self._deadlines = deadlines
        self.begun = loop.time()
        """When it was put into the outbox, by the clock of the loop."""
        self._deadline = self.begun + callout.timeout_ms / 1000
        self._bucket = deadlines.add(self, self._deadline)

    @property
    def is_taken(self) -> bool:
        """Whether it may have reached the member."""
        return self._taken

    def mark_taken(self) -> None:
        """Note that the writer begins to write it; whether it reaches the member is uncertain from now on."""
        self._taken = True

    def mark_written(self) -> None:
        """Note that it is on the stream: the member's time starts."""
        # The deadline set at the beginning stays; expire() finds that there is time left and sets another.
        self._deadline = self._loop.time() + self.callout.timeout_ms / 1000

    def resolve(self, reply: CalloutResult) -> None:
        if not self.reply.done():
            self.reply.set_result(reply)

    def fail(self, failure: Exception) -> None:
        if not self.reply.done():
            self.reply.set_exception(failure)

    def fail_disconnected(self) -> None:
        """Fail the callout because the member's stream ended."""
        self.fail(member_lost_failure(self.callout, written=self._taken, member_id=self.member_id))

    def withdraw(self) -> None:
        """Take the callout back, unless it may have reached the member already."""
        if not self._taken:
            self.fail(CalloutWithdrawn())

    def stop_deadline(self) -> None:
        """Remove the deadline, since the wait for the result is over."""
        self._deadlines.discard(self, self._bucket)

    def expire(self) -> None:
        """Fail the callout; one that was written since the deadline was set gets the rest of the member's time."""
        if self._loop.time() < self._deadline:
            self._bucket = self._deadlines.add(self, self._deadline)
            return
        self.fail(CalloutTimeout(self.callout, member_id=self.member_id, written=self._taken))


Message: TypeAlias = PendingCallout | Greeting | Ping


class Outbox:
    """Messages in the order in which they are to be written; only the writer of the stream takes them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: OrderedDict[str, Message] = OrderedDict()
        self._arrival: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= self._limit

    def put(self, key: str, message: Message) -> None:
        """Adds a message; one that still waits under the same key is replaced and keeps its place."""
        self._waiting[key] = message
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def remove(self, key: str) -> None:
        """Removes a message, if it still waits."""
        self._waiting.pop(key, None)

    async def take(self) -> Message:
        """Wait for the oldest message and remove it."""
        while not self._waiting:
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        _, message = self._waiting.popitem(last=False)
        if type(message) is PendingCallout:
            message.mark_taken()
        return message


class MemberOrigin(Struct, frozen=True, kw_only=True):
    """Who opened the stream of a member, what it says of its ``software``, and whether its connection may carry
    secrets.
    """

    principal: Actor | None = None
    software: str = ""
    is_private: bool = False


UNKNOWN_ORIGIN: Final = MemberOrigin()


class Member:
    """One connected calculation member and its callouts."""

    def __init__(
        self,
        member_id: str,
        tenant: TenantId,
        tags: Iterable[str],
        *,
        deadlines: Deadlines,
        outbox_limit: int = MAX_OUTBOX_MESSAGES,
        origin: MemberOrigin = UNKNOWN_ORIGIN,
    ) -> None:
        self.id = member_id
        self.tenant = tenant
        self.tags = frozenset(tag.strip().lower() for tag in tags)
        self.outbox = Outbox(outbox_limit)
        self.turn = 0
        """When it was last chosen, as a count of choices; zero for never."""
        self.connected_at = system_clock()
        """In epoch microseconds."""
        self.last_seen_at = self.connected_at
        """When it said something last, in epoch microseconds."""
        self.principal = origin.principal
        self.software = origin.software
        self.is_private = origin.is_private
        self.is_draining = False
        self.succeeded = 0
        """Callouts that it answered with success; ``failed`` are the others that it answered."""
        self.failed = 0
        self.timed_out = 0
        self._pending: dict[str, PendingCallout] = {}
        self._deadlines = deadlines
        self._drain_changed = asyncio.Event()
        self._drain_until = 0.0

    @property
    def in_flight(self) -> int:
        """Callouts without a result yet, those that still wait for the stream included."""
        return len(self._pending)

    @property
    def pending_callouts(self) -> Collection[PendingCallout]:
        """Callouts without a result yet."""
        return self._pending.values()

    def drain(self, within_s: float) -> None:
        """Send it nothing from now on; its stream may end when it is idle, and at the latest ``within_s``."""
        self.is_draining = True
        self._drain_until = asyncio.get_running_loop().time() + within_s
        self._drain_changed.set()
        for pending in self._pending.values():
            pending.withdraw()

    async def wait_drained(self) -> None:
        """Returns when it was drained and has answered everything, or its time for that is up."""
        loop = asyncio.get_running_loop()
        while not self.is_draining or (self._pending and loop.time() < self._drain_until):
            self._drain_changed.clear()
            if self.is_draining:
                await wait_at_most(self._drain_changed.wait(), self._drain_until - loop.time())
            else:
                await self._drain_changed.wait()

    def note_sign(self) -> None:
        """It has said something."""
        self.last_seen_at = system_clock()

    def greet(self) -> None:
        self.outbox.put("greeting", Greeting(self.id, self.tenant))

    def ping(self) -> None:
        """Sends a keep-alive message. A member that does not read has at most one waiting."""
        self.outbox.put("probe", Ping(self.id))

    def send(self, callout: Callout) -> PendingCallout:
        """Puts a callout into the outbox. When the wait for its reply ends, :meth:`cancel` must be called."""
        pending = PendingCallout(callout, self.id, self._deadlines)
        self._pending[callout.request_id] = pending
        self.outbox.put(callout.request_id, pending)
        return pending

    def answer(self, request_id: str, reply: CalloutResult) -> None:
        """Resolves the callout with this id. Late, repeated and unknown results are ignored
        (docs/reference/grpc.md#late-answers).
        """
        pending = self._pending.get(request_id)
        if pending is not None and not pending.reply.done():
            self.succeeded += reply.success
            self.failed += not reply.success
            pending.resolve(reply)

    def cancel(self, pending: PendingCallout) -> None:
        """Removes a callout, answered or not; one that was not taken yet will never be written.

        A later one with the same id stays: a job that is pushed again has the job's id as request id again.
        """
        request_id = pending.callout.request_id
        pending.stop_deadline()
        if self._pending.get(request_id) is pending:
            del self._pending[request_id]
            self.outbox.remove(request_id)
            if self.is_draining:
                self._drain_changed.set()

    def disconnect(self) -> None:
        """Fails everything that is pending (docs/reference/grpc.md#end-of-a-stream)."""
        for pending in self._pending.values():
            pending.fail_disconnected()


class Members:
    """The members connected to this process, by tenant."""

    def __init__(self, *, outbox_limit: int = MAX_OUTBOX_MESSAGES) -> None:
        self._outbox_limit = outbox_limit
        self._by_tenant: dict[TenantId, dict[str, Member]] = {}
        self._choices = 0
        self._deadlines = Deadlines()
        self._is_draining = False
        self.observers: list[Callable[[], None]] = []
        """Called after a member has joined or left."""

    def join(
        self, tenant: TenantId, tags: Iterable[str], *, member_id: str, origin: MemberOrigin = UNKNOWN_ORIGIN
    ) -> Member:
        """Add a member, which can be selected from now on. It reads its greeting before any callout
        (docs/reference/grpc.md#leniencies).
        """
        member = Member(
            member_id,
            tenant,
            tags,
            deadlines=self._deadlines,
            outbox_limit=self._outbox_limit,
            origin=origin,
        )
        member.greet()
        self._by_tenant.setdefault(tenant, {})[member_id] = member
        self._notify_observers()
        return member

    def leave(self, member: Member) -> None:
        """Remove a member: it is selected no more, and its pending callouts fail at once."""
        remaining = self._by_tenant.get(member.tenant, {})
        remaining.pop(member.id, None)
        if not remaining:
            self._by_tenant.pop(member.tenant, None)
        member.disconnect()
        self._notify_observers()

    def drain(self) -> None:
        """Select no member from now on, because all streams are about to be closed."""
        self._is_draining = True

    def drain_member(self, tenant: TenantId, member_id: str, *, within_s: float) -> Member | None:
        """Select one member no more, and let it go when it is idle; None when there is no such member."""
        member = self._by_tenant.get(tenant, {}).get(member_id)
        if member is not None:
            member.drain(within_s)
            self._notify_observers()
        return member

    def iterate_all(self) -> Iterator[Member]:
        """The members of all tenants."""
        for members in self._by_tenant.values():
            yield from members.values()

    @property
    def count(self) -> int:
        """The number of members, of all tenants."""
        return sum(len(members) for members in self._by_tenant.values())

    def list_members(self, tenant: TenantId) -> tuple[Member, ...]:
        """The members of a tenant, in order of joining."""
        return tuple(self._by_tenant.get(tenant, {}).values())

    def has_other(self, tenant: TenantId, required: Iterable[str], avoiding: Collection[str]) -> bool:
        """Whether a member that is not to be avoided declares all required tags."""
        wanted = frozenset(tag.lower() for tag in required)
        members = self._by_tenant.get(tenant, {}).values()
        return not self._is_draining and any(
            wanted <= member.tags and member.id not in avoiding and not member.is_draining for member in members
        )

    def select(
        self,
        tenant: TenantId,
        required: Iterable[str],
        *,
        avoiding: Collection[str] = (),
        has_secrets: bool = False,
    ) -> Member | None:
        """The member for a callout, or None when none of the tenant declares all required tags (decision W5).

        Fewest callouts in flight first, then the one chosen longest ago. A full outbox counts as most. Members named in
        ``avoiding`` are taken only when there is no other. A callout that has secrets is for private connections.
        """
        wanted = _normalize_tags(tuple(required))
        members = self._by_tenant.get(tenant, {}).values()
        matching = [
            member
            for member in members
            if wanted <= member.tags and not member.is_draining and (member.is_private or not has_secrets)
        ]
        others = [member for member in matching if member.id not in avoiding] if avoiding else matching
        if not matching or self._is_draining:
            return None
        chosen = min(others or matching, key=_rank)
        self._choices += 1
        chosen.turn = self._choices
        return chosen

    def _notify_observers(self) -> None:
        for observer in self.observers:
            observer()


@lru_cache(maxsize=4096)
def _normalize_tags(tags: tuple[str, ...]) -> frozenset[str]:
    return frozenset(tag.lower() for tag in tags)


def _rank(member: Member) -> tuple[bool, int, int]:
    return member.outbox.is_full, member.in_flight, member.turn


DURATION_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of the histogram of callout times, in seconds (docs/reference/service.md#metrics)."""


CallOutcome: TypeAlias = Literal["succeeded", "failed", "timed_out"]

CALL_OUTCOMES: Final = get_args(CallOutcome)

MAX_TENANTS: Final = 300

OTHER_TENANTS: Final = TenantId("_other")


class Dispatcher:
    """Dispatches callouts to the members connected to this process, one attempt per call."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._in_flight = 0
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()
        self.calls: Counter[tuple[TenantId, CallOutcome]] = Counter()
        """What became of calls, by tenant; those of the first ``MAX_TENANTS`` tenants apart."""
        self.handed_out: MinuteCounts[tuple[TenantId, tuple[str, ...]]] = MinuteCounts()
        """Callouts that were given to members, by tenant and tags."""
        self.times: dict[CalloutKind, Histogram] = {
            kind: Histogram(DURATION_BOUNDS_S) for kind in get_args(CalloutKind)
        }
        """The time that callouts took, failed ones too, by kind."""

    async def dispatch(self, callout: Callout, *, avoiding: Collection[str] = ()) -> CalloutResult:
        """The result of the best member, of one whose id is in ``avoiding`` only if there is no other.

        Raises ``NoComputeMember`` without waiting, ``CalloutTimeout`` (a ``DispatchTimeout``), or
        ``ComputeMemberDisconnected``. Cancelling the wait cancels the callout; a member that has read it already is not
        told.
        """
        while True:
            member = self._choose(callout, avoiding)
            self._in_flight += 1
            self._idle.clear()
            pending = member.send(callout)
            self.handed_out.count((callout.tenant, callout.tags))
            begun = time.monotonic()
            try:
                reply = await pending.reply
                self._count(callout.tenant, "succeeded" if reply.success else "failed")
                return reply if reply.success else replace(reply, member_id=member.id)
            except CalloutWithdrawn:  # its member is being drained, and has seen nothing of it
                continue
            except CalloutTimeout:
                member.timed_out += 1
                self._count(callout.tenant, "timed_out")
                raise
            finally:
                self.times[callout.kind].observe(time.monotonic() - begun)
                member.cancel(pending)
                self._in_flight -= 1
                if not self._in_flight:
                    self._idle.set()

    def _choose(self, callout: Callout, avoiding: Collection[str]) -> Member:
        member = self._members.select(callout.tenant, callout.tags, avoiding=avoiding, has_secrets=callout.has_secrets)
        if member is None:
            connected = [each for each in self._members.list_members(callout.tenant) if not each.is_draining]
            raise no_member_failure(callout, {tag for each in connected for tag in each.tags} if connected else None)
        if member.outbox.is_full:
            raise members_busy_failure(callout)
        return member

    async def wait_drained(self) -> None:
        """Wait until no callout is under way; for a shutdown that lets them finish."""
        await self._idle.wait()

    def _count(self, tenant: TenantId, outcome: CallOutcome) -> None:
        key = (tenant, outcome)
        if key not in self.calls and len(self.calls) >= MAX_TENANTS * len(CALL_OUTCOMES):
            key = (OTHER_TENANTS, outcome)
        self.calls[key] += 1
