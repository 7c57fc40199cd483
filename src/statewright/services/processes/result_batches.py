"""Results of jobs of one instance that meet, applied by one advance.

While an advance of an instance is under way, others wait for their turn at it. Of a language that ``merges_results``,
those that bring results do not wait one by one: they become a batch, which is applied as a whole, in the order in
which they came. An iteration over thousands of elements, of which a hundred are done at once, writes its instance so
much less often. A large result is applied by itself: some of them together would be more than one statement of the
database has time for.

A batch is carried out by a task of its own, since the client whose result began it may leave while others wait.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypeAlias, cast

from statewright.failures import InstanceTooLarge, ProcessBadRequest, ProcessConflict, ProcessNotFound
from statewright.ids import EntityId, TenantId
from statewright.jsonval.values import JsonValue
from statewright.loop.turns import is_large
from statewright.processes.computing import MAX_RESULTS, apply_results
from statewright.processes.language import I, P, Rejection
from statewright.services.core import Caller
from statewright.services.processes import advancing
from statewright.services.processes.advancing import InstanceChange, to_failure
from statewright.services.processes.hosting import ProcessHost
from statewright.services.processes.jobs import complete_job, fail_job

Refusals: TypeAlias = Mapping[str, ProcessBadRequest | ProcessNotFound | ProcessConflict]
"""Why results are not taken, by job."""


class _Batch:
    """Results by job that wait for their turn at an instance."""

    def __init__(self) -> None:
        self.results: dict[str, JsonValue] = {}
        self.task: asyncio.Task[Refusals] | None = None
        self._is_full = False

    def add(self, job: str, result: JsonValue) -> bool:
        """Add a result; False where it is left to the next batch."""
        if job in self.results:
            return True
        takes_long = is_large(result)
        if self._is_full or (takes_long and self.results):
            return False
        self.results[job] = result
        self._is_full = takes_long or len(self.results) == MAX_RESULTS
        return True


class ResultBatches(Generic[P, I]):
    """The batches of one language in this process."""

    def __init__(self, host: ProcessHost[P, I]) -> None:
        self._host = host
        self._open: dict[tuple[TenantId, EntityId, str], _Batch] = {}

    async def complete_job(
        self, caller: Caller, instance: EntityId, job: str, result: JsonValue, unknown: ProcessNotFound
    ) -> None:
        """Apply the result of a job together with others of the caller; one of which more is to be committed by itself,
        such as its record, and so is one that meets no other. Raises ``unknown``, ``ProcessBadRequest``, ``Conflict``,
        ``StorageUnavailable``.
        """
        key = (caller.tenant, instance, caller.principal.id)
        batch = self._open.get(key)
        if caller.around or (batch is None and not self._host.shared.locks.is_held(caller.tenant, instance)):
            await complete_job(self._host, caller, instance, job, result, unknown)
            return
        if batch is None or not batch.add(job, result):
            batch = self._open[key] = _Batch()
            batch.add(job, result)
            batch.task = self._host.core.start_detached(self._carry_out(key, batch, caller))
        assert batch.task is not None  # noqa: S101 - a batch is open once it has one
        try:
            refusals = await asyncio.shield(batch.task)
        except ProcessNotFound:
            raise unknown from None
        if (refusal := refusals.get(job)) is not None:
            raise refusal

    async def _carry_out(self, key: tuple[TenantId, EntityId, str], batch: _Batch, caller: Caller) -> Refusals:
        def close() -> dict[str, JsonValue]:
            """From now on results go into another batch."""
            if self._open.get(key) is batch:
                del self._open[key]
            return batch.results

        instance = key[1]
        try:
            return await self._apply(caller, instance, close)
        except InstanceTooLarge:
            refusals = [await self._apply_or_fail(caller, instance, job, batch.results[job]) for job in batch.results]
            return {job: refusal for one in refusals for job, refusal in one.items()}
        finally:
            close()

    async def _apply_or_fail(self, caller: Caller, instance: EntityId, job: str, result: JsonValue) -> Refusals:
        """Apply one result; its job fails when it is too much for the instance."""
        try:
            return await self._apply(caller, instance, lambda: {job: result})
        except InstanceTooLarge as too_large:
            await fail_job(self._host, caller, instance, job, too_large.message, self._host.build_gone())
            return {}

    async def _apply(self, caller: Caller, instance: EntityId, close: Callable[[], dict[str, JsonValue]]) -> Refusals:
        def begin() -> InstanceChange[P, I]:
            results = close()
            operation = partial(apply_results, language=self._host.language, results=results)
            return InstanceChange(operation, list(results.values()))

        advanced = await advancing.advance_in_turn(
            self._host, caller, instance, begin, kind="instance.complete_job", unknown=self._host.build_gone()
        )
        rejections = cast("dict[str, Rejection]", advanced.answer)  # as apply_results has it
        return {job: to_failure(rejection) for job, rejection in rejections.items()}
