"""What home shows of the answers of the API: each tile fails alone (docs/console.md#pages)."""

from statewright.console.frame import Renderer
from statewright.console.pages.home import view_activity, view_idle, view_status
from statewright.console.process_languages import MODELS
from statewright.flows import instance as flows
from statewright.operations.incidents import Incident
from statewright.operations.listings import IdleEntities
from statewright.operations.queues import QueueView, Rates, ServiceNode
from statewright.playbooks import execution as playbooks
from statewright.steps import instance as steps
from tests.unit.console.recorded import a_document, a_list, a_problem, a_reply

PAGES = frozenset({"/console/queues/{kind}/{queue}", "/console/incidents"})
QUEUE = {"kind": "TAG", "name": "pay/ment", "depth": 41, "oldestAgeSeconds": 725}


def test_work_without_a_worker_comes_first_and_leads_to_its_queue():
    view = view_status((("queues", a_list(QueueView, QUEUE)), ("incidents", a_list(Incident, {}, total=3))), PAGES)
    assert [(alert.mark, alert.text, alert.href) for alert in view.alerts] == [
        (
            "bad",
            "«pay/ment»: 41 calls wait, the oldest for 12 min, and there is no worker",
            "/console/queues/TAG/pay%2Fment",
        ),
        ("bad", "3 open incidents", "/console/incidents"),
    ]


def test_one_is_told_in_the_singular_and_incidents_with_the_newest():
    one = a_list(Incident, {"lastAt": "2031-05-06T12:00:00Z"}, total=1)
    view = view_status((("queues", a_list(QueueView, QUEUE | {"depth": 1})), ("incidents", one)), PAGES)
    assert [alert.text for alert in view.alerts] == [
        "«pay/ment»: 1 call waits, the oldest for 12 min, and there is no worker",
        "1 open incident",
    ]
    assert view.alerts[1].newest == "2031-05-06T12:00:00Z"


def test_entities_that_nothing_moves_are_told_with_their_model_and_lead_to_its_revisions():
    subject = {"kind": "MODEL", "id": "a b/2", "model": "a b/2", "state": "OLD"}
    stranded = a_list(Incident, {"subject": subject, "message": "7 entities are in the state"})
    view = view_status((("workflow-revisions", stranded),), PAGES)
    assert [(alert.mark, alert.text, alert.href) for alert in view.alerts] == [
        ("bad", "a b/2: 7 entities are in the state", "/console/models/a%20b/2/revisions")
    ]


def test_models_of_processes_are_known_by_name():
    made = {each.key.name for each in (*steps.MODELS, *flows.MODELS, playbooks.EXECUTION, playbooks.DEFINITION)}
    assert made == MODELS


def test_a_line_leads_to_no_page_that_is_not_there():
    view = view_status((("queues", a_list(QueueView, QUEUE)),), frozenset())
    assert [alert.href for alert in view.alerts] == [None]


def test_a_source_that_fails_hides_no_other():
    view = view_status(
        (("queues", a_problem(503, "STORAGE_UNAVAILABLE")), ("suspensions", a_reply({"items": []}))), PAGES
    )
    assert [name for name, _ in view.problems] == ["queues"]
    assert view.alerts == ()


def test_what_is_well_names_what_was_looked_at():
    view = view_status((("suspensions", a_reply({"items": []})),), PAGES)
    assert view.calm == "Nothing is wrong: nothing suspended."
    assert view_status((), PAGES).calm == ""


def test_bars_are_tenths_of_the_largest_minute():
    minutes = [{"versions": 0}, {"versions": 1}, {"versions": 40}]
    view = view_activity({"rates": a_reply(a_document(Rates, transactions=7, versions=41, minutes=minutes))})
    assert view.rates is not None
    assert (view.bars, view.rates.versions, view.rates.transactions) == ((0, 1, 10), 41, 7)
    assert view_activity({}).rates is None
    failed = view_activity({"rates": a_problem(503, "X"), "nodes": a_list(ServiceNode, {"name": "a"})})
    assert failed.rates_problem is not None
    assert [node.name for node in failed.nodes] == ["a"]


def test_the_oldest_say_of_how_many_they_are():
    item = {"entityId": "5e1f", "model": {"name": "order", "version": 1}, "state": "HELD", "writtenAt": "w"}
    part = view_idle(a_reply(a_document(IdleEntities, items=[item], complete=False, scanned=100_000)))
    html = Renderer(lambda: 0).render("parts/idle.html", view=part)
    assert "order/1" in html
    assert "The oldest of 100\u202f000 that were looked at" in html
    whole = view_idle(a_reply(a_document(IdleEntities, items=[item], complete=True, scanned=3)))
    assert "looked at" not in Renderer(lambda: 0).render("parts/idle.html", view=whole)
    assert view_idle(a_problem(503, "X")).problem is not None
