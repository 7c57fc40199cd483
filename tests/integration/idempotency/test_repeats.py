"""A request that is repeated with its ``Idempotency-Key`` has its effect once
(docs/reference/operations.md#idempotent-requests).
"""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from statewright.operations.idempotency import KeyScope
from statewright.storage.idempotency import KeyReader, StoredKey
from tests.builders import SAMPLE, a_workflow, manual
from tests.integration.ops.builders import ops_api
from tests.service import Api, RunningService, done, refused

LIFE = a_workflow(HERE=[manual("GO", to="THERE")], THERE=[])


def replayed(response: httpx.Response) -> bool:
    return response.headers.get("idempotency-replayed") == "true"


def same(first: httpx.Response, again: httpx.Response) -> bool:
    """Whether the second is the first once more, and says so."""
    media = [answer.headers.get("content-type") for answer in (first, again)]
    is_same = (first.status_code, first.content, media[0]) == (again.status_code, again.content, media[1])
    return is_same and not replayed(first) and replayed(again)


def entities(api: Api, model: str = "prize/1") -> int:
    return len(done(api.get(f"/entity/{model}?pageSize=1000")))


def test_a_create_happens_once(api: Api) -> None:
    api.a_model(LIFE)
    first, again = (api.post("/entity/JSON/prize/1", SAMPLE, Idempotency_Key="k1") for _ in range(2))
    assert done(first)
    assert same(first, again)
    assert entities(api) == 1


def test_quoted_and_bare_keys_are_the_same(api: Api) -> None:
    api.a_model(LIFE)
    assert same(
        api.post("/entity/JSON/prize/1", SAMPLE, Idempotency_Key='"k-1"'),
        api.post("/entity/JSON/prize/1", SAMPLE, Idempotency_Key="k-1"),
    )


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, '"', '"a', '""'])
def test_what_is_no_key_is_refused(api: Api, key: str) -> None:
    api.a_model(LIFE)
    problem = refused(api.post("/entity/JSON/prize/1", SAMPLE, Idempotency_Key=key), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "Idempotency-Key"
    assert entities(api) == 0


def test_another_request_with_the_key_is_refused(api: Api) -> None:
    api.a_model(LIFE)
    done(api.post("/entity/JSON/prize/1", {"year": 1}, Idempotency_Key="k"))
    refused(api.post("/entity/JSON/prize/1", {"year": 2}, Idempotency_Key="k"), 409, "IDEMPOTENCY_CONFLICT")
    elsewhere = api.post("/entity/JSON/prize/1?transactionWindow=7", {"year": 1}, Idempotency_Key="k")
    refused(elsewhere, 409, "IDEMPOTENCY_CONFLICT")
    again = api.post("/entity/JSON/prize/1?waitForConsistencyAfter=true", {"year": 1}, Idempotency_Key="k")
    assert replayed(again)


def test_a_refusal_leaves_the_key_free(api: Api) -> None:
    api.a_model(LIFE)
    refused(api.post("/entity/JSON/prize/1", b"{", Idempotency_Key="k"), 400, "BAD_REQUEST")
    first, again = (api.post("/entity/JSON/prize/1", SAMPLE, Idempotency_Key="k") for _ in range(2))
    assert same(first, again)


def test_keys_of_tenants_and_principals_are_their_own(service: RunningService, tenant: str) -> None:
    callers = [service.api(tenant, "ann"), service.api(tenant, "bob"), service.api(f"{tenant}-x", "ann")]
    callers[0].a_model(LIFE)
    callers[2].a_model(LIFE)
    answers = [each.post("/entity/JSON/prize/1", SAMPLE, Idempotency_Key="k") for each in callers]
    assert len({done(answer)[0]["entityIds"][0] for answer in answers}) == 3
    assert not any(map(replayed, answers))


def test_every_write_of_an_entity_is_repeated(api: Api) -> None:
    api.a_model(LIFE)
    entity = api.create().id
    path = f"/entity/JSON/{entity}"
    merge = {"Content_Type": "application/merge-patch+json", "If_Match": "*"}
    version = api.read(entity)["meta"]["transactionId"]
    for number, (method, where, body, headers) in enumerate(
        [
            ("PUT", path, {"year": 5}, {"If_Match": version}),
            ("PATCH", path, {"year": 6}, merge),
            ("PUT", f"{path}/GO", {"year": 7}, {}),
            ("DELETE", f"/entity/{entity}", b"", {}),
        ]
    ):
        first, again = (api.request(method, where, body, Idempotency_Key=f"k{number}", **headers) for _ in range(2))
        done(first)
        assert same(first, again)
    changes = [change["changeType"] for change in done(api.get(f"/entity/{entity}/changes"))]
    assert changes == ["DELETE", "UPDATE", "UPDATE", "UPDATE", "CREATE"]


def test_a_transition_by_name_and_a_mass_deletion_are_repeated(api: Api) -> None:
    api.a_model(LIFE)
    entity = api.create().id
    fire = f"/platform-api/entity/transition?entityId={entity}&transitionName=GO"
    assert same(*(api.put(fire, Idempotency_Key="fire") for _ in range(2)))
    first = api.delete("/entity/prize/1", Idempotency_Key="all")
    api.create()
    assert same(first, api.delete("/entity/prize/1", Idempotency_Key="all"))
    assert entities(api) == 1


def test_of_many_at_once_one_is_carried_out(api: Api) -> None:
    api.a_model(LIFE)
    with ThreadPoolExecutor(16) as crowd:
        answers = list(crowd.map(lambda _: api.post("/entity/JSON/prize/1", SAMPLE, Idempotency_Key="k"), range(40)))
    assert {answer.content for answer in answers} == {answers[0].content}
    assert sum(map(replayed, answers)) == 39
    assert entities(api) == 1


def test_the_first_request_with_a_key_looks_for_no_record(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, find = [], KeyReader.find

    async def count(reader: KeyReader, scope: KeyScope) -> StoredKey | None:
        asked.append(scope)
        return await find(reader, scope)

    monkeypatch.setattr(KeyReader, "find", count)
    api.a_model(LIFE)
    first = api.post("/entity/JSON/prize/1", SAMPLE, Idempotency_Key="k")
    assert asked == []
    assert same(first, api.post("/entity/JSON/prize/1", SAMPLE, Idempotency_Key="k"))
    assert len(asked) == 1
    assert entities(api) == 1


def test_what_became_of_the_first_request_does_not_count_against_its_repeat(api: Api) -> None:
    api.a_model(LIFE)
    entity = api.create().id
    requests = [
        ("POST", "/entity/JSON/prize/1", SAMPLE),
        ("PUT", f"/entity/JSON/{entity}/GO", {"year": 7}),
        ("DELETE", f"/entity/{entity}", b""),
    ]
    firsts = [api.request(*request, Idempotency_Key=f"k{n}") for n, request in enumerate(requests)]
    done(api.delete("/entity/prize/1"))
    done(api.put("/model/prize/1/unlock"))
    for n, request in enumerate(requests):
        assert same(firsts[n], api.request(*request, Idempotency_Key=f"k{n}"))


def test_a_search_takes_a_key_and_makes_nothing_of_it(api: Api) -> None:
    api.a_model(LIFE)
    condition = {"type": "group", "operator": "AND", "conditions": []}
    answers = [api.post("/search/prize/1", condition, Idempotency_Key="k") for _ in range(2)]
    assert not any(map(replayed, answers))
    refused(api.post("/search/prize/1", condition, Idempotency_Key="a b"), 400, "BAD_REQUEST")


def test_collections_are_repeated(api: Api) -> None:
    api.a_model(LIFE)
    items = [{"year": year} for year in range(7)]
    path = "/entity/JSON/prize/1?transactionWindow=3"
    first, again = (api.post(path, items, Idempotency_Key="k") for _ in range(2))
    assert [len(element["entityIds"]) for element in done(first)] == [3, 3, 1]
    assert same(first, again)
    assert entities(api) == 7


def test_a_collection_that_ends_with_an_error_is_stored_as_it_is(api: Api) -> None:
    api.a_model(LIFE, sample={"year": 1})
    items = [{"year": 1}, {"year": 2}, {"year": {"wrong": True}}, {"year": 3}]
    path = "/entity/JSON/prize/1?transactionWindow=2"
    first, again = (api.post(path, items, Idempotency_Key="k") for _ in range(2))
    assert "error" in done(first)[1]
    assert same(first, again)
    assert entities(api) == 2


@pytest.mark.parametrize("change", ["lock", "delete", "import", "workflows"])
def test_administration_is_repeated(api: Api, change: str) -> None:
    api.import_model()
    life = {"importMode": "REPLACE", "workflows": [LIFE]}
    requests = {
        "lock": ("PUT", "/model/prize/1/lock", b""),
        "delete": ("DELETE", "/model/prize/1", b""),
        "import": ("POST", "/model/import/JSON/SAMPLE_DATA/other/1", SAMPLE),
        "workflows": ("POST", "/model/prize/1/workflow/import", life),
    }
    method, path, body = requests[change]
    first, again = (api.request(method, path, body, Idempotency_Key="k") for _ in range(2))
    done(first)
    assert same(first, again)


def test_what_administration_refuses_leaves_nothing(api: Api) -> None:
    api.a_model(LIFE)
    refused(api.put("/model/prize/1/lock", Idempotency_Key="k"), 409, "MODEL_ALREADY_LOCKED")
    done(api.put("/model/prize/1/unlock", Idempotency_Key="k"))


def test_a_model_locked_with_a_key_is_locked_for_the_next_request(api: Api) -> None:
    for number in range(20):
        model = f"prize/{number + 1}"
        api.import_model(model)
        api.post(f"/entity/JSON/{model}", SAMPLE)  # it is cached unlocked
        done(api.post(f"/model/{model}/workflow/import", {"importMode": "REPLACE", "workflows": [LIFE]}))
        done(api.put(f"/model/{model}/lock", Idempotency_Key=f"lock-{number}"))
        assert api.state(api.create(model=model).id) == "HERE"


def test_the_operations_api_takes_keys_too(service: RunningService, tenant: str) -> None:
    assert done(ops_api(service, tenant).get("", Idempotency_Key="k"))
