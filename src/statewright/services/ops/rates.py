"""How much was written in the last hour (docs/reference/operations.md#rates)."""

from datetime import timedelta
from typing import Final

from statewright import logs
from statewright.background import repeat
from statewright.services.runtime import Caller, Runtime
from statewright.storage.commit.rates import MINUTE_US as MINUTE_US
from statewright.storage.commit.rates import CommitRates
from statewright.storage.ops import rates
from statewright.storage.ops.rates import MinuteRate as MinuteRate
from statewright.storage.pool import Pool

INTERVAL: Final = timedelta(seconds=10)
"""How old the counts of other nodes may be."""

log = logs.logger(__name__)


class RateRecorder:
    """Stores what this process has counted, every few seconds; what is counted between a crash and the last time is
    lost, since these numbers are for looking at.
    """

    def __init__(self, pool: Pool, counted: CommitRates) -> None:
        self._pool = pool
        self._counted = counted

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.run_once, INTERVAL, log=log, failure="rates_not_recorded", waits_first=True)

    async def run_once(self) -> None:
        """Store what was counted since the last time. Raises what the database says; the counts are kept then."""
        taken = self._counted.take()
        try:
            await rates.add_rates(self._pool, taken)
        except BaseException:
            self._counted.give_back(taken)
            raise


async def list_rates(runtime: Runtime, caller: Caller) -> list[MinuteRate]:
    """What the tenant has written in each minute of the last hour, the oldest first."""
    await runtime.extensions.get(RateRecorder).run_once()
    return await rates.list_recent_rates(runtime.pool, caller.tenant)
