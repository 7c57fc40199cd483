"""Composite unique keys over REST (docs/reference/models.md#set-unique-keys, docs/reference/models.md#unique-keys)."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from statewright.sdk import Node
from tests.builders import Json, a_processor, a_workflow, automated, manual
from tests.service import Api, RunningService, done, hosted, refused

SAMPLE = {"org": "a b", "no": 1, "qty": 1, "tags": ["x y"], "lines": [{"sku": "x y"}], "dim": {"w": 1}, "flag": True}
BY_NO = {"id": "by-no", "fields": ["$.org", "$.no"]}
ORDER = "order/1"
PATH = f"/entity/JSON/{ORDER}"
KEY = {"entityName": "order", "entityVersion": 1}


def keys(*unique_keys: Json) -> Json:
    return {"uniqueKeys": list(unique_keys)}


def set_keys(api: Api, *unique_keys: Json, model: str = ORDER) -> Json:
    return done(api.put(f"/model/{model}/unique-keys", keys(*unique_keys)))


def a_keyed_model(api: Api, *workflows: Json, unique_keys: tuple[Json, ...] = (BY_NO,), model: str = ORDER) -> str:
    api.import_model(model, SAMPLE)
    set_keys(api, *unique_keys, model=model)
    if workflows:
        api.import_workflows(*workflows, model=model)
    api.lock(model)
    return model


def an_order(no: Json = 1, org: Json = "a b", **members: Json) -> Json:
    return {"org": org, "no": no, **members}


def violates(response) -> None:
    problem = refused(response, 409, "UNIQUE_VIOLATION")
    assert problem["detail"] == "UNIQUE_VIOLATION: a composite unique key constraint was violated"
    # A run of which a segment is durable names its transaction, so that its client does not repeat it blindly.
    assert {**problem["properties"], "transactionId": ""} == {"errorCode": "UNIQUE_VIOLATION", "transactionId": ""}


# The endpoint.


def test_keys_are_set_shown_by_exports_and_cleared(api: Api) -> None:
    api.import_model(ORDER, {"org": "a b", "no": 1})
    answer = set_keys(api, BY_NO)
    assert answer["message"] == "unique keys set on model order:1"
    export = api.get(f"/model/export/SIMPLE_VIEW/{ORDER}").text
    assert export.endswith('"uniqueKeys":[{"id":"by-no","fields":["$.org","$.no"]}]}')
    assert '"uniqueKeys":[' in api.get(f"/model/export/JSON_SCHEMA/{ORDER}").text
    for clearing in ({"uniqueKeys": []}, {"uniqueKeys": None}, {}, None):
        set_keys(api, BY_NO)
        done(api.put(f"/model/{ORDER}/unique-keys", json.dumps(clearing)))
        assert "uniqueKeys" not in api.get(f"/model/export/SIMPLE_VIEW/{ORDER}").text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ({"id": "", "fields": ["$.no"]}, "key ID must not be empty"),
        ({"fields": ["$.no"]}, "key ID must not be empty"),
        ({"id": "by-no", "fields": ["$.no"]}, 'duplicate key ID "by-no"'),
        ({"id": "k", "fields": []}, 'key "k" has no fields'),
        ({"id": "k"}, 'key "k" has no fields'),
        ({"id": "k", "fields": ["$.no", "$.no"]}, 'key "k": duplicate field "$.no"'),
        ({"id": "k", "fields": ["no"]}, 'key "k": field "no" is not a known scalar leaf'),
        ({"id": "k", "fields": ["$.other"]}, 'key "k": field "$.other" is not a known scalar leaf'),
        ({"id": "k", "fields": ["$.dim"]}, 'key "k": field "$.dim" is not a known scalar leaf'),
        ({"id": "k", "fields": ["$.tags[*]"]}, 'key "k": field "$.tags[*]" is not a known scalar leaf'),
        ({"id": "k", "fields": ["$.lines[*].sku"]}, 'key "k": field "$.lines[*].sku" is not a known scalar leaf'),
    ],
)
def test_a_bad_definition_is_refused_and_leaves_the_list_as_it_was(api: Api, key: Json, text: str) -> None:
    api.import_model(ORDER, SAMPLE)
    set_keys(api, BY_NO)
    response = api.put(f"/model/{ORDER}/unique-keys", keys(BY_NO, key))
    problem = refused(response, 422, "INVALID_UNIQUE_KEY_DEFINITION")
    assert problem["detail"] == f"INVALID_UNIQUE_KEY_DEFINITION: {text}"
    assert problem["properties"] == KEY | {"errorCode": "INVALID_UNIQUE_KEY_DEFINITION"}
    assert done(api.get(f"/model/export/SIMPLE_VIEW/{ORDER}"))["uniqueKeys"] == [BY_NO]


def test_checks_come_in_their_order(api: Api) -> None:
    path = f"/model/{ORDER}/unique-keys"
    refused(api.put(path, " " * (1024 * 1024 + 1)), 413, "BAD_REQUEST")
    for body in ("", "{", "[]", '{"uniqueKeys":{}}', '{"uniqueKeys":[7]}'):
        refused(api.put(path, body), 400, "BAD_REQUEST")
    assert refused(api.put(path, keys({"id": ""})), 404, "MODEL_NOT_FOUND")["properties"] == KEY | {
        "errorCode": "MODEL_NOT_FOUND"
    }
    api.a_model(model=ORDER, sample=SAMPLE)
    problem = refused(api.put(path, keys({"id": ""})), 409, "MODEL_ALREADY_LOCKED")
    assert (problem["properties"]["expectedState"], problem["properties"]["actualState"]) == ("UNLOCKED", "LOCKED")


def test_a_reimport_that_would_break_a_key_is_refused_and_saves_nothing(api: Api) -> None:
    api.import_model(ORDER, {"no": None})
    set_keys(api, {"id": "k", "fields": ["$.no"]})
    before = api.get(f"/model/export/SIMPLE_VIEW/{ORDER}").text
    problem = refused(
        api.post(f"/model/import/JSON/SAMPLE_DATA/{ORDER}", {"no": {"a": 1}}), 422, "INVALID_UNIQUE_KEY_DEFINITION"
    )
    assert "re-import invalidates existing unique key definitions: " in problem["detail"]
    assert problem["properties"] == KEY | {"errorCode": "INVALID_UNIQUE_KEY_DEFINITION"}
    assert api.get(f"/model/export/SIMPLE_VIEW/{ORDER}").text == before


def test_reimport_and_lock_keep_the_keys_and_deletion_drops_them(api: Api) -> None:
    a_keyed_model(api)
    done(api.put(f"/model/{ORDER}/unlock"))
    api.import_model(ORDER, {"more": 1})
    assert done(api.get(f"/model/export/SIMPLE_VIEW/{ORDER}"))["uniqueKeys"] == [BY_NO]
    done(api.delete(f"/model/{ORDER}"))
    api.import_model(ORDER, SAMPLE)
    assert "uniqueKeys" not in done(api.get(f"/model/export/SIMPLE_VIEW/{ORDER}"))


# What is equal.


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ("7", "7.0", True),
        ("7", "0.7e1", True),
        ("0", "-0", True),
        ("9007199254740993", "9007199254740992", False),
        ('"x y"', '"X y"', False),
        ('"x y"', '"x y "', False),
        ("true", "false", False),
        ('"é x"', '"e\\u0301 x"', False),
        ("12345678901234567890.5", "12345678901234567890.50", True),
    ],
)
def test_values_are_equal_by_value_and_type(api: Api, first: str, second: str, equal: bool) -> None:
    api.import_model(ORDER, {"v": 1})
    for sample in ('{"v":1.5}', '{"v":12345678901234567890.5}', '{"v":"x y"}', '{"v":true}'):
        done(api.post(f"/model/import/JSON/SAMPLE_DATA/{ORDER}", sample))
    set_keys(api, {"id": "k", "fields": ["$.v"]})
    api.lock(ORDER)
    done(api.post(PATH, f'{{"v":{first}}}'))
    response = api.post(PATH, f'{{"v":{second}}}')
    violates(response) if equal else done(response)


def test_a_string_never_equals_a_number(api: Api) -> None:
    api.import_model(ORDER, {"v": [{"a": "x y"}, {"a": 1}], "k": "x y"})
    api.import_model(ORDER, {"k": 5})
    set_keys(api, {"id": "k", "fields": ["$.k"]})
    api.lock(ORDER)
    done(api.post(PATH, {"k": "05 "}))
    done(api.post(PATH, {"k": 5}))
    done(api.post(PATH, {"k": "5"}))
    violates(api.post(PATH, {"k": 5}))


def test_values_do_not_run_into_each_other(api: Api) -> None:
    api.import_model(ORDER, {"a": "x y", "b": "x y"})
    set_keys(api, {"id": "k", "fields": ["$.a", "$.b"]})
    api.lock(ORDER)
    for a, b in (("ab", "c"), ("a", "bc"), ("a:b", "c"), ("a", "b:c"), ("", "abc")):
        done(api.post(PATH, {"a": a, "b": b}))


def test_keys_are_enforced_independently_and_per_model_and_tenant(api: Api, service: RunningService) -> None:
    a_keyed_model(api, unique_keys=({"id": "a", "fields": ["$.org"]}, {"id": "b", "fields": ["$.no"]}))
    a_keyed_model(api, model="order/2")
    other = service.api(f"{api.url}-other")
    a_keyed_model(other)
    api.create(an_order(1, "a b"), model=ORDER)
    violates(api.post(PATH, an_order(2, "a b")))
    violates(api.post(PATH, an_order(1, "b c")))
    api.create(an_order(2, "b c"), model=ORDER)
    api.create(an_order(1, "a b"), model="order/2")
    other.create(an_order(1, "a b"), model=ORDER)


# Completeness.


def test_without_any_field_an_entity_is_exempt(api: Api) -> None:
    a_keyed_model(api)
    for _ in range(2):
        api.create({"qty": 1}, model=ORDER)
        api.create({"org": None, "no": None}, model=ORDER)
    assert done(api.get(f"/entity/stats/{ORDER}"))["count"] == 4


@pytest.mark.parametrize("document", [{"org": "a b"}, {"no": 1}, {"org": "a b", "no": None}])
def test_a_key_in_part_is_refused_before_any_processing(api: Api, document: Json) -> None:
    unanswered = a_processor(tags="nobody")
    a_keyed_model(api, a_workflow(NEW=[automated("GO", to="DONE", processors=[unanswered])], DONE=[]))
    problem = refused(api.post(PATH, document), 422, "INVALID_UNIQUE_KEY")
    assert problem["detail"] == "INVALID_UNIQUE_KEY: composite unique key incomplete"
    problem = refused(api.post(PATH, [document]), 422, "INVALID_UNIQUE_KEY")
    assert problem["detail"] == "INVALID_UNIQUE_KEY: item 0: composite unique key incomplete"


def test_a_number_beyond_the_limits_of_keys_is_refused(api: Api) -> None:
    api.import_model(ORDER, {"v": 1})
    done(api.post(f"/model/import/JSON/SAMPLE_DATA/{ORDER}", '{"v":1e60}'))
    set_keys(api, {"id": "k", "fields": ["$.v"]})
    api.lock(ORDER)
    refused(api.post(PATH, f'{{"v":{"7" * 65}}}'), 422, "INVALID_UNIQUE_KEY")
    done(api.post(PATH, f'{{"v":{"7" * 64}}}'))


def test_the_schema_is_checked_before_the_key(api: Api) -> None:
    a_keyed_model(api)
    refused(api.post(PATH, {"org": "a b", "extra": 1}), 400, "BAD_REQUEST")


# Who holds a value, and until when.


def test_the_second_with_the_same_values_is_refused_and_nothing_of_it_remains(api: Api) -> None:
    a_keyed_model(api)
    api.create(an_order(), model=ORDER)
    violates(api.post(PATH, an_order(qty=5)))
    assert len(done(api.get(f"/entity/{ORDER}"))) == 1


def test_saving_an_unchanged_key_again_does_not_collide_with_itself(api: Api) -> None:
    a_keyed_model(api)
    entity = api.create(an_order(), model=ORDER).id
    for qty in range(3):
        api.update(entity, an_order(qty=qty))
    violates(api.post(PATH, an_order()))


def test_an_update_releases_the_old_value_and_takes_the_new_one(api: Api) -> None:
    a_keyed_model(api)
    entity = api.create(an_order(1), model=ORDER).id
    api.update(entity, an_order(2))
    violates(api.post(PATH, an_order(2)))
    other = api.create(an_order(1), model=ORDER).id
    violates(api.put(f"/entity/JSON/{entity}", an_order(1)))
    assert api.read(entity)["data"] == an_order(2)
    api.update(other, {"qty": 1})  # clears all fields
    api.update(entity, an_order(1))


def test_a_patch_is_judged_on_the_merged_document(api: Api) -> None:
    a_keyed_model(api)
    entity = api.create(an_order(1), model=ORDER).id
    api.create(an_order(2), model=ORDER)

    def patch(change: Json):
        headers = {"Content_Type": "application/merge-patch+json", "If_Match": "*"}
        return api.request("PATCH", f"/entity/JSON/{entity}", change, **headers)

    violates(patch({"no": 2}))
    refused(patch({"no": None}), 422, "INVALID_UNIQUE_KEY")
    done(patch({"no": 3}))
    done(patch({"no": None, "org": None}))
    api.create(an_order(3), model=ORDER)


def test_a_deletion_frees_the_value_for_the_next_request(api: Api) -> None:
    a_keyed_model(api)
    for _ in range(3):
        entity = api.create(an_order(), model=ORDER).id
        done(api.delete(f"/entity/{entity}"))
    api.create(an_order(), model=ORDER)
    done(api.delete(f"/entity/{ORDER}"))
    api.create(an_order(), model=ORDER)
    done(api.delete(f"/entity/{ORDER}", {"type": "simple", "jsonPath": "$.no", "operatorType": "EQUALS", "value": 1}))
    api.create(an_order(), model=ORDER)


def test_a_failed_write_leaves_no_claim(api: Api) -> None:
    unanswered = a_processor(tags="nobody")
    a_keyed_model(api, a_workflow(NEW=[manual("GO", to="DONE", processors=[unanswered])], DONE=[]))
    entity = api.create(an_order(1), model=ORDER).id
    refused(api.put(f"/entity/JSON/{entity}/GO", an_order(2)), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    api.create(an_order(2), model=ORDER)
    violates(api.post(PATH, an_order(1)))


def test_two_items_of_a_collection_with_the_same_key_store_nothing(api: Api) -> None:
    a_keyed_model(api)
    violates(api.post(PATH, [an_order(1), an_order(2), an_order(1)]))
    assert done(api.get(f"/entity/{ORDER}")) == []


def test_within_a_transaction_a_value_passes_from_one_entity_to_another(api: Api) -> None:
    a_keyed_model(api)
    first, second = api.create(an_order(1), model=ORDER).id, api.create(an_order(2), model=ORDER).id

    def rekey(*changes: tuple[str, int]):
        return api.put("/entity/JSON", [{"id": id_, "payload": json.dumps(an_order(no))} for id_, no in changes])

    done(rekey((first, 3), (second, 1)))  # free, then claim
    done(rekey((first, 1), (second, 3)))  # an exchange
    assert [api.read(id_)["data"]["no"] for id_ in (first, second)] == [1, 3]
    violates(rekey((first, 3)))
    violates(rekey((first, 7), (second, 7)))
    for no in (1, 3):
        violates(api.post(PATH, an_order(no)))
    api.create(an_order(7), model=ORDER)


def test_a_transaction_may_delete_the_holder_and_give_its_value_away(api: Api, serving, callback) -> None:
    a_keyed_model(api)
    flow = a_workflow(NEW=[manual("GO", to="DONE", processors=[a_processor()])], DONE=[])
    api.a_model(flow, model="task/1", sample={"n": 1})
    holder = api.create(an_order(), model=ORDER).id
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document, context):
        joined = callback(context)
        violates(joined.post(PATH, an_order()))
        done(joined.delete(f"/entity/{holder}"))
        joined.create(an_order(qty=2), model=ORDER)
        violates(joined.post(PATH, an_order()))
        return document

    serving(node)
    task = api.create({"n": 1}, model="task/1").id
    api.update(task, {"n": 1}, fire="GO")
    assert [entity["data"] for entity in done(api.get(f"/entity/{ORDER}"))] == [an_order(qty=2)]
    violates(api.post(PATH, an_order()))


def test_a_violation_in_a_callback_of_a_separate_transaction_does_not_spoil_the_run(
    api: Api, serving, callback
) -> None:
    a_keyed_model(api)
    api.create(an_order(), model=ORDER)
    flow = a_workflow(NEW=[manual("GO", to="DONE", processors=[a_processor(mode="ASYNC_NEW_TX")])], DONE=[])
    api.a_model(flow, model="task/1", sample={"n": 1})
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document, context):
        violates(callback(context).post(PATH, an_order()))
        raise ValueError("as the callback failed")

    serving(node)
    task = api.create({"n": 1}, model="task/1").id
    api.update(task, {"n": 1}, fire="GO")
    assert api.state(task) == "DONE"


# Processors: what counts is the document they leave.


def overwriting(**members: Json) -> Node:
    node = Node(tags=["node"])
    node.processor("enrich")(lambda document: document | members)
    return node


CREATING = a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[])
PER_MODE = [
    a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor(mode=mode)])], DONE=[])
    for mode in ("SYNC", "COMMIT_BEFORE_DISPATCH")
]


@pytest.mark.parametrize("flow", PER_MODE)
def test_a_key_that_a_processor_overwrites_collides_as_overwritten(api: Api, serving, flow: Json) -> None:
    serving(overwriting(no=99))
    a_keyed_model(api, flow)
    api.create(an_order(1), model=ORDER)
    violates(api.post(PATH, an_order(2)))
    violates(api.post(PATH, {"qty": 1, "org": "a b", "no": 3}))


def test_a_key_that_a_processor_makes_incomplete_is_told_as_such(api: Api, serving) -> None:
    serving(overwriting(no=None))
    a_keyed_model(api, CREATING)
    problem = refused(api.post(PATH, an_order(1)), 422, "INVALID_UNIQUE_KEY")
    assert problem["detail"] == "INVALID_UNIQUE_KEY: one or more unique key fields are null or invalid"
    assert done(api.get(f"/entity/{ORDER}")) == []


def test_an_entity_that_a_processor_keys_must_be_free_too(api: Api, serving) -> None:
    serving(overwriting(org="a b", no=1))
    a_keyed_model(api, CREATING)
    api.create({"qty": 1}, model=ORDER)
    violates(api.post(PATH, {"qty": 2}))


# Races.


@pytest.fixture
def other_node(service: RunningService, tenant: str) -> Iterator[Api]:
    """The API of a second service on the same database."""

    @asynccontextmanager
    async def shared():
        yield service.database

    with hosted(shared()) as other:
        yield other.api(tenant)


def test_of_two_racers_exactly_one_wins(api: Api, other_node: Api) -> None:
    a_keyed_model(api)
    barrier = threading.Barrier(8)

    def race(n: int) -> list[int]:
        node, codes = (api, other_node)[n % 2], []
        for no in range(40):
            barrier.wait(20)
            response = node.post(PATH, an_order(no, qty=n))
            codes.append(response.status_code)
            if response.status_code != 200:
                assert response.json()["properties"]["errorCode"] in ("UNIQUE_VIOLATION", "CONFLICT")
        return codes

    with ThreadPoolExecutor(8) as racers:
        outcomes = list(racers.map(race, range(8)))
    for codes in zip(*outcomes, strict=True):
        assert sorted(codes) == [200] + [409] * 7
    assert done(api.get("/entity/stats/order/1"))["count"] == 40


def test_values_handed_round_by_many_never_have_two_holders(api: Api, other_node: Api) -> None:
    a_keyed_model(api)
    entities = [api.create(an_order(no), model=ORDER).id for no in range(6)]

    def rekey(n: int) -> int:
        node = (api, other_node)[n % 2]
        return node.put(f"/entity/JSON/{entities[n % 6]}", an_order((n * 7) % 9)).status_code

    with ThreadPoolExecutor(8) as clients:
        codes = list(clients.map(rekey, range(240)))
    assert set(codes) <= {200, 409}
    held = [entity["data"]["no"] for entity in done(api.get(f"/entity/{ORDER}"))]
    assert len(held) == len(set(held)) == 6
    for no in range(9):
        response = api.post(PATH, an_order(no))
        assert response.status_code == (409 if no in held else 200), (no, held, response.text)
