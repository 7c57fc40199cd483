"""What was committed, for other systems (docs/reference/operations.md#events-out)."""

import asyncio
import json
import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from decimal import Decimal
from time import time
from typing import Final
from uuid import uuid4

import httpx
import pytest

from statewright.auth.keys import MAX_CLOCK_SKEW_S
from statewright.instants import parse_instant
from statewright.operations.events import place_behind
from tests.builders import SAMPLE, Json, a_workflow, manual
from tests.database import Template, connected, kept_open
from tests.integration.ops.builders import ops_api
from tests.integration.ops.test_idle_features import counted
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, eventually, hosted, refused

FLOW = a_workflow(NEW=[manual("GO", to="DONE")], DONE=[manual("BACK", to="NEW")])
RECORDING = "/events/recording"


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_ADMIN", user="olga")


def record(ops: Api, *, enabled: bool = True) -> Json:
    state = done(ops.put(RECORDING, {"enabled": enabled}))
    assert state["effective"] is True, state
    return state


def read(ops: Api, after: str, query: str = "") -> list[Json]:
    """All events behind a position that are there by now."""
    found: list[Json] = []
    while True:
        page = done(ops.get(f"/events?after={after}{query}"))
        found += page["items"]
        if page["nextCursor"] == after or not page["items"]:
            return found
        after = page["nextCursor"]


def now(ops: Api) -> str:
    return str(done(ops.get("/events"))["nextCursor"])


def kinds(events: list[Json]) -> list[str]:
    return [str(event["type"]).removeprefix("statewright.") for event in events]


def wait_for(ops: Api, after: str, count: int, query: str = "") -> list[Json]:
    eventually(lambda: len(read(ops, after, query)) >= count)
    return read(ops, after, query)


def count_rows(service: RunningService, tenant: str) -> int:
    async def count() -> int:
        async with connected(service.database) as connection:
            return int(await connection.fetchval("SELECT count(*) FROM event_outbox WHERE tenant = $1", tenant))

    return asyncio.run(count())


def test_who_does_not_record_has_no_rows(service: RunningService, tenant: str, api: Api, ops: Api) -> None:
    other = f"{tenant}-b"
    record(ops_api(service, other, "ROLE_ADMIN"))
    api.create(model=api.a_model(FLOW))
    refused(ops.get("/events"), 409, "EVENTS_NOT_RECORDED")
    assert done(ops.get(RECORDING))["enabled"] is False
    assert count_rows(service, tenant) == 0
    assert count_rows(service, other) == 0


def test_each_version_is_told_once_as_a_cloud_event(tenant: str, api: Api, ops: Api) -> None:
    state = record(ops)
    assert state["since"] is not None
    after = now(ops)
    model = api.a_model(FLOW)
    saved = api.create(model=model)
    moved = api.update(saved.id, fire="GO")
    api.update(saved.id)
    done(api.delete(f"/entity/{saved.id}"))
    events = wait_for(ops, after, 4)
    assert kinds(events) == ["entity.created", "entity.transitioned", "entity.updated", "entity.deleted"]
    event = events[1]
    assert event["id"] == f"{moved.transaction}:{saved.id}"
    assert event["specversion"] == "1.0"
    assert event["source"] == f"statewright/{tenant}"
    assert event["subject"] == event["partitionkey"] == saved.id
    assert event["datacontenttype"] == "application/json"
    assert event["data"] == {
        "entityId": saved.id,
        "model": {"name": "prize", "version": 1},
        "state": "DONE",
        "fromState": "NEW",
        "transition": "GO",
        "transactionId": moved.transaction,
        "attributedTo": {"id": "alice", "kind": "user"},
        "executedBy": {"id": "alice", "kind": "user"},
    }
    assert [event["sequence"] for event in events] == sorted(event["sequence"] for event in events)
    assert read(ops, str(events[1]["sequence"])) == events[2:]
    [act] = done(ops.get("/audit?action=events.recording"))["items"]
    assert act["details"] == {"enabled": True}


def test_filters_and_documents_with_exact_numbers(api: Api, ops: Api) -> None:
    record(ops)
    after = now(ops)
    amount = "1234567890123456789012345678901234567.891"
    api.a_model(FLOW)
    model = api.a_model(FLOW, model="invoice/1", sample=f'{{"amount": {amount}}}')
    saved = api.create(f'{{"amount": {amount}}}', model=model)
    api.create({"amount": 2}, model=model)
    api.update(saved.id, '{"amount": 7}', fire="GO")
    wait_for(ops, after, 3)
    only = read(ops, after, "&kinds=TRANSITIONED&modelName=invoice&modelVersion=1&toState=DONE")
    assert kinds(only) == ["entity.transitioned"]
    assert read(ops, after, "&toState=NOWHERE") == read(ops, after, "&modelVersion=2") == []
    assert len(read(ops, after, f"&entityId={saved.id}")) == 2
    text = ops.get(f"/events?after={after}&includeBody=BEFORE_AND_AFTER&entityId={saved.id}").text
    created, moved = json.loads(text, parse_float=Decimal)["items"]
    assert created["data"]["document"] == {"amount": Decimal(amount)}
    assert "before" not in created["data"]
    assert moved["data"]["before"] == {"amount": Decimal(amount)}
    assert moved["data"]["document"] == {"amount": 7}


def test_bad_input_is_named(ops: Api) -> None:
    for query in ("kinds=OTHER", "includeBody=ALL", "after=1", "limit=0", "since=noon", "modelVersion=x", "entityId=x"):
        problem = refused(ops.get(f"/events?{query}"), 400, "BAD_REQUEST")
        assert problem["properties"]["parameter"] == query.partition("=")[0]
    refused(ops.put(RECORDING, {"enabled": "yes"}), 400, "BAD_REQUEST")
    refused(ops.get("/events", Last_Event_ID="x"), 400, "BAD_REQUEST")


def test_operators_record_and_others_do_not(service: RunningService, tenant: str) -> None:
    refused(ops_api(service, tenant).put(RECORDING, {"enabled": True}), 403, "FORBIDDEN")
    record(ops_api(service, tenant, "ROLE_OPERATOR"))


def test_a_position_that_is_not_kept_is_gone(service: RunningService, tenant: str, api: Api, ops: Api) -> None:
    record(ops)
    first = now(ops)
    record(ops, enabled=False)
    refused(ops.get("/events"), 409, "EVENTS_NOT_RECORDED")
    api.create(model=api.a_model(FLOW))
    record(ops)
    problem = refused(ops.get(f"/events?after={first}"), 410, "EVENTS_GONE")
    assert problem["properties"]["keptFrom"] == done(ops.get(RECORDING))["keptFrom"]
    refused(ops.get("/events?since=2020-01-01T00:00:00Z"), 410, "EVENTS_GONE")
    refused(ops.get("/events", Accept="text/event-stream", Last_Event_ID=first), 410, "EVENTS_GONE")


def test_copied_and_mass_deleted_entities_are_told(api: Api, ops: Api) -> None:
    record(ops)
    after = now(ops)
    model = api.a_model(FLOW)
    results = done(api.post(f"/entity/JSON/{model}?transactionWindow=1000", [SAMPLE] * 150))
    written = {str(id_) for result in results for id_ in result["entityIds"]}
    created = wait_for(ops, after, 150, "&limit=1000")
    assert {str(event["subject"]) for event in created} == written
    assert set(kinds(created)) == {"entity.created"}
    done(api.delete(f"/entity/{model}"))
    deleted = wait_for(ops, after, 150, "&limit=1000&kinds=DELETED")
    assert len({event["id"] for event in deleted}) == 150
    assert {str(event["subject"]) for event in deleted} == written


def test_a_deletion_in_one_transaction_is_told(api: Api, ops: Api) -> None:
    record(ops)
    model = api.a_model(FLOW)
    saved = api.create(model=model)
    after = now(ops)
    done(api.delete(f"/entity/{saved.id}"))
    [event] = wait_for(ops, after, 1, "&includeBody=BEFORE_AND_AFTER")
    assert event["data"]["before"] == SAMPLE
    assert "document" not in event["data"]


def test_instances_and_tasks_are_told_by_what_happened_to_them(service: RunningService, tenant: str, ops: Api) -> None:
    record(ops)
    after = now(ops)
    v1 = Api(f"{service.root}/v1", ops.token)
    steps = [
        {"id": "ask", "name": "ask", "type": "USER_TASK", "jobType": "form", "nextStep": "end"},
        {"id": "end", "name": "end", "type": "END"},
    ]
    assert v1.post("/definitions", {"id": "ask", "name": "ask", "steps": steps}).status_code == 201
    assert v1.post("/instances", {"definitionId": "ask"}).is_success
    [opened] = wait_for(ops, after, 1, "&kinds=TASK")
    assert v1.post(f"/user-tasks/{opened['subject']}/complete", {"completedBy": "olga"}).is_success
    eventually(lambda: kinds(read(ops, after, "&kinds=TASK")) == ["task.opened", "task.completed"])
    eventually(lambda: kinds(read(ops, after, "&kinds=INSTANCE"))[-1:] == ["instance.completed"])
    assert kinds(read(ops, after, "&kinds=INSTANCE"))[0] == "instance.started"


def test_a_stream_is_cut_a_hundred_times_under_load_without_gap_or_repetition(api: Api, ops: Api) -> None:
    record(ops)
    model, position = api.a_model(FLOW), now(ops)
    seen: list[str] = []
    with ThreadPoolExecutor() as clients:
        load = [clients.submit(lambda: [api.create(model=model).id for _ in range(75)]) for _ in range(2)]
        for wanted in [1] * 50 + [2] * 50:
            told = list(stream(ops, position, most=wanted))
            position = told[-1][0]
            seen += [subject for _, subject in told]
        made = [id_ for one in load for id_ in one.result()]
    assert len(seen) == len(set(seen)) == 150
    assert set(seen) == set(made)


def test_twenty_readers_of_the_same_events_cost_one_read(
    service: RunningService, tenant: str, api: Api, ops: Api
) -> None:
    record(ops)
    model, start = api.a_model(FLOW), now(ops)
    streams = service.parts.runtime.operations.events.streams
    with ThreadPoolExecutor(20) as clients:
        readers = [
            clients.submit(lambda: list(stream(ops, start, most=2, query="?includeBody=AFTER"))) for _ in range(20)
        ]
        eventually(lambda: streams[tenant] == 20)
        with counted(service, tenant) as statements:
            written = [api.create(model=model).id for _ in range(2)]
            told = [[subject for _, subject in reader.result()] for reader in readers]
    assert told == [written] * 20
    assert 1 <= len([text for text in statements if "octet_length(document::text)" in text]) <= 2


def stream(ops: Api, last: str, *, most: int, query: str = "") -> Iterator[tuple[str, str]]:
    """The first events of a stream that is cut then: their positions and subjects."""
    headers = {"Authorization": f"Bearer {ops.token}", "Accept": "text/event-stream", "Last-Event-ID": last}
    with httpx.stream("GET", f"{ops.url}/events{query}", headers=headers, timeout=20) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["x-accel-buffering"] == "no"
        id_, told = "", 0
        for line in response.iter_lines():
            if line.startswith("id: "):
                id_ = line[4:]
            if line.startswith("data: "):
                yield id_, json.loads(line[6:])["subject"]
                told += 1
                if told == most:
                    return


def test_a_tenant_has_so_many_streams(service: RunningService, tenant: str, ops: Api) -> None:
    record(ops)
    streams = service.parts.runtime.operations.events.streams
    streams[tenant] += 100
    refused(ops.get("/events", Accept="text/event-stream"), 429, "TOO_MANY_REQUESTS")
    del streams[tenant]


def test_a_stream_ends_with_its_token(service: RunningService, tenant: str, ops: Api) -> None:
    """It is accepted for a while after its end, since clocks differ; then the stream is closed in the middle."""
    record(ops)
    while True:  # a machine may be so busy that the token is too old before it is used
        token = a_token(tenant, user_roles=["ROLE_ADMIN"], exp=int(time()) - MAX_CLOCK_SKEW_S + 2)
        headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
        with httpx.stream("GET", f"{ops.url}/events", headers=headers, timeout=40) as response:
            if response.status_code == 200:
                assert "".join(response.iter_text()).startswith("retry: 2000\n\n")
                break
    refused(Api(ops.url, token).get("/events"), 401, "UNAUTHORIZED")


HALF_A_MEBIBYTE: Final = {"text": "x" * 500_000}


@contextmanager
def a_silent_reader(ops: Api, last: str) -> Iterator[None]:
    """A client that reads nothing of a stream, which has begun."""
    url = httpx.URL(ops.url)
    head = f"GET {url.path}/events?includeBody=AFTER HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ops.token}\r\n"
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.settimeout(PATIENCE_S)
        silent.connect((url.host, url.port))
        silent.sendall(f"{head}Accept: text/event-stream\r\nLast-Event-ID: {last}\r\n\r\n".encode())
        assert silent.recv(1, socket.MSG_PEEK)
        yield


def test_a_reader_that_is_a_mebibyte_behind_is_closed_and_resumes(
    service: RunningService, tenant: str, api: Api, ops: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(ops)
    events = service.parts.runtime.operations.events
    monkeypatch.setattr(events, "unread_timeout_s", 3600.0)
    start, model = now(ops), api.a_model(FLOW, sample={"text": "x"})
    with a_silent_reader(ops, start):
        written: list[str] = []
        while events.streams[tenant]:
            written.append(api.create(HALF_A_MEBIBYTE, model=model).id)
            assert len(written) < 500, "what waits for the reader has no end"
    assert [str(event["subject"]) for event in wait_for(ops, start, len(written), "&limit=1000")] == written


def test_a_reader_of_the_past_takes_its_time_but_not_for_ever(
    service: RunningService, tenant: str, api: Api, ops: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there before it came waits in the database, however much that is."""
    record(ops)
    events = service.parts.runtime.operations.events
    start, model = now(ops), api.a_model(FLOW, sample={"text": "x"})
    written = [api.create(HALF_A_MEBIBYTE, model=model).id for _ in range(20)]
    monkeypatch.setattr("statewright.api.http.ops.events.CATCH_UP_S", 0.0)
    told = stream(ops, start, most=len(written), query="?includeBody=AFTER")
    assert [subject for _, subject in told] == written
    monkeypatch.setattr(events, "unread_timeout_s", 0.2)
    with a_silent_reader(ops, start):
        eventually(lambda: not events.streams[tenant])


def test_every_commit_of_all_nodes_is_told_from_since_on(database_template: Template) -> None:
    """A switch on one node while another is under load; then random commits on both, of which some fail."""
    with (
        kept_open(database_template.clone()) as url,
        hosted(nullcontext(url)) as here,
        hosted(nullcontext(url)) as there,
        ThreadPoolExecutor() as clients,
    ):
        tenant = f"tenant-{uuid4().hex[:12]}"
        ops, apis = ops_api(here, tenant, "ROLE_ADMIN"), (here.api(tenant), there.api(tenant))
        model = apis[0].a_model(FLOW)
        entities = [apis[0].create(model=model).id for _ in range(10)]

        def work(seed: int) -> None:
            chance = random.Random(seed)
            for _ in range(40):
                api, entity = chance.choice(apis), chance.choice(entities)
                if chance.random() < 0.2:
                    api.create(model=model)
                api.put(f"/entity/JSON/{entity}/{chance.choice(('GO', 'BACK'))}", SAMPLE)

        load = [clients.submit(work, seed) for seed in range(4)]
        since = str(record(ops)["since"])
        load += [clients.submit(work, seed) for seed in range(4, 6)]
        for one in load:
            one.result()
        committed = asyncio.run(list_versions(url, tenant, since))
        events = wait_for(ops, position_of(since), len(committed), "&limit=1000")
        assert [event["id"] for event in events] == committed


def position_of(since: str) -> str:
    return place_behind(parse_instant(since)).write()


async def list_versions(url: str, tenant: str, since: str) -> list[str]:
    """The ids of the events that there have to be, in their order."""
    statement = """
        SELECT transaction_id, id FROM (
            SELECT tenant, transaction_id, id, valid_from FROM entity
             UNION ALL SELECT tenant, transaction_id, id, valid_from FROM entity_history) AS version
         WHERE tenant = $1 AND valid_from > $2
         ORDER BY valid_from, transaction_id, id
    """
    async with connected(url) as connection:
        rows = await connection.fetch(statement, tenant, parse_instant(since))
    return [f"{row['transaction_id']}:{row['id']}" for row in rows]


def test_old_events_are_removed(database_template: Template) -> None:
    with hosted(database_template.clone(), events_retention=timedelta(microseconds=1)) as service:
        tenant = f"tenant-{uuid4().hex[:12]}"
        ops, api = ops_api(service, tenant, "ROLE_ADMIN"), service.api(tenant)
        record(ops)
        api.create(model=api.a_model(FLOW))
        assert count_rows(service, tenant) == 1
        events = service.parts.runtime.operations.events
        asyncio.run_coroutine_threadsafe(events.sweep_once(), service.loop).result(20)
        assert count_rows(service, tenant) == 0
        assert events.removal.removed == 1
