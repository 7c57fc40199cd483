"""The JSON Schema of workflows (docs/reference/workflows.md#json-schema) holds for what an import takes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from statewright.failures import Failure
from statewright.jsonval.codec import decode, encode
from statewright.workflow import check_incoming, decode_import
from statewright.workflow.json_schema import build_workflow_schema
from tests.builders import SEED_IMPORT, SEED_REPLACE, SEED_WORKFLOW
from tests.unit.workflow.builders import a_function, a_processor, a_transition, a_workflow, with_transition
from tests.unit.workflow.strategies import WORKFLOW_LISTS

ROOT = Path(__file__).parents[3]
SCHEMA = build_workflow_schema()
FENCE = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def is_valid(value: Any) -> bool:
    return Draft202012Validator(SCHEMA).is_valid(value)


def documented() -> Iterator[tuple[str, Any]]:
    """Every import and export of workflows that the documentation shows, and the examples bring along."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for number, block in enumerate(FENCE.findall(page.read_text())):
            try:
                value = json.loads(block)
            except ValueError:
                continue
            if isinstance(value, dict) and (value.get("workflows") or "initialState" in value):
                yield f"{page.name}-{number}", value
    for file in sorted((ROOT / "examples").rglob("*.json")):
        value = json.loads(file.read_text())
        if isinstance(value, dict) and ("workflows" in value or "initialState" in value):
            yield file.name, value


DOCUMENTED = dict(documented())


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


def test_there_are_documented_workflows():
    assert len(DOCUMENTED) >= 4


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_workflows_fit_the_schema(name: str):
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(DOCUMENTED[name])] == []


@pytest.mark.parametrize("text", [SEED_WORKFLOW, SEED_IMPORT, SEED_REPLACE])
def test_the_workflows_of_the_first_release_fit_it(text: str):
    assert is_valid(json.loads(text))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(WORKFLOW_LISTS)
def test_what_the_strict_contract_takes_fits_it(definitions):
    strict = [definition for definition in definitions if definition["version"] in {"1.1", "1.2", "1.3"}]
    assert is_valid(json.loads(encode({"importMode": "REPLACE", "workflows": strict})))


def list_members(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("Workflow", "WorkflowState", "Transition", "Processor", "ProcessorConfig", "ScheduleFunction"):
        yield from ((name, member) for member in schema["$defs"][name]["properties"])


@pytest.mark.parametrize(("definition", "member"), list(list_members(SCHEMA)))
def test_every_member_of_the_schema_is_read(definition: str, member: str):
    """Null is no value of any member, and a member that is not known is refused whatever its value."""
    workflow = decode(encode(with_transition(a_transition(processors=[a_processor()], schedule={}))))
    transition = workflow["states"]["A"]["transitions"][0]
    transition["schedule"]["function"] = a_function()
    transition["processors"][0]["config"] = {}
    places = {
        "Workflow": workflow,
        "WorkflowState": workflow["states"]["A"],
        "Transition": transition,
        "Processor": transition["processors"][0],
        "ProcessorConfig": transition["processors"][0]["config"],
        "ScheduleFunction": transition["schedule"]["function"],
    }
    places[definition].setdefault(member, None)
    decode_import(encode({"workflows": [workflow]}))


REFUSED = [
    a_workflow(colour="red"),
    a_workflow(initialState=7),
    a_workflow(criterion={"type": "bogus"}),
    a_workflow(criterion="$.total > 1"),
    a_workflow(criterion={"type": "simple", "jsonPath": "$.a", "operatorType": "IS_CHANGED"}),
    a_workflow(criterion={"type": "group", "operator": "NOT", "conditions": []}),
    with_transition(a_transition(manual="yes")),
    with_transition(a_transition(schedule={})),
    with_transition(a_transition(processors=[{"name": ""}])),
    with_transition(a_transition(processors=[a_processor(executionMode="LATER")])),
    with_transition(a_transition(processors=[a_processor(config={"retryPolicy": "LINEAR"})])),
]


@pytest.mark.parametrize("workflow", REFUSED, ids=str)
def test_what_does_not_fit_it_is_refused_by_the_import_too(workflow):
    assert not is_valid({"workflows": [workflow]})
    with pytest.raises(Failure):
        check_incoming(decode_import(encode({"workflows": [workflow]})))
