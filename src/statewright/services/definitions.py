"""Compiled definitions of models, cached per process.

A hot create or transition reads no definition and parses none. An entry is dropped when any process announces a change,
when the safety net finds a newer revision (an announcement can be lost with its connection), and when its lease ends.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from typing import Final

from msgspec import Struct

from statewright.conditions import CompiledSearch, SearchCompiler, TemplateCache
from statewright.engine.models import Model, SentModel, StoredRules
from statewright.entity import ModelKey
from statewright.ids import Clock, ModelId, TenantId, model_id
from statewright.instants import to_us
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.loop.background import repeat, run_by_size
from statewright.schema import (
    SchemaNode,
    Violation,
    build_claim,
    flatten_fields,
    schema_from_stored,
)
from statewright.services.builtin import BuiltinModels
from statewright.storage import models
from statewright.storage.commit.overlay import hash_claim
from statewright.storage.pool import Pool
from statewright.storage.search.statements import ClaimedKey, Computations, EntityQuery
from statewright.telemetry import logs
from statewright.workflow import workflows_from_stored

MAX_ENTRIES: Final = 10_000

_jitter = Random()  # noqa: S311 - spreads loads, guards nothing
"""Our own: the module's shared state is what tests of laws reset, and compare afterwards."""

log = logs.logger(__name__)


class ModelDefinition(Struct, frozen=True, kw_only=True, eq=False):
    """A model with everything derived from its row.

    ``validate`` gives the strict violations of a document, none when it is valid.
    """

    stored: models.StoredModel
    schema: SchemaNode
    validate: Callable[[JsonValue], tuple[Violation, ...]]
    model: Model
    searches: SearchCompiler

    def build_query(
        self, search: CompiledSearch, *, instant: int | None, computations: Computations | None
    ) -> EntityQuery:
        """A search of the entities of the model, now or at ``instant`` (epoch microseconds)."""
        return EntityQuery(
            tenant=self.stored.tenant,
            model=self.stored.id,
            search=search,
            instant=instant,
            claimed=self._find_claimed_key(search) if instant is None else None,
            computations=computations,
        )

    def _find_claimed_key(self, search: CompiledSearch) -> ClaimedKey | None:
        """The first unique key that the search leaves no choice of values."""
        keys = self.model.documents.unique_keys
        required = search.required_fields if keys else frozenset[str]()
        for key in keys:
            if required.issuperset(key.fields):
                claim = build_claim(key, search.compute_required_values())
                return None if claim is None else ClaimedKey(self.stored.unique_keys, hash_claim(self.stored.id, claim))
        return None

    def send(self) -> SentModel:
        """The model for another process."""
        return SentModel(
            rules=to_rules(self.stored),
            schema=self.stored.schema,
            declared=self.model.declared,
            workflows=self.model.workflows,
            workflows_revision=self.model.workflows_revision,
            lock=self.model.lock,
        )

    @property
    def is_locked(self) -> bool:
        return self.stored.state == "LOCKED"


class _Entry(Struct):
    definition: ModelDefinition
    expires_at: int


class DefinitionCache:
    """Definitions by tenant and model id, at most ``MAX_ENTRIES`` of them, the least recently used dropped first."""

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        *,
        builtin: BuiltinModels | None = None,
        lease: timedelta = timedelta(minutes=5),
    ) -> None:
        self._pool = pool
        self._builtin = builtin or BuiltinModels()
        self._clock = clock
        self._lease_us = to_us(lease)
        self._templates = TemplateCache()
        self._entries: OrderedDict[tuple[TenantId, ModelId], _Entry] = OrderedDict()
        """The one that was used last comes last."""
        self._loading: dict[tuple[TenantId, ModelId], asyncio.Task[ModelDefinition | None]] = {}

    async def find(self, tenant: TenantId, key: ModelKey) -> ModelDefinition | None:
        """The definition of a model by name and version; None when the tenant has no such model."""
        return await self.find_by_id(tenant, model_id(key.name, key.version))

    async def find_by_id(self, tenant: TenantId, model: ModelId) -> ModelDefinition | None:
        """The definition of a model.

        One that is not cached is looked up, so a model created elsewhere is usable at once.
        """
        key = (tenant, model)
        entry = self._entries.get(key)
        if entry is not None and entry.expires_at > self._clock():
            self._entries.move_to_end(key)
            return entry.definition
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.create_task(self._load(key), name="definition-load")
        return await asyncio.shield(loading)

    async def refresh(self, definition: ModelDefinition) -> ModelDefinition | None:
        """The definition of the same model when there is a newer one than this; None when there is none.

        Announcements of other processes take a moment to arrive, so callers should ask before they refuse something.
        """
        tenant, model = definition.stored.tenant, definition.stored.id
        revision = await models.fetch_revision(self._pool, tenant, model)
        if revision is None or revision == definition.stored.revision:
            return None
        if self.get_cached_revision(tenant, model) != revision:
            self.forget(tenant, model)
        return await self.find_by_id(tenant, model)

    def forget(self, tenant: TenantId, model: ModelId) -> None:
        """Drop a definition that was changed; a load under way is not trusted either."""
        self._entries.pop((tenant, model), None)
        self._loading.pop((tenant, model), None)

    def forget_tenant(self, tenant: TenantId) -> None:
        """Drop all definitions of a tenant."""
        for key in [key for key in (*self._entries, *self._loading) if key[0] == tenant]:
            self.forget(*key)

    def forget_all(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._loading.clear()

    def keep_if_current(self, changed: models.ChangedModel) -> bool:
        """Drop a definition that is cached and is not this one; whether there was nothing to drop.

        Compiling is dear: one that was loaded since it changed must stay.
        """
        entry = self._entries.get((changed.tenant, changed.model))
        if entry is None:
            return True
        cached = entry.definition.stored.revision, entry.definition.model.workflows_revision
        if cached == (changed.revision, changed.workflows_revision):
            return True
        self.forget(changed.tenant, changed.model)
        return False

    def get_cached_revision(self, tenant: TenantId, model: ModelId) -> int | None:
        """The revision that is cached, if any."""
        entry = self._entries.get((tenant, model))
        return entry.definition.stored.revision if entry else None

    async def _load(self, key: tuple[TenantId, ModelId]) -> ModelDefinition | None:
        task = asyncio.current_task()
        try:
            stored = await models.fetch_model_definitions(self._pool, *key)
            definition = None if stored is None else await self._compile(stored)
            if definition is not None and self._loading.get(key) is task:  # not forgotten meanwhile
                self._remember(key, definition)
            return definition
        finally:
            if self._loading.get(key) is task:
                del self._loading[key]

    async def _compile(self, stored: models.ModelDefinitions) -> ModelDefinition:
        """The definition of large schemas and workflows takes a while to compile."""
        size = len(stored.model.schema) + (len(stored.workflows.text) if stored.workflows else 0)
        return await run_by_size(size, partial(compile_model_definition, stored, self._builtin, self._templates))

    def _remember(self, key: tuple[TenantId, ModelId], definition: ModelDefinition) -> None:
        # The lease is jittered, so that models loaded together at start-up do not all expire together.
        jitter = _jitter.uniform(0.9, 1.1)
        self._entries[key] = _Entry(definition, self._clock() + int(self._lease_us * jitter))
        self._entries.move_to_end(key)
        if len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)


def compile_model_definition(
    definitions: models.ModelDefinitions, builtin: BuiltinModels, templates: TemplateCache
) -> ModelDefinition:
    """Everything derived from a model row and its workflows."""
    stored, imported = definitions.model, definitions.workflows
    schema = schema_from_stored(decode(stored.schema))
    workflows = workflows_from_stored(imported.text.encode()) if imported else ()
    documents = to_rules(stored).compile(schema)
    declared = builtin.open_free_fields(stored.id, flatten_fields(schema))
    return ModelDefinition(
        stored=stored,
        schema=schema,
        validate=documents.validate,
        model=Model(
            key=stored.key,
            id=stored.id,
            declared=declared,
            documents=documents,
            workflows=workflows,
            workflows_revision=imported.revision if imported else 0,
            lock=stored.lock_revision,
        ),
        searches=SearchCompiler(declared, templates),
    )


def to_rules(stored: models.StoredModel) -> StoredRules:
    """The rules for documents, of a model row."""
    return StoredRules(
        model=stored.id,
        key=stored.key,
        revision=stored.revision,
        change_level=stored.change_level,
        unique_keys=stored.unique_keys,
    )


REFRESH_INTERVAL: Final = timedelta(seconds=5)


class Refresher:
    """The safety net under announcements: looks for recent changes now and then and drops what they made old."""

    LOOK_BACK_WINDOW_US = 60_000_000
    """Revisions are taken before their transaction commits, so a change may show up a little after a newer one."""

    def __init__(self, pool: Pool, cache: DefinitionCache, clock: Clock) -> None:
        self._pool = pool
        self._cache = cache
        self._clock = clock

    async def run(self) -> None:
        """Look for changes until cancelled."""
        await repeat(self.run_once, REFRESH_INTERVAL, log=log, failure="definition_refresh_failed", waits_first=True)

    async def run_once(self) -> int:
        """Drop the definitions that changes of the last minute have made old; how many."""
        changed = await models.fetch_changed_since(self._pool, self._clock() - self.LOOK_BACK_WINDOW_US)
        return sum(not self._cache.keep_if_current(change) for change in changed)
