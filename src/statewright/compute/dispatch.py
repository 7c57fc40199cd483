"""Bringing a callout to a member and waiting for the answer (spec/grpc.md §15)."""

import asyncio
import time
from collections.abc import Collection
from typing import Final, get_args

from statewright.compute.callout import Callout, CalloutKind, Reply, members_busy, no_member
from statewright.compute.members import Members
from statewright.measures import Times

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds (spec/auth-and-operations.md §28.2)."""


class Dispatcher:
    """Asks the members connected to this process, one attempt per call."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._in_flight = 0
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()
        self.times: dict[CalloutKind, Times] = {kind: Times(BOUNDS) for kind in get_args(CalloutKind)}
        """How long callouts took, whatever came of them, by kind."""

    async def dispatch(self, callout: Callout, *, avoiding: Collection[str] = ()) -> Reply:
        """The reply of the best member that is not to be avoided, if there is a choice.

        Raises ``NoComputeMember`` without waiting, ``Unanswered`` (a ``DispatchTimeout``), or
        ``ComputeMemberDisconnected``. Cancelling withdraws the callout; a member that has it already is not told.
        """
        member = self._members.select(callout.tenant, callout.tags, avoiding=avoiding)
        if member is None:
            raise no_member(callout)
        if member.outbox.is_full:
            raise members_busy(callout)
        self._begin()
        pending = member.send(callout)
        begun = time.monotonic()
        try:
            return await pending.reply
        finally:
            self.times[callout.kind].observe(time.monotonic() - begun)
            member.withdraw(pending)
            self._end()

    async def drained(self) -> None:
        """Returns as soon as no callout is under way; for a shutdown that lets them finish."""
        await self._idle.wait()

    def _begin(self) -> None:
        self._in_flight += 1
        self._idle.clear()

    def _end(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()
