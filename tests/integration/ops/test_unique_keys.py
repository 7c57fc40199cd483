"""Entities by the value of a unique key (docs/reference/operations.md#finding-by-a-unique-key)."""

from urllib.parse import quote

import pytest

from tests.builders import Json
from tests.integration.ops.builders import ops_api
from tests.service import Api, RunningService, done


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


def a_model(api: Api, model: str, sample: Json, **keys: list[str]) -> None:
    api.import_model(model, sample)
    wanted = [{"id": name, "fields": fields} for name, fields in keys.items()]
    done(api.put(f"/model/{model}/unique-keys", {"uniqueKeys": wanted}))
    api.lock(model)


def find(ops: Api, value: str, query: str = "") -> list[tuple[str, str]]:
    """Model and id of the key of what is found."""
    found = done(ops.get(f"/unique-keys/{quote(value, safe='')}/entities{query}"))["items"]
    return [(each["model"]["name"], each["key"]) for each in found]


def test_an_entity_is_found_in_whatever_model_it_is(api: Api, ops: Api) -> None:
    a_model(
        api,
        "order/1",
        {"no": "a", "ref": {"ext": "b"}, "line": 1},
        no=["$.no"],
        ext=["$.ref.ext"],
        both=["$.no", "$.line"],
    )
    a_model(api, "invoice/1", {"number": 17}, number=["$.number"])
    a_model(api, "note/1", {"text": "a"}, text=["$.text"])
    order = api.create({"no": "17", "ref": {"ext": "A/1 ü"}, "line": 1}, model="order/1").id
    api.create({"number": 17.0}, model="invoice/1")
    assert find(ops, "17") == [("invoice", "number"), ("order", "no")]
    assert find(ops, "17.00") == [("invoice", "number")]
    assert done(ops.get("/unique-keys/A%2F1%20%C3%BC/entities"))["items"] == [
        {"entityId": order, "key": "ext", "model": {"name": "order", "version": 1}, "state": "CREATED"}
    ]
    for value in ("18", "1", "a\0", "x" * 2000):
        assert find(ops, value) == []
    done(api.delete(f"/entity/{order}"))
    assert find(ops, "17") == [("invoice", "number")]


def test_those_of_other_tenants_are_not_found(service: RunningService, api: Api, ops: Api, tenant: str) -> None:
    a_model(api, "order/1", {"no": "a"}, no=["$.no"])
    api.create({"no": "a"}, model="order/1")
    assert find(ops_api(service, f"{tenant}-other"), "a") == []


def test_many_come_page_by_page(api: Api, ops: Api) -> None:
    for name in ("c", "a", "b"):
        a_model(api, f"{name}/1", {"no": "x", "other": "x"}, no=["$.no"], other=["$.other"])
        api.create({"no": "1", "other": "1"}, model=f"{name}/1")
    assert [name for name, _ in find(ops, "1")] == ["a", "a", "b", "b", "c", "c"]
    found, query = list[tuple[str, str]](), "?limit=4"
    first = done(ops.get(f"/unique-keys/1/entities{query}"))
    found = [(each["model"]["name"], each["key"]) for each in first["items"]]
    found += find(ops, "1", f"{query}&cursor={first['nextCursor']}")
    assert found == [(name, key) for name in "abc" for key in ("no", "other")]
