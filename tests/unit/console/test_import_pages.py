"""What the check of an import shows of the answers of the API (docs/console.md#pages)."""

import json

from statewright.console.pages.workflow_acts import build_import, view_check
from statewright.console.request import Form
from statewright.jsonval.patches import build_json_patch
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.checks import WorkflowCheck, WorkflowRevision
from tests.builders import a_workflow, manual
from tests.unit.console.recorded import a_document, a_list, a_reply

WRITTEN = a_workflow("w", A=[manual("GO", to="B"), manual("STOP", to="C")], B=[], C=[])
"""As the user wrote it, without what has a default."""


def store(workflow: JsonObject) -> JsonObject:
    """As an export has it: every default is there."""
    states = {
        state: {
            "transitions": [{"disabled": False, "criterion": None, "processors": [], **each} for each in transitions]
        }
        for state, transitions in ((name, value.get("transitions", [])) for name, value in workflow["states"].items())
    }
    return {"desc": "", "criterion": None, **workflow, "states": states}


def check(before: JsonObject, patch: JsonValue) -> list[str]:
    """The sentences of an import of ``WRITTEN`` that leaves what the patch makes of what is stored."""
    document = json.dumps({"workflows": [WRITTEN]})
    form = Form((("name", "order"), ("version", "1"), ("document", document), ("mode", "REPLACE")))
    diff = {"workflows": [{"name": "w", "change": "CHANGED", "patch": patch}]}
    reply = a_reply(a_document(WorkflowCheck, importable=True, diff=diff))
    [workflow] = view_check(form, reply, a_reply({"workflows": [before]})).workflows
    return [sentence.text for sentence in workflow.sentences]


def test_only_what_would_change_is_told_and_no_default_that_was_left_out():
    before = store(a_workflow("w", A=[manual("GO", to="B")], B=[], C=[]))
    patch: JsonValue = [*build_json_patch(before, store(WRITTEN))]
    assert check(before, patch) == ["A has a new transition STOP to C."]


def test_of_a_patch_of_what_is_not_stored_any_more_the_text_is_compared():
    before = store(a_workflow("w", A=[], B=[], C=[]))
    patch: JsonValue = [{"op": "remove", "path": "/states/GONE"}]
    assert "A has a new transition STOP to C." in check(before, patch)


def test_an_import_is_of_the_revision_that_was_compared_with_and_has_its_note():
    fields = {"name": "order", "version": "1", "document": json.dumps({"workflows": [WRITTEN]}), "mode": "REPLACE"}
    reply = a_reply(a_document(WorkflowCheck, importable=True))
    export = a_reply({"workflows": []})
    form = Form(tuple(fields.items()))
    assert view_check(form, reply, export, a_list(WorkflowRevision, {"revision": 4})).revision == 4
    assert view_check(form, reply, export, a_list(WorkflowRevision)).revision == 0
    assert view_check(form, reply, export).revision is None
    assert build_import(form).headers == ()
    headers = dict(build_import(Form((*fields.items(), ("revision", "4"), ("note", "für\nalle")))).headers)
    assert headers["If-Match"] == '"4"'
    assert headers["X-Import-Note"].encode("latin-1").decode() == "für alle"
