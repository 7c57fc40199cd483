"""What the pages of the administration and of the audit make of answers of the API."""

import json

from statewright.console.pages.admin import LISTINGS, AdminView, view_listing
from statewright.console.pages.admin_acts import ROUTES
from statewright.console.pages.audit import AuditView, build_export, view_audit
from statewright.console.pages.changes import ChangesView, view_changes
from statewright.console.request import Form, parse_query
from statewright.console.route import ADMIN, Action
from statewright.console.views.page import View
from tests.unit.console.recorded import a_problem, a_reply

BY_NAME = {listing.name: listing for listing in LISTINGS}
ACTIONS = {route.name: route for route in ROUTES if isinstance(route, Action)}
ACT = {
    "id": "1", "at": "2026-03-04T09:00:01Z", "actor": {"id": "ada", "kind": "user"}, "action": "entity.restore",
    "target": {"kind": "ENTITY", "id": "5a/6c"}, "reason": "wrong import", "details": {}, "traceId": "4bf9",
}  # fmt: skip
ENTITY = frozenset({"/console/entities/{id}"})


def admin(view: View) -> AdminView:
    assert isinstance(view.data, AdminView)
    return view.data


def audit(view: View) -> AuditView:
    assert isinstance(view.data, AuditView)
    return view.data


def test_a_setting_says_where_its_value_comes_from():
    items = [
        {"name": "http_port", "section": "Server", "value": 8080, "variable": "CYODA_HTTP_PORT", "meaning": "port"},
        {"name": "hmac_secret", "section": "Cluster", "value": None, "variable": None, "meaning": "`signs`"},
    ]
    rows = admin(view_listing(BY_NAME["admin_settings"], a_reply({"items": items}))).rows
    assert [[cell.text for cell in row.cells] for row in rows] == [
        ["http_port", "8080", "CYODA_HTTP_PORT", "Server", "port"],
        ["hmac_secret", "not set", "default", "Cluster", "signs"],
    ]


def test_in_mock_mode_a_page_on_identities_says_how_to_switch():
    view = admin(view_listing(BY_NAME["admin_clients"], a_problem(501, "NOT_IMPLEMENTED")))
    assert view.problem is not None
    assert "STATEWRIGHT_IAM_MODE=jwt" in view.problem.detail


def test_a_provider_that_was_invalidated_can_be_reactivated():
    items = [{"id": str(n), "active": n == 1, "wellKnownConfigUri": "https://idp.example"} for n in (1, 2)]
    rows = admin(view_listing(BY_NAME["admin_providers"], a_reply(items))).rows
    assert [[act.action for act in row.acts] for row in rows] == [
        ["invalidate_provider", "delete_provider"],
        ["reactivate_provider", "delete_provider"],
    ]


def test_every_button_of_a_row_is_an_action_that_asks_first_and_is_for_administrators():
    items = [{"id": "1", "clientId": "1", "keyId": "1", "active": active} for active in (True, False)]
    rows = [row for each in LISTINGS for row in admin(view_listing(each, a_reply({"items": items}))).rows]
    acts = {act.action for row in rows for act in row.acts}
    assert acts <= ACTIONS.keys()
    assert all(ACTIONS[name].confirm is not None and ACTIONS[name].role == ADMIN for name in acts)


def test_an_id_with_a_slash_stays_one_segment():
    call = ACTIONS["delete_client"].build(Form((("id", "a/../b"),)))
    assert (call.method, call.path) == ("DELETE", "/clients/a%2F..%2Fb")


def test_an_act_leads_to_what_it_was_done_to_where_there_is_a_page():
    reply = a_reply({"items": [ACT], "nextCursor": "c"})
    linked = audit(view_audit(reply, parse_query(b"actor=ada"), ENTITY))
    assert linked.rows[0].href == "/console/entities/5a%2F6c"
    assert linked.next == "?actor=ada&cursor=c"
    assert audit(view_audit(reply, parse_query(b""), frozenset())).rows[0].href == ""


def test_who_may_not_read_the_audit_keeps_the_filters_and_hears_why():
    view = audit(view_audit(a_problem(403, "FORBIDDEN"), parse_query(b"actor=ada"), ENTITY))
    assert view.problem is not None
    assert view.rows == ()
    assert view.is_filtered


def test_the_audit_is_exported_as_lines_of_json():
    download = build_export(a_reply({"items": [ACT, ACT]}).require()).download
    assert download is not None
    assert (download.name, download.media_type) == ("audit.ndjson", "application/x-ndjson")
    assert [json.loads(line) for line in download.body.splitlines()] == [ACT, ACT]


CHANGE = {
    "at": "2026-03-04T09:00:01Z", "entityId": "5a/6c", "transactionId": "9f", "events": 3, "changeType": "UPDATE",
    "model": {"name": "order", "version": 1}, "state": "SENT", "transition": "SEND",
    "attributedTo": {"id": "ada", "kind": "user"},
}  # fmt: skip


def changes(view: View) -> ChangesView:
    assert isinstance(view.data, ChangesView)
    return view.data


def test_a_change_says_who_did_what_and_one_without_a_version_when_and_to_what():
    pruned = {name: CHANGE[name] for name in ("at", "entityId", "transactionId", "events")}
    known, bare = changes(view_changes(a_reply({"items": [CHANGE, pruned], "scanned": 2}), parse_query(b""))).rows
    assert (known.actor, known.change, known.model, known.state) == ("ada", "update", "order/1", "SENT")
    assert (bare.entity, bare.actor, bare.model, bare.change) == ("5a/6c", "", "", "")


def test_where_nothing_was_found_yet_the_list_goes_on():
    reply = a_reply({"items": [], "scanned": 20_000, "nextCursor": "c"})
    view = changes(view_changes(reply, parse_query(b"actor=ada")))
    assert (view.rows, view.scanned, view.next) == ((), 20_000, "?actor=ada&cursor=c")
