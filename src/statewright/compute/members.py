"""Who is connected, and what is on its way to each of them.

A member is one stream. Messages for it wait in its outbox, from where the stream's only writer takes them one by one.
A callout goes through these states:

    waiting ──taken by the writer──▶ taken ──written──▶ written ──answer──▶ replied
       │                               │                  │
       └────────── its time is up, its caller went away, or the member is lost ──────────▶ withdrawn

*Time.* The limit of a callout counts from the moment it is written (spec/grpc.md §15.5). Before that the same limit
bounds the wait for the stream, so a member that stopped reading costs its callers no more than the limit (§28.9).

*Certainty.* Only a callout that was never taken has certainly not reached the member. From then on it counts as
written, even if the stream breaks in the middle: the last bytes may have arrived.

*Memory.* A withdrawn callout leaves the outbox at once, so what waits there has a caller who waits for it; besides,
an outbox that is full takes no more callouts.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.compute.callout import Callout, Reply, Unanswered, member_lost
from statewright.compute.deadlines import Deadlines
from statewright.identity import TenantId

OUTBOX_LIMIT: Final = 10_000
"""Messages that may wait for one stream to be read."""


class Greeting(Struct, frozen=True):
    """Tells a member its id, and the tenant it was registered for."""

    member_id: str
    tenant: TenantId


class Probe(Struct, frozen=True):
    """Asks a member for a sign of life."""

    member_id: str


class PendingCallout:
    """A callout under way to one member. Its reply is a future; it fails when time is up or the member is lost."""

    __slots__ = ("_deadline", "_deadlines", "_loop", "_slot", "_taken", "callout", "member_id", "reply")

    def __init__(self, callout: Callout, member_id: str, deadlines: Deadlines) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self.callout = callout
        self.member_id = member_id
        self.reply: asyncio.Future[Reply] = loop.create_future()
        self._taken = False
        self._deadlines = deadlines
        self._deadline = loop.time() + callout.timeout_ms / 1000
        self._slot = deadlines.add(self, self._deadline)

    def taken(self) -> None:
        """The writer begins to write it; whether it arrives is uncertain from now on."""
        self._taken = True

    def written(self) -> None:
        """It is on the stream: the member's time starts."""
        # The deadline set at the beginning stays where it is and finds out.
        self._deadline = self._loop.time() + self.callout.timeout_ms / 1000

    def answered(self, reply: Reply) -> None:
        if not self.reply.done():
            self.reply.set_result(reply)

    def failed(self, failure: Exception) -> None:
        if not self.reply.done():
            self.reply.set_exception(failure)

    def lost(self) -> None:
        """The member's stream is gone."""
        self.failed(member_lost(self.callout, written=self._taken))

    def closed(self) -> None:
        """Nobody waits any more."""
        self._deadlines.discard(self, self._slot)

    def expire(self) -> None:
        """The time it had at the beginning is over."""
        if self._loop.time() < self._deadline:
            self._slot = self._deadlines.add(self, self._deadline)
            return
        self.failed(Unanswered(self.callout, member_id=self.member_id, written=self._taken))


Message: TypeAlias = PendingCallout | Greeting | Probe


class Outbox:
    """Messages in the order in which they are to be written. One reader: the writer of the stream."""

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

    def withdraw(self, key: str) -> None:
        """Takes a message back, if it is still here."""
        self._waiting.pop(key, None)

    async def take(self) -> Message:
        """The oldest message, as soon as there is one."""
        while not self._waiting:
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        _, message = self._waiting.popitem(last=False)
        if type(message) is PendingCallout:
            message.taken()
        return message


class Member:
    """One connected calculation member and its callouts."""

    def __init__(
        self,
        member_id: str,
        tenant: TenantId,
        tags: Iterable[str],
        *,
        deadlines: Deadlines,
        outbox_limit: int = OUTBOX_LIMIT,
    ) -> None:
        self.id = member_id
        self.tenant = tenant
        self.tags = frozenset(tag.strip().lower() for tag in tags)
        self.outbox = Outbox(outbox_limit)
        self.turn = 0
        """When it was last chosen, as a count of choices; zero for never."""
        self._pending: dict[str, PendingCallout] = {}
        self._deadlines = deadlines

    @property
    def in_flight(self) -> int:
        """Callouts without an answer yet, those that still wait for the stream included."""
        return len(self._pending)

    def greet(self) -> None:
        self.outbox.put("greeting", Greeting(self.id, self.tenant))

    def probe(self) -> None:
        """Asks for a sign of life. A member that does not read has at most one probe waiting."""
        self.outbox.put("probe", Probe(self.id))

    def send(self, callout: Callout) -> PendingCallout:
        """Puts a callout on its way. Whoever waits for the reply calls :meth:`withdraw` in the end."""
        pending = PendingCallout(callout, self.id, self._deadlines)
        self._pending[callout.request_id] = pending
        self.outbox.put(callout.request_id, pending)
        return pending

    def answer(self, request_id: str, reply: Reply) -> None:
        """Hands an answer to its waiter. Late, repeated and unknown ones are ignored (spec/grpc.md §15.7)."""
        pending = self._pending.get(request_id)
        if pending is not None:
            pending.answered(reply)

    def withdraw(self, pending: PendingCallout) -> None:
        """Forgets a callout, answered or not; one that was not taken yet will never be written.

        A later one with the same id stays: a job that comes again is asked for under its own id.
        """
        request_id = pending.callout.request_id
        pending.closed()
        if self._pending.get(request_id) is pending:
            del self._pending[request_id]
            self.outbox.withdraw(request_id)

    def disconnect(self) -> None:
        """Fails everything that is pending (spec/grpc.md §13.6)."""
        for pending in self._pending.values():
            pending.lost()


class Members:
    """The members connected to this process, by tenant."""

    def __init__(self, *, outbox_limit: int = OUTBOX_LIMIT) -> None:
        self._outbox_limit = outbox_limit
        self._by_tenant: dict[TenantId, dict[str, Member]] = {}
        self._choices = 0
        self._deadlines = Deadlines()
        self._is_retired = False
        self.observers: list[Callable[[], None]] = []
        """Are told that somebody has joined or left."""

    def join(self, tenant: TenantId, tags: Iterable[str], *, member_id: str) -> Member:
        """A new member, to be chosen from now on. It reads its greeting before any callout (spec/grpc.md §28.3)."""
        member = Member(member_id, tenant, tags, deadlines=self._deadlines, outbox_limit=self._outbox_limit)
        member.greet()
        self._by_tenant.setdefault(tenant, {})[member_id] = member
        self._tell()
        return member

    def leave(self, member: Member) -> None:
        """Ends a membership: chosen no more, and its pending callouts fail at once."""
        remaining = self._by_tenant.get(member.tenant, {})
        remaining.pop(member.id, None)
        if not remaining:
            self._by_tenant.pop(member.tenant, None)
        member.disconnect()
        self._tell()

    def retire(self) -> None:
        """Choose nobody from now on: all are about to be sent away."""
        self._is_retired = True

    def everybody(self) -> Iterator[Member]:
        """The members of all tenants."""
        for members in self._by_tenant.values():
            yield from members.values()

    @property
    def count(self) -> int:
        """Members of all tenants."""
        return sum(len(members) for members in self._by_tenant.values())

    def of(self, tenant: TenantId) -> tuple[Member, ...]:
        """The members of a tenant, in order of joining."""
        return tuple(self._by_tenant.get(tenant, {}).values())

    def has_other(self, tenant: TenantId, required: Iterable[str], avoiding: Collection[str]) -> bool:
        """Whether somebody declares all required tags who is not to be avoided."""
        wanted = frozenset(tag.lower() for tag in required)
        members = self._by_tenant.get(tenant, {}).values()
        return not self._is_retired and any(wanted <= member.tags and member.id not in avoiding for member in members)

    def select(self, tenant: TenantId, required: Iterable[str], *, avoiding: Collection[str] = ()) -> Member | None:
        """The member to ask, or None when none of the tenant declares all required tags (decision W5).

        Fewest callouts in flight first, then the one chosen longest ago. A full outbox counts as most. Members named in
        ``avoiding`` are taken only when there is no other.
        """
        wanted = _spelt_alike(tuple(required))
        matching = [member for member in self._by_tenant.get(tenant, {}).values() if wanted <= member.tags]
        others = [member for member in matching if member.id not in avoiding] if avoiding else matching
        if not matching or self._is_retired:
            return None
        chosen = min(others or matching, key=_load)
        self._choices += 1
        chosen.turn = self._choices
        return chosen

    def _tell(self) -> None:
        for observer in self.observers:
            observer()


@lru_cache(maxsize=4096)
def _spelt_alike(tags: tuple[str, ...]) -> frozenset[str]:
    return frozenset(tag.lower() for tag in tags)


def _load(member: Member) -> tuple[bool, int, int]:
    return member.outbox.is_full, member.in_flight, member.turn
