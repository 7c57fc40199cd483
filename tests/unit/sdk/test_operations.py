"""Operations of the client: the requests they make, and what they read from answers."""

import json
from typing import Any

import pytest

from statewright.sdk.operations import entities, models, search
from statewright.sdk.operations.calls import HttpResponse


@pytest.mark.parametrize("given", [{"name": "orders"}, [{"name": "orders"}], {"workflows": [{"name": "orders"}]}])
def test_one_workflow_is_imported_like_a_list_of_them(given: Any) -> None:
    call = models.import_("order", 1, given).call
    assert json.loads(call.body or b"") == {"workflows": [{"name": "orders"}]}


def test_an_import_answers_what_looks_like_a_mistake() -> None:
    told = {"workflow": "w", "state": None, "transition": None, "message": 'the model has no field "$.x"'}
    body = json.dumps({"success": True, "warnings": [told]}).encode()
    [finding] = models.import_("order", 1, []).interpret(HttpResponse(200, body))
    assert (finding.workflow, finding.state, finding.message) == ("w", None, 'the model has no field "$.x"')
    assert models.import_("order", 1, []).interpret(HttpResponse(200, b'{"success": true}')) == []


def test_a_trial_of_an_import_saves_nothing() -> None:
    asked = models.check("order", 1, [], mode="REPLACE", if_match=3)
    assert (asked.call.query, asked.call.headers["If-Match"]) == ((("dryRun", "true"),), '"3"')
    assert json.loads(asked.call.body or b"") == {"workflows": [], "importMode": "REPLACE"}
    told = {"code": "UNKNOWN_NEXT", "severity": "ERROR", "path": "/workflows/0", "message": "no", "hint": None}
    body = json.dumps({"importable": False, "findings": [told], "diff": None, "affected": None}).encode()
    check = asked.interpret(HttpResponse(200, body))
    assert (check.importable, check.findings[0].code, check.diff) == (False, "UNKNOWN_NEXT", None)


def test_a_single_key_may_be_a_text() -> None:
    assert ("sort", "qty:desc") in search.search("order", 1, {}, sort="qty:desc").call.query
    assert json.loads(search.group("order", 1, "state").call.body or b"")["groupBy"] == ["state"]


def test_a_write_has_the_warnings_of_its_run() -> None:
    headers = {"warning": r"""299 - "processor price: large order", 299 - "criteria fits: caf\xe9, 'ok'" """}
    body = b'{"transactionId": "T-1", "entityIds": ["E-1"]}'
    done = entities.transition("E-1", "pay").interpret(HttpResponse(200, body, headers))
    assert done.warnings == ("processor price: large order", "criteria fits: café, 'ok'")
    assert entities.transition("E-1", "pay").interpret(HttpResponse(200, body)).warnings == ()
