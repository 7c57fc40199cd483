"""Events to brokers (docs/reference/operations.md#brokers): Kafka and NATS as they are, where they are installed."""

import asyncio
import json
import random
import ssl
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import nats
import pytest
from aiokafka import AIOKafkaConsumer
from nats.js.api import StreamConfig

from tests.brokers import (
    PASSWORD,
    STREAM,
    SUBJECT,
    TOPIC,
    USER,
    RunningBroker,
    find_place,
    run_kafka,
    run_nats,
)
from tests.builders import Json, a_workflow, manual
from tests.certificates import Authority
from tests.database import Template
from tests.integration.ops.builders import ops_api
from tests.service import Api, RunningService, done, eventually, hosted

FLOW: Final = a_workflow(NEW=[manual("GO", to="DONE")], DONE=[manual("BACK", to="NEW")])
COMMITS: Final = 10_000

pytestmark = pytest.mark.xdist_group("brokers")


class Kept(NamedTuple):
    """A message that a broker keeps."""

    key: str
    headers: dict[str, str]
    event: Json


async def read_kafka(port: int, **options: Any) -> list[Kept]:
    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest", **options)
    await consumer.start()
    try:
        async with asyncio.timeout(30):
            while not (places := consumer.assignment()):  # noqa: ASYNC110 - it announces it to nobody
                await asyncio.sleep(0.05)
        ends = await consumer.end_offsets(places)
        found: list[Kept] = []
        while any([await consumer.position(place) < ends[place] for place in places]):
            for messages in (await consumer.getmany(timeout_ms=500)).values():
                for one in messages:
                    headers = {name: value.decode() for name, value in one.headers}
                    found.append(Kept(one.key.decode(), headers, json.loads(one.value)))
        return found
    finally:
        await consumer.stop()


async def make_stream(port: int, **options: Any) -> None:
    client = await nats.connect(f"nats://127.0.0.1:{port}", **options)
    await client.jetstream().add_stream(StreamConfig(name=STREAM, subjects=["events.>"]))
    await client.close()


async def read_nats(port: int, **options: Any) -> list[Kept]:
    client = await nats.connect(f"nats://127.0.0.1:{port}", **options)
    try:
        stream = client.jetstream()
        count = (await stream.stream_info(STREAM)).state.messages
        consumer = await stream.subscribe("events.>", ordered_consumer=True)
        messages = [await consumer.next_msg(timeout=10) for _ in range(count)]
        events = [json.loads(one.data) for one in messages]
        return [
            Kept(event["subject"], dict(one.headers or {}), event) for one, event in zip(messages, events, strict=True)
        ]
    finally:
        await client.close()


Reader = Callable[[], Awaitable[list[Kept]]]


class Kind(NamedTuple):
    """A broker, the target that it is, and how to read it."""

    broker: RunningBroker
    target: Json
    read: Reader

    def read_all(self) -> list[Kept]:
        return asyncio.run(self.read())


@pytest.fixture(params=["kafka", "nats"])
def open_kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kind]:
    """A broker without TLS, and without users."""
    find_place()
    if request.param == "kafka":
        with run_kafka(tmp_path) as broker:
            target = {
                "bootstrapServers": [f"127.0.0.1:{broker.port}"],
                "topic": TOPIC,
                "securityProtocol": "PLAINTEXT",
            }
            yield Kind(broker, {"kafka": target}, lambda: read_kafka(broker.port))
    else:
        with run_nats(tmp_path) as broker:
            asyncio.run(make_stream(broker.port))
            target = {"servers": [f"nats://127.0.0.1:{broker.port}"], "subject": SUBJECT, "stream": STREAM}
            yield Kind(broker, {"nats": target}, lambda: read_nats(broker.port))


@pytest.fixture(params=["kafka", "nats"])
def closed_kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kind]:
    """A broker that is reached by TLS and a password only."""
    find_place()
    authority = Authority(tmp_path)
    context = ssl.create_default_context(cafile=authority.file)
    ca = authority.pem.decode()
    if request.param == "kafka":
        login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
        options = {"security_protocol": "SASL_SSL", "ssl_context": context, **login}
        with run_kafka(tmp_path, authority) as broker:
            target = {
                "bootstrapServers": [f"127.0.0.1:{broker.port}"],
                "topic": TOPIC,
                "securityProtocol": "SASL_SSL",
                "saslMechanism": "SCRAM-SHA-512",
                "saslUsername": USER,
                "saslPassword": PASSWORD,
                "tlsCa": ca,
            }
            yield Kind(broker, {"kafka": target}, lambda: read_kafka(broker.port, **options))
    else:
        options = {"user": USER, "password": PASSWORD, "tls": context}
        with run_nats(tmp_path, authority) as broker:
            asyncio.run(make_stream(broker.port, **options))
            target = {
                "servers": [f"tls://127.0.0.1:{broker.port}"],
                "subject": SUBJECT,
                "username": USER,
                "password": PASSWORD,
                "tlsCa": ca,
            }
            yield Kind(broker, {"nats": target}, lambda: read_nats(broker.port, **options))


@pytest.fixture(params=["kafka", "nats"])
def certified_kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kind]:
    """A broker that is reached with a certificate only; the target has one, the ``stranger`` of another authority."""
    find_place()
    authority = Authority(tmp_path)
    certificate, key = authority.issue("client")
    context = ssl.create_default_context(cafile=authority.file)
    context.load_cert_chain(certificate, key)
    tls = {"tlsCa": authority.pem.decode(), "tlsCertificate": certificate.read_text(), "tlsKey": key.read_text()}
    if request.param == "kafka":
        with run_kafka(tmp_path, authority, by_certificate=True) as broker:
            target = {"bootstrapServers": [f"127.0.0.1:{broker.port}"], "topic": TOPIC, "securityProtocol": "SSL"}
            read = partial(read_kafka, broker.port, security_protocol="SSL", ssl_context=context)
            yield Kind(broker, {"kafka": target | tls}, read)
    else:
        with run_nats(tmp_path, authority, by_certificate=True) as broker:
            asyncio.run(make_stream(broker.port, tls=context))
            target = {"servers": [f"tls://127.0.0.1:{broker.port}"], "subject": SUBJECT}
            yield Kind(broker, {"nats": target | tls}, partial(read_nats, broker.port, tls=context))


@pytest.fixture(scope="module")
def sending(database_template: Template) -> Iterator[RunningService]:
    """A service that sends to this machine, by TLS or not."""
    with hosted(database_template.clone(), webhook_allow_http=True, webhook_allow_private_networks=True) as running:
        yield running


@pytest.fixture
def hooks(sending: RunningService, tenant: str) -> Iterator[Api]:
    """Subscriptions end before their brokers do."""
    made = ops_api(sending, tenant, "ROLE_OPERATOR", user="olga")
    yield made
    for one in done(made.get("/subscriptions"))["items"]:
        done(made.delete(f"/subscriptions/{one['id']}"))


@pytest.fixture
def client(sending: RunningService, tenant: str) -> Api:
    return sending.api(tenant)


def subscribe(hooks: Api, target: Json, **members: Json) -> Json:
    response = hooks.post("/subscriptions", {"name": "lake", "target": target, **members})
    assert response.status_code == 201, response.text
    return response.json()


def test_events_come_whole_and_by_the_key_of_their_entity(open_kind: Kind, hooks: Api, client: Api) -> None:
    made = subscribe(hooks, open_kind.target, includeBody="AFTER")
    assert "secret" not in made
    model = client.a_model(FLOW)
    saved = [client.create(model=model) for _ in range(5)]
    for one in saved:
        client.update(one.id, fire="GO")
    path = f"/subscriptions/{made['id']}/deliveries?status=DELIVERED"
    eventually(lambda: len(done(hooks.get(path))["items"]) == 10, within_s=60)
    kept = open_kind.read_all()
    for one in saved:
        events = [message.event for message in kept if message.key == one.id]
        assert [event["data"]["state"] for event in events] == ["NEW", "DONE"]
        assert events[0]["id"] == f"{one.transaction}:{one.id}"
        assert events[0]["specversion"] == "1.0"
        assert "document" in events[0]["data"]
    assert {message.headers["content-type"] for message in kept} == {"application/cloudevents+json"}
    assert done(hooks.post(f"/subscriptions/{made['id']}/test"))["error"] is None
    assert [one.event["type"] for one in open_kind.read_all()].count("statewright.test") == 1


def test_brokers_are_reached_by_tls_with_a_password_that_is_never_shown(
    closed_kind: Kind, hooks: Api, client: Api
) -> None:
    made = subscribe(hooks, closed_kind.target)
    assert PASSWORD not in json.dumps(done(hooks.get(f"/subscriptions/{made['id']}")))
    assert done(hooks.post(f"/subscriptions/{made['id']}/test"))["error"] is None
    client.create(model=client.a_model(FLOW))
    path = f"/subscriptions/{made['id']}/deliveries?status=DELIVERED"
    eventually(lambda: done(hooks.get(path))["items"], within_s=60)
    assert len(closed_kind.read_all()) == 2
    [(kind, target)] = closed_kind.target.items()
    secret = "saslPassword" if kind == "kafka" else "password"
    wrong = {"name": "x", "target": {kind: {**target, secret: "another"}}, "enabled": False}
    other = hooks.post("/subscriptions", wrong).json()
    assert kind in done(hooks.post(f"/subscriptions/{other['id']}/test"))["error"]
    strange = {"name": "y", "target": {kind: {name: value for name, value in target.items() if name != "tlsCa"}}}
    other = hooks.post("/subscriptions", {**strange, "enabled": False}).json()
    assert done(hooks.post(f"/subscriptions/{other['id']}/test"))["error"] is not None


def test_brokers_are_reached_with_a_certificate_and_without_one_deliveries_are_retried(
    certified_kind: Kind, hooks: Api, client: Api, tmp_path: Path
) -> None:
    [(kind, target)] = certified_kind.target.items()
    (tmp_path / "other").mkdir()
    certificate, key = Authority(tmp_path / "other", "stranger").issue("client")
    strange = {**target, "tlsCertificate": certificate.read_text(), "tlsKey": key.read_text()}
    without = {name: value for name, value in target.items() if name not in {"tlsCertificate", "tlsKey"}}
    good, *bad = [subscribe(hooks, {kind: one}) for one in (target, strange, without)]
    assert good["target"][kind]["tlsKey"] == "********"
    entity = client.create(model=client.a_model(FLOW)).id
    path = f"/subscriptions/{good['id']}/deliveries?status=DELIVERED"
    eventually(lambda: done(hooks.get(path))["items"], within_s=60)
    assert [one.key for one in certified_kind.read_all()] == [entity]
    for one in bad:
        path = f"/subscriptions/{one['id']}/deliveries?status=RETRYING"
        eventually(lambda path=path: done(hooks.get(path))["items"], within_s=60)
        [delivery] = done(hooks.get(path))["items"]
        assert delivery["attempt"] == 1
        assert "certificate" in delivery["error"]
        done(hooks.request("PATCH", f"/subscriptions/{one['id']}", {"target": {kind: target}}))
        assert done(hooks.post(f"/subscriptions/{one['id']}/test"))["error"] is None


def test_nothing_is_lost_or_out_of_order_though_the_broker_is_killed(
    open_kind: Kind, sending: RunningService, hooks: Api, client: Api, tenant: str
) -> None:
    """The messages are those of the versions, and of each entity in their order; repetitions are counted."""
    made = subscribe(hooks, open_kind.target)
    before = str(done(hooks.get("/events"))["nextCursor"])
    model = client.a_model(FLOW)
    entities = [client.create(model=model).id for _ in range(500)]

    def work(seed: int) -> None:
        chance, api = random.Random(seed), sending.api(tenant)
        mine = entities[seed::8]
        for _ in range((COMMITS - 500) // 8 + 1):
            entity = chance.choice(mine)
            if api.put(f"/entity/JSON/{entity}/GO", {"year": 1}).status_code >= 400:
                done(api.put(f"/entity/JSON/{entity}/BACK", {"year": 1}))

    shown = f"/subscriptions/{made['id']}"
    with ThreadPoolExecutor() as clients:
        load = [clients.submit(work, seed) for seed in range(8)]
        eventually(
            lambda: len(hooks.get(f"{shown}/deliveries?status=DELIVERED&limit=1000").json()["items"]) == 1000,
            within_s=120,
        )
        open_kind.broker.kill()
        open_kind.broker.start()
        for one in load:
            one.result()
    after = done(hooks.get("/events"))["nextCursor"]
    eventually(
        lambda: done(hooks.get(shown))["position"] >= after and not done(hooks.get(shown))["parked"], within_s=400
    )
    expected = read_events(hooks, before)
    kept = [message.event for message in open_kind.read_all()]
    ids = [event["id"] for event in kept]
    sys.stderr.write(f"{len(expected)} versions, {len(kept) - len(set(ids))} repeated\n")
    assert set(ids) == {event["id"] for event in expected}
    for entity in entities:
        first = list(dict.fromkeys(event["id"] for event in kept if event["subject"] == entity))
        assert first == [event["id"] for event in expected if event["subject"] == entity]
    assert max(Counter(ids).values()) <= 3


def read_events(hooks: Api, after: str) -> list[Json]:
    found: list[Json] = []
    page = done(hooks.get(f"/events?after={after}&limit=1000"))
    while page["items"]:
        found += page["items"]
        page = done(hooks.get(f"/events?after={page['nextCursor']}&limit=1000"))
    return found
