"""The commit statement takes a column, and an optional part, that it has never heard of."""

from asyncio import Future
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import msgspec
import pytest

from statewright.failures import BadRequest, Conflict
from statewright.ids import EntityId
from statewright.storage.columns import EntityColumns, StagedRow, Text
from statewright.storage.commit.group_commit import GroupCommit, PendingCommit
from statewright.storage.commit.overlay import AppliedSubmission, PartRefused, StagedPart, Submission
from statewright.storage.commit.statement import CommitStatement, Part, build_staged_part
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import Pool
from tests.database import connected
from tests.integration.storage.store import Store, fetch, rewrite, scalar


class PaintedRow(StagedRow, frozen=True, gc=False):
    """A staged row with one more column of the entity."""

    colour: Text | None = None


PAINTED = CommitStatement(columns=EntityColumns(PaintedRow))

ADD_COLUMN = """
    ALTER TABLE entity ADD COLUMN colour text;
    ALTER TABLE entity_history ADD COLUMN colour text;
"""


class Brush:
    """Writes versions of one entity."""

    def __init__(self, store: Store, connection: asyncpg.Connection) -> None:
        self._store, self._connection = store, connection
        self.id = store.ids.new_entity_id()
        self._last: str | None = None

    async def paint(self, change: str, colour: str | None) -> None:
        now = self._store.ids.new_transaction_id()
        document = None if change == "delete" else "{}"
        row = PaintedRow(
            *(change, self._last, None, None, None, "acme", self.id, now, now),
            *(self.id, "S", "", "", 0, "a", "user", "a", "user", document),
            colour,
        )
        [attempt] = await PAINTED.apply(self._connection, [Submission(rows=[row])])
        assert isinstance(attempt, AppliedSubmission)
        self._last = now


async def test_a_field_of_the_staged_row_is_all_that_a_column_needs(store: Store):
    async with connected(store.url) as connection:
        await connection.execute(ADD_COLUMN)
        brush = Brush(store, connection)
        await brush.paint("create", "red")
        assert await scalar(store, "SELECT colour FROM entity WHERE id = $1", brush.id) == "red"
        await brush.paint("update", "green")
        await brush.paint("delete", None)
    history = "SELECT colour, document IS NULL AS gone FROM entity_history WHERE id = $1 ORDER BY valid_from"
    assert await fetch(store, history, brush.id) == [("red", False), ("green", False), ("green", True)]


class Notes(StagedPart, frozen=True, kw_only=True):
    """What a transaction notes of an entity."""

    entity: EntityId
    texts: Sequence[str]

    @property
    def names(self) -> Sequence[str]:
        return [self.entity]

    def merge(self, inner: StagedPart) -> "Notes":
        assert isinstance(inner, Notes)
        return msgspec.structs.replace(self, texts=[*self.texts, *inner.texts])


NOTES = build_staged_part(
    "notes",
    {
        "reads": """
noted AS MATERIALIZED (
    SELECT batch.t, note.entity, note.texts
      FROM json_to_recordset($notes::json) AS batch (t int, part json)
     CROSS JOIN LATERAL json_to_record(batch.part) AS note (entity uuid, texts text[])
),
""",
        "conditions": "       AND t NOT IN (SELECT t FROM noted WHERE 'rude' = ANY (texts))\n",
        "writes": """
notes_written AS (
    INSERT INTO note (entity, text, at) SELECT entity, unnest(texts), applied.at FROM noted JOIN applied USING (t)
),
""",
        "refusal": "  CASE WHEN moments.t IN (SELECT t FROM noted WHERE 'rude' = ANY (texts)) THEN 'rude:a: b' END,\n",
    },
)
POLITE_NOTES = msgspec.structs.replace(NOTES, refusals={"rude": PartRefused(BadRequest)})


@asynccontextmanager
async def with_notes(store: Store) -> AsyncIterator[Store]:
    """The same store, whose transactions may write notes."""
    async with connected(store.url) as connection:
        await connection.execute("CREATE TABLE note (entity uuid, text text, at bigint)")
    async with Pool(parse_database_url(store.url), size=2) as pool:
        commits = GroupCommit(pool, parts=[POLITE_NOTES])
        yield msgspec.structs.replace(store, commits=commits)
        await commits.drain()


async def test_another_part_is_written_with_the_version_or_not_at_all(store: Store):
    async with with_notes(store) as noting:
        late = noting.unit()
        entity = await noting.created({"n": 0})
        await rewrite(late, entity, {"n": 2})
        late.parts["notes"] = Notes(entity=entity, texts=["too late"])
        unit = noting.unit()
        await rewrite(unit, entity, {"n": 1})
        unit.parts["notes"] = Notes(entity=entity, texts=["a", "b"])
        at = await unit.commit()
        with pytest.raises(Conflict):
            await late.commit()
        assert await fetch(store, "SELECT text, at FROM note ORDER BY text") == [("a", at), ("b", at)]


async def test_another_part_may_refuse_a_transaction(store: Store):
    async with with_notes(store) as noting:
        entity = await noting.created({"n": 0})
        unit = noting.unit()
        await rewrite(unit, entity, {"n": 1})
        unit.parts["notes"] = Notes(entity=entity, texts=["rude"])
        with pytest.raises(BadRequest, match=r"^a: b$"):
            await unit.commit()
        assert await scalar(store, "SELECT count(*) FROM note") == 0
        assert await scalar(store, "SELECT count(*) FROM entity_history WHERE id = $1", entity) == 0


async def test_what_nested_units_stage_for_a_part_is_merged(store: Store):
    async with with_notes(store) as noting:
        entity = await noting.created({"n": 0})
        async with noting.unit() as unit:
            await rewrite(unit, entity, {"n": 1})
            for text in ("a", "b"):
                async with unit.open_savepoint() as savepoint:
                    savepoint.parts["notes"] = Notes(entity=entity, texts=[text])
                    assert next(savepoint.find_parts("notes")) is savepoint.parts["notes"]
                    await savepoint.commit()
            async with unit.open_savepoint() as dropped:
                dropped.parts["notes"] = Notes(entity=entity, texts=["c"])
            await unit.commit()
        assert await fetch(store, "SELECT text FROM note ORDER BY text") == [("a",), ("b",)]


async def test_transactions_with_a_name_of_a_part_in_common_share_no_batch():
    notes = {"notes": Notes(entity=EntityId("e"), texts=[])}
    assert ("notes", "e") in PendingCommit(Submission(rows=[], parts=notes), Future(), 0.0).keys


def test_a_part_that_no_transaction_needs_is_left_out():
    statement = CommitStatement([NOTES])
    assert "note" not in statement.compose("claims")
    assert "$notes" not in statement.compose("claims", "notes")
    assert statement.compose("notes").count("$21::json") == 1


def test_a_section_without_a_place_is_refused():
    part = Part(name="lost", sections={"nowhere": ""}, encode=lambda batch: None)
    with pytest.raises(ValueError, match="nowhere"):
        CommitStatement([part])
