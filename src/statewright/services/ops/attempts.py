"""Attempts to deliver events: when they begin, what they come to, and how that is noted
(docs/reference/operations.md#delivery).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from statewright.operations.subscriptions import PAUSES_S, DeliveryStatus
from statewright.services.ops.targets import Outcome
from statewright.storage.ops.subscriptions import Attempt, WaitingDelivery

OBEYED_ATTEMPTS: Final = 3
"""Attempts after which the next one is as early as the target wishes. If all were, a target that is away for a minute
and says so each second would have been given up by then.
"""

REST_PER_TURN: Final = 200
MAX_REST_S: Final = 0.25
TURNS: Final = 16
"""How deliveries give way to requests, see ``DeliveryPace``."""


class DeliveryPace:
    """How long turns of the event loop take, as deliveries find them. A request over HTTP takes the loop as long as
    several commits, so each delivery rests for many turns before it begins: hardly where the loop has nothing else to
    do, and the longer the more it has.
    """

    def __init__(self) -> None:
        self._turn_s = 0.0
        self.rest_s = 0.0
        """After the last turn that was told of."""

    def find_rest(self, turn_s: float) -> float:
        """Seconds, after a turn that took so long."""
        self._turn_s += (turn_s - self._turn_s) / TURNS
        self.rest_s = min(self._turn_s * REST_PER_TURN, MAX_REST_S)
        return self.rest_s


def judge(outcome: Outcome, *, number: int, duration_ms: int, chance: float) -> Attempt:
    """What an attempt came to, the ``number``-th of its delivery; ``chance`` from 0 to 1 spreads the next ones."""
    status: DeliveryStatus = "RETRYING"
    if outcome.error is None:
        pause, status = None, "DELIVERED"
    elif outcome.is_gone:  # the event goes out when the subscription is enabled again
        pause = 0.0
    else:
        pause = _spread(number, chance)
        if pause is not None and outcome.retry_after_s is not None:
            wished = outcome.retry_after_s
            pause = wished if number <= OBEYED_ATTEMPTS else max(pause, wished)
        if pause is None:
            status = "DEAD"
    return Attempt(
        status=status,
        number=number,
        duration_ms=duration_ms,
        next_in_us=None if pause is None else int(pause * 1_000_000),
        http_status=outcome.http_status,
        error=outcome.error,
        answer=outcome.answer,
        disables=outcome.error if outcome.is_gone else None,
    )


def _spread(number: int, chance: float) -> float | None:
    """Seconds to the next attempt; None: there is none."""
    return PAUSES_S[number - 1] * (0.8 + 0.4 * chance) if number <= len(PAUSES_S) else None


class _Batch:
    """Attempts that are noted together, from ``due`` on by the clock of the event loop."""

    def __init__(self, due: float) -> None:
        self.due = due
        self.came: list[tuple[WaitingDelivery, Attempt]] = []
        self.noted: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()


class AttemptNotes:
    """What came of attempts, on its way to the database. Those that end while others are being noted, or within a pause
    of so many seconds, are noted by one statement: each by itself would cost the database as much as what it tells of.
    ``write`` gives the ids of the deliveries that were still ours.
    """

    def __init__(
        self,
        write: Callable[[Sequence[tuple[WaitingDelivery, Attempt]]], Awaitable[Sequence[str]]],
        find_pause: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._write = write
        self._find_pause = find_pause
        self._writing = asyncio.Lock()
        self._next: _Batch | None = None

    async def add(self, delivery: WaitingDelivery, attempt: Attempt) -> bool:
        """Returns once it is noted, with whether it was. Raises what the writing raises, for all of a batch."""
        clock = asyncio.get_running_loop().time
        batch = self._next = self._next or _Batch(clock() + self._find_pause())
        batch.came.append((delivery, attempt))
        if (pause := batch.due - clock()) > 0:
            await asyncio.sleep(pause)
        async with self._writing:
            if self._next is batch:
                await self._write_next()
        return delivery.id in batch.noted.result()

    async def flush(self) -> None:
        """Note what has ended without a pause."""
        async with self._writing:
            await self._write_next()

    async def _write_next(self) -> None:
        batch, self._next = self._next, None
        if batch is None:
            return
        try:
            batch.noted.set_result(await self._write(batch.came))
        except Exception as failure:  # of all that have been added
            batch.noted.set_exception(failure)
        finally:
            batch.noted.cancel()  # unless there is an outcome: a run that ends cancels all of them
