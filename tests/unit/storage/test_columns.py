"""A column of entities is named once, and every SQL text is made from that."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import asdict

from scripts.measure_code import count_places_of_column
from statewright.entity import Actor, AuditEvent, Entity
from statewright.ids import EntityId, ModelId, TenantId, TransactionId
from statewright.storage.columns import ENTITY_COLUMNS
from statewright.storage.commit.overlay import StagedChanges, Write, build_rows
from statewright.storage.entities import to_entity

ROOT = Path(__file__).resolve().parents[3]

ENTITY = Entity(
    tenant=TenantId("acme"),
    id=EntityId("entity-id"),
    model=ModelId("model-id"),
    state="PAID",
    transaction_id=TransactionId("here"),
    entry_transaction_id=TransactionId("entry"),
    created_at=11,
    updated_at=12,
    transition="pay",
    workflow="orders",
    workflow_revision=7,
    attributed=Actor("alice", "user"),
    executor=Actor("robot", "service"),
    document="{}",
)
PAID = AuditEvent(type="PAID", at=5, details="")


def stage(write: Write) -> Mapping[str, object]:
    """The row of a write by its columns."""
    [row] = build_rows(
        StagedChanges(
            tenant=ENTITY.tenant,
            transaction=TransactionId("now"),
            label=ENTITY.entry_transaction_id,
            writes={ENTITY.id: write},
            reads={},
            events={(ENTITY.id, ENTITY.entry_transaction_id): [PAID]},
        )
    )
    return asdict(row)


def test_a_column_is_named_in_few_places():
    """The entity, the staged row, and the two conversions between them."""
    assert count_places_of_column(ROOT) <= 4


def test_every_value_of_an_entity_is_staged_under_its_column():
    assert stage(Write(entity=ENTITY, expected=TransactionId("before"))) == {
        "change": "update",
        "expected": "before",
        "events_at": 5,
        "n": 1,
        "events": '[{"type":"PAID","at":5,"details":""}]',
        "tenant": "acme",
        "id": "entity-id",
        "entry_transaction_id": "entry",
        "transaction_id": "now",
        "model": "model-id",
        "state": "PAID",
        "transition": "pay",
        "workflow": "orders",
        "workflow_revision": 7,
        "attributed_id": "alice",
        "attributed_kind": "user",
        "executor_id": "robot",
        "executor_kind": "service",
        "document": "{}",
    }


def test_what_is_staged_is_read_back_as_the_same_entity():
    row = {**stage(Write(entity=ENTITY, expected=None)), "created_at": 11, "valid_from": 12, "transaction_id": "here"}
    assert to_entity([row[name] for name in ENTITY_COLUMNS.entity]) == ENTITY


def test_every_column_of_a_tombstone_comes_from_one_place():
    lists = (ENTITY_COLUMNS.kept, ENTITY_COLUMNS.stamp, ("valid_from", "document"))
    names = [name for columns in lists for name in columns]
    assert sorted(names) == sorted(ENTITY_COLUMNS.entity)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{ENTITY_COLUMNS.stamp:locked.next_}"[:50], "locked.next_transaction_id, locked.next_entry_tran"),
        (ENTITY_COLUMNS.parameters[:40], "$2::text[], $3::uuid[], $4::bigint[], $5"),
        (ENTITY_COLUMNS.assignments[-38:], "document = locked.next_document::jsonb"),
        (f"{ENTITY_COLUMNS.version_values:staged.}"[-23:], "staged.document::jsonb"[-23:]),
    ],
)
def test_lists_are_written_as_statements_need_them(text: str, expected: str):
    assert text.endswith(expected)
