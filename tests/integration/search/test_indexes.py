"""Declared indexes: built without stopping anybody, gone without a trace."""

import random
import string
from collections.abc import Iterator
from uuid import uuid4

import asyncpg
import pytest

from tests.builders import Json
from tests.database import Template, connected
from tests.integration.search.finding import a_parcel_model, asked, found, parcels, simple
from tests.integration.search.indexing import built, declared, gone, indexes
from tests.service import Api, RunningService, done, hosted, refused, wait_for


@pytest.fixture(scope="module")
def service(database_template: Template) -> Iterator[RunningService]:
    """A service with a database of its own: indexes are everybody's business."""
    with hosted(database_template.clone()) as running:
        yield running


@pytest.fixture
def admin(service: RunningService, tenant: str) -> Api:
    """An administrator of a tenant with a model of parcels."""
    api = service.api(tenant, user_roles=["ROLE_USER", "ROLE_ADMIN"])
    a_parcel_model(api)
    return api


async def test_a_withdrawn_index_leaves_nothing_behind(service: RunningService, admin: Api) -> None:
    index = built(admin, "$.weight")
    async with connected(service.database) as connection:
        assert await relations(connection, index["id"]) == 1
        gone(admin, index["id"])
        assert await relations(connection, index["id"]) == 0
    refused(admin.delete(f"/model/parcel/1/index/{index['id']}"), 404, "SEARCH_INDEX_NOT_FOUND")


async def relations(connection: asyncpg.Connection, name: str) -> int:
    return int(await connection.fetchval("SELECT count(*) FROM pg_class WHERE relname = $1", name))


def test_declaring_twice_is_declaring_once(admin: Api) -> None:
    first = built(admin, "$.weight")
    again = declared(admin, "weight", type="NUMBER")
    assert again == first == {"id": first["id"], "path": "$.weight", "type": "NUMBER", "status": "READY"}
    assert len(indexes(admin)) == 1


async def test_what_an_interrupted_build_left_behind_is_replaced(
    service: RunningService, admin: Api, tenant: str
) -> None:
    async with connected(service.database) as connection:
        name = await name_of_the_index(service, admin, tenant)
        await connection.execute(f'CREATE INDEX "{name}" ON entity (transition)')
        index = built(admin, "$.count")
        assert index["id"] == name
        definition = await connection.fetchval("SELECT indexdef FROM pg_indexes WHERE indexname = $1", name)
    assert "transition" not in definition
    assert "document" in definition


async def name_of_the_index(service: RunningService, admin: Api, tenant: str) -> str:
    """The name of an index on ``$.count``, which there is none of afterwards."""
    name = str(built(admin, "$.count")["id"])
    gone(admin, name)
    return name


async def test_an_index_can_be_withdrawn_while_it_is_built(service: RunningService, admin: Api) -> None:
    async with connected(service.database) as connection:
        async with connection.transaction():
            # A build waits for all who have written and are not done yet.
            await connection.execute("LOCK TABLE entity IN ROW EXCLUSIVE MODE")
            index = declared(admin, "$.weight")["id"]
            wait_for(lambda: indexes(admin), lambda ones: any("progress" in one for one in ones))
            done(admin.delete(f"/model/parcel/1/index/{index}"))
        wait_for(lambda: indexes(admin), lambda ones: ones == [])
        assert await relations(connection, index) == 0


def test_names_and_states_of_any_spelling_are_quoted(service: RunningService, tenant: str) -> None:
    api = service.api(tenant + "'; --", user_roles=["ROLE_ADMIN"])
    names = ['it\'s "x"', "%1$L %s", "$1", "0", "é 😀", "\\"]
    api.a_model(model="parcel/1", sample=dict.fromkeys(names, "text"))
    for name in names:
        index = built(api, f"$.{name}", state="'\"%L")
        assert (index["path"], index["state"]) == (f"$.{name}", "'\"%L")
    api.create({name: f"value of {name}" for name in names}, model="parcel/1")
    for name in names:
        assert len(done(asked(api, simple(f"$.{name}", "EQUALS", f"value of {name}"), path="/search/parcel/1"))) == 1


def test_texts_and_documents_of_any_length_can_still_be_written(admin: Api) -> None:
    for path in ("$.name", "$"):
        built(admin, path)
    noise = "".join(random.Random(1).choices(string.printable[:90], k=100_000))
    parcels(admin, {"name": noise})
    assert found(admin, simple("$.name", "EQUALS", noise)) == [noise]
    assert found(admin, simple("$.name", "STARTS_WITH", noise[:300])) == [noise]
    assert found(admin, simple("$.name", "EQUALS", noise[:-1])) == []


async def test_results_are_the_same_by_index_and_without(service: RunningService, admin: Api) -> None:
    values: list[Json] = ["", "a", "ab", "b", "x" * 256, "x" * 257, "é", "Z", " a"]
    parcels(admin, *[{"name": value, "weight": n} for n, value in enumerate(values)])
    conditions = [simple("$.name", operator, value) for operator in ORDERS for value in values]
    conditions += [simple("$.weight", operator, n) for operator in ORDERS for n in (0, 3, 3.5, 99)]
    without = [sorted(found(admin, condition)) for condition in conditions]
    for path in ("$.name", "$.weight"):
        built(admin, path)
    async with connected(service.database) as connection:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f'ALTER DATABASE "{name}" SET enable_seqscan = off')
    assert [sorted(found(admin, condition)) for condition in conditions] == without


ORDERS = ("EQUALS", "NOT_EQUAL", "GREATER_THAN", "GREATER_OR_EQUAL", "LESS_THAN", "LESS_OR_EQUAL")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "BAD_REQUEST"),
        ({"path": 1}, "BAD_REQUEST"),
        ({"path": "$.name", "unique": True}, "BAD_REQUEST"),
        ({"path": "$.name", "type": "HASH"}, "BAD_REQUEST"),
        ({"path": "$.name", "type": "NUMBER"}, "BAD_REQUEST"),
        ({"path": "$.free"}, "BAD_REQUEST"),
        ({"path": "$.blob"}, "BAD_REQUEST"),
        ({"path": "$", "type": "TEXT"}, "BAD_REQUEST"),
        ({"path": "$.colour"}, "INVALID_FIELD_PATH"),
        ({"path": "$.buyer"}, "INVALID_FIELD_PATH"),
        ({"path": "$.lines[*].sku"}, "INVALID_FIELD_PATH"),
        ({"path": "$.a b["}, "INVALID_FIELD_PATH"),
        ("[", "BAD_REQUEST"),
    ],
)
def test_what_cannot_be_indexed_is_refused(admin: Api, body: Json, code: str) -> None:
    refused(admin.post("/model/parcel/1/index", body), 400, code)
    assert indexes(admin) == []


def test_a_field_of_two_kinds_has_an_index_for_each(admin: Api) -> None:
    assert {built(admin, "$.free", type=kind)["type"] for kind in ("NUMBER", "TEXT")} == {"NUMBER", "TEXT"}


def test_only_administrators_declare_and_withdraw(service: RunningService, tenant: str, admin: Api) -> None:
    user = service.api(tenant)
    index = declared(admin, "$.weight")["id"]
    refused(user.post("/model/parcel/1/index", {"path": "$.name"}), 403, "FORBIDDEN")
    refused(user.delete(f"/model/parcel/1/index/{index}"), 403, "FORBIDDEN")
    assert [one["id"] for one in indexes(user)] == [index]


def test_indexes_belong_to_a_model_of_a_tenant(service: RunningService, admin: Api) -> None:
    index = declared(admin, "$.weight")["id"]
    stranger = service.api(f"tenant-{uuid4().hex[:12]}", user_roles=["ROLE_ADMIN"])
    refused(stranger.get("/model/parcel/1/index"), 404, "MODEL_NOT_FOUND")
    a_parcel_model(stranger)
    assert indexes(stranger) == []
    refused(stranger.delete(f"/model/parcel/1/index/{index}"), 404, "SEARCH_INDEX_NOT_FOUND")
