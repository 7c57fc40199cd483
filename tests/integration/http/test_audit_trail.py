"""The audit trail of runs: events, order, texts, filters, pages (docs/reference/workflows.md#audit)."""

import json
import re
from base64 import urlsafe_b64encode

import pytest

from tests.builders import SAMPLE, Json, a_workflow, automated, manual, when
from tests.database import connected
from tests.service import Api, RunningService, done, names, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"


def trail(api: Api, entity: str, query: str = "limit=1000") -> list[Json]:
    """The items of one page, newest first as they come."""
    return list(done(api.get(f"/audit/entity/{entity}?{query}"))["items"])


def brief(events: list[Json]) -> list[tuple[str, str | None, str, Json]]:
    return [(event["eventType"], event.get("state"), event["details"], event["data"]) for event in events]


def test_a_create_tells_its_story_in_order(api: Api) -> None:
    api.a_model(
        a_workflow("old", criterion=when("$.year", "LESS_THAN", 1900), New=[]),
        a_workflow(
            "current",
            criterion=when("$.year", "GREATER_THAN", 1900),
            New=[
                automated("LOSE", to="Lost", criterion=when("$.category", "EQUALS", "peace")),
                automated("TAKE", to="Taken"),
                automated("HIDDEN", to="Lost"),
            ],
            Taken=[],
            Lost=[],
        ),
    )
    saved = api.create()
    declined = {
        "workflowName": "current",
        "transition": "LOSE",
        "criterion": "simple",
        "reason": "criterion did not match",
    }
    skipped = {"workflowName": "old", "reason": "criterion did not match"}
    assert brief(api.events(saved.id, saved.transaction)) == [
        ("STATE_MACHINE_START", None, "State machine started", None),
        ("WORKFLOW_SKIP", None, 'Workflow "old" criterion not matched', skipped),
        ("WORKFLOW_FOUND", None, 'Workflow "current" matched criterion', None),
        ("TRANSITION_NOT_MATCH_CRITERION", "New", 'Automated transition "LOSE" criterion not matched', declined),
        ("TRANSITION_MAKE", "New", 'Transition "TAKE": New → Taken', None),
        ("STATE_MACHINE_FINISH", "Taken", "State machine finished", {"success": True}),
    ]


def test_a_workflow_without_criterion_is_selected_without_a_match(api: Api) -> None:
    api.a_model(a_workflow("only", New=[]))
    saved = api.create()
    found = api.events(saved.id, saved.transaction)[1]
    assert (found["eventType"], found["details"]) == (
        "WORKFLOW_FOUND",
        'Workflow "only" selected (no criterion)',
    )
    assert "state" not in found
    assert found["data"] is None


def test_the_default_workflow_is_found_when_nothing_matched(api: Api) -> None:
    api.a_model()
    saved = api.create()
    assert brief(api.events(saved.id, saved.transaction)) == [
        ("STATE_MACHINE_START", None, "State machine started", None),
        ("WORKFLOW_FOUND", None, 'No imported workflow matched; using default workflow "default"', None),
        ("TRANSITION_MAKE", "NONE", 'Transition "NEW": NONE → CREATED', None),
        ("STATE_MACHINE_FINISH", "CREATED", "State machine finished", {"success": True}),
    ]


def test_a_manual_transition_tells_of_its_cascade_and_of_no_workflow(api: Api) -> None:
    api.a_model(a_workflow(New=[manual("GO", to="Mid")], Mid=[automated("ON", to="End")], End=[]))
    moved = api.update(api.create().id, fire="GO")
    assert brief(api.events(moved.id, moved.transaction)) == [
        ("STATE_MACHINE_START", "New", "Manual transition started", None),
        ("TRANSITION_MAKE", "New", 'Transition "GO": New → Mid', None),
        ("TRANSITION_MAKE", "Mid", 'Transition "ON": Mid → End', None),
        ("STATE_MACHINE_FINISH", "End", "Manual transition finished", {"success": True}),
    ]


def test_a_loopback_says_what_it_looked_at(api: Api) -> None:
    api.a_model(a_workflow(New=[automated("OLD", to="New", criterion=when("$.year", "EQUALS", 1))]))
    saved = api.update(api.create().id)
    events = api.events(saved.id, saved.transaction)
    assert names(events) == ["STATE_MACHINE_START", "TRANSITION_NOT_MATCH_CRITERION", "STATE_MACHINE_FINISH"]
    assert (events[0]["details"], events[-1]["details"]) == ("Loopback started", "Loopback finished")


def test_a_loopback_in_a_state_no_workflow_contains_succeeds_by_force(api: Api) -> None:
    api.a_model(a_workflow(New=[]))
    entity = api.create().id
    api.import_workflows(a_workflow(Other=[]))
    saved = api.update(entity)
    assert brief(api.events(saved.id, saved.transaction)) == [
        ("STATE_MACHINE_START", "New", "Loopback started", None),
        ("FORCE_SUCCESS", "New", "No workflow contains current state for loopback", None),
        ("STATE_MACHINE_FINISH", "New", "Loopback finished (state not in workflow)", {"success": True}),
    ]


def test_runs_that_failed_leave_no_events(api: Api) -> None:
    api.a_model(a_workflow(New=[manual("GO", to="New", criterion=when("$.year", "EQUALS", 1))]))
    entity = api.create().id
    before = trail(api, entity)
    refused(api.put(f"/entity/JSON/{entity}/NOPE", SAMPLE), 404, "TRANSITION_NOT_FOUND")
    refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 400, "WORKFLOW_FAILED")
    refused(api.put(f"/entity/JSON/{entity}", SAMPLE, If_Match=UNKNOWN), 412, "ENTITY_MODIFIED")
    assert trail(api, entity) == before


def test_times_within_a_run_strictly_rise_and_end_before_the_version(api: Api) -> None:
    api.a_model(a_workflow(New=[automated("A", to="Mid")], Mid=[automated("B", to="End")], End=[]))
    saved = api.create()
    items = list(reversed(trail(api, saved.id)))
    assert items[-1]["auditEventType"] == "EntityChange"
    micros = [item["microsTime"] for item in items]
    assert micros == sorted(set(micros))


def test_instants_are_told_twice_and_agree(api: Api) -> None:
    api.a_model()
    for item in trail(api, api.create().id):
        whole, fraction = re.fullmatch(r".*:(\d\d)(?:\.(\d{1,6}))?Z", item["utcTime"]).groups()  # type: ignore[union-attr]
        assert int(whole) * 1_000_000 + int((fraction or "").ljust(6, "0")) == item["microsTime"] % 60_000_000


def test_items_have_exactly_the_members_that_clients_know(api: Api, tenant: str) -> None:
    api.a_model(a_workflow(New=[]))
    saved = api.create()
    change, finish, *_, start = trail(api, saved.id)
    assert change == {
        "auditEventType": "EntityChange",
        "changeType": "CREATE",
        "severity": "INFO",
        "utcTime": api.read(saved.id)["meta"]["creationDate"],
        "microsTime": change["microsTime"],
        "system": False,
        "entityId": saved.id,
        "transactionId": saved.transaction,
        "actor": {"id": "alice", "name": "alice", "legalId": tenant},
    }
    common = {"auditEventType", "severity", "utcTime", "microsTime", "entityId", "transactionId"}
    assert set(finish) == common | {"eventType", "details", "data", "state"}
    assert set(start) == common | {"eventType", "details", "data"}
    assert finish["severity"] == "INFO"


def test_every_event_is_filed_under_the_transaction_that_was_returned(api: Api) -> None:
    api.a_model()
    created = api.create()
    updated = api.update(created.id, fire="UPDATE")
    assert {event["transactionId"] for event in trail(api, created.id)} == {created.transaction, updated.transaction}
    only = trail(api, created.id, f"transactionId={updated.transaction}")
    assert [item.get("eventType", item.get("changeType")) for item in only] == [
        "UPDATE",
        "STATE_MACHINE_FINISH",
        "TRANSITION_MAKE",
        "STATE_MACHINE_START",
    ]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("", {"StateMachine", "EntityChange"}),
        ("eventType=StateMachine", {"StateMachine"}),
        ("eventType=EntityChange", {"EntityChange"}),
        ("eventType=StateMachine&eventType=EntityChange", {"StateMachine", "EntityChange"}),
        ("eventType=System", set()),
        ("eventType=Nonsense", set()),
        ("severity=INFO", {"StateMachine", "EntityChange"}),
        ("severity=ERROR", set()),
        ("severity=info", set()),
    ],
)
def test_items_are_filtered_by_kind_and_severity(api: Api, query: str, kinds: set[str]) -> None:
    api.a_model()
    assert {item["auditEventType"] for item in trail(api, api.create().id, query)} == kinds


def test_the_window_of_time_includes_its_start_and_excludes_its_end(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    items = trail(api, entity)
    third = items[2]
    assert trail(api, entity, f"fromUtcTime={third['utcTime']}") == items[:3]
    assert trail(api, entity, f"toUtcTime={third['utcTime']}") == items[3:]


def test_pages_follow_each_other_without_gap_or_overlap(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    for _ in range(6):
        api.update(entity)
    pages, cursor = [], ""
    while True:
        page = done(api.get(f"/audit/entity/{entity}?limit=4&cursor={cursor}"))
        pages.append(page)
        if not page["pagination"]["hasNext"]:
            break
        cursor = page["pagination"]["nextCursor"]
    assert [item for page in pages for item in page["items"]] == trail(api, entity)
    assert {len(page["items"]) for page in pages[:-1]} == {4}
    assert pages[-1]["pagination"] == {"hasNext": False}


def test_pages_repeat_nothing_of_an_entity_that_is_written_meanwhile(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    for _ in range(3):
        api.update(entity)
    expected, told, cursor = trail(api, entity), [], ""
    while cursor is not None:
        page = done(api.get(f"/audit/entity/{entity}?limit=3&cursor={cursor}"))
        told += page["items"]
        cursor = page["pagination"].get("nextCursor")
        api.update(entity)
    assert told == expected


AT_ONCE = """
    INSERT INTO entity_audit (tenant, entity, at, transaction_id, n, events)
    SELECT tenant, entity, at, gen_random_uuid(), n, events FROM entity_audit, generate_series(1, 3)
     WHERE tenant = $1
"""


async def test_pages_tell_events_of_one_instant_apart(service: RunningService, api: Api, tenant: str) -> None:
    """Runs of two nodes can begin in the same microsecond: the cursor says which of their events was the last."""
    api.a_model()
    entity = api.create().id
    async with connected(service.database) as database:
        await database.execute(AT_ONCE, tenant)
    expected, told, cursor = trail(api, entity), [], ""
    while cursor is not None:
        page = done(api.get(f"/audit/entity/{entity}?limit=1&cursor={cursor}"))
        told += page["items"]
        cursor = page["pagination"].get("nextCursor")
    assert told == expected
    assert len(told) == 4 * len({item["microsTime"] for item in told}) - 3  # of the version there is one


def test_a_page_has_twenty_items_unless_told_otherwise(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    for _ in range(10):
        api.update(entity)
    page = done(api.get(f"/audit/entity/{entity}"))
    assert len(page["items"]) == 20
    assert page["pagination"]["hasNext"] is True


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "20", "99999999999999999999", "WzFd", "%C3%A9"])
def test_an_unusable_cursor_is_the_start(api: Api, cursor: str) -> None:
    api.a_model()
    entity = api.create().id
    assert trail(api, entity, f"cursor={cursor}") == trail(api, entity)


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1.5", ""])
def test_a_limit_must_be_a_positive_number(api: Api, limit: str) -> None:
    api.a_model()
    problem = refused(api.get(f"/audit/entity/{api.create().id}?limit={limit}"), 400, "BAD_REQUEST")
    assert problem["detail"] == "BAD_REQUEST: invalid limit parameter"


def test_a_limit_beyond_a_thousand_means_a_thousand(api: Api) -> None:
    api.a_model()
    done(api.get(f"/audit/entity/{api.create().id}?limit=5000000000"))
    done(api.get(f"/audit/entity/{api.create().id}?limit={'9' * 5_000}"))


def test_the_entity_is_checked_before_the_limit(api: Api) -> None:
    problem = refused(api.get(f"/audit/entity/{UNKNOWN}?limit=x"), 404, "ENTITY_NOT_FOUND")
    assert problem["detail"] == "ENTITY_NOT_FOUND: entity not found"
    assert problem["properties"] == {"errorCode": "ENTITY_NOT_FOUND"}


@pytest.mark.parametrize(
    ("query", "wrong"), [("fromUtcTime=x", ""), ("toUtcTime=x", ""), ("transactionId=x", ": not a UUID")]
)
def test_parameters_bind_before_the_entity_is_looked_up(api: Api, query: str, wrong: str) -> None:
    problem = refused(api.get(f"/audit/entity/{UNKNOWN}?{query}"), 400, "BAD_REQUEST")
    name = query.partition("=")[0]
    assert problem["detail"] == f"BAD_REQUEST: invalid value for parameter '{name}'{wrong}"
    assert problem["properties"]["parameter"] == name


def test_a_deleted_entity_keeps_its_trail(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    before = trail(api, entity)
    done(api.delete(f"/entity/{entity}"))
    deletion, *rest = trail(api, entity)
    assert (deletion["auditEventType"], deletion["changeType"]) == ("EntityChange", "DELETE")
    assert rest == before


def test_an_entity_of_another_tenant_has_no_trail(service: RunningService, api: Api) -> None:
    api.a_model()
    entity = api.create().id
    stranger = service.api("another-tenant")
    assert (
        stranger.get(f"/audit/entity/{entity}").text.replace(entity, UNKNOWN)
        == stranger.get(f"/audit/entity/{UNKNOWN}").text
    )


# How a run ended


def test_the_finish_event_of_a_run_is_found_by_its_transaction(api: Api) -> None:
    api.a_model()
    created = api.create()
    moved = api.update(created.id, fire="DELETE")
    for saved, details, state in (
        (created, "State machine finished", "CREATED"),
        (moved, "Manual transition finished", "DELETED"),
    ):
        item = done(api.get(f"/audit/entity/{saved.id}/workflow/{saved.transaction}/finished"))
        assert item == api.events(saved.id, saved.transaction)[-1]
        assert (item["eventType"], item["details"], item["state"], item["data"]) == (
            "STATE_MACHINE_FINISH",
            details,
            state,
            {"success": True},
        )


def test_no_run_no_finish(service: RunningService, api: Api) -> None:
    api.a_model()
    saved, other = api.create(), api.create()
    deletion = done(api.delete(f"/entity/{other.id}"))["transactionId"]
    stranger = service.api("another-tenant")
    for caller, entity, transaction in (
        (api, saved.id, UNKNOWN),
        (api, UNKNOWN, saved.transaction),
        (api, saved.id, other.transaction),
        (api, other.id, deletion),
        (stranger, saved.id, saved.transaction),
    ):
        problem = refused(
            caller.get(f"/audit/entity/{entity}/workflow/{transaction}/finished"), 404, "ENTITY_NOT_FOUND"
        )
        assert problem["detail"] == "ENTITY_NOT_FOUND: finished event not found"
        assert problem["properties"] == {"errorCode": "ENTITY_NOT_FOUND"}


def test_a_transaction_id_that_is_none_does_not_bind(api: Api) -> None:
    problem = refused(api.get(f"/audit/entity/{UNKNOWN}/workflow/x/finished"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "transactionId"


def test_the_log_names_the_model_and_the_workflows_that_were_passed_over(
    api: Api, tenant: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Decision W14."""
    never = when("$.year", "EQUALS", 1)
    api.a_model(a_workflow("first", New=[]) | {"criterion": never}, a_workflow("second", New=[]) | {"criterion": never})
    capfd.readouterr()
    entity = api.create().id
    [line] = [line for line in capfd.readouterr().out.splitlines() if "workflow_default_taken" in line]
    assert "level=WARN" in line or "warning" in line
    for word in (tenant, entity, "prize", "first", "second"):
        assert word in line


def test_a_model_without_workflows_is_no_matter_for_the_log(api: Api, capfd: pytest.CaptureFixture[str]) -> None:
    api.a_model()
    api.create()
    assert "workflow_default_taken" not in capfd.readouterr().out


@pytest.mark.parametrize(("at", "told"), [(-(10**30), False), (-1, False), (10**30, True), (2**63, True)])
def test_a_cursor_that_was_made_up_is_a_place(api: Api, at: int, told: bool) -> None:
    api.a_model()
    entity = api.create().id
    place = json.dumps([at, False, 0, "", 0]).encode()
    assert trail(api, entity, f"cursor={urlsafe_b64encode(place).decode()}") == (trail(api, entity) if told else [])
