"""Kinds, types, positions and filters of events (docs/reference/operations.md#events-out)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.entity import LOOPBACK, Actor, ModelKey
from statewright.ids import EntityId, ModelId, TransactionId
from statewright.operations.events import (
    EventFilter,
    EventPosition,
    EventRow,
    Subject,
    classify,
    parse_position,
    place_behind,
)

POSITIONS = st.builds(EventPosition, st.integers(0, 2**63 - 1), st.uuids().map(str), st.uuids().map(str))


def a_row(
    change: str = "update", *, before: str | None = "NEW", state: str = "NEW", taken: str | None = None
) -> EventRow:
    return EventRow(
        at=1,
        transaction_id=TransactionId("00000000-0000-0000-0000-000000000001"),
        entity=EntityId("00000000-0000-0000-0000-000000000002"),
        model_id=ModelId("00000000-0000-0000-0000-000000000003"),
        model=ModelKey("invoice", 1),
        change=change,  # type: ignore[arg-type]
        from_state=before,
        state=state,
        transition=taken,
        attributed=Actor("ada", "user"),
        executor=Actor("ada", "user"),
    )


@given(POSITIONS, POSITIONS)
def test_texts_of_positions_sort_like_these(one: EventPosition, other: EventPosition) -> None:
    assert (one.write() < other.write()) == (one < other)
    assert parse_position(one.write()) == one


@given(POSITIONS)
def test_behind_an_instant_is_all_that_was_written_up_to_it(position: EventPosition) -> None:
    assert position <= place_behind(position.at)
    assert place_behind(position.at - 1) < position


@pytest.mark.parametrize("text", ["", "1", "f" * 16, f"{'f' * 16}-{'0' * 36}-{'0' * 36}", f"8{'0' * 15}-x-y"])
def test_what_is_no_position_is_none(text: str) -> None:
    assert parse_position(text) is None


@pytest.mark.parametrize(
    ("row", "subject", "kind", "type_"),
    [
        (a_row("create", before=None, taken=LOOPBACK), "entity", "CREATED", "entity.created"),
        (a_row("delete"), "entity", "DELETED", "entity.deleted"),
        (a_row(taken=LOOPBACK), "entity", "UPDATED", "entity.updated"),
        (a_row(taken="TOUCH"), "entity", "TRANSITIONED", "entity.transitioned"),
        (a_row(state="DONE", taken=LOOPBACK), "entity", "TRANSITIONED", "entity.transitioned"),
        (a_row("create", before=None), "instance", "INSTANCE", "instance.started"),
        (a_row("create", before=None, taken="complete"), "instance", "INSTANCE", "instance.completed"),
        (a_row(taken="park"), "instance", "INSTANCE", "instance.waiting"),
        (a_row(taken="of another version"), "instance", "INSTANCE", "instance.advanced"),
        (a_row("create", before=None), "task", "TASK", "task.opened"),
        (a_row(taken="cancel"), "task", "TASK", "task.cancelled"),
    ],
)
def test_types_follow_from_what_was_written(row: EventRow, subject: Subject, kind: str, type_: str) -> None:
    assert classify(row, subject) == (kind, type_)


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (EventFilter(), True),
        (EventFilter(kinds=("CREATED", "UPDATED")), True),
        (EventFilter(kinds=("CREATED",)), False),
        (EventFilter(model_name="invoice", model_version=1, from_state="NEW", to_state="NEW"), True),
        (EventFilter(model_version=2), False),
        (EventFilter(from_state="DONE"), False),
        (EventFilter(transition="PAY"), False),
        (EventFilter(entity_id=EntityId("x")), False),
    ],
)
def test_all_members_of_a_filter_are_conditions(wanted: EventFilter, matches: bool) -> None:
    assert wanted.matches(a_row(), "UPDATED") is matches
