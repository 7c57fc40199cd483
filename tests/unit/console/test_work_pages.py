"""What the pages of work show of the answers of the API (docs/console.md#pages)."""

import pytest

from statewright.console.pages import incidents, tasks, workers
from statewright.console.pages.incidents import IncidentLine, IncidentView, format_badge, view_incident
from statewright.console.pages.listing import ListView
from statewright.console.pages.tasks import TaskView, view_task, view_tasks
from statewright.console.pages.workers import QueuePage, WorkersView, view_queue, view_worker, view_workers
from statewright.console.request import OPERATOR, Action, Form, InvalidField, Query
from statewright.jsonval.values import JsonObject
from statewright.operations.incidents import Incident
from statewright.operations.queues import MemberView, QueueView
from statewright.operations.suspensions import SuspensionView
from tests.unit.console.recorded import a_document, a_list, a_problem, a_reply

ACTIONS = {each.name: each for each in (*incidents.ROUTES, *workers.ROUTES) if isinstance(each, Action)}
NOBODY: JsonObject = {"kind": "JOB_TYPE", "name": "payment", "depth": 41, "workers": 0, "oldestAgeSeconds": 720}
SERVED: JsonObject = {"kind": "JOB_TYPE", "name": "mail", "depth": 900, "workers": 2, "oldestAgeSeconds": 1}
EMPTY = a_reply({"items": []})


def an_incident(**members: object) -> JsonObject:
    usual: dict[str, object] = {
        "id": "019a",
        "kind": "RUN_FAILED",
        "severity": "ERROR",
        "status": "OPEN",
        "subject": {"kind": "ENTITY", "id": "5a6c", "model": "order/1", "state": "NEW", "transactionId": "91b2"},
        "payload": {"document": {"amount": 10}, "transition": "PAY", "ifMatch": None},
    }
    return a_document(Incident, **usual | members)


def a_row(**members: object) -> IncidentLine:
    return IncidentLine(a_reply(an_incident(**members)).read(Incident))


def show(item: JsonObject, *, written_by: str = "91b2", amount: int = 10) -> IncidentView:
    envelope = {"data": {"amount": amount}, "meta": {"state": "NEW", "transactionId": written_by}}
    data = view_incident(a_reply(item), a_reply(envelope)).data  # type: ignore[arg-type]  # plain JSON
    assert isinstance(data, IncidentView)
    return data


def test_queues_that_nobody_serves_come_first_whatever_waits_elsewhere():
    data = view_workers("", a_list(QueueView, SERVED, NOBODY), EMPTY, EMPTY).data
    assert isinstance(data, WorkersView)
    assert [(row.queue.name, row.is_unserved, row.oldest) for row in data.queues.rows] == [
        ("payment", True, "12 min"),
        ("mail", False, "1 s"),
    ]


def test_a_suspended_queue_without_a_worker_is_no_alarm():
    data = view_queue(a_reply(a_document(QueueView, **NOBODY | {"suspended": True})), EMPTY, EMPTY).data
    assert isinstance(data, QueuePage)
    assert not data.row.is_unserved


def test_a_list_that_cannot_be_read_leaves_the_others_alone():
    data = view_workers("", a_list(QueueView, NOBODY), a_problem(503, "STORAGE_UNAVAILABLE"), EMPTY).data
    assert isinstance(data, WorkersView)
    assert data.workers.problem is not None
    assert (len(data.queues.rows), data.queues.problem) == (1, None)


def test_a_queue_of_several_tags_is_served_by_members_that_have_all():
    members = [{"id": name, "kind": "STREAM", "tags": tags} for name, tags in (("a", ["x"]), ("b", ["x", "y"]))]
    suspended = [{"id": "1", "scope": "TAG", "name": "y"}, {"id": "2", "scope": "TAG", "name": "z"}]
    data = view_queue(
        a_reply(a_document(QueueView, kind="TAG", name="x,y")),
        a_list(MemberView, *members),
        a_list(SuspensionView, *suspended),
    ).data
    assert isinstance(data, QueuePage)
    assert [each.member.id for each in data.workers.rows] == ["b"]
    assert [each.item.id for each in data.suspensions.rows] == ["1"]
    assert data.names == ("x", "y")


def test_a_worker_that_is_gone_is_not_found():
    view = view_worker("w-1", EMPTY)
    assert view.status == 404


def test_an_incident_tells_what_is_different_from_what_was_asked_for():
    data = show(an_incident(), written_by="5d0c", amount=12)
    assert data.now is not None
    assert data.now.is_written_since
    assert [(each.op, each.path, each.value) for each in data.now.changes] == [("replace", "/amount", "12")]


@pytest.mark.parametrize("status", ["RETRYING", "RESOLVED"])
def test_only_an_open_incident_can_be_retried(status: str):
    data = show(an_incident(status=status))
    assert (data.retry_effect, data.edited) == (None, None)


def test_a_retry_that_is_under_way_is_no_success():
    assert a_row(status="RETRYING").mark == "info"
    assert a_row(status="RESOLVED").mark == "ok"


def test_an_incident_of_a_queue_leads_to_the_queue():
    assert a_row(subject={"kind": "QUEUE", "id": "JOB_TYPE/a/b?"}).href == "/console/queues/JOB_TYPE/a%2Fb%3F"


@pytest.mark.parametrize(("total", "text"), [(0, ""), (7, "7"), (99, "99"), (100, "99+")])
def test_a_number_of_the_navigation_is_short(total: int, text: str):
    assert format_badge(total) == text


@pytest.mark.parametrize(
    ("action", "fields", "expected"),
    [
        ("retry_incident", {}, ("POST", "/ops/v1/incidents/a%2Fb/retry", b"{}")),
        (
            "retry_incident",
            {"document": '{"n": 1.10}', "force": "true"},
            ("POST", "/ops/v1/incidents/a%2Fb/retry", b'{"document":{"n": 1.10},"force":true}'),
        ),
        ("resolve_incident", {"reason": "r"}, ("POST", "/ops/v1/incidents/a%2Fb/resolve", b'{"reason":"r"}')),
        ("drain_worker", {"within": "PT1M"}, ("POST", "/ops/v1/members/w%2F1/drain?within=PT1M", None)),
        (
            "suspend_queue",
            {"scope": "TAG", "reason": "r"},
            ("POST", "/ops/v1/suspensions", b'{"name":"mail","reason":"r","scope":"TAG"}'),
        ),
        (
            "resume_queue",
            {"suspension": "s", "timers": "SHIFT", "reason": "r"},
            ("POST", "/ops/v1/suspensions/s/resume", b'{"reason":"r","timers":"SHIFT"}'),
        ),
    ],
)
def test_an_act_of_an_operator_is_one_call(action: str, fields: dict[str, str], expected: tuple[object, ...]):
    given = {"incident": "a/b", "worker": "w/1", "queue": "mail"} | fields
    call = ACTIONS[action].build(Form(tuple(given.items())))
    assert (call.method, call.get_target("/api"), call.body) == expected
    assert ACTIONS[action].role == OPERATOR


def test_a_task_is_completed_with_the_digits_that_were_typed():
    [complete] = [each for each in tasks.ROUTES if isinstance(each, Action)]
    form = Form((("task", "a/b"), ("variables", '{"rate": 0.10}'), ("completedBy", 'ada"')))
    call = complete.build(form)
    expected = b'{"variables":{"rate": 0.10},"completedBy":"ada\\""}'
    assert (call.get_target("/api"), call.body) == ("/v1/user-tasks/a%2Fb/complete", expected)


def test_the_answer_to_a_task_of_a_flow_may_be_an_array_and_no_other_value():
    [complete] = [each for each in tasks.ROUTES if isinstance(each, Action)]
    given = (("task", "7"), ("taskLanguage", "flows"), ("completedBy", "ada"))
    call = complete.build(Form((*given, ("variables", "[1.50]"))))
    assert call.body == b'{"result":[1.50],"completedBy":"ada"}'
    for language, typed in (("flows", "7"), ("steps", "[1]")):
        with pytest.raises(InvalidField):
            complete.build(Form((*given, ("taskLanguage", language), ("variables", typed))))


def test_the_inbox_tells_what_is_to_be_done_in_which_language():
    of_flow = {"id": "1", "stepId": "3", "language": "flows", "title": "Approve", "form": {"ok": "boolean"}}
    found = a_reply({"items": [{"id": "0", "stepId": "check", "language": "steps"}, of_flow]})
    data = view_tasks(Query(()), found, "/console/tasks").data
    assert isinstance(data, ListView)
    assert [(row.title, row.language.code) for row in data.rows] == [("check", "steps"), ("Approve", "flow")]
    shown = view_task("1", Query(()), found)
    assert isinstance(shown.data, TaskView)
    assert (shown.title, shown.data.form is None) == ("Task Approve", False)


@pytest.mark.parametrize("page", ["-1", "1.5", "x", "9" * 5000])
def test_a_page_of_the_inbox_that_is_no_small_number_is_refused(page: str):
    with pytest.raises(InvalidField):
        view_tasks(Query((("page", page),)), EMPTY, "/console/tasks")


def test_the_inbox_says_that_more_tasks_follow():
    found = a_reply({"items": [{"id": "1"}], "total": 21})
    data = view_tasks(Query((("size", "20"),)), found, "/console/tasks").data
    assert isinstance(data, ListView)
    assert (data.next, data.first) == ("?size=20&page=1", None)


def test_edited_data_that_are_no_object_are_refused_with_the_name_of_the_field():
    with pytest.raises(InvalidField) as refused:
        ACTIONS["retry_incident"].build(Form((("incident", "1"), ("variables", "[1]"))))
    assert refused.value.field == "variables"
