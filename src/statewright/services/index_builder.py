"""Builds and drops declared indexes in the background, one at a time (storage/search_indexes.py)."""

import asyncio
import secrets
from contextlib import suppress
from datetime import timedelta
from random import Random

from statewright import logs
from statewright.conditions.paths import Path, parse_path
from statewright.services.leases import LEASE, kept, surviving
from statewright.storage.search_indexes import DeclaredIndex, SearchIndexes, Wanted

POLL_S = 5.0
"""Pause between two looks for work of other processes; what is declared here needs no look."""

_jitter = Random()  # noqa: S311 - our own: tests of laws reset the module's shared state, and compare it
log = logs.logger("search")


class IndexBuilder:
    """The worker on indexes of this process."""

    def __init__(self, indexes: SearchIndexes, *, lease: timedelta = LEASE) -> None:
        self._indexes = indexes
        self._lease = lease
        self._worker = secrets.token_hex(8)
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """There is something new to do."""
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled; what is unfinished is left to the next process."""
        while True:
            self._changed.clear()
            with surviving("index_work_failed"):
                while await self.run_once():
                    pass
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), POLL_S * _jitter.uniform(0.8, 1.2))

    async def run_once(self) -> bool:
        """Build or drop one index, if there is any to be built or dropped."""
        index = await self._indexes.claim(self._worker, lease=self._lease)
        if index is None:
            return False
        work = asyncio.create_task(self._work_on(index), name=f"index-{index.id}")
        try:
            await asyncio.wait([work])
        finally:
            work.cancel()  # a task of its own, so that a withdrawal can end it without ending the loop
        return True

    async def _work_on(self, index: DeclaredIndex) -> None:
        try:
            async with kept(lambda: self._indexes.renew(index, self._worker, lease=self._lease), self._lease):
                await (self._indexes.drop(index) if index.status == "DROPPING" else self._build(index))
        except asyncio.CancelledError:
            await asyncio.shield(self._release(index))
            raise
        except Exception as error:  # the row must not stay BUILDING for ever
            log.warn("index_failed", index=index.id, status=index.status, error=repr(error))
            with surviving("index_failure_not_recorded"):
                await self._indexes.end(index, self._worker, failure=str(error) or type(error).__name__)

    async def _build(self, index: DeclaredIndex) -> None:
        wanted = Wanted(
            tenant=index.tenant,
            model=index.model,
            path=parse_path(index.path) or Path(()),
            written=index.path,
            kind=index.kind,
            state=index.state,
        )
        await self._indexes.build(wanted)
        if await self._indexes.end(index, self._worker):
            log.info("index_built", index=index.id, tenant=index.tenant, path=index.path, kind=index.kind)

    async def _release(self, index: DeclaredIndex) -> None:
        with surviving("index_not_released"):  # then its lease ends
            await self._indexes.release(index, self._worker)
