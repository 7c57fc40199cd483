"""Reading the past although the present is still being written (docs/adr/0006).

A version carries the instant at which its statement ran, and becomes visible when its transaction commits, a moment
later. A reader between the two, at an instant after the version's, does not see it; asked again for the same
instant, he would. So every statement that writes versions holds an advisory lock, shared, from before it takes its
instant until its versions are visible, and who reads at an instant T

1. waits, if T is a little in the future, until it has passed: no version can get an instant up to T any more, except in
   a transaction that holds the lock already;
2. looks who holds the lock, and waits until these transactions are gone. Those that came later have later instants.

A snapshot taken after that shows every version up to T, now and for ever. A writer never waits for a reader. An
instant that is old enough needs no look. All instants come from the clock of the database; setting that clock back
takes the promise away.
"""

import asyncio
import time
from datetime import timedelta
from typing import Final

from statewright.failures import StorageUnavailable
from statewright.storage.pool import Pool

SETTLED_WINDOW: Final = timedelta(minutes=10)
"""Before the time of this machine. No statement that writes versions takes so long, nor do clocks differ so much."""

MAX_AHEAD_US: Final = 250_000
"""An instant no further ahead is waited for, since clocks of clients run ahead; a later one is read as the present."""

WRITERS_TIMEOUT_S: Final = 10.0
MIN_PAUSE_S, MAX_PAUSE_S = 0.0005, 0.05

NOW_AND_WRITERS: Final = """
    -- The sessions that hold the lock that commit.sql and bulk deletion take, in this database.
    SELECT now_us() AS now,
           ARRAY(SELECT virtualtransaction
                   FROM pg_locks
                  WHERE locktype = 'advisory' AND classid = 5371 AND objid = 1 AND objsubid = 2 AND granted
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS writers
"""


async def wait_until_visible(pool: Pool, instant: int) -> None:
    """Wait until everything that was written up to ``instant`` (epoch microseconds) is visible.

    Raises ``StorageUnavailable`` when a writer takes too long.
    """
    if instant < (time.time() - SETTLED_WINDOW.total_seconds()) * 1_000_000:
        return
    now, writers = await _fetch_writers(pool)
    if 0 < instant - now <= MAX_AHEAD_US:
        await asyncio.sleep((instant - now + 1) / 1_000_000)
        now, writers = await _fetch_writers(pool)
    pause, deadline = MIN_PAUSE_S, time.monotonic() + WRITERS_TIMEOUT_S
    while writers:
        if time.monotonic() > deadline:
            raise StorageUnavailable("a transaction that was begun before the wanted instant has not ended")
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE_S)
        _, present = await _fetch_writers(pool)
        writers &= present


async def _fetch_writers(pool: Pool) -> tuple[int, set[str]]:
    async with pool.connection() as connection:
        [(now, writers)] = await connection.fetch(NOW_AND_WRITERS)
    return now, set(writers)
