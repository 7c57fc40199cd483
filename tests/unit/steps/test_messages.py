"""Definitions and variables as messages of ``workflow.v1`` and back (docs/reference/steps.md#grpc)."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from google.protobuf.struct_pb2 import Struct, Value

from statewright.api.grpc.steps.messages import (
    definition_message,
    read_definition,
    read_status_filter,
    to_json_object,
    to_proto_struct,
    to_timestamp,
)
from statewright.failures import ProcessBadRequest
from statewright.proto.workflow.v1 import engine_pb2 as pb
from statewright.steps import accept_definition
from statewright.steps.documents import read_definition as from_text

LOAN_CHAIN = Path(__file__).parent / "loan_chain"

TABLE = {
    "id": "t",
    "name": "Table",
    "steps": [
        {
            "id": "classify",
            "name": "Classify",
            "type": "DECISION_TABLE",
            "hitPolicy": "F",
            "nextStep": "end",
            "decisionTable": {"rules": [{"when": {"a": "x > 1"}, "outputs": {"tier": 1, "rest": [1.5, None]}}, {}]},
        },
        {"id": "end", "name": "End", "type": "END"},
    ],
    "metadata": {"tags": ["a"], "n": 3},
}


@pytest.mark.parametrize("name", ["application", "disbursement"])
def test_the_seeds_definitions_come_back_with_their_maps_in_byte_order(name: str) -> None:
    definition = from_text((LOAN_CHAIN / f"{name}.json").read_bytes())
    back = read_definition(definition_message(definition, 3))
    assert [step.id for step in back.steps] == [step.id for step in definition.steps]
    for step, original in zip(back.steps, definition.steps, strict=True):
        assert list(step.conditional_next_steps) == sorted(original.conditional_next_steps)
        assert dict(step.conditional_next_steps) == dict(original.conditional_next_steps)
        assert dict(step.transformations) == dict(original.transformations)
        assert step.boundary_events == original.boundary_events
        assert (step.job_type, step.retry_count, step.next_step) == (
            original.job_type,
            original.retry_count,
            original.next_step,
        )
    assert back.successor == definition.successor


def test_a_decision_table_and_metadata_come_back() -> None:
    definition = from_text(json.dumps(TABLE))
    assert read_definition(definition_message(definition, 1)) == definition


def test_an_unknown_step_type_is_a_violation_like_any_other() -> None:
    message = definition_message(from_text(json.dumps(TABLE)), 1)
    message.steps[0].type = 42  # type: ignore[assignment]
    message.steps[1].boundary_events.add(type=7, duration="PT1S", target_step_id="end")  # type: ignore[arg-type]
    refusal = accept_definition(read_definition(message))
    text = getattr(refusal, "reason", "")
    assert 'step "classify": unsupported type "42"' in text
    assert 'step "end" boundaryEvents[0]: unsupported type "7" (only TIMER is in scope)' in text


@pytest.mark.parametrize("removed", ["default_next_step", "then"])
def test_members_that_tables_have_no_more_are_refused(removed: str) -> None:
    message = definition_message(from_text(json.dumps(TABLE)), 1)
    table = message.steps[0].decision_table
    setattr(table if removed == "default_next_step" else table.rules[0], removed, "end")
    with pytest.raises(ProcessBadRequest, match="is no longer supported"):
        read_definition(message)


def test_a_table_has_the_numbers_of_the_public_engine() -> None:
    fields = {field.name: field.number for field in pb.WorkflowStep.DESCRIPTOR.fields}
    assert (fields["decision_table"], fields["hit_policy"]) == (60, 61)
    assert [field.number for field in pb.DecisionTableRule.DESCRIPTOR.fields] == [1, 2, 3]


def test_integral_doubles_are_read_as_integers() -> None:
    value = to_json_object(to_proto_struct({"five": 5, "half": Decimal("0.5"), "no": None, "list": [True, {"a": "b"}]}))
    assert value == {"five": 5, "half": Decimal("0.5"), "no": None, "list": [True, {"a": "b"}]}
    assert isinstance(value["five"], int)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_does_not_have_are_refused(number: float) -> None:
    with pytest.raises(ProcessBadRequest, match="no JSON number"):
        to_json_object(Struct(fields={"x": Value(number_value=number)}))


def test_a_value_without_a_kind_is_null() -> None:
    assert to_json_object(Struct(fields={"x": Value()})) == {"x": None}


def test_instants_are_to_the_microsecond() -> None:
    stamp = to_timestamp(1_700_000_000_123_456)
    assert stamp is not None
    assert stamp.ToJsonString() == "2023-11-14T22:13:20.123456Z"
    assert to_timestamp(None) is None


def test_a_status_filter_is_a_name() -> None:
    assert read_status_filter(pb.INSTANCE_STATUS_WAITING) == "WAITING"
    assert read_status_filter(pb.INSTANCE_STATUS_UNSPECIFIED) == ""
    assert read_status_filter(99) == "99"
