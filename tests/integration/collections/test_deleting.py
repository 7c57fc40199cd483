"""Deleting the entities of a model (docs/reference/entities.md#delete-by-model)."""

import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, manual, when
from tests.service import Api, RunningService, done, eventually, hosted, refused

PATH = "/entity/prize/1"


def years(api: Api, *wanted: int, model: str = "prize/1") -> dict[int, str]:
    """Entities of these years; their ids by year."""
    documents = [SAMPLE | {"year": year} for year in wanted]
    results = done(api.post(f"/entity/JSON/{model}?transactionWindow=1000", documents))
    return dict(zip(wanted, (id_ for result in results for id_ in result["entityIds"]), strict=True))


def left(api: Api, query: str = "") -> list[int]:
    return sorted(entity["data"]["year"] for entity in done(api.get(f"{PATH}?pageSize=1000{query}")))


def counted(matched: int, removed: int | None = None) -> Json:
    return {
        "numberOfEntitites": matched,
        "numberOfEntititesRemoved": matched if removed is None else removed,
        "idToError": {},
    }


def test_without_a_body_every_entity_of_the_model_goes_and_no_other(api: Api) -> None:
    model_id = api.import_model()
    api.lock()
    api.a_model(model="prize/2")
    years(api, 1901, 1902, 1903)
    years(api, 1904, model="prize/2")
    answer = done(api.delete(PATH))
    assert answer == {"entityModelClassId": model_id, "deleteResult": counted(3)}
    assert left(api) == []
    assert len(done(api.get("/entity/prize/2"))) == 1
    assert done(api.delete(PATH))["deleteResult"] == counted(0)


def test_white_space_is_no_body_and_verbose_lists_nothing_then(api: Api) -> None:
    api.a_model()
    years(api, 1901, 1902)
    answer = done(api.delete(f"{PATH}?verbose=true", " \n"))
    assert (answer["deleteResult"], answer["ids"]) == (counted(2), [])


def test_a_condition_chooses_and_verbose_lists_the_ids_it_found(api: Api) -> None:
    api.a_model()
    ids = years(api, 1901, 1902, 1903, 1904)
    answer = done(api.delete(f"{PATH}?verbose=true&transactionSize=1", when("$.year", "GREATER_THAN", 1902)))
    assert answer["deleteResult"] == counted(2)
    assert sorted(answer["ids"]) == sorted([ids[1903], ids[1904]])
    assert left(api) == [1901, 1902]


@pytest.mark.parametrize(
    "condition",
    [
        when("$.motivation", "MATCHES_PATTERN", "keep.*"),
        when("$.motivation", "ICONTAINS", "KEÉP"),
        {"type": "group", "operator": "AND", "conditions": [when("$.motivation", "CONTAINS", "keé")]},
        {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "CREATED"},
    ],
)
def test_every_kind_of_condition_deletes_what_it_finds(api: Api, condition: Json) -> None:
    api.a_model()
    texts = ["keep me", "keéP this", "keépsake of it", "other one"]
    for text in texts:
        api.create(SAMPLE | {"motivation": text})
    found = done(api.post("/search/prize/1", condition))
    answer = done(api.delete(f"{PATH}?verbose=1", condition))
    assert found
    assert answer["ids"] == sorted(entity["meta"]["id"] for entity in found)
    kept = {entity["data"]["motivation"] for entity in done(api.get(PATH))}
    assert kept == set(texts) - {entity["data"]["motivation"] for entity in found}


def test_history_and_audit_remain_and_the_deleter_is_named(api: Api, service: RunningService, tenant: str) -> None:
    api.a_model()
    entity = years(api, 1901)[1901]
    created = api.read(entity)["meta"]
    done(service.api(tenant, "bob").delete(PATH, when("$.year", "EQUALS", 1901)))
    refused(api.get(f"/entity/{entity}"), 404, "ENTITY_NOT_FOUND")
    deletion, creation = done(api.get(f"/entity/{entity}/changes"))
    assert [change["changeType"] for change in (deletion, creation)] == ["DELETE", "CREATE"]
    assert deletion["executedBy"] == {"id": "bob", "kind": "user"}
    assert deletion["user"] == "bob"
    assert api.read(entity, f"?pointInTime={quote(created['lastUpdateTime'])}")["data"]["year"] == 1901
    assert api.read(entity, f"?transactionId={created['transactionId']}")["data"]["year"] == 1901


def test_one_transaction_means_one_instant(api: Api) -> None:
    api.a_model()
    ids = years(api, *range(1500, 2600))
    assert done(api.delete(PATH, when("$.year", "LESS_THAN", 2550)))["deleteResult"] == counted(1050)
    instants = {done(api.get(f"/entity/{ids[year]}/changes"))[0]["timeOfChange"] for year in (1500, 2000, 2549)}
    assert len(instants) == 1
    assert left(api) == list(range(2550, 2600))


def test_the_past_chooses_and_the_present_goes(api: Api) -> None:
    api.a_model()
    ids = years(api, 1901, 1902, 1903)
    instant = quote(api.read(ids[1903])["meta"]["lastUpdateTime"])
    api.update(ids[1901], SAMPLE | {"year": 2001})
    done(api.delete(f"/entity/{ids[1902]}"))
    years(api, 1904)
    answer = done(api.delete(f"{PATH}?pointInTime={instant}&verbose=true", when("$.year", "LESS_THAN", 1903)))
    assert answer["deleteResult"] == counted(2, removed=1)
    assert sorted(answer["ids"]) == sorted([ids[1901], ids[1902]])
    assert left(api) == [1903, 1904]


def test_without_a_condition_the_instant_has_no_effect(api: Api) -> None:
    api.a_model()
    years(api, 1901)
    assert done(api.delete(f"{PATH}?pointInTime=2001-01-01T00:00:00Z"))["deleteResult"] == counted(1)


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("{", "INVALID_CONDITION"),
        ("{}", "INVALID_CONDITION"),
        ("null", "INVALID_CONDITION"),
        ("[]", "INVALID_CONDITION"),
        ({"type": "wish"}, "INVALID_CONDITION"),
        ({"type": "group", "operator": "AND", "conditions": [7]}, "INVALID_CONDITION"),
    ],
)
def test_what_is_no_condition_is_noticed_before_the_model(api: Api, condition: Json, code: str) -> None:
    refused(api.delete("/entity/nowhere/1", condition), 400, code)


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        (when("$.year", "RESEMBLES", 1), "BAD_REQUEST"),
        (when("$.year", "BETWEEN", [1]), "BAD_REQUEST"),
        (when("$.motivation", "MATCHES_PATTERN", "("), "INVALID_CONDITION"),
        (when("$.year", "EQUALS", {"a": 1}), "INVALID_CONDITION"),
        (when("$.nothing", "EQUALS", 1), "INVALID_FIELD_PATH"),
        (
            {"type": "lifecycle", "field": "mood", "operatorType": "EQUALS", "value": "x"},
            "INVALID_FIELD_PATH",
        ),
        (when("$.year", "EQUALS", "many of them"), "CONDITION_TYPE_MISMATCH"),
    ],
)
def test_a_condition_that_does_not_fit_the_model_deletes_nothing(api: Api, condition: Json, code: str) -> None:
    refused(api.delete(PATH, condition), 404, "MODEL_NOT_FOUND")
    api.a_model()
    years(api, 1901)
    refused(api.delete(PATH, condition), 400, code)
    assert left(api) == [1901]


def test_an_unknown_model_is_not_found_and_a_known_one_may_be_empty(api: Api) -> None:
    problem = refused(api.delete(PATH), 404, "MODEL_NOT_FOUND")
    assert problem["properties"] == {"errorCode": "MODEL_NOT_FOUND"}
    api.import_model()
    assert done(api.delete(PATH))["deleteResult"] == counted(0)


@pytest.mark.parametrize("query", ["transactionSize=x", "verbose=perhaps", "pointInTime=yesterday"])
def test_parameters_without_effect_must_bind_all_the_same(api: Api, query: str) -> None:
    problem = refused(api.delete(f"{PATH}?{query}", "{"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == query.partition("=")[0]


def test_a_scan_over_the_budget_is_refused(database_template) -> None:
    with hosted(database_template.clone(), search_scan_budget=5) as service:
        api = service.api("scanning")
        api.a_model()
        years(api, *range(1901, 1911))
        inexact = when("$.motivation", "MATCHES_PATTERN", ".*light")
        refused(api.delete(PATH, inexact), 400, "SCAN_BUDGET_EXHAUSTED")
        assert len(left(api)) == 10
        assert done(api.delete(PATH, when("$.year", "GREATER_THAN", 1)))["deleteResult"] == counted(10)


# Inside a transaction.


def test_a_joined_deletion_sees_and_ends_with_the_transaction(api: Api, serving, callback) -> None:
    api.a_model()
    api.a_model(
        a_workflow(NEW=[manual("GO", to="DONE", processors=[a_processor()])], DONE=[]), model="task/1", sample={"n": 1}
    )
    ids = years(api, 1901, 1902, 1903)
    instant = quote(api.read(ids[1903])["meta"]["lastUpdateTime"])
    node, fails, seen = Node(tags=["node"]), [True], []

    @node.processor("enrich")
    def enrich(document, context):
        joined = callback(context)
        joined.update(ids[1901], SAMPLE | {"year": 2001})
        new = years(joined, 2002)[2002]
        answer = done(joined.delete(f"{PATH}?verbose=true", when("$.year", "GREATER_THAN", 2000)))
        assert (answer["deleteResult"], sorted(answer["ids"])) == (counted(2), sorted([ids[1901], new]))
        assert left(joined) == [1902, 1903]
        past = done(joined.delete(f"{PATH}?pointInTime={instant}&verbose=true", when("$.year", "LESS_THAN", 1903)))
        assert past["deleteResult"] == counted(2, removed=1)
        assert done(joined.delete(PATH))["deleteResult"] == counted(1)
        assert left(joined) == []
        seen.append(left(api))
        if fails[0]:
            raise ValueError("boom")
        return document

    serving(node)
    task = api.create({"n": 1}, model="task/1").id
    refused(api.put(f"/entity/JSON/{task}/GO", {"n": 1}), 400, "WORKFLOW_FAILED")
    assert left(api) == [1901, 1902, 1903]
    fails[0] = False
    done(api.put(f"/entity/JSON/{task}/GO", {"n": 1}))
    assert left(api) == []
    assert seen == [[1901, 1902, 1903]] * 2


# Concurrency.


def test_deletions_and_writers_of_the_same_entities_never_lose_an_update(api: Api) -> None:
    api.a_model(sample={"n": 1, "round": 1})
    stop = threading.Event()

    def write(n: int) -> list[str]:
        alive = []
        for round_ in range(15):
            response = api.post("/entity/JSON/prize/1", {"n": n, "round": round_})
            entity = done(response)[0]["entityIds"][0]
            codes = [api.put(f"/entity/JSON/{entity}", {"n": n, "round": 100}).status_code for _ in range(3)]
            assert set(codes) <= {200, 404, 409}, codes
            alive.append(entity)
        return alive

    def delete() -> int:
        removed = 0
        while not stop.is_set():
            for condition in ("", when("$.round", "LESS_THAN", 50), when("$.n", "NOT_EQUAL", 999)):
                response = api.delete(PATH, condition)
                assert response.status_code in (200, 409), response.text
                if response.status_code == 200:
                    removed += response.json()["deleteResult"]["numberOfEntititesRemoved"]
        return removed

    with ThreadPoolExecutor(6) as clients:
        deleting = [clients.submit(delete) for _ in range(2)]
        written = [entity for entities in clients.map(write, range(4)) for entity in entities]
        stop.set()
        removed = sum(deletion.result() for deletion in deleting)
    present = {entity["meta"]["id"] for entity in done(api.get(f"{PATH}?pageSize=1000"))}
    for entity in written:
        kinds = [change["changeType"] for change in done(api.get(f"/entity/{entity}/changes"))]
        assert (kinds[0] == "DELETE") == (entity not in present)
        assert kinds.count("DELETE") <= 1
        assert kinds[-1] == "CREATE"
    assert removed == len(written) - len(present)


def test_a_deleted_model_frees_its_unique_keys_also_for_entities_that_were_just_rekeyed(api: Api) -> None:
    api.import_model(sample={"n": 1})
    done(api.put("/model/prize/1/unique-keys", {"uniqueKeys": [{"id": "k", "fields": ["$.n"]}]}))
    api.lock()

    def work(n: int) -> None:
        for round_ in range(20):
            response = api.post("/entity/JSON/prize/1", {"n": n})
            if response.status_code == 200:
                api.put(f"/entity/JSON/{response.json()[0]['entityIds'][0]}", {"n": 100 + n * 50 + round_})
            if n == 0:
                assert api.delete(PATH).status_code in (200, 409)

    with ThreadPoolExecutor(5) as clients:
        list(clients.map(work, range(5)))
    eventually(lambda: api.delete(PATH).status_code == 200)
    wanted = [*range(5), *range(100, 400)]
    [result] = done(api.post("/entity/JSON/prize/1?transactionWindow=1000", [{"n": n} for n in wanted]))
    assert len(result["entityIds"]) == len(wanted)


@pytest.mark.parametrize(
    "leaf",
    [
        {"type": "simple", "operatorType": "IS_NULL"},
        {"type": "simple", "jsonPath": None, "operatorType": "IS_NULL"},
        {"type": "simple", "jsonPath": "", "operatorType": "EQUALS", "value": 1},
        {"type": "array", "values": [None]},
    ],
)
@pytest.mark.parametrize("grouped", [False, True])
def test_a_part_without_a_path_deletes_nothing(api: Api, leaf: Json, grouped: bool) -> None:
    """It is true of every entity, or of none, and in a search it may be so (decision S16)."""
    api.a_model()
    years(api, 1901, 1902)
    condition = {"type": "group", "operator": "AND", "conditions": [when("$.year", "GREATER_THAN", 1), leaf]}
    problem = refused(api.delete(PATH, condition if grouped else leaf), 400, "INVALID_CONDITION")
    assert "needs a jsonPath" in problem["detail"]
    assert left(api) == [1901, 1902]


def test_a_search_takes_a_part_without_a_path(api: Api) -> None:
    api.a_model()
    years(api, 1901)
    assert len(done(api.post("/search/prize/1", {"type": "simple", "operatorType": "IS_NULL"}))) == 1
