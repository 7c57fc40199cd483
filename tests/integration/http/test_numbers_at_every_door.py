"""A number that one interface takes can be read, listed, searched and polled at every other; one that is beyond the
limits is refused everywhere, with its path (decision S20).
"""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import asyncpg
import grpc
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.builders import Json
from tests.integration.grpc_rpcs.client import Rpcs
from tests.service import Api, RunningService, a_token, done

EDGES = [
    "9" * 4000,
    "-0." + "3" * 4000,
    "9" * 4000 + "e2144",
    "1e6144",
    "-1e-6144",
    "1" + "0" * 6144,
    "0." + "0" * 6143 + "1",
    "1e309",
]
BEYOND = ["9" * 4001, "0." + "3" * 4001, "1e6145", "1e-6145", "12e6144", "1" + "0" * 6145, "9" * 200_000]

Door = Callable[[Api, Api, str, str], httpx.Response]
"""Sends a number to the service; the third argument is an entity that may be changed by it."""


def _collection_item(number: str) -> str:
    return json.dumps(f'{{"n":{number}}}')


DOORS: dict[str, Door] = {
    "create": lambda api, _, __, n: api.post("/entity/JSON/numbers/1", f'{{"n":{n}}}'),
    "create-xml": lambda api, _, __, n: api.post("/entity/XML/numbers/1", f"<a><n>{n}</n></a>"),
    "create-array": lambda api, _, __, n: api.post("/entity/JSON/numbers/1", f'[{{"n":{n}}}]'),
    "create-collection": lambda api, _, __, n: api.post(
        "/entity/JSON", f'[{{"model":{{"name":"numbers","version":1}},"payload":{_collection_item(n)}}}]'
    ),
    "update": lambda api, _, entity, n: api.put(f"/entity/JSON/{entity}", f'{{"n":{n}}}'),
    "update-collection": lambda api, _, entity, n: api.put(
        "/entity/JSON", f'[{{"id":"{entity}","payload":{_collection_item(n)}}}]'
    ),
    "merge-patch": lambda api, _, entity, n: api.request(
        "PATCH", f"/entity/JSON/{entity}", f'{{"n":{n}}}', Content_Type="application/merge-patch+json", If_Match="*"
    ),
    "json-patch": lambda api, _, entity, n: api.request(
        "PATCH",
        f"/entity/JSON/{entity}",
        f'[{{"op":"replace","path":"/n","value":{n}}}]',
        Content_Type="application/json-patch+json",
        If_Match="*",
    ),
    "model-sample": lambda api, _, __, n: api.post("/model/import/JSON/SAMPLE_DATA/learnt/1", f'{{"n":{n}}}'),
    "model-validate": lambda api, _, __, n: api.post("/model/validate/numbers/1", f'{{"n":{n}}}'),
    "search": lambda api, _, __, n: api.post("/search/direct/numbers/1", condition(n)),
    "search-job": lambda api, _, __, n: api.post("/search/async/numbers/1", condition(n)),
    "message": lambda api, _, __, n: api.post("/message/new/x", f'{{"payload":{{"n":{n}}}}}', Content_Type="text/json"),
    "message-metadata": lambda api, _, __, n: api.post(
        "/message/new/x", f'{{"payload":1,"metaData":{{"n":{n}}}}}', Content_Type="text/json"
    ),
    "step-variables": lambda _, v1, __, n: v1.post(
        "/v1/instances", f'{{"definitionId":"numbers","variables":{{"n":{n}}}}}'
    ),
}
UNLISTED = {"model-validate", "model-sample", "search", "search-job", "message", "message-metadata"}
"""Interfaces after which there is nothing that lists could show."""


def condition(number: str) -> str:
    return f'{{"type":"simple","jsonPath":"$.n","operatorType":"EQUALS","value":{number}}}'


@pytest.fixture
def v1(service: RunningService, tenant: str) -> Api:
    """The root of the service, with a definition whose instances wait for a worker."""
    v1 = Api(service.root, a_token(tenant))
    task: Json = {"id": "do", "name": "do", "type": "SERVICE_TASK", "nextStep": "end", "jobType": "do"}
    end: Json = {"id": "end", "name": "end", "type": "END"}
    stored = v1.post("/v1/definitions", {"id": "numbers", "name": "numbers", "steps": [task, end]})
    assert stored.status_code == 201, stored.text
    return v1


@pytest.fixture
def numbers(api: Api) -> Api:
    """A model whose field takes any number at all, with one entity."""
    api.import_model("numbers/1", {"n": 1})
    done(api.post("/model/import/JSON/SAMPLE_DATA/numbers/1", '{"n": 1e-6144}'))
    api.lock("numbers/1")
    return api


def list_all(api: Api, v1: Api) -> None:
    """Every list and poll that could hold a number."""
    for response in (
        api.get("/entity/numbers/1?pageSize=1000"),
        api.post("/search/direct/numbers/1", condition("7")),
        api.post("/search/direct/numbers/1?sort=n", '{"type":"group","operator":"AND","conditions":[]}'),
        v1.get("/v1/instances?limit=100"),
        v1.post("/v1/jobs/poll", {"workerId": "w", "jobTypes": ["do"], "leaseSeconds": 5}),
    ):
        assert response.status_code == 200, response.text


def number_in(response: httpx.Response, *path: str) -> Decimal:
    value: JsonValue = decode(response.text)
    for name in path:
        assert isinstance(value, dict)
        value = value[name]
    assert isinstance(value, int | Decimal)
    return Decimal(value)


def require_kept(name: str, response: httpx.Response, api: Api, v1: Api, number: str) -> None:
    """The number comes back as it was sent."""
    if name in UNLISTED:
        return
    if name == "step-variables":
        instance = re.findall(r'^\{"id":"([^"]*)"', response.text)[0]
        assert number_in(v1.get(f"/v1/instances/{instance}"), "variables", "n") == Decimal(number)
        return
    [entity] = re.findall(r'"entityIds":\["([^"]*)"\]', response.text)
    assert number_in(api.get(f"/entity/{entity}"), "data", "n") == Decimal(number)
    found = api.post("/search/direct/numbers/1", condition(number)).text.splitlines()
    assert entity in "".join(found)


@pytest.mark.parametrize("name", DOORS)
def test_a_number_at_the_limits_is_kept_and_can_be_listed(name: str, numbers: Api, v1: Api) -> None:
    entity = numbers.create({"n": 1}, model="numbers/1").id
    for number in EDGES:
        response = DOORS[name](numbers, v1, entity, number)
        assert response.status_code in (200, 201), f"{number[:20]}: {response.status_code} {response.text[:500]}"
        require_kept(name, response, numbers, v1, number)
    list_all(numbers, v1)


@pytest.mark.parametrize("name", DOORS)
def test_a_number_beyond_the_limits_is_refused_with_its_path(name: str, numbers: Api, v1: Api) -> None:
    entity = numbers.create({"n": 1}, model="numbers/1").id
    path = {"search": "value", "search-job": "value", "create-array": "[0].n", "json-patch": "[0].value"}.get(name, "n")
    for number in BEYOND:
        response = DOORS[name](numbers, v1, entity, number)
        assert response.status_code == 400, f"{number[:20]}: {response.status_code} {response.text[:500]}"
        assert "number has" in response.text
        assert path in response.text
    list_all(numbers, v1)


def poll_and_complete(v1: Api, number: str) -> tuple[str, httpx.Response]:
    """An instance, and the answer to a worker who reports the number for its job."""
    instance = v1.post("/v1/instances", {"definitionId": "numbers"}).json()["id"]
    [job] = done(v1.post("/v1/jobs/poll", {"workerId": "w", "jobTypes": ["do"]}))["jobs"]
    return instance, v1.post(f"/v1/jobs/{job['id']}/complete", f'{{"variables":{{"n":{number}}}}}')


def test_a_worker_may_report_numbers_within_the_limits_alone(v1: Api) -> None:
    for number in EDGES:
        instance, answer = poll_and_complete(v1, number)
        assert answer.status_code == 204, answer.text
        assert number_in(v1.get(f"/v1/instances/{instance}"), "variables", "n") == Decimal(number)
    for number in BEYOND:
        _, answer = poll_and_complete(v1, number)
        assert answer.status_code == 400, answer.text
        assert "number has" in answer.text
        assert "n" in answer.text
    assert v1.get("/v1/instances?limit=100").status_code == 200


MODEL = '{"name":"numbers","version":1}'
EVENTS: dict[str, Callable[[str, str], str]] = {
    "EntityCreateRequest": lambda _, n: f'"dataFormat":"JSON","payload":{{"model":{MODEL},"data":{{"n":{n}}}}}',
    "EntityUpdateRequest": lambda id_, n: f'"dataFormat":"JSON","payload":{{"entityId":"{id_}","data":{{"n":{n}}}}}',
    "EntityPatchRequest": lambda id_, n: (
        f'"patchFormat":"MERGE_PATCH","payload":{{"entityId":"{id_}","patch":{{"n":{n}}},"ifMatch":"*"}}'
    ),
    "EntitySearchRequest": lambda _, n: f'"model":{MODEL},"condition":{condition(n)}',
}


def refusal_of(send: Callable[[], list[CloudEvent]]) -> str:
    """What is said of a request that is refused, be it by a status."""
    try:
        [answer] = send()
    except grpc.RpcError as refused:
        return str(refused)
    return answer.text_data if '"success":false' in answer.text_data else "it was taken"


@pytest.mark.parametrize("kind", EVENTS)
def test_over_grpc_numbers_have_the_same_limits(
    kind: str, numbers: Api, v1: Api, service: RunningService, tenant: str
) -> None:
    entity = numbers.create({"n": 1}, model="numbers/1").id
    rpcs = Rpcs(service.grpc, a_token(tenant))

    def send(number: str) -> list[CloudEvent]:
        text = f'{{"id":"p",{EVENTS[kind](entity, number)}}}'
        return rpcs.send(CloudEvent(id="ce", type=kind, text_data=text))

    for number in EDGES:
        assert all('"success":true' in answer.text_data for answer in send(number)), number[:20]
    assert len(rpcs.ask("EntityGetAllRequest", model={"name": "numbers", "version": 1}, pageSize=100)) >= 1
    for number in BEYOND:
        assert "number has" in refusal_of(partial(send, number))
    list_all(numbers, v1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), unscaled=st.integers(-(10**30), 10**30), exponent=st.integers(-6200, 6200))
def test_what_any_interface_takes_every_list_survives(
    data: st.DataObject, unscaled: int, exponent: int, numbers: Api, v1: Api
) -> None:
    name = data.draw(st.sampled_from(sorted(DOORS)))
    number = f"{unscaled}e{exponent}"
    entity = numbers.create({"n": 1}, model="numbers/1").id
    response = DOORS[name](numbers, v1, entity, number)
    is_usable = abs(exponent) <= 6144 and abs(Decimal(number).adjusted()) <= 6144
    assert (response.status_code in (200, 201)) == is_usable, f"{number}: {response.status_code} {response.text}"
    if is_usable:
        require_kept(name, response, numbers, v1, number)
    list_all(numbers, v1)


async def test_a_list_survives_a_document_that_older_rules_let_in(
    numbers: Api, v1: Api, service: RunningService
) -> None:
    entity = numbers.create({"n": 1}, model="numbers/1").id
    connection = await asyncpg.connect(service.database)
    try:
        stored = f'{{"n": {"7" * 131_072}}}'
        await connection.execute("UPDATE entity SET document = $1::jsonb WHERE id = $2", stored, entity)
    finally:
        await connection.close()
    list_all(numbers, v1)
    assert numbers.get(f"/entity/{entity}").text.count("7") >= 131_072
