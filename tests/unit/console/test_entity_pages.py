"""What pages of entities make of answers of the API."""

import json
from decimal import Decimal
from typing import Any

import pytest

from statewright.console.calls import Reply, build_entity_call
from statewright.console.diagrams.workflow import read_workflow
from statewright.console.frame import Renderer
from statewright.console.pages.entity import ROUTES, describe_actor, find_path, view_entity
from statewright.console.request import Action, Form, InvalidField
from statewright.console.session import Viewer
from statewright.console.views.entities import MAX_ROWS, MAX_TREE_NODES, build_tree, list_differences, write_text
from statewright.console.views.explained import judge, view_explanation
from statewright.operations.explanations import ExplainedEntity
from statewright.operations.history import RunEvent, VersionView
from tests.unit.console.recorded import a_document

ID = "5a6c1f20-77aa-11f0-9a3e-0242ac120003"
SEEN = "91b2c001-77aa-11f0-9a3e-0242ac120003"
WORKFLOW: Any = {
    "name": "flow",
    "initialState": "NEW",
    "states": {
        "NEW": {"transitions": [{"name": 'GO" → "X', "next": "DONE"}, {"name": "STAY", "next": "NEW"}]},
        "DONE": {},
    },
}
ACTIONS = {action.name: action for action in ROUTES if isinstance(action, Action)}


def a_reply(value: Any, status: int = 200) -> Reply:
    return Reply(call=build_entity_call("x"), status=status, value=value)


def an_event(**members: str) -> RunEvent:
    return a_reply(a_document(RunEvent, **members)).read(RunEvent)


def a_move(name: str, source: str, target: str) -> RunEvent:
    told = {"eventType": "TRANSITION_MAKE", "state": source, "details": f'Transition "{name}": {source} → {target}'}
    return an_event(**told)


def test_the_way_of_an_entity_is_read_from_its_events_whatever_the_names_are():
    events: Any = [
        a_move('GO" → "X', "NEW", "DONE"),
        an_event(eventType="STATE_MACHINE_START"),
        a_move("STAY", "NEW", "NEW"),
    ]
    assert find_path(read_workflow(WORKFLOW), events) == (("NEW", "STAY", "NEW"), ("NEW", 'GO" → "X', "DONE"))


def test_an_event_of_a_former_workflow_is_left_out():
    assert find_path(read_workflow(WORKFLOW), [a_move("OLD", "NEW", "GONE")]) == ()


AN_EXPLANATION = a_reply(a_document(ExplainedEntity))


def a_view(explain: Reply, *, at: str | None = None) -> Any:
    entity = {
        "data": {"a": Decimal("1.10")},
        "meta": {"state": "NEW", "transactionId": SEEN, "modelKey": {"name": "m", "version": 1}},
    }
    export = a_reply({"workflows": [WORKFLOW]})
    empty = a_reply({"items": []})
    return view_entity(ID, a_reply(entity), explain, empty, empty, export, at=at, is_deleted=False)


def test_the_page_listens_for_what_comes_after_the_version_that_it_shows():
    assert a_view(AN_EXPLANATION).live == (f"entity-{ID}@{SEEN}",)
    assert a_view(AN_EXPLANATION, at="2031-01-01T00:00:00Z").live == ()


def test_a_part_that_cannot_be_explained_leaves_the_rest():
    view = a_view(a_reply({"detail": "busy"}, status=503)).data
    assert (view.explanation, view.problem.status, view.meta.state) == (None, 503, "NEW")


def test_a_transition_is_told_with_all_that_blocks_it():
    document: Any = {
        "verdict": "WAITS_FOR_WORKER",
        "transitions": [
            {
                "name": "PAY",
                "next": "PAID",
                "kind": "AUTOMATED",
                "wouldFire": False,
                "blockedBy": ["CRITERION", "NO_MEMBER"],
                "processors": [{"name": "charge", "tags": ["bank"], "members": 0}],
            },
            {"name": "ASK", "next": "PAID", "kind": "MANUAL", "wouldFire": None, "blockedBy": ["UNKNOWN"]},
        ],
    }
    told = a_reply(a_document(ExplainedEntity, **document)).read(ExplainedEntity)
    blocked, unknown = view_explanation(told).transitions
    assert (blocked.mark, blocked.can_be_fired, blocked.missing) == ("bad", False, (("charge", "bank"),))
    assert blocked.reasons == (("warn", "its criterion does not hold"), ("bad", "no worker with its tags is connected"))
    assert (unknown.is_possible, unknown.can_be_fired) == (False, True)


def test_a_criterion_is_a_tree_of_judged_leaves_with_exact_values():
    document: Any = {
        "type": "group",
        "operator": "OR",
        "result": False,
        "conditions": [
            {
                "path": "$.amount",
                "operator": "GREATER_THAN",
                "operand": 10000,
                "value": Decimal("9800.50"),
                "result": False,
            },
            {"field": "state", "operator": "IS_NULL", "absent": True, "result": None},
        ],
    }
    judged = judge(document)
    assert (judged.text, judged.result) == ("one of", False)
    assert [(part.text, part.found, part.result) for part in judged.parts] == [
        ("$.amount GREATER_THAN 10000", "9800.50", False),
        ("state IS_NULL", "nothing", None),
    ]


def test_who_acted_for_whom_is_told():
    def describe(executed: str) -> str:
        document = a_document(VersionView, attributedTo={"id": "ada"}, executedBy={"id": executed})
        return describe_actor(a_reply(document).read(VersionView))

    assert describe("node-2") == "ada via node-2"
    assert describe("ada") == "ada"


# Acts


@pytest.mark.parametrize("name", ["fire", "loopback", "save_entity", "restore_version"])
def test_an_act_is_about_the_version_that_was_seen(name: str):
    fields = {"id": ID, "seen": SEEN, "transition": "GO", "document": "{}", "version": "previous", "reason": "why"}
    call = ACTIONS[name].build(Form(tuple(fields.items())))
    sent = dict(call.headers).get("If-Match") or json.loads(call.body or b"")["ifMatch"]
    assert sent == SEEN
    with pytest.raises(InvalidField, match="seen"):
        ACTIONS[name].build(Form(tuple((key, value) for key, value in fields.items() if key != "seen")))


def test_a_document_is_sent_as_it_was_typed():
    text = '{"a": 0.10, "b": 1E+400}'
    call = ACTIONS["save_entity"].build(Form((("id", ID), ("seen", SEEN), ("document", text))))
    assert (call.method, call.path, call.body) == ("PUT", f"/entity/JSON/{ID}", text.encode())


@pytest.mark.parametrize("entity_id", ["", "x", "../model", ID + "/x"])
def test_an_act_is_about_an_entity_and_nothing_else(entity_id: str):
    with pytest.raises(InvalidField, match="id"):
        ACTIONS["delete_entity"].build(Form((("id", entity_id),)))


# Documents


def test_differences_are_listed_by_member_with_their_digits():
    old: Any = {"a": Decimal("0.10"), "b": [1, 2], "c": {"d": 1}, "e": 1}
    new: Any = {"a": Decimal("0.20"), "b": [1], "c": {"d": Decimal("1.0")}, "f": "x"}
    rows, is_cut = list_differences(old, new)
    assert [(row.path, row.change, row.old, row.new) for row in rows] == [
        ("$.a", "changed", "0.10", "0.20"),
        ("$.b[1]", "removed", "2", ""),
        ("$.e", "removed", "1", ""),
        ("$.f", "added", "", '"x"'),
    ]
    assert not is_cut


def test_very_many_differences_are_cut():
    rows, is_cut = list_differences([], list(range(MAX_ROWS + 1)))
    assert (len(rows), is_cut) == (MAX_ROWS, True)


def test_a_document_is_written_with_an_entry_a_line_and_its_digits():
    document: Any = {"b": Decimal("1.10"), "a": [{"x": None}, []], "e": {}}
    assert (
        write_text(document) == '{\n  "b": 1.10,\n  "a": [\n    {\n      "x": null\n    },\n    []\n  ],\n  "e": {}\n}'
    )


def test_a_tree_is_cut_where_it_is_deep_or_large():
    deep: Any = 1
    for _ in range(200):
        deep = {"in": deep}
    node, depth = build_tree(deep), 0
    while node.children:
        node, depth = node.children[0], depth + 1
    assert (depth, node.left_out) == (30, 1)
    wide = build_tree(list(range(MAX_TREE_NODES * 2)))
    assert len(wide.children) + wide.left_out == MAX_TREE_NODES * 2
    assert len(wide.children) < MAX_TREE_NODES


# Who may act

EXPLAINED: Any = {
    "verdict": "WAITS_FOR_MANUAL",
    "transitions": [{"name": "STAY", "next": "NEW", "kind": "MANUAL", "wouldFire": True, "blockedBy": []}],
}


def render_now(viewer: Viewer, *, at: str | None = None) -> str:
    view = a_view(a_reply(a_document(ExplainedEntity, **EXPLAINED)), at=at).data
    return Renderer(lambda: 0).render("parts/entity_now.html", view=view, viewer=viewer)


def test_acts_are_offered_to_those_who_may():
    writer, operator = Viewer(roles=frozenset({"ROLE_USER"})), Viewer(roles=frozenset({"ROLE_OPERATOR"}))
    assert "/console/confirm/fire" in render_now(writer)
    assert "/console/confirm/suspend_entity" not in render_now(writer)
    assert "/console/confirm/suspend_entity" in render_now(operator)


@pytest.mark.parametrize(
    ("roles", "at"), [({"ROLE_ADMIN", "ROLE_READ_ONLY"}, None), ({"ROLE_ADMIN"}, "2031-01-01T00:00:00Z")]
)
def test_nothing_can_be_done_by_readers_nor_in_the_past(roles: set[str], at: str | None):
    assert "<form" not in render_now(Viewer(roles=frozenset(roles)), at=at)
