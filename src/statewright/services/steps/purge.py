"""Removing finished instances by age, with everything that belongs to them. Ours."""

from datetime import timedelta

from statewright.failures import StepBadRequest
from statewright.services.runtime import Caller, Runtime
from statewright.storage.steps import instances

BATCH = 200
"""Instances removed by one statement: few enough not to be noticed."""


async def purge(runtime: Runtime, caller: Caller, *, older_than: timedelta) -> int:
    """Remove instances of the caller's tenant that finished so long ago; how many there were.

    Their entities, history, audit trail, executions and user tasks are gone for good. COMPLETED and CANCELLED ones are
    removed; FAILED ones stay, since they can be retried. Raises ``StepBadRequest`` for a negative age.
    """
    if older_than < timedelta(0):
        raise StepBadRequest("olderThan must not be negative")
    before = runtime.clock() - older_than // timedelta(microseconds=1)
    total = 0
    while True:
        count = await instances.purge(runtime.pool, finished_before=before, tenant=caller.tenant, limit=BATCH)
        total += count
        if count < BATCH:
            return total
