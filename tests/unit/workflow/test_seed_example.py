"""The examples that the documents print, unchanged."""

import json

import pytest

from statewright.workflow import (
    IMPORT_MODES,
    Contract,
    check_incoming,
    check_merged,
    decode_import,
    export,
    workflows_from_stored,
    workflows_to_stored,
)

EXAMPLE = """
{ "version": "1", "name": "prize-lifecycle", "desc": "State machine for Nobel Prize entities", "initialState": "NEW", "active": true, "criterion": null, "states": { "NEW": { "transitions": [ { "name": "APPROVE", "next": "APPROVED", "manual": true, "disabled": false, "criterion": null, "processors": [ { "type": "EXTERNAL", "name": "notify-approval", "executionMode": "SYNC", "config": { "attachEntity": true, "calculationNodesTags": "approval-service", "responseTimeoutMs": 30000, "retryPolicy": "", "context": "" } } ] }, { "name": "AUTO_VALIDATE", "next": "VALIDATED", "manual": false, "disabled": false, "criterion": { "type": "simple", "jsonPath": "$.year", "operatorType": "EQUALS", "value": "2024" }, "processors": [] } ] }, "APPROVED": { "transitions": [] }, "VALIDATED": { "transitions": [] } }}
"""  # noqa: E501

CURL_MERGE = """
{ "importMode": "MERGE", "workflows": [ { "version": "1", "name": "prize-lifecycle", "initialState": "NEW", "active": true, "states": { "NEW": { "transitions": [ { "name": "APPROVE", "next": "APPROVED", "manual": true, "processors": [] } ] }, "APPROVED": { "transitions": [] } } } ] }
"""  # noqa: E501

CURL_REPLACE = """
{ "importMode": "REPLACE", "workflows": [ { "version": "1", "name": "simple-wf", "initialState": "OPEN", "active": true, "states": { "OPEN": { "transitions": [] } } } ] }
"""  # noqa: E501


def through(body: str, stored=()):
    """The list that an import leaves, stored and read again; nothing about it deserves a warning."""
    request = decode_import(body.encode())
    assert check_incoming(request) == ()
    merged = IMPORT_MODES[request.mode](stored, request.workflows)
    check_merged(merged, allow_cycles=request.allow_cycles)
    return workflows_from_stored(workflows_to_stored(merged))


def test_the_example_comes_back_without_its_defaults():
    (shown,) = export(through(f'{{"importMode": "MERGE", "workflows": [{EXAMPLE}]}}'))
    assert shown == {
        "version": "1",
        "name": "prize-lifecycle",
        "desc": "State machine for Nobel Prize entities",
        "initialState": "NEW",
        "active": True,
        "criterion": None,
        "states": {
            "APPROVED": {},
            "NEW": {
                "transitions": [
                    {
                        "name": "APPROVE",
                        "next": "APPROVED",
                        "manual": True,
                        "criterion": None,
                        "processors": [
                            {
                                "type": "EXTERNAL",
                                "name": "notify-approval",
                                "executionMode": "SYNC",
                                "config": {
                                    "attachEntity": True,
                                    "calculationNodesTags": "approval-service",
                                    "responseTimeoutMs": 30000,
                                },
                            }
                        ],
                    },
                    {
                        "name": "AUTO_VALIDATE",
                        "next": "VALIDATED",
                        "manual": False,
                        "criterion": {
                            "type": "simple",
                            "jsonPath": "$.year",
                            "operatorType": "EQUALS",
                            "value": "2024",
                        },
                    },
                ]
            },
            "VALIDATED": {},
        },
    }


def test_the_example_is_understood():
    (workflow,) = through(f'{{"workflows": [{EXAMPLE}]}}')
    approve, validate = workflow.list_transitions("NEW")
    assert workflow.contract is Contract.SEED
    assert workflow.list_automated("NEW") == (validate,)
    assert (approve.criterion, approve.processors[0].mode) == (None, "SYNC")
    assert approve.processors[0].config.tags == ("approval-service",)
    assert validate.criterion is not None
    assert validate.criterion.condition is not None


def test_the_example_may_be_imported_inactive_and_is_active():
    body = f'{{"workflows": [{EXAMPLE}]}}'.replace('"active": true', '"active": false')
    assert through(body)[0].active


def test_the_curl_examples_follow_each_other():
    merged = through(CURL_MERGE)
    replaced = through(CURL_REPLACE, merged)
    assert [workflow.name for workflow in (*merged, *replaced)] == ["prize-lifecycle", "simple-wf"]
    assert export(replaced)[0]["states"] == {"OPEN": {}}


@pytest.mark.parametrize("body", [f'{{"workflows": [{EXAMPLE}]}}', CURL_MERGE, CURL_REPLACE])
def test_an_export_can_be_imported_again(body):
    shown = export(through(body))
    again = through(json.dumps({"importMode": "REPLACE", "workflows": shown}), through(body))
    assert export(again) == shown


COMMIT_BEFORE_DISPATCH = {
    "type": "EXTERNAL",
    "name": "slow",
    "executionMode": "COMMIT_BEFORE_DISPATCH",
    "startNewTxOnDispatch": True,
}


def test_the_flag_of_commit_before_dispatch_stands_beside_the_mode():
    definition = json.loads(EXAMPLE)
    definition["states"]["NEW"]["transitions"][0]["processors"] = [COMMIT_BEFORE_DISPATCH]
    (workflow,) = through(json.dumps({"workflows": [definition]}))
    (processor,) = workflow.list_transitions("NEW")[0].processors
    assert processor.starts_new_tx
    (shown,) = export([workflow])
    assert shown["states"]["NEW"]["transitions"][0]["processors"][0]["startNewTxOnDispatch"] is True
