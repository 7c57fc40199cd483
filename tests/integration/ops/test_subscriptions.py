"""Events by signed webhooks (docs/reference/operations.md#subscriptions)."""

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import httpx
import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from statewright.cli.main import program
from statewright.ids import TenantId
from statewright.storage.ops.subscriptions import find_subscription
from tests.builders import SAMPLE, Json, a_workflow, manual
from tests.commands import CommandRunner
from tests.database import Template, connected
from tests.integration.ops.builders import ops_api, sweep
from tests.receiver import Receiver
from tests.receiver import receiver as receiver
from tests.service import PATIENCE_S, Api, RunningService, done, eventually, hosted, refused

FLOW: Final = a_workflow(NEW=[manual("GO", to="DONE")], DONE=[manual("BACK", to="NEW")])


@pytest.fixture(scope="module")
def sending(database_template: Template) -> Iterator[RunningService]:
    """A service that sends to this machine."""
    with hosted(database_template.clone(), webhook_allow_http=True, webhook_allow_private_networks=True) as running:
        yield running


@pytest.fixture
def hooks(sending: RunningService, tenant: str) -> Api:
    return ops_api(sending, tenant, "ROLE_OPERATOR", user="olga")


@pytest.fixture
def client(sending: RunningService, tenant: str) -> Api:
    return sending.api(tenant)


def subscribe(hooks: Api, url: str, **members: Json) -> Json:
    response = hooks.post("/subscriptions", {"name": "billing", "target": {"url": url}, **members})
    assert response.status_code == 201, response.text
    return response.json()


DUE: Final = "UPDATE event_delivery SET next_at = 0 WHERE tenant = $1 AND status = 'RETRYING'"
LOADED_ANEW: Final = "UPDATE event_subscription SET revision = revision + 1 WHERE tenant = $1"


def run_on(service: RunningService, *statements: str, tenant: str) -> None:
    async def run() -> None:
        async with connected(service.database) as connection:
            for statement in statements:
                await connection.execute(statement, tenant)

    asyncio.run(run())


def make_due(service: RunningService, tenant: str) -> None:
    """Deliveries need not wait for their next attempt; nodes load them anew."""
    run_on(service, DUE, LOADED_ANEW, tenant=tenant)


def test_events_come_signed_in_the_order_of_each_entity(hooks: Api, client: Api, receiver: Receiver) -> None:
    made = subscribe(
        hooks,
        receiver.url,
        target={"url": receiver.url, "headers": {"X-Env": "prod"}},
        filters=[{"kinds": ["TRANSITIONED"], "modelName": "prize", "toState": "DONE"}, {"kinds": ["CREATED"]}],
        includeBody="AFTER",
    )
    assert (made["status"], made["revision"], made["target"]["headerNames"]) == ("ACTIVE", 1, ["X-Env"])
    model = client.a_model(FLOW)
    saved = [client.create(model=model) for _ in range(3)]
    moved = [client.update(one.id, fire="GO") for one in saved]
    eventually(lambda: len(receiver.got) == 6)
    for one, step in zip(saved, moved, strict=True):
        of = [event["id"] for event in receiver.events if event["subject"] == one.id]
        assert of == [f"{one.transaction}:{one.id}", f"{step.transaction}:{one.id}"]
    headers, body = receiver.got[0]
    assert headers["x-env"] == "prod"
    assert headers["content-type"] == "application/cloudevents+json"
    assert headers["webhook-id"] == json.loads(body)["id"]
    assert json.loads(body)["data"]["document"] == SAMPLE
    Webhook(made["secret"]).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(made["secret"]).verify(body.replace(b"NEW", b"OLD"), headers)
    shown = done(hooks.get(f"/subscriptions/{made['id']}"))
    assert "secret" not in shown
    path = f"/subscriptions/{made['id']}/deliveries?status=DELIVERED"
    eventually(lambda: len(done(hooks.get(path))["items"]) == 6)
    listed = done(hooks.get(f"{path}&limit=4"))
    assert len(listed["items"]) == 4
    more = done(
        hooks.get(f"/subscriptions/{made['id']}/deliveries?status=DELIVERED&limit=4&cursor={listed['nextCursor']}")
    )
    assert len({one["deliveryId"] for one in (*listed["items"], *more["items"])}) == 6


def test_an_answer_of_megabytes_is_an_answer(hooks: Api, client: Api, receiver: Receiver) -> None:
    receiver.answer, receiver.body = (lambda *_: 200), b"ok" * 2_000_000
    made = subscribe(hooks, receiver.url)
    assert done(hooks.post(f"/subscriptions/{made['id']}/test"))["httpStatus"] == 200
    client.create(model=client.a_model(FLOW))
    path = f"/subscriptions/{made['id']}/deliveries"
    eventually(lambda: [one["status"] for one in done(hooks.get(path))["items"]] == ["DELIVERED"])
    [delivery] = done(hooks.get(path))["items"]
    assert (delivery["attempt"], delivery["answer"]) == (1, "ok" * 512)


def test_the_events_of_an_entity_wait_for_each_other_and_others_go_on(
    sending: RunningService, tenant: str, hooks: Api, client: Api, receiver: Receiver
) -> None:
    made = subscribe(hooks, receiver.url)
    model = client.a_model(FLOW)
    ill, other = client.create(model=model).id, client.create(model=model).id
    eventually(lambda: len(receiver.got) == 2)
    receiver.answer = lambda _, event: 500 if event["subject"] == ill else 200
    client.update(ill, fire="GO")
    eventually(lambda: len(receiver.got) == 3)
    eventually(lambda: done(hooks.get(f"/subscriptions/{made['id']}"))["status"] == "FAILING")
    client.update(ill, fire="BACK")
    client.update(other, fire="GO")
    eventually(lambda: receiver.events[-1]["subject"] == other)
    [retrying] = done(hooks.get(f"/subscriptions/{made['id']}/deliveries?status=RETRYING"))["items"]
    assert (retrying["attempt"], retrying["httpStatus"], retrying["subject"]) == (1, 500, ill)
    pending = f"/subscriptions/{made['id']}/deliveries?status=PENDING"  # that of the other may still have to be noted
    eventually(lambda: [one["subject"] for one in done(hooks.get(pending))["items"]] == [ill])
    receiver.answer = lambda _, _event: 200
    make_due(sending, tenant)
    eventually(lambda: len(receiver.got) == 6)
    states = [event["data"]["state"] for event in receiver.events if event["subject"] == ill]
    assert states == ["NEW", "DONE", "DONE", "NEW"]
    eventually(lambda: done(hooks.get(f"/subscriptions/{made['id']}"))["status"] == "ACTIVE")


def test_a_target_that_fails_for_an_hour_is_disabled(
    sending: RunningService, tenant: str, hooks: Api, client: Api, receiver: Receiver
) -> None:
    made = subscribe(hooks, receiver.url, disableAfterFailures=3)
    receiver.answer = lambda _, _event: 500
    model = client.a_model(FLOW)
    for _ in range(2):
        client.create(model=model)
    path = f"/subscriptions/{made['id']}"
    eventually(lambda: len(done(hooks.get(f"{path}/deliveries?status=RETRYING"))["items"]) == 2)
    assert done(hooks.get(path))["status"] == "FAILING"

    async def fail_for_long() -> None:
        async with connected(sending.database) as connection:
            earlier = "UPDATE event_subscription SET failing_since = failing_since - 3600000000 WHERE tenant = $1"
            await connection.execute(earlier, tenant)

    asyncio.run(fail_for_long())
    client.create(model=model)
    eventually(lambda: done(hooks.get(path))["status"] == "DISABLED")
    assert done(hooks.get(path))["disabledReason"] == "3 attempts in a row have failed"


def test_a_target_that_is_gone_disables_and_goes_on_where_it_was(
    sending: RunningService, hooks: Api, client: Api, receiver: Receiver
) -> None:
    """The incident of it is over when the subscription sends again."""
    made = subscribe(hooks, receiver.url, filters=[{"kinds": ["CREATED"]}])
    model = client.a_model(FLOW)
    receiver.answer = lambda _, _event: 410
    first = client.create(model=model)
    eventually(lambda: done(hooks.get(f"/subscriptions/{made['id']}"))["status"] == "DISABLED")
    assert "410" in done(hooks.get(f"/subscriptions/{made['id']}"))["disabledReason"]
    eventually(lambda: done(hooks.get("/incidents?kind=SUBSCRIPTION_DISABLED"))["items"])
    second = client.create(model=model)
    receiver.got.clear()
    receiver.answer = lambda _, _event: 200
    sweep(sending)
    assert done(hooks.get("/incidents?kind=SUBSCRIPTION_DISABLED"))["items"]
    done(hooks.request("PATCH", f"/subscriptions/{made['id']}", {"enabled": True}))
    eventually(lambda: {event["subject"] for event in receiver.events} == {first.id, second.id})
    sweep(sending)
    [closed] = done(hooks.get("/incidents?kind=SUBSCRIPTION_DISABLED&status=RESOLVED"))["items"]
    assert closed["resolution"]["how"] == "SUCCEEDED"


REFUSE: Final = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'disk full'; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON event_subscription
       FOR EACH ROW WHEN (OLD.enabled AND NOT NEW.enabled) EXECUTE FUNCTION refuse();
"""

FAILED_LONG_AGO: Final = """
    UPDATE event_subscription SET failures = 9, failing_since = now_us() - 7200000000 WHERE tenant = $1
"""

LOCK_DELIVERY: Final = "SELECT FROM event_delivery WHERE tenant = $1 AND entity = $2::text::uuid FOR UPDATE"


@pytest.mark.parametrize(("status", "of_others"), [(410, 204), (500, 500)])
async def test_what_is_noted_stays_noted_where_the_subscription_cannot_be_disabled(
    sending: RunningService,
    tenant: str,
    hooks: Api,
    client: Api,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    of_others: int,
) -> None:
    """Three attempts end together: the first is still being noted, so the others are noted by one statement."""
    webhooks = sending.parts.runtime.operations.webhooks
    monkeypatch.setattr(webhooks, "away_pause_s", 0.3)
    monkeypatch.setattr("statewright.services.ops.attempts.PAUSES_S", (3600.0,))
    monkeypatch.setattr("statewright.services.ops.deliveries.PAUSE_S", 0.0)
    path = f"/subscriptions/{subscribe(hooks, receiver.url, disableAfterFailures=3)['id']}"
    model, arrived, may_answer = client.a_model(FLOW), list[str](), threading.Event()

    def answer(_headers: dict[str, str], event: Json) -> int:
        arrived.append(event["subject"])
        may_answer.wait(PATIENCE_S)
        return status if event["subject"] == ids[-1] else of_others

    def list_attempts() -> dict[str, int]:
        """Of events of which one was noted."""
        found = done(hooks.get(f"{path}/deliveries?status=DELIVERED&status=RETRYING"))["items"]
        return {one["subject"]: one["attempt"] for one in found}

    receiver.answer = answer
    async with connected(sending.database) as database:
        await database.execute(REFUSE)
        await database.execute(FAILED_LONG_AGO, tenant)
        ids = [client.create(model=model).id for _ in range(3)]
        eventually(lambda: len(arrived) == 3)
        ended = webhooks.metrics.seconds.count + 3
        async with database.transaction():
            await database.execute(LOCK_DELIVERY, tenant, ids[0])
            may_answer.set()
            eventually(lambda: webhooks.metrics.seconds.count == ended)
        eventually(lambda: len(list_attempts()) == 3)
        later = client.create(model=model).id
        eventually(lambda: later in list_attempts())
        assert [list_attempts()[id_] for id_ in ids[:2]] == [arrived.count(id_) for id_ in ids[:2]] == [1, 1]
        await database.execute("DROP TRIGGER refuse ON event_subscription; DROP FUNCTION refuse")
        await database.execute(DUE, tenant)
        await database.execute(LOADED_ANEW, tenant)
    eventually(lambda: done(hooks.get(path))["status"] == "DISABLED")
    assert of_others == 500 or [arrived.count(id_) for id_ in ids[:2]] == [1, 1]


def test_the_last_attempt_ends_in_an_incident_and_can_be_sent_again(
    sending: RunningService, tenant: str, hooks: Api, client: Api, receiver: Receiver
) -> None:
    made = subscribe(hooks, receiver.url)
    receiver.answer = lambda _, _event: 302
    receiver.headers = {"location": "http://127.0.0.1:1/"}
    client.create(model=client.a_model(FLOW))
    eventually(lambda: len(receiver.got) == 1)

    async def skip() -> None:
        async with connected(sending.database) as connection:
            await connection.execute("UPDATE event_delivery SET attempt = 8 WHERE tenant = $1", tenant)

    eventually(lambda: done(hooks.get(f"/subscriptions/{made['id']}/deliveries?status=RETRYING"))["items"])
    asyncio.run(skip())
    make_due(sending, tenant)
    eventually(lambda: done(hooks.get(f"/subscriptions/{made['id']}/deliveries?status=DEAD"))["items"])
    [dead] = done(hooks.get(f"/subscriptions/{made['id']}/deliveries"))["items"]
    assert (dead["attempt"], dead["httpStatus"]) == (9, 302)
    eventually(lambda: done(hooks.get("/incidents?kind=WEBHOOK_FAILED"))["items"])
    receiver.answer = lambda _, _event: 200
    at, ids = "2026-01-01T00:00:00Z", [dead["deliveryId"]]
    for wish, member in (
        ({"deliveryIds": ids, "to": at}, "to"),
        ({"from": at, "to": "x"}, "to"),
        ({"from": "x"}, "from"),
    ):
        problem = refused(hooks.post(f"/subscriptions/{made['id']}/redeliver", wish), 400, "BAD_REQUEST")
        assert problem["properties"]["parameter"] == f"/{member}"
    response = hooks.post(f"/subscriptions/{made['id']}/redeliver", {"deliveryIds": ids})
    assert (response.status_code, response.json()) == (202, {"count": 1})
    [act, *_] = done(hooks.get("/audit?action=subscription.redeliver"))["items"]
    assert act["details"] == {"name": "billing", "enabled": True, "count": 1}
    eventually(lambda: receiver.got[-1][0].get("webhook-redelivery") == "true")
    eventually(lambda: done(hooks.get(f"/subscriptions/{made['id']}/deliveries?status=DELIVERED"))["items"])


def test_conditions_on_documents_choose_events(hooks: Api, client: Api, receiver: Receiver) -> None:
    model = client.a_model(FLOW, model="invoice/1", sample={"amount": 1})
    above = {"type": "simple", "jsonPath": "$.amount", "operatorType": "GREATER_THAN", "value": 100}
    wanted = {"modelName": "invoice", "modelVersion": 1, "bodyPredicate": above}
    subscribe(hooks, receiver.url, filters=[wanted, {"kinds": ["DELETED"]}])
    made = [client.create({"amount": amount}, model=model).id for amount in (99, 101, 7, 500)]
    done(client.delete(f"/entity/{made[2]}"))
    eventually(lambda: len(receiver.got) == 3)
    assert {event["subject"] for event in receiver.events} == {made[1], made[3], made[2]}
    clause = {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "NEW"}
    for member in ({"bodyPredicate": above}, {**wanted, "bodyPredicate": clause}):
        order = {"name": "x", "target": {"url": receiver.url}, "filters": [member]}
        problem = refused(hooks.post("/subscriptions", order), 400, "BAD_REQUEST")
        assert problem["properties"]["parameter"] == "/filters/0/bodyPredicate"
    order = {"name": "x", "target": {"url": receiver.url}, "filters": [{**wanted, "bodyPredicate": {"type": "no"}}]}
    refused(hooks.post("/subscriptions", order), 400, "INVALID_CONDITION")


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ({"filters": [{"kinds": ["TRANSITION"]}]}, "; one of CREATED, "),
        ({"filters": [{"model": "invoice"}]}, "; did you mean modelName?"),
        ({"includeBodies": "AFTER"}, "; did you mean includeBody?"),
        ({"filters": [{"colour": "red"}]}, "unknown field `colour`"),
    ],
)
def test_a_body_that_does_not_fit_is_told_what_may_be_meant(hooks: Api, order: dict[str, object], told: str) -> None:
    given = {"name": "x", "target": {"url": "https://hooks.test"}, **order}
    problem = refused(hooks.post("/subscriptions", given), 400, "BAD_REQUEST")
    assert told in problem["detail"]


def test_conditions_keep_their_digits(hooks: Api, client: Api, receiver: Receiver) -> None:
    """Written as text here: floating point has too few of them."""
    exact = "0.12345678901234567890123456789"
    model = client.a_model(FLOW, model="invoice/1", sample=f'{{"amount": {exact}}}')

    def write_filters(value: str) -> str:
        equals = f'{{"type": "simple", "jsonPath": "$.amount", "operatorType": "EQUALS", "value": {value}}}'
        return f'[{{"modelName": "invoice", "modelVersion": 1, "bodyPredicate": {equals}}}]'

    order = f'{{"name": "x", "target": {{"url": "{receiver.url}"}}, "filters": {write_filters(exact)}}}'
    made = hooks.post("/subscriptions", order)
    assert made.status_code == 201, made.text
    path = f"/subscriptions/{subscribe(hooks, receiver.url, enabled=False)['id']}"
    changed = hooks.request("PATCH", path, f'{{"enabled": true, "filters": {write_filters("1.5")}}}')
    assert f'"value":{exact}}}' in made.text
    assert '"value":1.5}' in changed.text
    created = [
        done(client.post(f"/entity/JSON/{model}", f'{{"amount": {value}}}'))[0]["entityIds"][0]
        for value in (exact, f"{exact}1", "0.12345678901234568", "1.5", "1.25")
    ]
    eventually(lambda: {event["subject"] for event in receiver.events} == {created[0], created[3]})


def test_secrets_sign_while_they_overlap(hooks: Api, receiver: Receiver) -> None:
    made = subscribe(hooks, receiver.url)
    rotated = done(hooks.post(f"/subscriptions/{made['id']}/rotate-secret", {"overlap": "PT1H"}))
    third = done(hooks.post(f"/subscriptions/{made['id']}/rotate-secret", {"overlap": "PT1H"}))
    assert rotated["secret"] != made["secret"]
    assert done(hooks.post(f"/subscriptions/{made['id']}/test"))["httpStatus"] == 204
    headers, body = receiver.got[0]
    assert json.loads(body)["type"] == "statewright.test"
    for secret in (made["secret"], rotated["secret"], third["secret"]):
        Webhook(secret).verify(body, headers)
    assert hooks.post(f"/subscriptions/{made['id']}/rotate-secret", {"overlap": "P999999999999W"}).status_code == 400
    again = done(hooks.post(f"/subscriptions/{made['id']}/rotate-secret", {"overlap": "PT0S"}))
    done(hooks.post(f"/subscriptions/{made['id']}/test"))
    headers, body = receiver.got[1]
    Webhook(again["secret"]).verify(body, headers)
    for secret in (made["secret"], rotated["secret"], third["secret"]):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body, headers)


def test_a_subscription_that_becomes_a_webhook_has_a_secret_then(hooks: Api, receiver: Receiver) -> None:
    target = {"nats": {"servers": ["nats://127.0.0.1:4222"], "subject": "events"}}
    path = f"/subscriptions/{subscribe(hooks, '', target=target, enabled=False)['id']}"
    turned = {"target": {"nats": None, "url": receiver.url}}
    changed, again = (hooks.request("PATCH", path, turned, Idempotency_Key="turn") for _ in range(2))
    assert done(changed) == done(again)
    assert done(hooks.post(f"{path}/test"))["httpStatus"] == 204
    headers, body = receiver.got[0]
    Webhook(changed.json()["secret"]).verify(body, headers)
    assert "secret" not in done(hooks.request("PATCH", path, turned))


def test_a_header_without_a_value_is_no_header() -> None:
    command = ["ops", "subscriptions", "create", "billing", "https://billing.example/", "--header", "X-Env"]
    refusal = CommandRunner().invoke(program, command)
    assert (refusal.exit_code, "NAME=VALUE" in refusal.output) == (2, True)


def test_a_subscription_is_changed_by_merge_patches_and_ended(
    sending: RunningService, tenant: str, hooks: Api, client: Api, receiver: Receiver
) -> None:
    made = subscribe(hooks, receiver.url, target={"url": receiver.url, "headers": {"X-A": "a", "X-B": "b"}})
    path = f"/subscriptions/{made['id']}"
    refused(hooks.request("PATCH", path, {"name": "x"}, If_Match='"7"'), 412, "REVISION_MISMATCH")
    changed = done(hooks.request("PATCH", path, {"target": {"headers": {"X-B": None}}}, If_Match='"1"'))
    assert (changed["revision"], changed["target"]["headerNames"]) == (2, ["X-A"])
    problem = refused(hooks.request("PATCH", path, {"maxInFlight": 0}), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "/maxInFlight"
    for patch, pointer in (({"startAt": "NOW"}, "/startAt"), ({"colour": None}, "/colour")):
        problem = refused(hooks.request("PATCH", path, patch), 400, "BAD_REQUEST")
        assert problem["properties"]["parameter"] == pointer
    assert done(hooks.get("/events/recording"))["subscribed"] is True
    assert [one["id"] for one in done(hooks.get("/subscriptions"))["items"]] == [made["id"]]
    stranger = ops_api(sending, f"{tenant}-b", "ROLE_OPERATOR")
    refused(stranger.get(path), 404, "SUBSCRIPTION_NOT_FOUND")
    done(hooks.delete(path))
    refused(hooks.get(path), 404, "SUBSCRIPTION_NOT_FOUND")
    assert done(hooks.get("/events/recording"))["subscribed"] is False
    refused(hooks.get("/events"), 409, "EVENTS_NOT_RECORDED")
    acts = [(act["action"], act["details"]) for act in done(hooks.get("/audit"))["items"]]
    assert [action for action, _ in acts] == ["subscription.delete", "subscription.change", "subscription.create"]
    assert acts[1][1] == {"name": "billing", "enabled": True, "changed": ["target"]}
    assert {details["name"] for _, details in acts} == {"billing"}


def test_changes_that_meet_are_all_made(hooks: Api, receiver: Receiver) -> None:
    """Whoever is overtaken begins anew, unless he said what he changes."""
    path = f"/subscriptions/{subscribe(hooks, receiver.url, enabled=False)['id']}"
    together = threading.Barrier(8)

    def change(number: int) -> httpx.Response:
        together.wait(PATIENCE_S)
        if number < 2:
            return hooks.post(f"{path}/rotate-secret")
        return hooks.request("PATCH", path, {"target": {"headers": {f"X-{number}": "v"}}})

    with ThreadPoolExecutor(8) as clients:
        assert [answer.status_code for answer in clients.map(change, range(8))] == [200] * 8
    changed = done(hooks.get(path))
    assert (sorted(changed["target"]["headerNames"]), changed["revision"]) == ([f"X-{n}" for n in range(2, 8)], 9)


def test_no_kinds_are_no_filter(hooks: Api, receiver: Receiver) -> None:
    order = {"name": "x", "target": {"url": receiver.url}, "filters": [{"kinds": []}]}
    assert refused(hooks.post("/subscriptions", order), 400, "BAD_REQUEST")["properties"]["parameter"].startswith(
        "/filters/0/kinds"
    )


REST_LONG: Final = """
    UPDATE event_delivery SET attempt = 8, next_at = now_us() + 43200000000 WHERE tenant = $1 AND status = 'RETRYING'
"""


@pytest.mark.parametrize("mend", ["target", "enabled"])
def test_what_rests_goes_out_when_its_target_is_mended(
    sending: RunningService, tenant: str, hooks: Api, client: Api, receiver: Receiver, mend: str
) -> None:
    receiver.answer = lambda _, _event: 404
    path = f"/subscriptions/{subscribe(hooks, receiver.url)['id']}"
    made = client.create(model=client.a_model(FLOW))
    eventually(lambda: done(hooks.get(f"{path}/deliveries?status=RETRYING"))["items"])
    if mend == "enabled":
        done(hooks.request("PATCH", path, {"enabled": False}))
    run_on(sending, REST_LONG, LOADED_ANEW, tenant=tenant)
    receiver.got.clear()
    receiver.answer = lambda _, _event: 204
    patch = {"enabled": True} if mend == "enabled" else {"target": {"url": f"{receiver.url}/right"}}
    done(hooks.request("PATCH", path, patch))
    eventually(lambda: [event["subject"] for event in receiver.events] == [made.id])
    eventually(lambda: done(hooks.get(f"{path}/deliveries"))["items"][0]["status"] == "DELIVERED")
    assert done(hooks.get(f"{path}/deliveries"))["items"][0]["attempt"] == 1


END_THE_CHANGE: Final = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%event_delivery SET attempt = 0%'
"""


async def test_a_change_of_the_target_during_which_the_database_goes_away_has_not_been_made(
    sending: RunningService, tenant: str, hooks: Api, client: Api, receiver: Receiver
) -> None:
    """It goes between the subscription and what rests, which a transaction of its own would tear apart."""
    receiver.answer = lambda _, _event: 404
    path = f"/subscriptions/{subscribe(hooks, receiver.url)['id']}"
    made = client.create(model=client.a_model(FLOW))
    eventually(lambda: done(hooks.get(f"{path}/deliveries?status=RETRYING"))["items"])
    patch = {"target": {"url": f"{receiver.url}/right"}}
    async with connected(sending.database) as holding, connected(sending.database) as watching:
        for statement in (REST_LONG, LOADED_ANEW):
            await holding.execute(statement, tenant)
        before = done(hooks.get(path))
        with ThreadPoolExecutor(1) as pool:
            async with holding.transaction():
                await holding.execute("SELECT FROM event_delivery WHERE tenant = $1 FOR UPDATE", tenant)
                changing = pool.submit(hooks.request, "PATCH", path, patch)
                async with asyncio.timeout(PATIENCE_S):
                    while not await watching.fetchval(END_THE_CHANGE):  # noqa: ASYNC110 - the database has no event
                        await asyncio.sleep(0.01)
            refused(changing.result(), 503, "STORAGE_UNAVAILABLE")
    shown, [delivery] = done(hooks.get(path)), done(hooks.get(f"{path}/deliveries"))["items"]
    assert {name: shown[name] for name in ("target", "revision")} == {
        name: before[name] for name in ("target", "revision")
    }
    assert (delivery["status"], delivery["attempt"]) == ("RETRYING", 8)
    receiver.got.clear()
    receiver.answer = lambda _, _event: 204
    done(hooks.request("PATCH", path, patch))
    eventually(lambda: [event["subject"] for event in receiver.events] == [made.id])


def test_what_is_under_way_to_a_wrong_target_goes_to_the_right_one_next(
    sending: RunningService, tenant: str, hooks: Api, client: Api, receiver: Receiver
) -> None:
    """The attempt that fails behind the change is the eighth, after which a delivery rests for half a day."""
    under_way, changed = threading.Event(), threading.Event()

    def answer(_: object, _event: Json) -> int:
        if under_way.is_set():
            return 204
        under_way.set()
        changed.wait(PATIENCE_S)
        return 404

    receiver.answer = lambda _, _event: 404
    path = f"/subscriptions/{subscribe(hooks, receiver.url)['id']}"
    client.create(model=client.a_model(FLOW))
    eventually(lambda: done(hooks.get(f"{path}/deliveries?status=RETRYING"))["items"])
    receiver.answer = answer
    run_on(sending, "UPDATE event_delivery SET attempt = 7 WHERE tenant = $1", DUE, LOADED_ANEW, tenant=tenant)
    assert under_way.wait(PATIENCE_S)
    done(hooks.request("PATCH", path, {"target": {"url": f"{receiver.url}/right"}}))
    changed.set()
    eventually(lambda: done(hooks.get(f"{path}/deliveries"))["items"][0]["status"] == "DELIVERED")


SEALED_OTHERWISE: Final = """
    UPDATE event_subscription SET sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1) WHERE tenant = $1
"""


def test_a_subscription_that_cannot_be_opened_is_disabled(
    sending: RunningService, tenant: str, hooks: Api, client: Api, receiver: Receiver
) -> None:
    """As when the service was given another secret."""
    path = f"/subscriptions/{subscribe(hooks, receiver.url)['id']}"
    run_on(sending, SEALED_OTHERWISE, LOADED_ANEW, tenant=tenant)
    eventually(lambda: done(hooks.get(path))["status"] == "DISABLED")
    assert "another key" in done(hooks.get(path))["disabledReason"]
    eventually(lambda: done(hooks.get("/incidents?kind=SUBSCRIPTION_DISABLED"))["items"])
    refused(hooks.request("PATCH", path, {"enabled": True}), 400, "BAD_REQUEST")
    client.create(model=client.a_model(FLOW))
    assert receiver.got == []
    done(hooks.delete(path))


def test_targets_inside_are_refused_and_nothing_is_sent(
    service: RunningService, tenant: str, receiver: Receiver
) -> None:
    hooks = ops_api(service, tenant, "ROLE_OPERATOR")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        silent.settimeout(0.2)
        for url in (
            *("http://example.com/", f"https://127.0.0.1:{port}/", f"https://localhost:{port}/"),
            *("https://169.254.169.254/latest", "https://10.0.0.1/", "https://100.64.0.1/", "https://[::1]:8443/"),
            *("https://[fd00::1]/", "https://[64:ff9b::7f00:1]/", "https://224.0.0.1/", "https://0.0.0.0/"),
            *("https://billing.internal/", "https://user:word@example.com/", "https://93.184.216.34:22/"),
            *("https://93.184.216.34/#x", "nonsense", "https://", "https://xn--/"),
        ):
            refused(hooks.post("/subscriptions", {"name": "x", "target": {"url": url}}), 400, "TARGET_NOT_ALLOWED")
        with pytest.raises(TimeoutError):
            silent.accept()
    for header in ("Host", "Content-Type", "Transfer-Encoding", "Connection", "webhook-id", "ce-id", "a b"):
        target = {"url": "https://93.184.216.34/", "headers": {header: "x"}}
        problem = refused(hooks.post("/subscriptions", {"name": "x", "target": target}), 400, "TARGET_NOT_ALLOWED")
        assert problem["properties"]["parameter"] == "/target/headers"
    refused(ops_api(service, tenant).post("/subscriptions", {}), 403, "FORBIDDEN")


KAFKA: Final = {
    "bootstrapServers": ["93.184.216.34:9093"],
    "topic": "events",
    "securityProtocol": "SASL_SSL",
    "saslMechanism": "PLAIN",
    "saslUsername": "alice",
    "saslPassword": "a word",
}
NATS: Final = {"servers": ["tls://93.184.216.34:4222"], "subject": "events.all", "token": "a word"}


def test_the_secrets_of_brokers_are_kept_and_never_shown(service: RunningService, tenant: str) -> None:
    hooks = ops_api(service, tenant, "ROLE_OPERATOR")
    for target, secret in (({"kafka": KAFKA}, "saslPassword"), ({"nats": NATS}, "token")):
        [(kind, members)] = target.items()
        made = subscribe(hooks, "", target=target, enabled=False)
        assert "secret" not in made
        assert made["maxInFlight"] == 200
        assert made["target"] == {kind: {**members, secret: "********"}}
        path = f"/subscriptions/{made['id']}"
        patch = {"target": {kind: {"tlsCa": None}}, "maxInFlight": 500}
        changed = done(hooks.request("PATCH", path, patch))
        assert (changed["target"], changed["maxInFlight"]) == (made["target"], 500)

        async def read(id_: str = made["id"]) -> Json:
            parts = service.parts.runtime.operations.webhooks.parts
            stored = await find_subscription(parts.core.pool, TenantId(tenant), id_)
            assert "a word" not in stored.plan
            return parts.open(stored).secrets

        assert asyncio.run_coroutine_threadsafe(read(), service.loop).result(20) == {
            "sasl_password" if kind == "kafka" else "token": "a word"
        }
        refused(hooks.post(f"{path}/rotate-secret"), 400, "BAD_REQUEST")


def test_what_is_secret_of_a_target_goes_nowhere_else(service: RunningService, tenant: str) -> None:
    """An operator cannot read it, and cannot have it sent to himself."""
    hooks = ops_api(service, tenant, "ROLE_OPERATOR")
    webhook = {"url": "https://93.184.216.34/a", "headers": {"X-Key": "a word"}}
    for target, patch, given, secret in (
        (webhook, {"url": "https://93.184.216.35/a"}, {"headers": {"X-Key": "b"}}, "headers/X-Key"),
        (webhook, {"url": "https://93.184.216.34:8443/a"}, {"headers": {"X-Key": None}}, "headers/X-Key"),
        ({"kafka": KAFKA}, {"kafka": {"bootstrapServers": ["93.184.216.35:9093"]}}, None, "kafka/saslPassword"),
        ({"nats": NATS}, {"nats": {"servers": ["tls://93.184.216.35"]}}, None, "nats/token"),
    ):
        kind, _, name = secret.partition("/")
        path = f"/subscriptions/{subscribe(hooks, '', target=target, enabled=False)['id']}"
        problem = refused(hooks.request("PATCH", path, {"target": patch}), 400, "BAD_REQUEST")
        assert problem["properties"]["parameter"] == f"/target/{secret}"
        again = given or {kind: {**patch[kind], name: "another word"}}
        done(hooks.request("PATCH", path, {"target": {**patch, **again}}))
    path = f"/subscriptions/{subscribe(hooks, '', target=webhook, enabled=False)['id']}"
    for url in ("https://93.184.216.34/b", "https://93.184.216.34:443/c"):
        done(hooks.request("PATCH", path, {"target": {"url": url}}))
    done(hooks.request("PATCH", path, {"target": {"url": None, "kafka": KAFKA, "headers": None}}))


def test_brokers_are_checked_like_webhooks(
    service: RunningService, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = ops_api(service, tenant, "ROLE_OPERATOR")
    plain = {name: value for name, value in KAFKA.items() if not name.startswith("sasl")}
    not_allowed: list[Json] = [
        *(
            {"kafka": {**plain, "securityProtocol": "PLAINTEXT"}},
            {"nats": {**NATS, "servers": ["nats://93.184.216.34"]}},
        ),
        *({"kafka": {**KAFKA, "bootstrapServers": [one]}} for one in ("127.0.0.1:9092", "10.0.0.1:9092", "[::1]:9092")),
        *({"kafka": {**KAFKA, "bootstrapServers": [one]}} for one in ("kafka.internal:9092", "93.184.216.34:22", "x")),
        *({"nats": {**NATS, "servers": [f"tls://{one}"]}} for one in ("127.0.0.1", "localhost", "93.184.216.34:22")),
        {"nats": {**NATS, "servers": ["tls://93.184.216.34", "tls://user:word@93.184.216.34"]}},
        {"kafka": {**KAFKA, "tlsCa": "no certificate"}},
        *({"nats": {**NATS, "token": None, login: "no"}} for login in ("nkeySeed", "credentials")),
    ]
    for target in not_allowed:
        problem = refused(hooks.post("/subscriptions", {"name": "x", "target": target}), 400, "TARGET_NOT_ALLOWED")
        assert problem["properties"]["parameter"] == f"/target/{next(iter(target))}"
    misfits: list[Json] = [
        *({}, {"kafka": KAFKA, "nats": NATS}, {"url": "https://93.184.216.34/", "nats": NATS}),
        *({"kafka": KAFKA, "headers": {"X-A": "a"}}, {"kafka": {**KAFKA, "saslPassword": None}}),
        *(
            {"kafka": {**plain, "saslPassword": "a"}},
            {"kafka": {**KAFKA, "topic": "a b"}},
            {"nats": {**NATS, "subject": "a.>"}},
        ),
        *({"nats": {**NATS, "username": "alice", "password": "a"}}, {"nats": {**NATS, "servers": ["http://x"]}}),
    ]
    for target in misfits:
        refused(hooks.post("/subscriptions", {"name": "x", "target": target}), 400, "BAD_REQUEST")
    many = {"name": "x", "target": {"url": "https://93.184.216.34/"}, "maxInFlight": 33}
    refused(hooks.post("/subscriptions", many), 400, "BAD_REQUEST")
    monkeypatch.setitem(sys.modules, "nats", None)
    problem = refused(hooks.post("/subscriptions", {"name": "x", "target": {"nats": NATS}}), 400, "TARGET_NOT_ALLOWED")
    assert "statewright[nats]" in problem["detail"]


UNAWARE: Final = """
    INSERT INTO cluster_node (id, name, address, machine, program, draining, revision, lease_until)
    VALUES ('unaware', 'unaware', '127.0.0.1:1', 'another', 'x', true, 0, now_us() + 3600000000)
"""


def test_a_subscription_is_starting_until_all_nodes_record(
    sending: RunningService, tenant: str, hooks: Api, receiver: Receiver
) -> None:
    """A node that does not act by it yet holds it up, until it does or is gone."""
    path = f"/subscriptions/{subscribe(hooks, receiver.url)['id']}"
    assert done(hooks.get(path))["status"] == "ACTIVE"

    async def change(*statements: str) -> None:
        async with connected(sending.database) as connection:
            for statement in statements:
                await connection.execute(statement)

    asyncio.run(change(UNAWARE, f"UPDATE event_recording SET since = NULL WHERE tenant = '{tenant}'"))
    try:
        assert done(hooks.get(path))["status"] == "STARTING"
        assert done(hooks.get("/subscriptions"))["items"][0]["status"] == "STARTING"
    finally:
        asyncio.run(change("DELETE FROM cluster_node WHERE id = 'unaware'"))
    eventually(lambda: done(hooks.get(path))["status"] == "ACTIVE")


def test_a_broker_that_is_away_costs_what_was_under_way_its_attempts_and_nothing_else(
    sending: RunningService, tenant: str, hooks: Api, client: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending.parts.runtime.operations.webhooks, "away_pause_s", 3600.0)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    target = {"nats": {"servers": [f"nats://127.0.0.1:{port}"], "subject": "events"}}
    path = f"/subscriptions/{subscribe(hooks, '', target=target, maxInFlight=3)['id']}"
    model = client.a_model(FLOW)
    for _ in range(10):
        client.create(model=model)
    eventually(lambda: done(hooks.get(path))["parked"] == 10)
    eventually(lambda: done(hooks.get(f"{path}/deliveries?status=RETRYING"))["items"])
    done(hooks.request("PATCH", path, {"name": "looked at again"}))
    client.create(model=model)
    eventually(lambda: done(hooks.get(path))["parked"] == 11)
    tried = done(hooks.get(f"{path}/deliveries?status=RETRYING"))["items"]
    assert 1 <= len(tried) <= 3
    assert {(one["attempt"], one["error"]) for one in tried} == {
        (1, "connection_failed: 127.0.0.1 does not accept connections")
    }
    done(hooks.delete(path))
