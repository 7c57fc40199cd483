"""What the pages of the administration and of the audit make of answers of the API."""

import json
from typing import cast

import pytest
from msgspec.structs import fields

from statewright.console.pages.admin import LISTINGS, ROUTES, AdminView, AudiencePair, PrunedView, view_listing
from statewright.console.pages.audit import ActRow, build_export, view_audit, view_changes
from statewright.console.pages.listing import ListView
from statewright.console.request import ADMIN, Action, Form, InvalidField, PageContext, parse_query
from statewright.console.views.page import View, format_model
from statewright.operations.entity_answers import Pruning
from statewright.operations.history import ChangedEntity
from statewright.operations.identity_answers import (
    ClientCredentials,
    MachineClient,
    RegisteredKey,
    RegisteredProvider,
    SigningKeyPair,
)
from statewright.operations.queues import ServiceNode
from statewright.operations.service import Setting
from tests.unit.console.recorded import a_document, a_list, a_problem, a_reply

RECORDS = {
    "admin": ServiceNode,
    "admin_settings": Setting,
    "admin_retention": Setting,
    "admin_signing_keys": AudiencePair,
    "admin_clients": MachineClient,
    "admin_providers": RegisteredProvider,
    "admin_trusted_keys": RegisteredKey,
}
BY_NAME = {listing.name: listing for listing in LISTINGS}
ACTIONS = {route.name: route for route in ROUTES if isinstance(route, Action)}
ACT = {
    "id": "1", "at": "2026-03-04T09:00:01Z", "actor": {"id": "ada", "kind": "user"}, "action": "entity.restore",
    "target": {"kind": "ENTITY", "id": "5a/6c"}, "reason": "wrong import", "details": {}, "traceId": "4bf9",
}  # fmt: skip
NOBODY = cast("PageContext", None)
"""These pages ask nothing of who looks at them."""
ENTITY = frozenset({"/console/entities/{id}"})


def admin(view: View) -> AdminView:
    assert isinstance(view.data, AdminView)
    return view.data


def audit(view: View) -> ListView[ActRow]:
    assert isinstance(view.data, ListView)
    return view.data


def test_a_setting_says_where_its_value_comes_from():
    items = [
        {"name": "http_port", "section": "Server", "value": "8080", "variable": "CYODA_HTTP_PORT", "meaning": "port"},
        {"name": "hmac_secret", "section": "Cluster", "value": None, "variable": None, "meaning": "`signs`"},
    ]
    rows = admin(view_listing(BY_NAME["admin_settings"], a_list(Setting, *items))).rows
    assert [[cell.text for cell in row.cells] for row in rows] == [
        ["http_port", "8080", "CYODA_HTTP_PORT", "Server", "port"],
        ["hmac_secret", "not set", "default", "Cluster", "signs"],
    ]


def test_in_mock_mode_a_page_on_identities_says_how_to_switch():
    view = admin(view_listing(BY_NAME["admin_clients"], a_problem(501, "NOT_IMPLEMENTED")))
    assert view.problem is not None
    assert "STATEWRIGHT_IAM_MODE=jwt" in view.problem.detail


def test_a_provider_that_was_invalidated_can_be_reactivated():
    items = [a_document(RegisteredProvider, id=str(n), active=n == 1) for n in (1, 2)]
    rows = admin(view_listing(BY_NAME["admin_providers"], a_reply([*items]))).rows
    assert [[act.action for act in row.acts] for row in rows] == [
        ["invalidate_provider", "delete_provider"],
        ["reactivate_provider", "delete_provider"],
    ]


def test_every_button_of_a_row_is_an_action_that_asks_first_and_is_for_administrators():
    rows = []
    for listing in LISTINGS:
        record = RECORDS[listing.name]
        known = {each.encode_name for each in fields(record)}
        items = [{"active": active} if "active" in known else {} for active in (True, False)]
        rows += admin(view_listing(listing, a_list(record, *items))).rows
    assert len(rows) >= 2 * len(LISTINGS) - 2
    acts = {act.action for row in rows for act in row.acts}
    assert acts <= ACTIONS.keys()
    assert all(ACTIONS[name].confirm is not None and ACTIONS[name].role == ADMIN for name in acts)


def test_the_pairs_that_sign_are_listed_and_an_audience_without_one_is_no_failure():
    listing = BY_NAME["admin_signing_keys"]
    pair = a_document(SigningKeyPair, keyId="k", algorithm="RS256", active=True)
    rows = admin(view_listing(listing, listing.join((a_problem(404, "KEYPAIR_NOT_FOUND"), a_reply(pair))))).rows
    assert [[cell.text for cell in row.cells][:3] for row in rows] == [["k", "human", "RS256"]]
    refused = admin(view_listing(listing, listing.join((a_reply(pair), a_problem(501, "NOT_IMPLEMENTED")))))
    assert refused.problem is not None


def test_of_the_settings_those_of_the_retention_are_on_a_page_of_their_own():
    listing = BY_NAME["admin_retention"]
    items = [{"name": name, "section": "S", "value": "90d"} for name in ("history_retention", "http_port")]
    rows = admin(view_listing(listing, listing.join((a_list(Setting, *items),)))).rows
    assert [row.id for row in rows] == ["history_retention"]


@pytest.mark.parametrize(
    ("action", "fields", "expected"),
    [
        (
            "issue_key_pair",
            {"audience": "human", "until": "2031-12-31", "invalidateCurrent": "true", "grace": "86400"},
            {
                "algorithm": "RS256",
                "audience": "human",
                "validTo": "2031-12-31T00:00:00Z",
                "invalidateCurrent": True,
                "invalidateGracePeriodSec": 86400,
            },
        ),
        ("issue_key_pair", {"grace": "3600"}, {"algorithm": "RS256", "audience": "client"}),
        ("invalidate_key_pair", {"id": "k", "grace": "3600"}, {"gracePeriodSec": 3600}),
        (
            "register_trusted_key",
            {"keyId": "k", "jwk": '{"kty": "RSA"}', "issuers": "a, b"},
            {"keyId": "k", "jwk": {"kty": "RSA"}, "audience": "client", "issuers": ["a", "b"]},
        ),
        ("reactivate_trusted_key", {"id": "k", "validTo": "2031-12-31T00:00:00Z"}, {"validTo": "2031-12-31T00:00:00Z"}),
    ],
)
def test_an_act_on_a_key_is_one_call(action: str, fields: dict[str, str], expected: dict[str, object]):
    call = ACTIONS[action].build(Form(tuple(fields.items())))
    assert call.method == "POST"
    assert json.loads(call.body or b"") == expected


@pytest.mark.parametrize(
    ("action", "fields", "field"),
    [
        ("issue_key_pair", {"until": "tomorrow"}, "until"),
        ("issue_key_pair", {"audience": "robots"}, "audience"),
        ("invalidate_key_pair", {"id": "k", "grace": "-1"}, "grace"),
        ("register_trusted_key", {"keyId": "k", "jwk": "[]"}, "jwk"),
        ("reactivate_trusted_key", {"id": "k"}, "validTo"),
    ],
)
def test_a_bad_field_of_a_key_is_named(action: str, fields: dict[str, str], field: str):
    with pytest.raises(InvalidField) as invalid:
        ACTIONS[action].build(Form(tuple(fields.items())))
    assert invalid.value.field == field


async def test_a_secret_is_shown_under_the_name_that_its_page_reads():
    told = a_document(ClientCredentials, client_id="3F0K", client_secret="s", roles=["ROLE_M2M"])
    show = ACTIONS["create_client"].show
    assert show is not None
    view = await show(NOBODY, Form(()), a_reply(told))
    assert view is not None
    assert isinstance(view.data, ClientCredentials)
    assert (view.data.client_id, view.data.client_secret, view.data.roles) == ("3F0K", "s", ["ROLE_M2M"])
    assert await show(NOBODY, Form(()), a_problem(403, "FORBIDDEN")) is None


@pytest.mark.parametrize("complete", [True, False])
async def test_a_pruning_says_how_it_ended_and_keeps_the_form_to_go_on(complete: bool):
    told = a_document(Pruning, removed=7, keptFrom="2031-05-06T00:00:00Z", complete=complete)
    fields = (("name", "order"), ("version", "1"), ("olderThan", "P30D"))
    show = ACTIONS["prune_history"].show
    assert show is not None
    view = await show(NOBODY, Form(fields), a_reply(told))
    assert view is not None
    assert isinstance(view.data, PrunedView)
    assert (view.data.told.removed, view.data.told.complete, view.data.model) == (7, complete, "order/1")
    assert view.data.fields == fields


def test_an_id_with_a_slash_stays_one_segment():
    call = ACTIONS["delete_client"].build(Form((("id", "a/../b"),)))
    assert (call.method, call.path) == ("DELETE", "/clients/a%2F..%2Fb")


def test_an_act_shows_its_details():
    act = ACT | {"details": {"mode": "REPLACE", "hash": "sha256:ab"}}
    shown = audit(view_audit(a_reply({"items": [act]}), parse_query(b""), ENTITY))
    assert shown.rows[0].details == "mode REPLACE, hash sha256:ab"


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


def changes(view: View) -> ListView[ChangedEntity]:
    assert isinstance(view.data, ListView)
    return view.data


def test_a_change_says_who_did_what_and_one_without_a_version_when_and_to_what():
    pruned = {name: CHANGE[name] for name in ("at", "entityId", "transactionId", "events")}
    known, bare = changes(view_changes(a_reply({"items": [CHANGE, pruned], "scanned": 2}), parse_query(b""))).rows
    assert known.attributed_to is not None
    assert (known.attributed_to.id, known.change_type, format_model(known.model)) == ("ada", "UPDATE", "order/1")
    assert (known.state, bare.entity_id) == ("SENT", "5a/6c")
    assert (bare.attributed_to, bare.model, bare.change_type) == (None, None, None)


def test_where_nothing_was_found_yet_the_list_goes_on():
    reply = a_reply({"items": [], "scanned": 20_000, "nextCursor": "c"})
    view = changes(view_changes(reply, parse_query(b"actor=ada")))
    assert (view.rows, view.scanned, view.next) == ((), 20_000, "?actor=ada&cursor=c")
