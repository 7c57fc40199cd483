"""Builds and drops declared indexes in the background, one at a time (storage/search/indexes.py)."""

import asyncio
import secrets
from datetime import timedelta
from typing import Final

from statewright import logs
from statewright.background import LEASE_TIMEOUT, hold_lease, log_failures, repeat
from statewright.conditions.paths import Path, parse_path
from statewright.searches import DeclaredIndex
from statewright.storage.search.indexes import IndexSpec, SearchIndexes

POLL_INTERVAL: Final = timedelta(seconds=5)
"""Pause between two looks for work of other processes; what is declared here needs no look."""

log = logs.logger(__name__)


class IndexBuilder:
    """The worker on indexes of this process."""

    def __init__(self, indexes: SearchIndexes, *, lease: timedelta = LEASE_TIMEOUT) -> None:
        self._indexes = indexes
        self._lease = lease
        self._worker = secrets.token_hex(8)
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """There is something new to do."""
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled; what is unfinished is left to the next process."""
        await repeat(self.run_once, POLL_INTERVAL, log=log, failure="index_work_failed", wake=self._changed)

    async def run_once(self) -> bool:
        """Build or drop one index, if there is any to be built or dropped."""
        index = await self._indexes.claim(self._worker, lease=self._lease)
        if index is None:
            return False
        work = asyncio.create_task(self._process_index(index), name=f"index-{index.id}")
        try:
            await asyncio.wait([work])
        finally:
            work.cancel()  # a task of its own, so that a withdrawal can end it without ending the loop
        return True

    async def _process_index(self, index: DeclaredIndex) -> None:
        try:
            async with hold_lease(lambda: self._indexes.renew(index, self._worker, lease=self._lease), self._lease):
                await (self._indexes.drop(index) if index.status == "DROPPING" else self._build(index))
        except asyncio.CancelledError:
            await asyncio.shield(self._release(index))
            raise
        except Exception as error:  # the row must not stay BUILDING for ever
            log.warning("index_failed", index=index.id, status=index.status, error=repr(error))
            with log_failures(log, "index_failure_not_recorded"):
                await self._indexes.end(index, self._worker, failure=str(error) or type(error).__name__)

    async def _build(self, index: DeclaredIndex) -> None:
        wanted = IndexSpec(
            tenant=index.tenant,
            model=index.model,
            path=parse_path(index.path) or Path(()),
            path_text=index.path,
            kind=index.kind,
            state=index.state,
        )
        await self._indexes.build(wanted)
        if await self._indexes.end(index, self._worker):
            log.info("index_built", index=index.id, tenant=index.tenant, path=index.path, kind=index.kind)

    async def _release(self, index: DeclaredIndex) -> None:
        with log_failures(log, "index_not_released"):  # then its lease ends
            await self._indexes.release(index, self._worker)
