"""Sending a callout to a member and waiting for its result (docs/reference/grpc.md#dispatch)."""

import asyncio
import time
from collections import Counter
from collections.abc import Collection
from typing import Final, Literal, TypeAlias, get_args

from msgspec.structs import replace

from statewright.compute.callout import (
    Callout,
    CalloutKind,
    CalloutResult,
    CalloutTimeout,
    members_busy_failure,
    no_member_failure,
)
from statewright.compute.members import CalloutWithdrawn, Member, Members
from statewright.ids import TenantId
from statewright.telemetry.histogram import Histogram, MinuteCounts

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
        self.handed_out: MinuteCounts[tuple[TenantId, tuple[str, ...]]] = MinuteCounts(time.monotonic)
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
            self._begin()
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
                self._end()

    def _choose(self, callout: Callout, avoiding: Collection[str]) -> Member:
        member = self._members.select(callout.tenant, callout.tags, avoiding=avoiding)
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

    def _begin(self) -> None:
        self._in_flight += 1
        self._idle.clear()

    def _end(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()
