"""What the pages of a model show of the answers of the API (docs/console.md#pages)."""

import pytest

from statewright.console.calls import CallFailed, Reply
from statewright.console.live import ModelCounts, StateCount
from statewright.console.pages.model import ROUTES, ModelsView, view_head, view_models
from statewright.console.pages.model_overview import MAX_DRAWN, MAX_ROWS, ModelView, view_model, view_model_marks
from statewright.console.pages.workflow import MarksView
from statewright.console.request import Action, Form, InvalidField
from statewright.console.views.entities import build_schema
from statewright.operations.incidents import Incident
from statewright.operations.queues import MemberView
from statewright.operations.suspensions import SuspensionView
from tests.builders import a_processor, a_workflow, manual
from tests.unit.console.recorded import a_list, a_problem, a_reply

MODELS = a_reply([{"modelName": "order", "modelVersion": 1, "currentState": "LOCKED", "modelUpdateDate": ""}])
ACTIONS = {action.name: action for action in ROUTES if isinstance(action, Action)}


def a_form(**fields: str) -> Form:
    return Form(tuple({"name": "a/b", "version": "2", **fields}.items()))


def test_a_suspension_of_another_version_is_not_shown():
    listed = [
        {"id": str(version), "scope": "MODEL", "reason": "x", "model": {"name": "order", "version": version}}
        for version in (1, 2)
    ]
    head = view_head("order", 1, (MODELS, a_list(SuspensionView, *listed)))
    assert [each.id for each in head.suspensions] == ["1"]
    assert head.is_suspended


def test_entities_in_unknown_states_are_told_above_the_pages_of_a_model():
    stranded = a_list(Incident, {"message": "7 entities are in the state"})
    head = view_head("order", 1, (MODELS, a_list(SuspensionView), stranded))
    assert [each.message for each in head.stranded] == ["7 entities are in the state"]


def test_a_model_that_is_not_listed_is_not_found():
    with pytest.raises(CallFailed) as failed:
        view_head("order", 2, (MODELS,))
    assert failed.value.reply.status == 404


def test_a_model_without_workflows_is_no_failure():
    head = view_head("order", 1, (MODELS,))
    data = view_model(head, a_problem(404, "WORKFLOW_NOT_FOUND"), a_reply({"items": []})).data
    assert isinstance(data, ModelView)
    assert (data.workflows, data.workflows_problem) == ((), None)


def test_workflows_that_cannot_be_read_fail_alone():
    head = view_head("order", 1, (MODELS,))
    data = view_model(head, a_problem(503, "STORAGE_UNAVAILABLE"), a_reply({"items": []})).data
    assert isinstance(data, ModelView)
    assert data.workflows_problem is not None
    assert data.workflows_problem.code == "STORAGE_UNAVAILABLE"


def a_packing(name: str = "packing", **members: object) -> dict[str, object]:
    pack = a_processor("pack", tags="packing,frozen")
    states = {
        "NEW": [manual("PACK", to="PACKED", processors=[pack]), manual("HOLD", to="HELD")],
        "PACKED": [],
        "HELD": [],
    }
    return a_workflow(name, **states) | members


def show(*workflows: object, members: Reply | None = None) -> ModelView:
    data = view_model(
        view_head("order", 1, (MODELS,)),
        a_reply({"workflows": list(workflows)}),
        a_reply({"items": []}) if members is None else members,
    ).data
    assert isinstance(data, ModelView)
    return data


def test_active_workflows_are_drawn_and_their_states_lead_to_entities():
    [drawn, resting] = show(a_packing(), a_packing("resting", active=False)).workflows
    assert drawn.picture is not None
    assert resting.picture is None
    assert "/console/models/order/1/entities?state=HELD" in drawn.picture.plan
    ways = [(each.name, each.target) for each in drawn.graph.list_transitions("NEW")]
    assert (drawn.rows[0], ways) == ("NEW", [("PACK", "PACKED"), ("HOLD", "HELD")])


def test_what_is_drawn_of_many_workflows_is_bounded():
    many = show(*(a_packing(f"w{number}") for number in range(20))).workflows
    assert sum(each.picture is not None for each in many) == MAX_DRAWN
    wide = a_workflow("wide", **{f"S{number}": [] for number in range(200)})
    [drawn] = show(wide).workflows
    assert (len(drawn.rows), len(drawn.graph.states)) == (MAX_ROWS, 200)


def test_the_members_of_required_tags_have_all_of_them():
    members = a_list(MemberView, {"tags": ["packing"]}, {"tags": ["packing", "frozen", "x"]})
    [workflow] = show(a_packing(), members=members).workflows
    assert [(need.tags, need.members) for need in workflow.needs] == [(("frozen", "packing"), 1)]
    [unknown] = show(a_packing(), members=a_problem(503, "STORAGE_UNAVAILABLE")).workflows
    assert unknown.needs[0].members is None


def test_states_have_their_entities_and_incidents():
    counts = ModelCounts(states=(StateCount("NEW", 4120), StateCount("GONE", 2)))
    listed = [{"subject": {"state": state}} for state in ("NEW", "HELD", "NEW")]
    export = a_reply({"workflows": [a_packing()]})

    def mark(incidents: Reply) -> MarksView:
        data = view_model_marks("/", ("order", 1), export, counts, incidents).data
        assert isinstance(data, MarksView)
        return data

    shown = mark(a_list(Incident, *listed))
    assert [(each.name, each.entities, each.incidents) for each in shown.states] == [
        ("NEW", "4\u202f120", "2"),
        ("GONE", "2", ""),
        ("HELD", "", "1"),
    ]
    [(picture, marks)] = shown.marks
    assert picture == "diagram-0"
    assert "■ 2" in marks
    cut = mark(a_list(Incident, *listed, nextCursor="more"))
    assert cut.states[0].incidents == "2+"
    failed = mark(a_problem(503, "STORAGE_UNAVAILABLE"))
    assert failed.incidents_problem is not None
    assert failed.states[0].entities


def test_fields_are_those_that_conditions_can_name():
    document = {
        "model": {
            "$": {"#.lines": "OBJECT", ".mixed[*]": "[INTEGER, STRING]", ".no": "STRING"},
            "$.lines[*]": {"#": "ARRAY_ELEMENT", ".sku": "STRING"},
        },
        "uniqueKeys": [{"id": "by-number", "fields": ["$.no"]}],
    }
    schema = build_schema(document)
    assert [(field.path, field.types, field.unique_in) for field in schema.fields] == [
        ("$.lines[*].sku", ("STRING",), ()),
        ("$.mixed[*]", ("INTEGER", "STRING"), ()),
        ("$.no", ("STRING",), ("by-number",)),
    ]


@pytest.mark.parametrize(
    ("action", "fields", "expected"),
    [
        ("lock_model", {}, ("PUT", "/api/model/a%2Fb/2/lock", None)),
        ("delete_model", {}, ("DELETE", "/api/model/a%2Fb/2", None)),
        ("set_change_level", {"level": "TYPE"}, ("POST", "/api/model/a%2Fb/2/changeLevel/TYPE", None)),
        (
            "learn_sample",
            {"sample": '{"n": 1.10}'},
            ("POST", "/api/model/import/JSON/SAMPLE_DATA/a%2Fb/2", b'{"n": 1.10}'),
        ),
        ("declare_index", {"path": "$.x"}, ("POST", "/api/model/a%2Fb/2/index", b'{"path":"$.x"}')),
        (
            "suspend_model",
            {"reason": "r"},
            (
                "POST",
                "/ops/v1/suspensions",
                b'{"model":{"name":"a/b","version":2},"reason":"r","scope":"MODEL"}',
            ),
        ),
        (
            "resume_model",
            {"reason": "r", "suspension": "7", "timers": "SHIFT"},
            ("POST", "/ops/v1/suspensions/7/resume", b'{"reason":"r","timers":"SHIFT"}'),
        ),
    ],
)
def test_an_action_is_one_call(action: str, fields: dict[str, str], expected: tuple[str, str, bytes | None]):
    call = ACTIONS[action].build(a_form(**fields))
    assert (call.method, call.get_target("/api"), call.body) == expected


@pytest.mark.parametrize(
    ("action", "fields", "field"),
    [
        ("lock_model", {"version": "x"}, "version"),
        ("set_change_level", {"level": "ALL"}, "level"),
        ("learn_sample", {"sample": "{"}, "sample"),
        ("suspend_model", {"reason": ""}, "reason"),
        ("resume_model", {"reason": "r", "suspension": "7", "timers": "NEVER"}, "timers"),
    ],
)
def test_a_bad_field_is_named(action: str, fields: dict[str, str], field: str):
    with pytest.raises(InvalidField) as invalid:
        ACTIONS[action].build(a_form(**fields))
    assert invalid.value.field == field


def test_models_of_the_service_come_after_those_of_its_users():
    names = ["FlowDefinition", "zebra", "StepUserTask", "ant"]
    listed = [{"modelName": name, "modelVersion": 1, "currentState": "LOCKED", "modelUpdateDate": ""} for name in names]
    data = view_models(a_reply(listed), None, "").data
    assert isinstance(data, ModelsView)
    assert [row.name for row in data.rows] == ["ant", "zebra", "FlowDefinition", "StepUserTask"]
