"""Failures: what they say of themselves, and how more is said of one."""

import pytest

from statewright.failures import EntityModified, Failure, PathNotFound, WorkflowFailed


def test_who_knows_more_of_a_failure_raises_another_of_its_kind():
    stale = EntityModified("e-1", expected="a", actual="b")
    told = stale.amend(message=f"item 3: {stale.message}", warnings=("late",))
    assert (told.detail, str(told)) == (
        "ENTITY_MODIFIED: item 3: entity has been modified since last read",
        told.message,
    )
    assert (type(told), told.expected, told.actual, told.properties) == (EntityModified, "a", "b", {"entityId": "e-1"})
    assert (told.warnings, stale.warnings) == (("late",), ())
    assert stale.detail == "ENTITY_MODIFIED: entity has been modified since last read"


def test_a_failure_that_is_constructed_without_a_message_can_be_amended():
    assert PathNotFound().amend(is_on_record=True).detail == PathNotFound().detail


def test_what_a_failure_came_of_is_kept():
    with pytest.raises(WorkflowFailed) as raised:
        raise WorkflowFailed("no") from ValueError("because")
    told: Failure = raised.value.amend(warnings=("late",))
    assert repr(told.__cause__) == repr(ValueError("because"))
    assert told.__traceback__ is raised.value.__traceback__
