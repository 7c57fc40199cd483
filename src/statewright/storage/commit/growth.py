"""Growth of a model's schema by the documents of a transaction (docs/reference/models.md#change-level; docs/adr/0003).

The documents have been compared with the schema that was known when they arrived, and merged into it. When they are
written, the model's row is locked, and if it is of the revision that was known then, that schema is saved. If it is
not, the lock is let go, and what the documents taught is compared with the model as it is now and merged into that, as
trees: no document is looked at again. That is tried a few times, then done under the lock. So N transactions that each
teach something end with the schema of any serial order, none is refused because of another that taught something else,
and a document that contradicts what was learnt meanwhile is refused as it would have been had it come later.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import asyncpg
import msgspec
from msgspec import Struct

from statewright.failures import ModelNotFound
from statewright.ids import ModelId, TenantId
from statewright.jsonval.codec import decode, encode
from statewright.loop.background import run_by_size
from statewright.schema import (
    FIELD_WEIGHT,
    ChangeLevel,
    Extender,
    Extension,
    SchemaNode,
    UniqueKey,
    count_fields,
    extend_schema,
    merge,
    normalise,
    schema_from_stored,
    schema_to_stored,
)
from statewright.storage.models import announce_model

_decode_unique_keys = msgspec.json.Decoder(tuple[UniqueKey, ...]).decode

_Written = TypeVar("_Written")


class Growth(Struct, frozen=True, kw_only=True):
    """What documents of one model taught it: their trees, in the order in which they were accepted.

    ``schema`` is what they make of the model as it was at ``revision``; that is None where they were held against
    schemas of several origins, and the trees must be merged again.
    """

    tenant: TenantId
    model: ModelId
    trees: tuple[SchemaNode, ...]
    schema: SchemaNode
    revision: int | None


class GrownSchema(Struct, frozen=True, eq=False):
    """A model's schema as a unit of work sees it, and the trees of those documents of the unit that made it so.

    ``revision`` as in ``Growth``.
    """

    extender: Extender
    trees: tuple[SchemaNode, ...]
    revision: int | None


class StagedGrowth:
    """The growth in the overlay of a unit of work; nested units see through to that of the ``outer`` one."""

    def __init__(self, outer: "StagedGrowth | None") -> None:
        self._outer = outer
        self._models: dict[ModelId, GrownSchema] = {}

    def __iter__(self) -> Iterator[ModelId]:
        """The models that the unit has extended."""
        return iter(self._models)

    def find(self, model: ModelId) -> GrownSchema | None:
        """A model that the transaction has extended, as the unit sees it; None when it has not."""
        grown = self._models.get(model)
        if grown is not None or self._outer is None:
            return grown
        return self._outer.find(model)

    def add(self, model: ModelId, extension: Extension, extender: Extender, revision: int) -> None:
        """Stage what a document teaches its model, which was of that revision unless the transaction has extended it
        before; ``extender`` is for what the unit sees from now on.
        """
        known = self.find(model)
        base = revision if known is None else known.revision
        self._models[model] = GrownSchema(extender, (*self._list_trees(model), extension.incoming), base)

    def merge(self, inner: "StagedGrowth") -> None:
        """Take over what a nested unit has staged, beside what others have staged meanwhile."""
        for model, grown in inner._models.items():
            known = self.find(model)
            extender, base = grown.extender, grown.revision
            if known is not None:
                extender = extender.follow(normalise(merge(known.extender.schema, extender.schema)))
                base = None
            self._models[model] = GrownSchema(extender, (*self._list_trees(model), *grown.trees), base)

    def clear(self) -> None:
        """Begin anew: what was staged is committed."""
        self._models.clear()

    def list_growth(self, tenant: TenantId) -> list[Growth]:
        """What is to be committed."""
        return [
            Growth(
                tenant=tenant,
                model=model,
                trees=grown.trees,
                schema=grown.extender.schema,
                revision=grown.revision,
            )
            for model, grown in self._models.items()
        ]

    def _list_trees(self, model: ModelId) -> tuple[SchemaNode, ...]:
        grown = self._models.get(model)
        return () if grown is None else grown.trees


MAX_ROUNDS: Final = 4
"""In which another process may be quicker to extend the same model; after them the model is merged under its lock."""


class _Extended(Struct, frozen=True):
    """A model's schema to be saved, as it is stored; None when it stays as it is. It is for that revision only."""

    tenant: TenantId
    model: ModelId
    revision: int
    schema: str | None


class _Overtaken(Exception):
    """A model is of another revision than the schema that was to be saved."""


async def write_growing(
    connection: asyncpg.Connection, growth: Sequence[Growth], write: Callable[[], Awaitable[_Written]]
) -> _Written:
    """Extend models, and write what extends them, in one transaction; who changed is announced when it commits.

    Raises what comparing raises (``BadRequest``, ``PolymorphicSlot``, ``InvalidUniqueKeyDefinition``),
    ``ModelNotFound`` for a model that is gone, and what ``write`` raises.
    """
    extended = await _encode_known(growth)
    if extended is None:
        extended = await _extend_models(connection, growth)
    for _ in range(MAX_ROUNDS):
        try:
            async with connection.transaction(isolation="read_committed"):
                await _lock_models(connection, extended)
                await _save_schemas(connection, extended)
                return await write()
        except _Overtaken:
            extended = await _extend_models(connection, growth)
    async with connection.transaction(isolation="read_committed"):
        with suppress(_Overtaken):
            await _lock_models(connection, extended)
        await _save_schemas(connection, await _extend_models(connection, growth))
        return await write()


async def _encode_known(growth: Sequence[Growth]) -> list[_Extended] | None:
    """The schemas as the documents were held against them; None when one of them was not held against one model."""
    extended = list[_Extended]()
    for each in growth:
        if each.revision is None:
            return None
        schema = await run_by_size(_weigh(each), partial(_encode_schema, each.schema))
        extended.append(_Extended(each.tenant, each.model, each.revision, schema))
    return extended


def _weigh(growth: Growth) -> int:
    return count_fields(growth.schema) * FIELD_WEIGHT


def _encode_schema(schema: SchemaNode) -> str:
    return encode(schema_to_stored(schema)).decode()


READ_MODELS: Final = """
    SELECT model.tenant, model.id, model.revision, model.schema, model.change_level, model.unique_keys
      FROM model
      JOIN unnest($1::text[], $2::uuid[]) AS growing (tenant, id)
        ON model.tenant = growing.tenant AND model.id = growing.id
"""


async def _extend_models(connection: asyncpg.Connection, growth: Sequence[Growth]) -> list[_Extended]:
    """What the documents make of the models as they are now."""
    keys = [each.tenant for each in growth], [each.model for each in growth]
    rows = {(row["tenant"], str(row["id"])): row for row in await connection.fetch(READ_MODELS, *keys)}
    extended = list[_Extended]()
    for each in growth:
        row = rows.get((each.tenant, each.model))
        if row is None or row["change_level"] is None:
            raise ModelNotFound("model not found")
        schema = await run_by_size(_weigh(each) * len(each.trees), partial(_extend, row, each.trees))
        extended.append(_Extended(each.tenant, each.model, row["revision"], schema))
    return extended


def _extend(row: asyncpg.Record, trees: Sequence[SchemaNode]) -> str | None:
    """The schema of a model after documents of these trees, one after the other; None when it stays as it is."""
    known = node = schema_from_stored(decode(row["schema"]))
    keys = _decode_unique_keys(row["unique_keys"])
    for tree in trees:
        node = extend_schema(node, tree, ChangeLevel(row["change_level"]), keys)
    return None if node is known else _encode_schema(node)


# Locked in one global order, before any row of an entity. After a wait the newest version of a row is returned.
LOCK_MODELS: Final = """
    SELECT model.tenant, model.id, model.revision
      FROM model
      JOIN unnest($1::text[], $2::uuid[]) AS growing (tenant, id)
        ON model.tenant = growing.tenant AND model.id = growing.id
     ORDER BY model.tenant, model.id
       FOR NO KEY UPDATE OF model
"""


async def _lock_models(connection: asyncpg.Connection, extended: Sequence[_Extended]) -> None:
    """Lock the models until the transaction ends. Raises ``_Overtaken`` unless all are of the revisions that were
    extended.
    """
    if not extended:
        return
    keys = [each.tenant for each in extended], [each.model for each in extended]
    found = {(row["tenant"], str(row["id"])): row["revision"] for row in await connection.fetch(LOCK_MODELS, *keys)}
    if any(found.get((each.tenant, each.model)) != each.revision for each in extended):
        raise _Overtaken


SAVE_SCHEMA: Final = """
    UPDATE model SET schema = $3::jsonb, changed_at = now_us(), revision = nextval('definition_revision')
     WHERE tenant = $1 AND id = $2
"""


async def _save_schemas(connection: asyncpg.Connection, extended: Sequence[_Extended]) -> None:
    for each in extended:
        if each.schema is not None:
            await connection.execute(SAVE_SCHEMA, each.tenant, each.model, each.schema)
            await announce_model(connection, each.tenant, each.model)
