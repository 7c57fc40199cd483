"""What a unit has staged is seen before what is stored, and nothing of it leaves an overlay that is not merged."""

import pytest
from msgspec.structs import replace

from statewright.entity import Actor, Entity
from statewright.failures import Conflict, EntityModified
from statewright.ids import EntityId, ModelId, TenantId, TransactionId
from statewright.storage.commit.overlay import Overlay, StagedPart
from statewright.storage.entities import EntityReader
from statewright.storage.pool import Pool

ALICE = Actor("alice", "user")
STORED = Entity(
    tenant=TenantId("acme"),
    id=EntityId("stored"),
    model=ModelId("model"),
    state="NEW",
    transaction_id=TransactionId("before"),
    entry_transaction_id=TransactionId("before"),
    created_at=1,
    updated_at=1,
    transition="",
    workflow="",
    attributed=ALICE,
    executor=ALICE,
    document="{}",
)
NEXT = replace(STORED, state="PAID", transaction_id=TransactionId("now"))


class OneEntity(EntityReader):
    """Reads one entity, and counts how often."""

    def __init__(self, pool: Pool | None = None) -> None:
        self.reads = 0

    async def get(self, tenant: TenantId, entity_id: EntityId) -> Entity | None:
        self.reads += 1
        return STORED if entity_id == STORED.id else None


def an_overlay(outer: Overlay | None = None) -> Overlay:
    return Overlay(TenantId("acme"), TransactionId("now"), OneEntity(), outer)


async def state_of(overlay: Overlay) -> str | None:
    entity = await overlay.get_entity(STORED.id)
    return None if entity is None else entity.state


async def test_a_nested_overlay_is_seen_outside_when_it_is_merged():
    outer = an_overlay()
    inner = an_overlay(outer)
    assert await state_of(inner) == "NEW"
    inner.save(NEXT)
    assert (await state_of(inner), await state_of(outer)) == ("PAID", "NEW")
    outer.merge(inner)
    assert await state_of(outer) == "PAID"


async def test_of_two_nested_ones_that_change_the_same_version_the_second_is_refused():
    outer = an_overlay()
    first, second = an_overlay(outer), an_overlay(outer)
    for inner in (first, second):
        await inner.get_entity(STORED.id)
        inner.save(NEXT)
    outer.merge(first)
    with pytest.raises(Conflict):
        outer.merge(second)


async def test_what_was_created_and_deleted_again_is_not_submitted():
    overlay = an_overlay()
    overlay.create(NEXT)
    overlay.delete(NEXT)
    assert await state_of(overlay) is None
    assert overlay.build_submission(TransactionId("now")) is None


async def test_an_overlay_that_only_read_has_nothing_to_commit():
    overlay = an_overlay()
    await overlay.get_entity(STORED.id)
    assert overlay.build_submission(TransactionId("now")) is None


async def test_a_submission_carries_parts_by_their_names_and_a_new_segment_has_none():
    overlay = an_overlay()
    await overlay.get_entity(STORED.id)
    overlay.save(NEXT)
    part = StagedPart()
    overlay.parts["notes"] = part
    submission = overlay.build_submission(TransactionId("now"))
    assert submission is not None
    assert submission.parts == {"notes": part}
    assert [(row.change, row.expected, row.transaction_id) for row in submission.rows] == [("update", "before", "now")]
    overlay.mark_committed(TransactionId("now"))
    assert (overlay.parts, overlay.staged) == ({}, {})


async def test_only_a_version_that_the_client_demanded_is_told_as_modified():
    overlay = an_overlay()
    await overlay.get_entity(STORED.id)
    overlay.save(NEXT)
    assert isinstance(overlay.build_conflict([STORED.id]), Conflict)
    overlay.save(NEXT, if_match=True)
    assert isinstance(overlay.build_conflict([STORED.id]), EntityModified)
