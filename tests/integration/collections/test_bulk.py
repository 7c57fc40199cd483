"""Bulk creation over REST: a large array is copied, and is what so many single creates would be."""

import json
from concurrent.futures import ThreadPoolExecutor

from statewright.sdk import Node
from statewright.storage.commit.statement import MIN_COPY_ROWS
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, when
from tests.service import Api, done, names, refused

PATH = "/entity/JSON/prize/1"
MANY = 2 * MIN_COPY_ROWS + 10
"""Two chunks of a copy's size and a rest that is not."""


def prizes(count: int, **members: Json) -> list[Json]:
    return [SAMPLE | {"year": 1901 + n} | members for n in range(count)]


def post(api: Api, documents: list[Json], window: int = MIN_COPY_ROWS, path: str = PATH) -> list[Json]:
    return list(done(api.post(f"{path}?transactionWindow={window}", documents)))


def ids_of(results: list[Json]) -> list[str]:
    return [id_ for result in results for id_ in result["entityIds"]]


CASCADE = a_workflow(
    NEW=[automated("SORT", to="OLD", criterion=when("$.year", "LESS_THAN", 1950)), automated("TAKE", to="RECENT")],
    OLD=[],
    RECENT=[automated("SETTLE", to="SETTLED")],
    SETTLED=[],
)


def test_many_at_once_are_what_so_many_creates_would_be(api: Api) -> None:
    api.a_model(CASCADE)
    results = post(api, prizes(MANY))
    assert [len(result["entityIds"]) for result in results] == [MIN_COPY_ROWS, MIN_COPY_ROWS, 10]
    ids = ids_of(results)
    for n in (0, 30, 48, 49, MIN_COPY_ROWS, MANY - 1):
        many, alone = api.read(ids[n]), api.read(api.create(SAMPLE | {"year": 1901 + n}).id)
        assert many["data"] == alone["data"]
        assert many["meta"].keys() == alone["meta"].keys()
        assert many["meta"]["state"] == alone["meta"]["state"] == ("OLD" if n < 49 else "SETTLED")
        assert many["meta"]["creationDate"] == many["meta"]["lastUpdateTime"]
        trails = [api.events(one["meta"]["id"], one["meta"]["transactionId"]) for one in (many, alone)]
        assert names(trails[0]) == names(trails[1])
        assert [event["details"] for event in trails[0]] == [event["details"] for event in trails[1]]
        assert [change["changeType"] for change in done(api.get(f"/entity/{ids[n]}/changes"))] == ["CREATE"]
        found = api.read(ids[n], f"?pointInTime={many['meta']['creationDate']}")
        assert found["data"] == many["data"]
        assert api.read(ids[n], f"?transactionId={many['meta']['transactionId']}")["data"] == many["data"]
    assert len(done(api.get(f"/entity/prize/1?pageSize={2 * MANY}"))) == MANY + 6


def test_a_later_chunk_that_fails_leaves_nothing_of_itself(api: Api) -> None:
    api.a_model()
    documents = prizes(MANY)
    documents[2 * MIN_COPY_ROWS - 1] = {"year": "soon"}
    first, failed = post(api, documents)
    assert len(first["entityIds"]) == MIN_COPY_ROWS
    assert failed["error"]["code"] == "INCOMPATIBLE_TYPE"
    assert f"item {MIN_COPY_ROWS - 1}:" in failed["error"]["message"]
    assert failed["error"]["chunkIndex"] == 1
    assert len(done(api.get("/entity/prize/1?pageSize=1000"))) == MIN_COPY_ROWS


def test_a_unique_key_stops_its_chunk_alone(api: Api) -> None:
    api.import_model("prize/1")
    done(api.put("/model/prize/1/unique-keys", {"uniqueKeys": [{"id": "by-year", "fields": ["$.year"]}]}))
    api.lock()
    api.create(SAMPLE | {"year": 1901 + MIN_COPY_ROWS + 3})
    first, failed = post(api, prizes(MANY))
    assert len(first["entityIds"]) == MIN_COPY_ROWS
    assert failed["error"]["code"] == "UNIQUE_VIOLATION"
    refused(api.post(f"{PATH}?transactionWindow={MIN_COPY_ROWS}", prizes(MIN_COPY_ROWS)), 409, "UNIQUE_VIOLATION")
    [freed] = post(api, prizes(MIN_COPY_ROWS, year=None))  # no key at all
    assert len(freed["entityIds"]) == MIN_COPY_ROWS
    assert len(done(api.get("/entity/prize/1?pageSize=1000"))) == 2 * MIN_COPY_ROWS + 1


def test_two_requests_for_the_same_keys_write_one_of_each(api: Api) -> None:
    api.import_model("prize/1")
    done(api.put("/model/prize/1/unique-keys", {"uniqueKeys": [{"id": "by-year", "fields": ["$.year"]}]}))
    api.lock()
    with ThreadPoolExecutor(2) as clients:
        path = f"{PATH}?transactionWindow={MIN_COPY_ROWS}"
        answers = list(clients.map(lambda _: api.post(path, prizes(MIN_COPY_ROWS)), range(2)))
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert len(done(api.get("/entity/prize/1?pageSize=1000"))) == MIN_COPY_ROWS


def test_copied_documents_teach_their_model(api: Api) -> None:
    api.a_model()
    done(api.post("/model/prize/1/changeLevel/STRUCTURAL"))
    documents = [SAMPLE | {f"field{n % 7}": n} for n in range(MIN_COPY_ROWS)]
    post(api, documents)
    export = done(api.get("/model/export/SIMPLE_VIEW/prize/1"))["model"]["$"]
    assert {name: kind for name, kind in export.items() if name.startswith(".field")} == {
        f".field{n}": "INTEGER" for n in range(7)
    }


def test_numbers_keep_their_digits(api: Api) -> None:
    digits = "12345678901234567890123456789012345678.000000000000000000000000000000000000001"
    api.a_model(sample=f'{{"n": {digits}}}')
    body = "[" + ",".join(f'{{"n": {digits}}}' for _ in range(MIN_COPY_ROWS)) + "]"
    [result] = done(api.post(PATH, body))
    assert digits in api.get(f"/entity/{result['entityIds'][-1]}").text


def test_items_of_many_models_are_copied_together(api: Api) -> None:
    api.a_model()
    api.a_model(model="other/1", sample={"a": 1})
    items = [
        {"model": {"name": name, "version": 1}, "payload": json.dumps(document)}
        for name, document in [("prize", SAMPLE), ("other", {"a": 2})] * MIN_COPY_ROWS
    ]
    [result] = done(api.post("/entity/JSON?transactionWindow=1000", items))
    assert [api.read(id_)["meta"]["modelKey"]["name"] for id_ in result["entityIds"][:4]] == ["prize", "other"] * 2
    assert done(api.get("/entity/stats/other/1"))["count"] == MIN_COPY_ROWS


def test_items_with_processors_are_copied_when_they_have_answered(api: Api, serving) -> None:
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document: Json) -> Json:
        return document | {"motivation": "enriched"}

    serving(node)
    api.a_model(a_workflow(NEW=[automated("ENRICH", to="DONE", processors=[a_processor()])], DONE=[]))
    [result] = post(api, prizes(MIN_COPY_ROWS))
    assert {api.read(id_)["data"]["motivation"] for id_ in result["entityIds"][::20]} == {"enriched"}
