"""What is said of an import before it is done, code by code (docs/reference/operations.md#checking-workflows)."""

import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from statewright.conditions import KnownFields, Visits, compile_predicate, parse
from statewright.entity import EntityMeta, ModelKey
from statewright.failures import BadRequest, SchemaVersionUnsupported, ValidationFailed
from statewright.jsonval.codec import encode
from statewright.jsonval.values import DataType, JsonValue
from statewright.schema import DeclaredField
from statewright.workflow import IMPORT_MODES, Workflow, check_incoming, check_merged, decode_import, read_import
from statewright.workflow.review import CheckFinding, CheckResult, StateUse, Surroundings, check_import
from tests.builders import a_processor, a_workflow, automated, manual, when
from tests.unit.workflow.import_documents import DOCUMENTS

KEY = ModelKey("prize", 1)
DECLARED = {
    "$.year": DeclaredField(types=frozenset({DataType.INTEGER})),
    "$.name": DeclaredField(types=frozenset({DataType.STRING})),
    "$.lines[*].qty": DeclaredField(types=frozenset({DataType.INTEGER})),
}
ALL_HERE = Surroundings(fields=KnownFields(DECLARED), has_member=lambda _tags: True)
META = EntityMeta(id="", state="", creation_date=0, last_update_time=0, transition="", transaction_id="")

Json = Any


def checked(
    *workflows: Json, stored: Sequence[Workflow] = (), around: Surroundings = ALL_HERE, **members: Json
) -> CheckResult:
    return check_import({"workflows": list(workflows), **members}, KEY, stored, around)


def stored(*workflows: Json) -> tuple[Workflow, ...]:
    return read_import({"workflows": list(workflows)}).workflows


def told(result: CheckResult, code: str) -> CheckFinding:
    """The only finding with a code."""
    [found] = [finding for finding in result.findings if finding.code == code]
    return found


def both(*conditions: Json) -> Json:
    return {"type": "group", "operator": "AND", "conditions": list(conditions)}


def timed(delay_ms: int = 60_000, **schedule: int) -> Json:
    return {"name": "LATE", "next": "B", "manual": False, "schedule": {"delayMs": delay_ms, **schedule}}


FINE = a_workflow(A=[manual("GO", to="B")], B=[])


def test_a_sound_workflow_is_importable_and_there_is_nothing_to_say():
    result = checked(FINE)
    assert (result.is_importable, result.findings) == (True, ())


# Errors: whatever an import is refused for.


def test_all_errors_are_told_and_not_only_the_first():
    result = checked(a_workflow(A=[manual("G", to="X"), manual("G", to="Y")]))
    assert [each.code for each in result.findings if each.severity == "ERROR"] == [
        "UNKNOWN_NEXT",
        "DUPLICATE_NAME",
        "UNKNOWN_NEXT",
    ]


def test_what_else_is_wrong_with_an_export_of_another_model_is_told_too():
    result = checked(a_workflow(version="1.9", A=[]), entityName="other", modelVersion=1)
    assert [each.code for each in result.findings] == ["INVALID_STRUCTURE", "UNSUPPORTED_VERSION"]


def test_an_export_of_another_model_and_an_empty_replacement_are_errors_of_the_document():
    assert told(checked(FINE, entityName="other"), "INVALID_STRUCTURE").path == "/entityName"
    assert told(checked(importMode="REPLACE"), "INVALID_STRUCTURE").path == "/workflows"
    assert told(checked(FINE, importMode="SOMEHOW"), "INVALID_STRUCTURE").path == "/importMode"


# Warnings.

UP, DOWN = when("$.year", "GREATER_THAN", 10), when("$.year", "LESS_THAN", 5)


def test_what_no_member_does_is_a_warning():
    workflow = a_workflow(A=[manual("G", to="B", processors=[a_processor(tags="mail,fast")])], B=[])
    around = Surroundings(has_member=lambda tags: set(tags) == {"mail"})
    found = told(checked(workflow, around=around), "TAG_WITHOUT_MEMBER")
    assert found.path == "/workflows/0/states/A/transitions/0/processors/0"
    assert "mail, fast" in found.message
    assert not [each for each in checked(workflow).findings if each.code == "TAG_WITHOUT_MEMBER"]


def test_what_is_suspended_is_a_warning():
    workflow = a_workflow(A=[manual("G", to="B", processors=[a_processor(tags="mail")]), manual("H", to="B")], B=[])
    around = Surroundings(
        suspends=lambda _workflow, transition: transition in {"", "H"}, suspends_tags=lambda tags: "mail" in tags
    )
    found = [each.path for each in checked(workflow, around=around).findings if each.code == "SUSPENDED_TARGET"]
    assert found == [
        "/workflows/0",
        "/workflows/0/states/A/transitions/0/processors/0",
        "/workflows/0/states/A/transitions/1",
    ]


def test_a_state_that_goes_while_entities_are_in_it_is_a_warning_and_so_are_its_timers():
    before = stored(a_workflow(A=[timed()], B=[], OLD=[timed()]))
    around = Surroundings(
        uses=[StateUse(workflow="lifecycle", state="OLD", count=7), StateUse(workflow="lifecycle", state="A", count=1)],
        timers=[StateUse(workflow="lifecycle", state="A", transition="LATE", count=31)],
    )
    result = checked(a_workflow(A=[manual("LATE", to="B")], B=[]), stored=before, around=around)
    assert told(result, "REMOVED_STATE_IN_USE").path == "/workflows/0/states"
    assert "7 entities" in told(result, "REMOVED_STATE_IN_USE").message
    assert "31 timers" in told(result, "REMOVED_TRANSITION_WITH_TIMER").message


def test_timers_of_a_transition_that_stays_scheduled_are_no_warning():
    around = Surroundings(timers=[StateUse(workflow="lifecycle", state="A", transition="LATE", count=31)])
    before = stored(a_workflow(A=[timed()], B=[]))
    result = checked(a_workflow(A=[timed(delay_ms=120_000)], B=[]), stored=before, around=around)
    assert not [finding for finding in result.findings if finding.code == "REMOVED_TRANSITION_WITH_TIMER"]


def test_findings_are_listed_by_severity_path_and_code():
    workflow = a_workflow(
        A=[automated("X", to="B"), automated("Y", to="B", disabled=True)], B=[automated("X", to="NOWHERE")], C=[]
    )
    found = checked(workflow).findings
    assert [each.code for each in found] == ["UNKNOWN_NEXT", "UNREACHABLE_STATE", "DISABLED_TRANSITION"]
    assert list(found) == sorted(
        found, key=lambda each: (("ERROR", "WARNING", "INFO").index(each.severity), each.path, each.code)
    )


def test_no_more_than_a_thousand_findings_are_told():
    states = {f"S{number}": [] for number in range(1_500)}
    assert len(checked(a_workflow(**states)).findings) == 1_000


# Overlaps and contradictions.


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (UP, when("$.year", "LESS_THAN", 20)),
        (when("$.name", "STARTS_WITH", "Nob"), when("$.name", "NOT_NULL")),
        (when("$.lines[*].qty", "GREATER_THAN", 1), when("$.lines[*].qty", "EQUALS", 5)),
        (
            both(UP, when("$.name", "EQUALS", "a")),
            {"type": "group", "operator": "OR", "conditions": [DOWN, when("$.name", "NOT_EQUAL", "b")]},
        ),
        (when("$.year", "BETWEEN", [1, 9]), when("$.year", "BETWEEN_INCLUSIVE", [5, 6])),
    ],
)
def test_two_criteria_that_take_one_document_overlap_and_the_document_is_shown(one: Json, other: Json):
    workflow = a_workflow(A=[automated("X", to="B", criterion=one), automated("Y", to="B", criterion=other)], B=[])
    found = told(checked(workflow), "OVERLAPPING_CRITERIA")
    assert found.path == "/workflows/0/states/A/transitions/1/criterion"
    for criterion in (one, other):
        assert compile_predicate(parse(criterion), DECLARED)(found.witness, META, Visits())


def test_criteria_that_exclude_each_other_do_not_overlap():
    workflow = a_workflow(A=[automated("X", to="B", criterion=UP), automated("Y", to="B", criterion=DOWN)], B=[])
    assert checked(workflow).findings == ()


@pytest.mark.parametrize(
    ("criterion", "never"),
    [
        (both(when("$.year", "EQUALS", 1), when("$.year", "EQUALS", 2)), True),
        (both(when("$.year", "EQUALS", 1), when("$.year", "EQUALS", "1.0")), False),
        (both(when("$.year", "GREATER_THAN", 5), when("$.year", "LESS_OR_EQUAL", 5)), True),
        (both(when("$.year", "GREATER_OR_EQUAL", 5), when("$.year", "LESS_OR_EQUAL", 5)), False),
        (both(when("$.name", "IS_NULL"), when("$.name", "NOT_NULL")), True),
        (both(when("$.name", "IS_NULL"), when("$.name", "CONTAINS", "a")), True),
        (both(when("$.name", "EQUALS", "a"), when("$.name", "EQUALS", "b")), True),
        (both(when("$.lines[*].qty", "EQUALS", 1), when("$.lines[*].qty", "EQUALS", 2)), False),
        (both(when("$.name", "GREATER_THAN", "b"), when("$.name", "LESS_THAN", "a")), False),
    ],
)
def test_never_true_is_said_of_contradictions_alone(criterion: Json, never: bool):
    result = checked(a_workflow(A=[automated("X", to="B", criterion=criterion)], B=[]))
    assert ("NEVER_TRUE" in {each.code for each in result.findings}) is never


# What would change.


def test_what_would_change_is_told():
    before = stored(a_workflow("one", A=[timed()], B=[]), a_workflow("two", X=[]))
    after = a_workflow("one", A=[manual("G", to="C", processors=[a_processor(tags="mail")])], C=[])
    changes = checked(after, a_workflow("three", Y=[]), stored=before, importMode="REPLACE").changes
    assert changes is not None
    assert [(each.name, each.change) for each in changes.workflows] == [
        ("one", "CHANGED"),
        ("two", "REMOVED"),
        ("three", "ADDED"),
    ]
    assert {each["path"] for each in changes.workflows[0].patch} >= {"/states/B", "/states/C"}
    assert (changes.states.added, changes.states.removed) == (("C", "Y"), ("B", "X"))
    assert changes.tags.added == ("mail",)
    assert [(each.state, each.transition, each.change) for each in changes.timers] == [("A", "LATE", "REMOVED")]


# The verdict.

EXAMPLES = int(os.environ.get("STATEWRIGHT_TEST_CHECKS", "100"))
"""Of random documents."""


def is_imported(document: JsonValue, before: Sequence[Workflow]) -> bool:
    """What the import itself decides."""
    try:
        request = decode_import(encode(document))
        request.require_model(KEY)
        check_incoming(request, KnownFields(DECLARED))
        check_merged(IMPORT_MODES[request.mode](before, request.workflows), allow_cycles=request.allow_cycles)
    except (BadRequest, SchemaVersionUnsupported, ValidationFailed):
        return False
    return True


@settings(max_examples=EXAMPLES, deadline=None)
@given(DOCUMENTS)
def test_what_is_called_importable_is_what_is_imported(document: Json):
    before = stored(a_workflow("v", A=[manual("GO", to="B")], B=[]))
    result = check_import(document, KEY, before, ALL_HERE)
    assert result.is_importable is is_imported(document, before)
    assert result.is_importable is not any(each.severity == "ERROR" for each in result.findings)
