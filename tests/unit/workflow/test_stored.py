import json

import pytest

from statewright.workflow import IMPORT_MODES, Contract, workflows_from_stored, workflows_to_stored
from tests.unit.workflow.builders import SEED, a_processor, a_workflow, imported, with_processor, with_transition
from tests.unit.workflow.builders import a_transition as transition


def test_an_empty_list_comes_back():
    assert workflows_from_stored(workflows_to_stored(())) == ()


def test_the_version_is_stored_as_imported():
    workflows = imported(a_workflow("a", version="1.1"), a_workflow("b", version="draft"))
    assert [workflow.version for workflow in workflows_from_stored(workflows_to_stored(workflows))] == ["1.1", "draft"]


def test_the_contract_is_stored_rather_than_read_from_the_version():
    entries = json.loads(workflows_to_stored(imported(a_workflow(version="1.1"))))
    entries[0]["contract"] = "SEED"
    (workflow,) = workflows_from_stored(json.dumps(entries).encode())
    assert (workflow.contract, workflow.version) == (Contract.SEED, "1.1")


def test_a_deactivated_workflow_of_the_seed_contract_stays_inactive():
    merged = IMPORT_MODES["ACTIVATE"](imported(a_workflow("a", version=SEED)), imported(a_workflow("b")))
    assert workflows_from_stored(workflows_to_stored(merged)) == merged


def test_details_that_exports_depend_on_come_back():
    workflows = imported(
        with_processor(a_processor(startNewTxOnDispatch=False, config={"attachEntity": False, "asyncResult": False})),
        with_transition(
            transition(criterion=None, annotations={}), name="second", criterion={"type": "oracle"}, version=SEED
        ),
    )
    assert workflows_from_stored(workflows_to_stored(workflows)) == workflows


def test_numbers_in_criteria_keep_every_digit():
    condition = {"type": "simple", "jsonPath": "$.n", "operatorType": "EQUALS", "value": 12345678901234567890123}
    workflows = imported(a_workflow(criterion=condition))
    (workflow,) = workflows_from_stored(workflows_to_stored(workflows))
    assert workflow.criterion is not None
    assert workflow.criterion.source == condition


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"{}",
        b"[7]",
        b"[{}]",
        b'[{"contract": "SEED"}]',
        b'[{"contract": "OTHER", "workflow": {}}]',
        b'[{"contract": "SEED", "workflow": {"name": 7}}]',
    ],
)
def test_damage_is_not_blamed_on_the_client(damaged):
    with pytest.raises(ValueError):
        workflows_from_stored(damaged)
