"""Trying a callout again by a rule (docs/reference/workflows.md#retries).

An attempt whose rule lets another one follow although a member may have seen it runs in a savepoint of its own, so
what its callbacks wrote is dropped with it. In the pauses nothing is held: neither the gate of the transaction nor a
connection. A run that is cancelled ends in its pauses as it does in its callouts.
"""

import asyncio
import random
from collections.abc import Awaitable, Collection
from typing import Protocol, assert_never

from msgspec import Struct
from msgspec.structs import replace

from statewright import logs
from statewright.compute.callout import CalloutKind, CalloutResult
from statewright.engine.metrics import RetryOutcome, RunMetrics
from statewright.engine.run import Run
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, FailedAttempt, NoComputeMember
from statewright.ids import system_clock
from statewright.workflow.retries import RetryCause, RetryRule

log = logs.logger(__name__)

_Asked = CalloutResult | NoComputeMember | ComputeMemberDisconnected | DispatchTimeout


class Attempt(Protocol):
    """Asks a member once; ``within_s`` bounds the wait, None: only the limit of the callout does.

    Raises what ``CalloutTransport.dispatch`` raises.
    """

    def __call__(self, run: Run, *, avoiding: Collection[str], within_s: float | None) -> Awaitable[CalloutResult]: ...


class RepeatedCallout(Struct, frozen=True, kw_only=True):
    """A callout and the rule by which it is tried again. ``joins``: its callbacks join the transaction of the run."""

    attempt: Attempt
    rule: RetryRule
    kind: CalloutKind
    name: str
    joins: bool
    metrics: RunMetrics

    async def ask(self, run: Run) -> CalloutResult:
        """What the last attempt came to; raises what it raised."""
        rule, loop = self.rule, asyncio.get_running_loop()
        until = None if rule.total_s is None else loop.time() + rule.total_s
        tried: list[str] = []
        failed: list[FailedAttempt] = []
        repeated: RetryCause | None = None
        number = 0
        while True:
            number += 1
            asked = await self._try(run, tried if rule.failover else (), until)
            cause = find_cause(asked)
            self._count(repeated, "succeeded" if cause is None else "failed")
            if cause is not None:
                told = asked.error or "" if isinstance(asked, CalloutResult) else asked.message
                failed.append(FailedAttempt(system_clock(), asked.member_id, told))
            if cause is None or number == rule.attempts or not _may_follow(rule, cause, asked):
                break
            tried += [member] if (member := asked.member_id) else []
            pause_s = rule.compute_pause_s(number, random.random())  # noqa: S311 - spreads load
            log.info(
                "callout_retried",
                kind=self.kind,
                name=self.name,
                attempt=number,
                cause=cause,
                pauseMs=round(pause_s * 1000),
                **run.describe(),
            )
            if not await _pause(run, pause_s, until):
                self._count(cause, "out_of_time")
                break
            repeated = cause
        if isinstance(asked, CalloutResult):
            return asked if asked.success else replace(asked, attempts=tuple(failed))
        asked.attempts = tuple(failed)
        raise asked

    async def _try(self, run: Run, avoiding: Collection[str], until: float | None) -> _Asked:
        within_s = None if until is None else max(until - asyncio.get_running_loop().time(), 0)
        try:
            if not (self.joins and self.rule.repeats_work):
                return await self.attempt(run, avoiding=avoiding, within_s=within_s)
            async with run.unit.open_savepoint() as savepoint:
                reply = await self.attempt(run.with_unit(savepoint), avoiding=avoiding, within_s=within_s)
                if reply.success:
                    await savepoint.commit()
                return reply
        except (NoComputeMember, ComputeMemberDisconnected, DispatchTimeout) as failure:
            return failure

    def _count(self, cause: RetryCause | None, outcome: RetryOutcome) -> None:
        if cause is not None:
            self.metrics.retries[self.kind, cause, outcome] += 1


async def _pause(run: Run, pause_s: float, until: float | None) -> bool:
    """Wait, while others may work on the transaction; False when the time for all attempts ends before the pause."""
    left_s = pause_s if until is None else until - asyncio.get_running_loop().time()
    async with run.unit.release_gate():
        await asyncio.sleep(max(min(pause_s, left_s), 0))
    return pause_s < left_s or until is None


def _may_follow(rule: RetryRule, cause: RetryCause, asked: _Asked) -> bool:
    return cause in rule.causes and (not isinstance(asked, CalloutResult) or asked.retryable)


def find_cause(asked: _Asked) -> RetryCause | None:
    """Why an attempt failed; None: it did not."""
    match asked:
        case CalloutResult():
            return None if asked.success else "ERROR"
        case NoComputeMember():
            return "NO_MEMBER"
        case ComputeMemberDisconnected():
            return "DISCONNECTED" if asked.written else "NOT_SENT"
        case DispatchTimeout():
            return "TIMEOUT"
        case _:
            assert_never(asked)
