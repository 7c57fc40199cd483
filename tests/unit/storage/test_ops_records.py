"""Rows become records by the names of their columns (storage/ops/records.py)."""

from typing import Any, cast
from uuid import UUID

import pytest
from msgspec import UNSET, Struct, UnsetType

from statewright.entity import Actor
from statewright.operations.incidents import CalloutAttempt
from statewright.operations.records import Instant, Record, Uuid, Value
from statewright.storage.ops.records import read_record

ID = UUID("0190a000-0000-7000-8000-000000000001")
AT, TOLD = 1_700_000_000_000_000, "2023-11-14T22:13:20Z"


class Thing(Record, frozen=True, kw_only=True):
    """With a field of each form."""

    id: Uuid
    at: Instant
    ended_at: Instant | None = None
    by: Actor | None = None
    others: tuple[Uuid, ...] = ()
    attempts: tuple[CalloutAttempt, ...] = ()
    payload: Value | UnsetType = UNSET


def read(kind: type[Struct], **columns: object) -> Any:
    return read_record(kind, cast("Any", columns))


def test_instants_and_ids_become_texts() -> None:
    assert read(Thing, id=ID, at=AT) == Thing(id=str(ID), at=TOLD)


def test_a_column_that_is_null_is_none_whatever_its_form() -> None:
    assert read(Thing, id=ID, at=AT, ended_at=None) == Thing(id=str(ID), at=TOLD, ended_at=None)


def test_a_struct_has_its_columns_behind_the_name_of_its_field() -> None:
    assert read(Thing, id=ID, at=AT, by_id="ada", by_kind="user").by == Actor("ada", "user")


def test_a_struct_is_none_where_all_of_its_columns_are_null() -> None:
    assert read(Thing, id=ID, at=AT, by_id=None, by_kind=None).by is None


def test_a_list_of_structs_comes_as_json_and_other_lists_as_arrays() -> None:
    found = read(Thing, id=ID, at=AT, others=["a", "b"], attempts='[{"at":5,"member":"m","error":"e"}]')
    assert found.others == ("a", "b")
    assert found.attempts == (CalloutAttempt(at=5, member="m", error="e"),)


def test_columns_that_are_no_fields_are_passed_over_and_fields_without_columns_keep_their_defaults() -> None:
    assert read(Thing, id=ID, at=AT, unknown=1) == Thing(id=str(ID), at=TOLD)


def test_what_is_given_stands_in_place_of_the_column() -> None:
    assert read_record(Thing, cast("Any", {"id": ID, "at": AT, "payload": "text"}), payload=UNSET).payload is UNSET


def test_a_field_that_must_be_there_needs_its_column() -> None:
    with pytest.raises(TypeError, match="at"):
        read(Thing, id=ID)
