"""Counts by state, which cost a look at every entity of a model: kept for a while and made one at a time.

An answer is kept for twenty times the time that it took, so that counting takes at most a twentieth of one connection
for each model and process, and nothing when nobody looks (docs/console.md#counts).
"""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from time import monotonic
from typing import Final

from msgspec import Struct

from statewright.console.calls import Reply, build_entity_call
from statewright.console.client import ApiClient
from statewright.console.values import get_int, get_text

MIN_KEPT_S: Final = 10.0
KEPT_PER_SECOND: Final = 20
PATIENT_S: Final = 0.5
"""How long a part waits for a count, and then asks again: it must not hold up pages that are made meanwhile."""
CONFIRMATION_PATIENT_S: Final = 5.0
"""How long a question that names the number waits for it."""
GIVEN_UP_S: Final = 30.0
MAX_KEPT: Final = 500

Key = tuple[str, str, int]
"""Tenant, name and version of a model."""


class StateCount(Struct, frozen=True):
    """How many entities are in a state."""

    state: str
    count: int


class ModelCounts(Struct, frozen=True, kw_only=True):
    """The entities of a model by state, most first. ``age_s`` tells how long ago they were counted."""

    states: tuple[StateCount, ...] = ()
    age_s: float = 0.0
    is_counting: bool = False
    """Whether the count is still being made: ask again."""
    failed: Reply | None = None

    @property
    def total(self) -> int:
        """All entities of the model."""
        return sum(each.count for each in self.states)

    def require_model(self) -> None:
        """Raises ``CallFailed`` where there is no such model."""
        if self.failed is not None and self.failed.status == HTTPStatus.NOT_FOUND:
            self.failed.require()

    def get(self, state: str) -> int:
        """The entities in one state."""
        return next((each.count for each in self.states if each.state == state), 0)

    def get_share(self, each: StateCount) -> int:
        """The part of all entities that is in a state, in percent; at least one where there is any."""
        return max(1, round(100 * each.count / self.total)) if each.count else 0


class _Kept(Struct):
    task: "asyncio.Task[Reply]"
    begun: float
    ended: float | None = None

    @property
    def is_fresh(self) -> bool:
        if self.ended is None:
            return True
        kept_s = max(MIN_KEPT_S, KEPT_PER_SECOND * (self.ended - self.begun))
        return monotonic() - self.ended < kept_s


class KeptCounts:
    """The counts of one process."""

    def __init__(self) -> None:
        self._kept: dict[Key, _Kept] = {}

    async def count(
        self, client: ApiClient, tenant: str, name: str, version: int, *, patience_s: float = PATIENT_S
    ) -> ModelCounts:
        """The counts of a model, kept or new; without an answer after ``patience_s`` they are still being made."""
        key = (tenant, name, version)
        kept = self._kept.get(key)
        if kept is None or not kept.is_fresh:
            kept = self._begin(key, client)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await asyncio.shield(kept.task)
        if not kept.task.done():
            return ModelCounts(is_counting=True)
        reply = kept.task.result()
        if not reply.is_ok:
            self._kept.pop(key, None)
            return ModelCounts(failed=reply)
        listed = [StateCount(get_text(item, "state"), get_int(item, "count")) for item in reply.items]
        ended = kept.ended or monotonic()
        states = tuple(sorted(listed, key=lambda each: (-each.count, each.state)))
        return ModelCounts(states=states, age_s=monotonic() - ended)

    async def close(self) -> None:
        """End what is being counted."""
        tasks = [kept.task for kept in self._kept.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, key: Key, client: ApiClient) -> _Kept:
        _, name, version = key
        call = build_entity_call("entity", "stats", "states", name, version, timeout_s=GIVEN_UP_S)
        kept = _Kept(asyncio.create_task(client.call(call)), monotonic())

        def note_end(_task: "asyncio.Task[Reply]") -> None:
            kept.ended = monotonic()

        kept.task.add_done_callback(note_end)
        while len(self._kept) >= MAX_KEPT:
            self._kept.pop(next(iter(self._kept))).task.cancel()
        self._kept[key] = kept
        return kept
