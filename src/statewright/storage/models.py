"""Models and their workflows: reading them for the definition cache, and changing them one at a time.

Changes to one model are serialised by an advisory lock, so that two imports which both read, merge and write lose
nothing. Each change takes a new number from ``definition_revision`` and is announced to all processes, which drop what
they have cached (PostgreSQL LISTEN and NOTIFY).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, Literal

import asyncpg
from msgspec import Struct

from statewright.entity import Actor, ModelKey
from statewright.ids import ModelId, TenantId, model_id
from statewright.loop.background import repeat
from statewright.operations.service import Act
from statewright.storage.connections import DatabaseUrl, announce
from statewright.storage.ops.revisions import SYSTEM, NewRevision, add_revision, find_newest
from statewright.storage.ops.service import record_act
from statewright.storage.pool import Pool, connect
from statewright.telemetry import logs

CHANNEL: Final = "statewright_definitions"
"""Payload: ``<tenant>/<model id>``; the id is the last 36 characters.

``EVERYTHING`` stands for all models of all tenants.
"""

EVERYTHING: Final = "*"
MAX_PAYLOAD: Final = 7900
"""Bytes; PostgreSQL refuses a notification of 8000 or more, and tenants may have names of any length."""

ModelState = Literal["UNLOCKED", "LOCKED"]


class StoredModel(Struct, frozen=True, kw_only=True):
    """A model row. ``schema`` and ``unique_keys`` are JSON text; ``imported_at`` is in epoch microseconds.

    ``lock_revision`` tells one locking of the model from another.
    """

    tenant: TenantId
    id: ModelId
    key: ModelKey
    state: ModelState
    change_level: str | None
    schema: str
    unique_keys: str
    imported_at: int
    revision: int
    lock_revision: int


class StoredWorkflows(Struct, frozen=True):
    """All workflows of a model in the stored form of the workflow package."""

    text: str
    revision: int


class ModelDefinitions(Struct, frozen=True):
    """What the service needs to know of a model; ``workflows`` is None when none were imported."""

    model: StoredModel
    workflows: StoredWorkflows | None


MODEL_COLUMNS: Final = """model.tenant, model.id, model.name, model.version, model.state, model.change_level,
                   model.schema, model.unique_keys, model.imported_at, model.revision, model.lock_revision"""

DEFINITIONS: Final = f"""
    SELECT {MODEL_COLUMNS}, workflow_set.workflows, workflow_set.revision AS workflows_revision
      FROM model
      LEFT JOIN workflow_set ON workflow_set.tenant = model.tenant AND workflow_set.model = model.id
     WHERE model.tenant = $1 AND model.id = $2
"""  # noqa: S608 - the column list is a constant


async def fetch_model_definitions(pool: Pool, tenant: TenantId, model: ModelId) -> ModelDefinitions | None:
    """A model with its workflows as last committed; None when the tenant has no such model."""
    row = await pool.fetchrow(DEFINITIONS, tenant, model)
    if row is None:
        return None
    stored = None if row["workflows"] is None else StoredWorkflows(row["workflows"], row["workflows_revision"])
    return ModelDefinitions(_to_model(row), stored)


REVISION: Final = "SELECT revision FROM model WHERE tenant = $1 AND id = $2"


async def fetch_revision(pool: Pool, tenant: TenantId, model: ModelId) -> int | None:
    """The revision of a model as last committed; None when the tenant has no such model."""
    found: int | None = await pool.fetchval(REVISION, tenant, model)
    return found


ALL_MODELS: Final = f"SELECT {MODEL_COLUMNS} FROM model WHERE tenant = $1 ORDER BY name, version"  # noqa: S608


async def fetch_models(pool: Pool, tenant: TenantId) -> list[StoredModel]:
    """Every model of the tenant, by name and version."""
    return [_to_model(row) for row in await pool.fetch(ALL_MODELS, tenant)]


class ChangedModel(Struct, frozen=True):
    """The revisions that a model and its workflows have now; zero for workflows that were never imported."""

    tenant: TenantId
    model: ModelId
    revision: int
    workflows_revision: int


CHANGED_SINCE: Final = """
    SELECT model.tenant, model.id, model.revision, coalesce(workflow_set.revision, 0)
      FROM model
      LEFT JOIN workflow_set ON workflow_set.tenant = model.tenant AND workflow_set.model = model.id
     WHERE model.changed_at >= $1
     UNION
    SELECT model.tenant, model.id, model.revision, workflow_set.revision
      FROM workflow_set
      JOIN model ON model.tenant = workflow_set.tenant AND model.id = workflow_set.model
     WHERE workflow_set.changed_at >= $1
"""


async def fetch_changed_since(pool: Pool, instant: int) -> list[ChangedModel]:
    """Models whose definitions were changed at ``instant`` (epoch microseconds) or later; deletions are not among
    them.
    """
    rows = await pool.fetch(CHANGED_SINCE, instant)
    return [ChangedModel(tenant, ModelId(str(id_)), *revisions) for tenant, id_, *revisions in rows]


LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended($1, 5371))"
"""5371 is an arbitrary seed of our own, so that these locks do not meet advisory locks of other users."""


async def announce_model(connection: asyncpg.Connection, tenant: TenantId, model: ModelId) -> None:
    """Tell all processes, when the open transaction commits, that the model has changed."""
    scope = f"{tenant}/{model}"
    await announce(connection, CHANNEL, scope if len(scope.encode()) < MAX_PAYLOAD else EVERYTHING)


class ModelEdit:
    """A change of one model in progress. No other changes this model until the block that gave it is left."""

    def __init__(self, connection: asyncpg.Connection, tenant: TenantId, key: ModelKey) -> None:
        self._connection = connection
        self.tenant = tenant
        self.key = key
        self.id = model_id(key.name, key.version)

    # Growth by entity writes takes the row's lock, too (storage/commit/growth.py); the advisory lock is for new models.
    FIND = f"SELECT {MODEL_COLUMNS} FROM model WHERE tenant = $1 AND id = $2 FOR NO KEY UPDATE"  # noqa: S608

    async def get_model(self) -> StoredModel | None:
        """The model as it is now."""
        row = await self._connection.fetchrow(self.FIND, self.tenant, self.id)
        return None if row is None else _to_model(row)

    async def record(self, actor: Actor, act: Act) -> None:
        """Add to the trail of operators who makes this change."""
        await record_act(self._connection, self.tenant, actor, act)

    SAVE_SCHEMA = """
        INSERT INTO model (tenant, id, name, version, state, schema, imported_at, changed_at, revision)
        VALUES ($1, $2, $3, $4, 'UNLOCKED', $5::jsonb, now_us(), now_us(), nextval('definition_revision'))
            ON CONFLICT (tenant, id) DO UPDATE
           SET schema = excluded.schema, imported_at = excluded.imported_at, changed_at = excluded.changed_at,
               revision = excluded.revision
    """

    async def save_schema(self, schema: str) -> None:
        """Create the model, unlocked, or replace its schema; both count as an import."""
        await self._connection.execute(self.SAVE_SCHEMA, self.tenant, self.id, self.key.name, self.key.version, schema)

    BLOCK_CREATES = "SELECT pg_advisory_xact_lock(model_lock_key($1, $2))"

    async def block_creates(self) -> None:
        """Wait for creates that are being written; later ones see what this change makes of the model."""
        await self._connection.execute(self.BLOCK_CREATES, self.tenant, self.id)

    SET_STATE = """
        UPDATE model
           SET state = $3, changed_at = now_us(), revision = nextval('definition_revision'),
               lock_revision = CASE $3 WHEN 'LOCKED' THEN currval('definition_revision') ELSE lock_revision END
         WHERE tenant = $1 AND id = $2
    """

    async def set_state(self, state: ModelState) -> None:
        """Lock or unlock the model."""
        await self._connection.execute(self.SET_STATE, self.tenant, self.id, state)

    SET_CHANGE_LEVEL = """
        UPDATE model SET change_level = $3, changed_at = now_us(), revision = nextval('definition_revision')
         WHERE tenant = $1 AND id = $2
    """

    async def set_change_level(self, level: str) -> None:
        """Let entity writes extend the schema up to ``level``."""
        await self._connection.execute(self.SET_CHANGE_LEVEL, self.tenant, self.id, level)

    SET_UNIQUE_KEYS = """
        UPDATE model SET unique_keys = $3::jsonb, changed_at = now_us(), revision = nextval('definition_revision')
         WHERE tenant = $1 AND id = $2
    """

    async def set_unique_keys(self, unique_keys: str) -> None:
        """Replace the list of unique keys."""
        await self._connection.execute(self.SET_UNIQUE_KEYS, self.tenant, self.id, unique_keys)

    DELETE = "DELETE FROM model WHERE tenant = $1 AND id = $2"

    async def delete(self) -> None:
        """Delete the model; its workflows stay for a later import of the same name and version."""
        await self._connection.execute(self.DELETE, self.tenant, self.id)

    COUNT = "SELECT count(*) FROM entity WHERE tenant = $1 AND model = $2"

    async def count_entities(self) -> int:
        """How many live entities the model has."""
        count: int = await self._connection.fetchval(self.COUNT, self.tenant, self.id)
        return count

    FIND_WORKFLOWS = "SELECT workflows, revision FROM workflow_set WHERE tenant = $1 AND model = $2"

    async def get_workflows(self) -> StoredWorkflows | None:
        """The workflows as they are now."""
        row = await self._connection.fetchrow(self.FIND_WORKFLOWS, self.tenant, self.id)
        return None if row is None else StoredWorkflows(row["workflows"], row["revision"])

    SAVE_WORKFLOWS = """
        INSERT INTO workflow_set (tenant, model, workflows, changed_at, revision)
        VALUES ($1, $2, $3, now_us(), nextval('definition_revision'))
            ON CONFLICT (tenant, model) DO UPDATE
           SET workflows = excluded.workflows, changed_at = excluded.changed_at, revision = excluded.revision
        RETURNING revision
    """

    async def save_workflows(self, workflows: str) -> int:
        """Replace the whole list of workflows; the definition revision that they have."""
        revision: int = await self._connection.fetchval(self.SAVE_WORKFLOWS, self.tenant, self.id, workflows)
        return revision

    async def find_revision(self, stored: StoredWorkflows | None) -> int:
        """The number of the revision that the model has with the workflows ``stored``, 0: none yet.

        A node of a version without revisions may have imported them; then they become one.
        """
        newest, is_stored = await find_newest(self._connection, self.tenant, self.id)
        if stored is None or is_stored:
            return newest
        return await self._add_revision(NewRevision(by=SYSTEM, origin="UPGRADE"), stored)

    async def save_revision(self, new: NewRevision, workflows: str) -> int:
        """Replace the whole list of workflows, as the next revision; its number."""
        return await self._add_revision(new, StoredWorkflows(workflows, await self.save_workflows(workflows)))

    async def _add_revision(self, new: NewRevision, stored: StoredWorkflows) -> int:
        return await add_revision(
            self._connection, self.tenant, self.id, new, text=stored.text, definition_revision=stored.revision
        )


@asynccontextmanager
async def edit_model(pool: Pool, tenant: TenantId, key: ModelKey) -> AsyncIterator[ModelEdit]:
    """Change a model. Leaving the block commits and announces the change; an exception undoes it."""
    async with pool.connection(limit=None) as connection, connection.transaction():
        change = ModelEdit(connection, tenant, key)
        scope = f"{tenant}/{change.id}"
        await connection.execute(LOCK, scope)
        yield change
        await announce_model(connection, tenant, change.id)


def _to_model(row: asyncpg.Record) -> StoredModel:
    return StoredModel(
        tenant=row["tenant"],
        id=ModelId(str(row["id"])),
        key=ModelKey(row["name"], row["version"]),
        state=row["state"],
        change_level=row["change_level"],
        schema=row["schema"],
        unique_keys=row["unique_keys"],
        imported_at=row["imported_at"],
        revision=row["revision"],
        lock_revision=row["lock_revision"],
    )


RETRY_INTERVAL: Final = timedelta(seconds=1)

log = logs.logger(__name__)


NotificationHandler = Callable[[str], None]
"""What is done with the payload of an announcement."""


async def follow(
    database: DatabaseUrl,
    forget: Callable[[TenantId, ModelId], None],
    forget_all: Callable[[], None],
    *,
    others: Mapping[str, NotificationHandler] | None = None,
    set_listening: Callable[[bool], None] = lambda _: None,
) -> None:
    """Call ``forget`` for every announced change until cancelled, and who listens to ``others``, by channel;
    ``set_listening`` with whether there is a connection on which they are heard.

    What is announced while there is no connection is lost, so ``forget_all`` is called whenever a connection has been
    made.
    """
    await repeat(
        lambda: _follow_once(database, forget, forget_all, others or {}, set_listening),
        RETRY_INTERVAL,
        log=log,
        failure="announcements_interrupted",
    )


async def _follow_once(
    database: DatabaseUrl,
    forget: Callable[[TenantId, ModelId], None],
    forget_all: Callable[[], None],
    others: Mapping[str, NotificationHandler],
    set_listening: Callable[[bool], None],
) -> None:
    def handle_announcement(_connection: object, _process: int, _channel: str, payload: object) -> None:
        scope = str(payload)
        if scope == EVERYTHING:
            forget_all()
            return
        tenant, _, model = scope.rpartition("/")
        forget(TenantId(tenant), ModelId(model))

    lost = asyncio.Event()
    connection = await connect(database)
    try:
        connection.add_termination_listener(lambda _connection: lost.set())
        await connection.add_listener(CHANNEL, handle_announcement)
        for channel, heard in others.items():
            await connection.add_listener(channel, _build_listener(heard))
        forget_all()
        set_listening(True)
        await lost.wait()
    finally:
        set_listening(False)
        connection.terminate()


def _build_listener(heard: NotificationHandler) -> Callable[[object, int, str, object], None]:
    def handle_notification(_connection: object, _process: int, _channel: str, payload: object) -> None:
        heard(str(payload))

    return handle_notification
