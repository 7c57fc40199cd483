"""Models that learn from the documents they accept (docs/reference/models.md#set-the-change-level,
docs/reference/models.md#change-level; decision S5).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual
from tests.service import Api, RunningService, Saved, done, hosted, refused

LEVELS = ("ARRAY_LENGTH", "ARRAY_ELEMENTS", "TYPE", "STRUCTURAL")
UNKNOWN_MODEL = {"entityName": "prize", "entityVersion": 1}


def set_level(api: Api, level: str, model: str = "prize/1") -> Json:
    return done(api.post(f"/model/{model}/changeLevel/{level}"))


def a_growing_model(api: Api, *workflows: Json, level: str = "STRUCTURAL", sample: Json = SAMPLE) -> str:
    model = api.a_model(*workflows, sample=sample)
    set_level(api, level, model)
    return model


def exported(api: Api, model: str = "prize/1") -> str:
    return api.get(f"/model/export/SIMPLE_VIEW/{model}").text


def fields(api: Api, model: str = "prize/1") -> Json:
    return done(api.get(f"/model/export/SIMPLE_VIEW/{model}"))["model"]["$"]


# The endpoint.


@pytest.mark.parametrize("level", LEVELS)
def test_a_change_level_may_be_set_in_either_state_and_any_number_of_times(api: Api, level: str) -> None:
    api.import_model()
    answer = set_level(api, level)
    assert answer["message"] == f"model prize:1 now at change level {level}"
    assert (answer["success"], answer["modelKey"]) == (True, {"name": "prize", "version": 1})
    api.lock()
    assert set_level(api, "ARRAY_LENGTH")["success"]
    assert set_level(api, level)["success"]


@pytest.mark.parametrize("level", ["structural", "NONE", "", "%20TYPE"])
def test_any_other_level_is_refused_with_the_valid_ones(api: Api, level: str) -> None:
    api.import_model()
    response = api.post(f"/model/prize/1/changeLevel/{level}")
    if not level:
        assert response.status_code == 404
        return
    problem = refused(response, 400, "INVALID_CHANGE_LEVEL")
    supplied = level.replace("%20", " ")
    assert problem["properties"] == UNKNOWN_MODEL | {
        "errorCode": "INVALID_CHANGE_LEVEL",
        "suppliedValue": supplied,
        "validValues": list(LEVELS),
    }
    assert problem["detail"] == (
        f'INVALID_CHANGE_LEVEL: invalid change level "{supplied}"; '
        "valid values: ARRAY_LENGTH, ARRAY_ELEMENTS, TYPE, STRUCTURAL"
    )


def test_an_unknown_model_is_noticed_before_the_level(api: Api) -> None:
    problem = refused(api.post("/model/prize/1/changeLevel/nonsense"), 404, "MODEL_NOT_FOUND")
    assert problem["properties"] == UNKNOWN_MODEL | {"errorCode": "MODEL_NOT_FOUND"}


def test_the_level_moves_neither_state_nor_update_date(api: Api) -> None:
    api.a_model()
    before = done(api.get("/model/"))
    set_level(api, "TYPE")
    api.create({"year": "soon", "category": "peace"})
    assert done(api.get("/model/")) == before


# What each level lets through: the matrix of docs/reference/models.md#what-each-level-lets-through.

MATRIX = [
    ("a field that is absent", {"a": 1, "b": 2}, {"a": 1}, "+++++"),
    ("a new field", {"a": 1}, {"a": 1, "b": 2}, "----g"),
    ("a new field inside array elements", {"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, "----g"),
    ("a scalar of exactly the stored type", {"a": 1}, {"a": 2}, "+++++"),
    ("a narrower scalar", {"a": 1.5}, {"a": 2}, "+--++"),
    ("one of several types", {"v": [{"a": 1}, {"a": "x y"}]}, {"v": [{"a": "x y"}]}, "+--++"),
    ("null for a scalar", {"a": 1}, {"a": None}, "+--++"),
    ("a wider number", {"a": 1}, {"a": 1.5}, "i--gg"),
    ("a text for a number", {"a": 1}, {"a": "x y"}, "i--gg"),
    ("a date for a text", {"a": "x y"}, {"a": "2024-05-01"}, "i--gg"),
    ("a scalar where only null was seen", {"a": None}, {"a": 1}, "i--gg"),
    ("null for an object", {"a": {"b": 1}}, {"a": None}, "---nn"),
    ("null for an array", {"a": [1]}, {"a": None}, "---nn"),
    ("scalars of the same types with a null", {"a": [1]}, {"a": [1, 2, None]}, "+++++"),
    ("an empty array of scalars", {"a": [1]}, {"a": []}, "+-+++"),
    ("assignable scalars in an array", {"a": [1.5]}, {"a": [2]}, "+-+++"),
    ("new types of scalars in an array", {"a": [1]}, {"a": ["x y"]}, "i-ggg"),
    ("scalars where only [] was seen", {"a": []}, {"a": [1]}, "i-ggg"),
    ("a null among objects", {"a": [{"b": 1}]}, {"a": [{"b": 1}, None]}, "-nnnn"),
    ("an empty array of objects", {"a": [{"b": 1}]}, {"a": []}, "+-nnn"),
    ("only null in an array of objects", {"a": [{"b": 1}]}, {"a": [None]}, "--nnn"),
    ("another type inside array elements", {"a": [{"b": 1}]}, {"a": [{"b": "x y"}]}, "i--gg"),
    ("an object for a scalar", {"a": 1}, {"a": {"b": 1}}, "-PPPP"),
    ("a scalar for an object", {"a": {"b": 1}}, {"a": 1}, "-PPPP"),
    ("an array for an object", {"a": {"b": 1}}, {"a": [1]}, "-PPPP"),
    ("a scalar in a mixed slot", {"v": [{"a": {"b": 1}}, {"a": "x y"}]}, {"v": [{"a": "x y"}]}, "+PPPP"),
    ("an object where only null was seen", {"a": None}, {"a": {"b": 1}}, "-----"),
    ("objects where only [] was seen", {"a": []}, {"a": [{"b": 1}]}, "-----"),
]
"""Sample, document, and the outcome at no level and at each of the four.

+ accepted, g learnt, n learnt but not shown, - refused, i incompatible type, P polymorphic slot.
"""

OUTCOMES = {"-": "BAD_REQUEST", "i": "INCOMPATIBLE_TYPE", "P": "POLYMORPHIC_SLOT"}


@pytest.mark.parametrize("column", range(5))
@pytest.mark.parametrize(("sample", "document", "row"), [case[1:] for case in MATRIX], ids=[case[0] for case in MATRIX])
def test_the_matrix_of_changes(api: Api, sample: Json, document: Json, row: str, column: int) -> None:
    api.a_model(sample=sample)
    if column:
        set_level(api, LEVELS[column - 1])
    before = exported(api)
    response = api.post("/entity/JSON/prize/1", document)
    if row[column] in OUTCOMES:
        refused(response, 400, OUTCOMES[row[column]])
        assert done(api.get("/entity/prize/1")) == []
    else:
        done(response)
        assert done(api.get("/entity/prize/1"))[0]["data"] == document
    assert (exported(api) != before) == (row[column] == "g")
    if row[column] == "n":  # whoever holds it against the model strictly sees what was learnt
        assert done(api.post("/model/validate/prize/1", document))["success"]


def test_a_level_violation_names_place_and_levels(api: Api) -> None:
    a_growing_model(api, level="TYPE")
    problem = refused(api.post("/entity/JSON/prize/1", {"extra": 1}), 400, "BAD_REQUEST")
    assert problem["detail"] == (
        'BAD_REQUEST: change level violation: new field "extra" at .extra '
        'requires STRUCTURAL level, but level is "TYPE"'
    )


# Growth belongs to the transaction of its document.


def test_what_a_document_taught_shows_in_the_very_next_request(api: Api) -> None:
    model = a_growing_model(api, sample={"name": "a b", "amount": 1})
    api.create({"name": "b c", "amount": 2.5, "vip": True})
    assert exported(api, model) == (
        '{"currentState":"LOCKED","model":{"$":{".amount":"DOUBLE",".name":"STRING",".vip":"BOOLEAN"}}}'
    )
    assert done(api.post(f"/model/validate/{model}", {"vip": False}))["success"]


def test_a_full_update_teaches_too(api: Api) -> None:
    a_growing_model(api)
    entity = api.create().id
    api.update(entity, {"category": "peace", "laureates": ["a b"]})
    assert fields(api)[".laureates[*]"] == "STRING"


def test_a_create_that_fails_in_its_workflow_teaches_nothing(api: Api) -> None:
    unanswered = a_processor(tags="nobody")
    a_growing_model(api, a_workflow(NEW=[automated("GO", to="DONE", processors=[unanswered])], DONE=[]))
    before = exported(api)
    refused(api.post("/entity/JSON/prize/1", SAMPLE | {"extra": 1}), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert exported(api) == before


def test_an_update_with_a_stale_if_match_teaches_nothing(api: Api) -> None:
    a_growing_model(api)
    created = api.create()
    api.update(created.id)
    before = exported(api)
    response = api.put(f"/entity/JSON/{created.id}", SAMPLE | {"extra": 1}, If_Match=created.transaction)
    refused(response, 412, "ENTITY_MODIFIED")
    assert exported(api) == before


def test_a_violated_unique_key_teaches_nothing(api: Api) -> None:
    api.import_model()
    done(api.put("/model/prize/1/unique-keys", {"uniqueKeys": [{"id": "k", "fields": ["$.category"]}]}))
    api.lock()
    set_level(api, "STRUCTURAL")
    api.create()
    before = exported(api)
    refused(api.post("/entity/JSON/prize/1", SAMPLE | {"extra": 1}), 409, "UNIQUE_VIOLATION")
    assert exported(api) == before


def test_growth_that_would_break_a_unique_key_is_refused(api: Api) -> None:
    api.import_model(sample={"a": None, "b": 1})
    done(api.put("/model/prize/1/unique-keys", {"uniqueKeys": [{"id": "k", "fields": ["$.a"]}]}))
    api.lock()
    set_level(api, "STRUCTURAL")
    problem = refused(api.post("/entity/JSON/prize/1", {"a": {"x": 1}}), 422, "INVALID_UNIQUE_KEY_DEFINITION")
    assert "schema change would invalidate a composite unique key: " in problem["detail"]
    assert problem["properties"] == {"errorCode": "INVALID_UNIQUE_KEY_DEFINITION"}


def test_documents_of_one_transaction_are_held_against_what_it_has_learnt_itself(api: Api) -> None:
    a_growing_model(api)
    before = exported(api)
    response = api.post("/entity/JSON/prize/1", [{"extra": 1}, {"extra": {"a": 1}}])
    assert "item 1: " in refused(response, 400, "POLYMORPHIC_SLOT")["detail"]
    assert exported(api) == before
    done(api.post("/entity/JSON/prize/1", [{"extra": 1}, {"extra": "a b"}]))
    assert fields(api)[".extra"] == "[INTEGER, STRING]"


def test_what_a_callback_teaches_comes_and_goes_with_the_transaction_it_joined(api: Api, serving, callback) -> None:
    a_growing_model(api)
    flow = a_workflow(NEW=[manual("GO", to="DONE", processors=[a_processor()])], DONE=[])
    api.a_model(flow, model="order/1")
    node, fails = Node(tags=["node"]), [True]

    @node.processor("enrich")
    def enrich(document, context):
        callback(context).create(SAMPLE | {"extra": 1})
        callback(context).create({"extra": "known by now"})
        if fails[0]:
            raise ValueError("boom")
        return document

    serving(node)
    order, before = api.create(model="order/1").id, exported(api)
    refused(api.put(f"/entity/JSON/{order}/GO", SAMPLE), 400, "WORKFLOW_FAILED")
    assert exported(api) == before
    fails[0] = False
    api.update(order, fire="GO")
    assert fields(api)[".extra"] == "[INTEGER, STRING]"


def test_a_segment_commits_what_was_learnt_before_it(api: Api) -> None:
    processor = a_processor(mode="COMMIT_BEFORE_DISPATCH", tags="nobody")
    a_growing_model(api, a_workflow(NEW=[automated("GO", to="DONE", processors=[processor])], DONE=[]))
    api.post("/entity/JSON/prize/1", SAMPLE | {"extra": 1})
    [entity] = done(api.get("/entity/prize/1"))
    assert entity["data"]["extra"] == 1
    assert fields(api)[".extra"] == "INTEGER"


# Concurrency.


def a_serial_run(api: Api, documents: list[Json]) -> str:
    model = api.a_model(model="serial/1")
    set_level(api, "STRUCTURAL", model)
    for document in documents:
        api.create(document, model=model)
    return exported(api, model)


def test_parallel_creates_that_each_teach_a_field_all_succeed_and_end_like_a_serial_run(api: Api) -> None:
    documents = [SAMPLE | {f"field{n}": n, "shared": [n, "a b", 0.5][n % 3]} for n in range(64)]
    a_growing_model(api)
    with ThreadPoolExecutor(64) as clients:
        responses = list(clients.map(lambda document: api.post("/entity/JSON/prize/1", document), documents))
    assert {response.status_code for response in responses} == {200}
    assert exported(api) == a_serial_run(api, documents)
    assert done(api.get("/entity/stats/prize/1"))["count"] == 64


def test_of_two_documents_that_contradict_each_other_one_is_refused_as_if_it_had_come_later(api: Api) -> None:
    a_growing_model(api)
    documents = [SAMPLE | {"extra": 1}, SAMPLE | {"extra": {"a": 1}}]
    with ThreadPoolExecutor(8) as clients:
        responses = list(clients.map(lambda document: api.post("/entity/JSON/prize/1", document), documents * 4))
    codes = {response.status_code for response in responses}
    assert codes == {200, 400}
    assert {response.json()["properties"]["errorCode"] for response in responses if response.status_code == 400} == {
        "POLYMORPHIC_SLOT"
    }
    assert len({str(type(entity["data"]["extra"])) for entity in done(api.get("/entity/prize/1"))}) == 1


def test_growth_and_updates_of_the_same_entities_do_not_block_each_other_for_ever(api: Api) -> None:
    a_growing_model(api)
    entities = [api.create().id for _ in range(4)]

    def write(n: int) -> int:
        document = SAMPLE | ({f"field{n}": n} if n % 2 else {})
        return api.put(f"/entity/JSON/{entities[n % 4]}", document).status_code

    with ThreadPoolExecutor(16) as clients:
        codes = list(clients.map(write, range(64)))
    assert set(codes) <= {200, 409}
    assert codes.count(200) >= 4


@pytest.fixture
def other_node(service: RunningService, tenant: str) -> Iterator[Api]:
    """The API of a second service on the same database."""

    @asynccontextmanager
    async def shared():
        yield service.database

    with hosted(shared()) as other:
        yield other.api(tenant)


def test_another_node_sees_at_once_what_was_learnt_here(api: Api, other_node: Api) -> None:
    model = a_growing_model(api)
    seen = other_node.create()
    for n in range(20):
        api.create(SAMPLE | {f"field{n}": n})
        patched = other_node.request(
            "PATCH",
            f"/entity/JSON/{seen.id}",
            {f"field{n}": 7},
            Content_Type="application/merge-patch+json",
            If_Match="*",
        )
        assert patched.status_code == 200, patched.text
    assert exported(other_node, model) == exported(api, model)


def test_nodes_that_learn_at_once_lose_nothing(api: Api, other_node: Api) -> None:
    a_growing_model(api)

    def create(n: int) -> Saved:
        return (api, other_node)[n % 2].create(SAMPLE | {f"field{n}": n})

    with ThreadPoolExecutor(16) as clients:
        list(clients.map(create, range(32)))
    assert {name for name in fields(api) if name.startswith(".field")} == {f".field{n}" for n in range(32)}


def test_a_node_that_has_not_heard_of_the_lock_looks_before_it_refuses(api: Api, other_node: Api) -> None:
    api.import_model()
    refused(other_node.post("/entity/JSON/prize/1", SAMPLE), 409, "MODEL_NOT_LOCKED")
    api.lock()
    other_node.create()
