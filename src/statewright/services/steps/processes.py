"""Compiled versions of definitions, cached per process. They never change, so nothing ever has to be forgotten."""

from collections import OrderedDict

from msgspec import Struct

from statewright.identity import TenantId
from statewright.steps.core import Definition, Process, compile_definition
from statewright.steps.core.writing import from_stored
from statewright.storage.pool import Pool
from statewright.storage.steps import definitions

MAX_STEPS = 200_000
"""Steps of all cached definitions together: a definition may have tens of thousands."""


class Published(Struct, frozen=True, kw_only=True, eq=False):
    """One stored version of a definition, compiled. ``uploaded_at`` is in epoch microseconds."""

    process: Process
    uploaded_at: int

    @property
    def definition(self) -> Definition:
        return self.process.definition

    @property
    def version(self) -> int:
        return self.process.version


class Processes:
    """Versions by tenant, id and number; the least recently used are dropped first."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: OrderedDict[tuple[TenantId, str, int], Published] = OrderedDict()
        self._steps = 0

    async def find(self, tenant: TenantId, definition_id: str, version: int) -> Published | None:
        """One version; None when there is none."""
        key = (tenant, definition_id, version)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        stored = await definitions.version_of(self._pool, tenant, definition_id, version)
        if stored is None:
            return None
        process = compile_definition(from_stored(stored.source), version)
        return self._remember(key, Published(process=process, uploaded_at=stored.uploaded_at))

    async def latest(self, tenant: TenantId, definition_id: str) -> Published | None:
        """The latest version, which is looked up every time: another process may have stored one just now."""
        version = await definitions.latest_version(self._pool, tenant, definition_id)
        return None if version is None else await self.find(tenant, definition_id, version)

    def _remember(self, key: tuple[TenantId, str, int], published: Published) -> Published:
        if key not in self._known:
            self._steps += len(published.process.steps)
        self._known[key] = published
        while self._steps > MAX_STEPS and len(self._known) > 1:
            _, dropped = self._known.popitem(last=False)
            self._steps -= len(dropped.process.steps)
        return published
