"""How much the workflows of one model may define together (docs/reference/workflows.md#checks-of-the-result)."""

import json

import pytest

from statewright.failures import BadRequest, ValidationFailed
from statewright.workflow import check_merged, decode_import
from statewright.workflow.structure import MAX_ELEMENTS
from tests.builders import a_processor, a_workflow, automated

TOLD = "workflows, states, transitions and processors, and 50000 is the most"


def an_import(*workflows: object) -> bytes:
    return json.dumps({"workflows": workflows}).encode()


def states_of(count: int) -> dict[str, list[object]]:
    return {f"S{n}": [] for n in range(count)}


def test_as_much_as_a_model_may_have_is_read():
    request = decode_import(an_import(a_workflow("w", **states_of(MAX_ELEMENTS - 1))))
    check_merged(request.workflows, allow_cycles=False)


@pytest.mark.parametrize(
    "workflows",
    [
        [a_workflow("w", **states_of(MAX_ELEMENTS))],
        [a_workflow(f"w{n}", New=[]) for n in range(MAX_ELEMENTS // 2 + 1)],
        [a_workflow("w", New=[automated(f"t{n}", to="New") for n in range(MAX_ELEMENTS)])],
        [a_workflow("w", New=[automated("t", to="New", processors=[a_processor()] * MAX_ELEMENTS)])],
    ],
)
def test_a_request_with_more_is_refused_before_it_is_read(workflows: list[object]):
    with pytest.raises(BadRequest, match=TOLD):
        decode_import(an_import(*workflows))


def test_what_is_no_definition_is_not_counted():
    with pytest.raises(BadRequest, match="invalid"):
        decode_import(json.dumps({"workflows": "x" * 60_000, "states": list(range(60_000))}).encode())


def test_several_imports_together_have_no_more_either():
    halves = [decode_import(an_import(a_workflow(name, **states_of(MAX_ELEMENTS // 2)))) for name in ("a", "b")]
    with pytest.raises(ValidationFailed, match=TOLD):
        check_merged([*halves[0].workflows, *halves[1].workflows], allow_cycles=False)
