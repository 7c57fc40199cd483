"""Which members a job is pushed to."""

import pytest

from statewright.jsonval.values import JsonValue
from statewright.steps import find_member_tags
from tests.unit.steps.builders import a_process, end, service


def tags(metadata: JsonValue) -> str | None:
    return find_member_tags(a_process(service("rate", "end"), end(), metadata=metadata).definition, "rate")


def test_a_definition_names_tags_for_a_type_of_jobs():
    metadata: JsonValue = {
        "dispatch": {"rate": {"calculationNodesTags": "eu, gpu"}, "other": {"calculationNodesTags": "x"}}
    }
    assert tags(metadata) == "eu, gpu"


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        {"dispatch": "kafka"},
        {"dispatch": []},
        {"dispatch": {"rate": "eu"}},
        {"dispatch": {"rate": {}}},
        {"dispatch": {"rate": {"calculationNodesTags": 7}}},
        {"dispatch": {"rate": {"calculationNodesTags": " ,; "}}},
        {"dispatch": {"Rate": {"calculationNodesTags": "eu"}}},
    ],
)
def test_metadata_of_any_other_shape_mean_nothing_to_us(metadata: JsonValue):
    assert tags(metadata) is None
