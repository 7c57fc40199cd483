"""Removing finished instances by age, with everything that belongs to them. Ours."""

import time
from datetime import timedelta

from msgspec import Struct

from statewright.failures import StepBadRequest
from statewright.services.runtime import Caller, Runtime
from statewright.storage.steps import instances

BATCH = 200
"""Instances removed by one statement: few enough not to be noticed."""

REQUEST_WITHIN = timedelta(seconds=5)
"""How long one request works; who wants more asks again."""


class Purging(Struct, frozen=True, kw_only=True):
    """How many instances were removed, and whether that was all."""

    removed: int
    is_complete: bool


async def purge(
    runtime: Runtime, caller: Caller, *, older_than: timedelta, within: timedelta = REQUEST_WITHIN
) -> Purging:
    """Remove instances of the caller's tenant that finished so long ago, for a few seconds.

    Their entities, history, audit trail, executions and user tasks are gone for good. COMPLETED and CANCELLED ones are
    removed; FAILED ones stay, since they can be retried. Raises ``StepBadRequest`` for a negative age.
    """
    if older_than < timedelta(0):
        raise StepBadRequest("olderThan must not be negative")
    before = runtime.clock() - older_than // timedelta(microseconds=1)
    ends = time.monotonic() + within.total_seconds()
    removed, count = 0, BATCH
    while count == BATCH and (not removed or time.monotonic() < ends):
        count = await instances.purge(runtime.pool, finished_before=before, tenant=caller.tenant, limit=BATCH)
        removed += count
    return Purging(removed=removed, is_complete=count < BATCH)
