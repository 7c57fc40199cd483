"""Growth of a model's schema by the documents of a transaction (docs/reference/models.md#change-level; docs/adr/0003).

The documents have been compared with the schema that was known when they arrived. Here they are compared again with the
schema as it is when they are written, under the lock of the model's row, and merged into it. So N transactions that
each teach something end with the schema of any serial order, none is refused because of another that taught something
else, and a document that contradicts what was learnt meanwhile is refused as it would have been had it come later.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct

from statewright.failures import ModelNotFound
from statewright.ids import ModelId, TenantId
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonValue
from statewright.schema import (
    ChangeLevel,
    Extender,
    SchemaNode,
    UniqueKey,
    compare_and_extend,
    merge,
    normalise,
    schema_from_stored,
    schema_to_stored,
)
from statewright.storage.models import announce_model

_decode_unique_keys = msgspec.json.Decoder(tuple[UniqueKey, ...]).decode


class Growth(Struct, frozen=True, kw_only=True):
    """Documents of one model that taught it something, in the order in which they were accepted."""

    tenant: TenantId
    model: ModelId
    documents: tuple[JsonValue, ...]


class GrownSchema(Struct, frozen=True, eq=False):
    """A model's schema as a unit of work sees it, and those documents of the unit that made it so.

    ``extend`` is the schema compiled, where that was done.
    """

    schema: SchemaNode
    documents: tuple[JsonValue, ...]
    extend: Extender | None = None


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

    def add(self, model: ModelId, document: JsonValue, schema: SchemaNode, extend: Extender) -> None:
        """Stage what a document teaches its model; ``schema`` is what the unit sees from now on."""
        self._models[model] = GrownSchema(schema, (*self._list_documents(model), document), extend)

    def merge(self, inner: "StagedGrowth") -> None:
        """Take over what a nested unit has staged, beside what others have staged meanwhile."""
        for model, grown in inner._models.items():
            known = self.find(model)
            schema = grown.schema if known is None else normalise(merge(known.schema, grown.schema))
            self._models[model] = GrownSchema(schema, (*self._list_documents(model), *grown.documents))

    def clear(self) -> None:
        """Begin anew: what was staged is committed."""
        self._models.clear()

    def list_growth(self, tenant: TenantId) -> list[Growth]:
        """What is to be committed."""
        return [Growth(tenant=tenant, model=model, documents=grown.documents) for model, grown in self._models.items()]

    def _list_documents(self, model: ModelId) -> tuple[JsonValue, ...]:
        grown = self._models.get(model)
        return () if grown is None else grown.documents


# Locked in one global order, before any row of an entity. After a wait the newest version of a row is returned.
LOCK_MODELS: Final = """
    SELECT model.tenant, model.id, model.schema, model.change_level, model.unique_keys
      FROM model
      JOIN unnest($1::text[], $2::uuid[]) AS growing (tenant, id)
        ON model.tenant = growing.tenant AND model.id = growing.id
     ORDER BY model.tenant, model.id
       FOR NO KEY UPDATE OF model
"""

SAVE_SCHEMA: Final = """
    UPDATE model SET schema = $3::jsonb, changed_at = now_us(), revision = nextval('definition_revision')
     WHERE tenant = $1 AND id = $2
"""


async def grow_models(connection: asyncpg.Connection, growth: Sequence[Growth]) -> None:
    """Extend the models, inside the open transaction; who changed is announced when it commits.

    Raises what comparing raises (``BadRequest``, ``PolymorphicSlot``, ``InvalidUniqueKeyDefinition``), and
    ``ModelNotFound`` for a model that is gone.
    """
    tenants, ids = [each.tenant for each in growth], [each.model for each in growth]
    rows = {(row["tenant"], str(row["id"])): row for row in await connection.fetch(LOCK_MODELS, tenants, ids)}
    for each in growth:
        row = rows.get((each.tenant, each.model))
        if row is None or row["change_level"] is None:
            raise ModelNotFound("model not found")
        known = schema_from_stored(decode(row["schema"]))
        keys = _decode_unique_keys(row["unique_keys"])
        extended = extend_schema(known, each.documents, ChangeLevel(row["change_level"]), keys)
        if extended != known:
            await connection.execute(SAVE_SCHEMA, each.tenant, each.model, encode(schema_to_stored(extended)).decode())
            await announce_model(connection, each.tenant, each.model)


def extend_schema(
    node: SchemaNode, documents: Sequence[JsonValue], level: ChangeLevel, keys: Sequence[UniqueKey]
) -> SchemaNode:
    """The schema after these documents, one after the other."""
    for document in documents:
        node = compare_and_extend(node, document, level, keys)
    return node
