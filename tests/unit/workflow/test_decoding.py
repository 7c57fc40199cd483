from decimal import Decimal

import pytest

from statewright.entity import ModelKey
from statewright.failures import BadRequest, Failure, SchemaVersionUnsupported
from statewright.workflow import MAX_IMPORT_BYTES, decode_import
from tests.unit.workflow.builders import (
    SEED,
    a_body,
    a_function,
    a_processor,
    a_request,
    a_transition,
    a_workflow,
    with_processor,
    with_transition,
)


def refusal_of(raw: bytes) -> Failure:
    with pytest.raises(Failure) as refused:
        decode_import(raw)
    return refused.value


def bad_request(raw: bytes) -> str:
    failure = refusal_of(raw)
    assert isinstance(failure, BadRequest)
    assert failure.code == "BAD_REQUEST"
    return failure.message


# size and JSON


def test_a_body_over_the_cap_is_not_read():
    assert bad_request(b" " * (MAX_IMPORT_BYTES + 1)) == "failed to read request body"


def test_a_body_of_exactly_the_cap_is_read():
    body = a_body(a_workflow())
    assert decode_import(body + b" " * (MAX_IMPORT_BYTES - len(body))).workflows


@pytest.mark.parametrize("raw", [b"", b"  ", b"{", b'{"workflows": [}', b"\xff", b"[]", b"null", b'"x"', b"{} x", b"1"])
def test_what_is_no_json_object_is_refused(raw):
    assert bad_request(raw).startswith("invalid JSON: ")


@pytest.mark.parametrize("trailing", ["{}", "x", "]", " null"])
def test_text_after_the_object_is_refused(trailing):
    assert bad_request(a_body() + trailing.encode()) == "invalid JSON: trailing data after request object"


def test_a_repeated_member_is_refused_with_its_path():
    raw = a_body(a_workflow()).replace(b'"B": {}', b'"B": {}, "B": {}')
    assert bad_request(raw) == "invalid JSON: duplicate member at workflows[0].states.B"


@pytest.mark.parametrize(
    ("workflow", "message"),
    [
        (7, "expected an object, got a number at workflows[0]"),
        (None, "expected an object, got null at workflows[0]"),
        (a_workflow(name=7), "expected a string, got a number at workflows[0].name"),
        (a_workflow(name=True), "expected a string, got a boolean at workflows[0].name"),
        (a_workflow(version=1), "expected a string, got a number at workflows[0].version"),
        (a_workflow(active="yes"), "expected a boolean, got a string at workflows[0].active"),
        (a_workflow(active=0), "expected a boolean, got a number at workflows[0].active"),
        (a_workflow(states=[]), "expected an object, got an array at workflows[0].states"),
        (a_workflow(states={"A": False}), "expected an object, got a boolean at workflows[0].states.A"),
        (
            a_workflow(states={"A": {"transitions": {}}}),
            "expected an array, got an object at workflows[0].states.A.transitions",
        ),
        (
            with_transition(a_transition(manual="no")),
            "expected a boolean, got a string at workflows[0].states.A.transitions[0].manual",
        ),
        (
            with_processor(a_processor(config={"responseTimeoutMs": "5"})),
            (
                "expected a 64-bit integer, got a string at "
                "workflows[0].states.A.transitions[0].processors[0].config.responseTimeoutMs"
            ),
        ),
    ],
)
def test_a_member_of_the_wrong_type_is_refused_with_its_path(workflow, message):
    assert bad_request(a_body(workflow)) == f"invalid JSON: {message}"


@pytest.mark.parametrize(
    "delay", ["1.0", "1.5", "1e3", "true", "9223372036854775808", "-9223372036854775809", "1" * 4000]
)
def test_what_is_no_64_bit_integer_is_no_delay(delay):
    raw = a_body(with_transition(a_transition(schedule={"delayMs": 0}))).replace(
        b'"delayMs": 0', b'"delayMs": ' + delay.encode()
    )
    assert bad_request(raw).startswith("invalid JSON: expected a 64-bit integer, got a ")


def test_null_counts_as_absent():
    absent = {
        "desc": None,
        "active": None,
        "annotations": None,
        "criterionAnnotations": None,
        "states": {"A": {"transitions": [a_transition(processors=None, schedule=None, disabled=None)]}, "B": None},
    }
    (workflow,) = a_request(a_workflow(**absent)).workflows
    (transition,) = workflow.list_transitions("A")
    assert (workflow.desc, workflow.active, workflow.annotations) == ("", True, None)
    assert (transition.processors, transition.schedule, transition.disabled) == ((), None, False)
    assert workflow.list_transitions("B") == ()


# unknown members

PLACES = [
    (a_workflow(invented=1), "workflows[0]"),
    (a_workflow(states={"A": {"invented": 1}, "B": {}}), "workflows[0].states.A"),
    (with_transition(a_transition(invented=1)), "workflows[0].states.A.transitions[0]"),
    (with_transition(a_transition(schedule={"invented": 1})), "workflows[0].states.A.transitions[0].schedule"),
    (
        with_transition(a_transition(schedule={"function": a_function(invented=1)})),
        "workflows[0].states.A.transitions[0].schedule.function",
    ),
    (with_processor(a_processor(invented=1)), "workflows[0].states.A.transitions[0].processors[0]"),
    (
        with_processor(a_processor(config={"invented": 1})),
        "workflows[0].states.A.transitions[0].processors[0].config",
    ),
]


@pytest.mark.parametrize(("workflow", "place"), PLACES)
def test_the_strict_contract_refuses_unknown_members_at_every_level(workflow, place):
    assert bad_request(a_body(workflow)).startswith(f'invalid JSON: unknown field "invented" at {place}; known: ')


@pytest.mark.parametrize(("workflow", "place"), PLACES)
def test_the_seed_contract_ignores_unknown_members_at_every_level(workflow, place):
    assert a_request(workflow | {"version": SEED}).workflows


def test_names_of_members_are_case_sensitive():
    assert bad_request(a_body(a_workflow(Active=False))) == (
        'invalid JSON: unknown field "Active" at workflows[0]; known: active, annotations, criterion, '
        "criterionAnnotations, desc, initialState, name, states, version"
    )


def test_criteria_and_annotations_are_opaque():
    opaque = {"anything": [1, {"goes": None}]}
    (workflow,) = a_request(a_workflow(criterion=opaque, annotations=opaque, criterionAnnotations=opaque)).workflows
    assert workflow.criterion is not None
    assert workflow.criterion.source == workflow.annotations == workflow.criterion_annotations == opaque


def test_numbers_in_opaque_members_keep_every_digit():
    raw = a_body(a_workflow(criterion={"value": 0})).replace(b'"value": 0', b'"value": 0.1000000000000000000001')
    (workflow,) = decode_import(raw).workflows
    assert workflow.criterion is not None
    assert workflow.criterion.source == {"value": Decimal("0.1000000000000000000001")}


@pytest.mark.parametrize("workflows", [[], [a_workflow()], [a_workflow("old", version=SEED), a_workflow()]])
def test_the_frame_refuses_unknown_members(workflows):
    assert bad_request(a_body(*workflows, modelVersions=1)) == (
        'invalid JSON: unknown field "modelVersions"; '
        "known: allowCycles, entityName, importMode, modelVersion, workflows"
    )


def test_the_frame_ignores_unknown_members_around_workflows_of_the_seed_contract_only():
    assert a_request(a_workflow(version=SEED), entityName="parcel", modelVersion=1).workflows


# mode and flags


@pytest.mark.parametrize(
    ("spelled", "mode"),
    [
        ("MERGE", "MERGE"),
        ("merge", "MERGE"),
        ("", "MERGE"),
        (None, "MERGE"),
        ("Replace", "REPLACE"),
        ("aCTIVATE", "ACTIVATE"),
    ],
)
def test_import_modes_are_case_insensitive_and_default_to_merge(spelled, mode):
    assert a_request(importMode=spelled).mode == mode


@pytest.mark.parametrize(("spelled", "shown"), [("upsert", "UPSERT"), (" merge", " MERGE"), ("ß", "SS")])
def test_an_unknown_mode_is_named_in_upper_case(spelled, shown):
    assert bad_request(a_body(importMode=spelled)) == f"unknown importMode: {shown}"


def test_cycles_are_allowed_only_on_request():
    assert [a_request(allowCycles=given).allow_cycles for given in (True, False, None)] == [True, False, False]


def test_a_request_without_workflows_has_none():
    assert decode_import(b"{}").workflows == ()
    assert decode_import(b'{"workflows": null}').workflows == ()


# order of checks


def test_json_is_judged_before_the_mode():
    assert "unknown field" in bad_request(a_body(a_workflow(invented=1), importMode="nope"))


def test_the_mode_is_judged_before_versions():
    assert bad_request(a_body(a_workflow(version="9.9"), importMode="nope")) == "unknown importMode: NOPE"


def test_versions_are_judged_before_structure():
    assert type(refusal_of(a_body(a_workflow(""), a_workflow(version="9.9")))) is SchemaVersionUnsupported


# defaults


def test_only_active_and_attach_entity_are_filled_in():
    processor = a_processor()
    timer = a_transition(manual=False, schedule={"function": a_function()})
    states = {"A": {"transitions": [a_transition("x", processors=[processor]), timer]}, "B": {}}
    (workflow,) = a_request(a_workflow(states=states)).workflows
    first, second = workflow.list_transitions("A")
    assert workflow.active
    assert first.processors[0].config.attach_entity
    assert first.processors[0].execution_mode == first.processors[0].config.retry_policy == ""
    assert second.schedule is not None
    assert second.schedule.function is not None
    assert second.schedule.function.attach_entity


@pytest.mark.parametrize(
    ("given", "kept"), [({"active": False}, False), ({"active": True}, True), ({"active": None}, True)]
)
def test_the_strict_contract_honours_active(given, kept):
    assert a_request(a_workflow(**given)).workflows[0].active is kept


@pytest.mark.parametrize("active", [True, False, None])
def test_the_seed_contract_activates_what_it_imports(active):
    assert a_request(a_workflow(version=SEED, active=active)).workflows[0].active


@pytest.mark.parametrize("version", [SEED, "1.3"])
def test_the_members_of_an_export_are_accepted(version):
    """Decision W15."""
    request = a_request(a_workflow(version=version), entityName="parcel", modelVersion=1)
    assert (request.entity_name, request.model_version) == ("parcel", 1)
    request.require_model(ModelKey("parcel", 1))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"entityName": "crate"}, 'entityName is "crate", but the path names "parcel"'),
        ({"entityName": ""}, 'entityName is "", but the path names "parcel"'),
        ({"entityName": "parcel", "modelVersion": 2}, "modelVersion is 2, but the path names 1"),
    ],
)
@pytest.mark.parametrize("version", [SEED, "1.3"])
def test_an_export_of_another_model_is_refused(version, members, message):
    """Decision W15."""
    request = a_request(a_workflow(version=version), **members)
    with pytest.raises(BadRequest) as refused:
        request.require_model(ModelKey("parcel", 1))
    assert refused.value.message == message


@pytest.mark.parametrize(("members", "kind"), [({"entityName": 1}, "a string"), ({"modelVersion": "1"}, "a 64-bit")])
def test_the_members_of_an_export_have_its_types(members, kind):
    assert f"expected {kind}" in bad_request(a_body(a_workflow(), **members))
