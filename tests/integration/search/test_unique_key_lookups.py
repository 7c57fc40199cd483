"""A search that compares all fields of a unique key for equality finds the entity by its claim
(docs/reference/search.md#unique-keys)."""

import asyncio
import json
from collections.abc import Sequence

import asyncpg
import httpx
import pytest

from tests.builders import Json
from tests.integration.search.finding import all_of, any_of, asked, simple
from tests.service import Api, RunningService, done

SAMPLE = {"no": "a", "line": 1, "open": True, "owner": {"mail": "a@example.org"}, "note": "x"}
KEYS: dict[str, Sequence[str]] = {"by-line": ["$.no", "$.line"], "by-owner": ["$.owner.mail", "$.open"]}
PATH = "/search/direct/order/1"


@pytest.fixture
def orders(api: Api) -> Api:
    """Three orders of a model with two unique keys."""
    a_model(api, KEYS)
    for document in (
        SAMPLE,
        {**SAMPLE, "line": 2, "owner": {"mail": "b@example.org"}},
        {**SAMPLE, "no": "b", "open": False, "note": "y"},
    ):
        api.create(document, model="order/1")
    return api


def a_model(api: Api, keys: dict[str, Sequence[str]]) -> None:
    api.import_model("order/1", SAMPLE)
    set_keys(api, keys)
    api.lock("order/1")


def set_keys(api: Api, keys: dict[str, Sequence[str]]) -> None:
    wanted = [{"id": name, "fields": [*fields]} for name, fields in keys.items()]
    done(api.put("/model/order/1/unique-keys", {"uniqueKeys": wanted}))


def search(api: Api, *conditions: Json) -> list[tuple[str, int]]:
    """Number and line of the orders that meet all conditions."""
    return read(asked(api, all_of(*conditions), path=PATH))


def read(response: httpx.Response) -> list[tuple[str, int]]:
    assert response.status_code == 200, response.text
    found = [json.loads(line)["data"] for line in response.text.splitlines()]
    return sorted((document["no"], document["line"]) for document in found)


def plan(api: Api, *conditions: Json) -> str:
    return "\n".join(done(asked(api, all_of(*conditions), path=PATH, explain="analyze"))["plan"])


def equal(**values: Json) -> list[Json]:
    return [simple(f"$.{field.replace('_', '.')}", "EQUALS", value) for field, value in values.items()]


def test_the_entity_is_found_by_its_claim(orders: Api) -> None:
    for conditions in (equal(no="a", line=2), equal(owner_mail="b@example.org", open=True)):
        assert search(orders, *conditions) == [("a", 2)]
        found = plan(orders, *conditions)
        assert "unique_claim" in found
        [all_entities] = [line for line in found.splitlines() if "on entity other" in line]
        assert "never executed" in all_entities


@pytest.mark.parametrize("line", [1, 1.0, "1", "1.00"])
def test_a_number_is_found_however_it_is_written(orders: Api, line: Json) -> None:
    assert search(orders, *equal(no="a", line=line)) == [("a", 1)]


@pytest.mark.parametrize(
    ("field", "operand", "is_found"),
    [
        ("day", "2024-02-29", True),
        ("day", "2024-02-29T00:00:00+05:00", True),
        ("day", "2024-02-29T00:00:01Z", False),
        ("day", "2024-02", False),
        ("month", "2024-02", True),
        ("month", "2024-02-01", True),
        ("year", "2024", True),
        ("year", 2024, True),
        ("year", "2025", False),
        ("code", "1001", True),
        ("code", "1001-01", True),
        ("code", "A-1", False),
    ],
)
def test_a_day_a_month_and_a_year_are_found_by_their_claims(
    api: Api, field: str, operand: Json, is_found: bool
) -> None:
    document = {**SAMPLE, "day": "2024-02-29", "month": "2024-02", "year": "2024", "code": "1001"}
    api.import_model("order/1", document)
    api.import_model("order/1", {"code": "A-1"})
    set_keys(api, {"key": [f"$.{field}"]})
    api.lock("order/1")
    api.create(document, model="order/1")
    assert search(api, *equal(**{field: operand})) == ([("a", 1)] if is_found else [])
    assert ("unique_claim" in plan(api, *equal(**{field: operand}))) == (operand not in EMPTY + SEVERAL)


EMPTY, SEVERAL = ("2024-02-29T00:00:01Z",), ("1001-01",)
"""What no day is, and what may be a year and a text."""


@pytest.mark.parametrize("stored", ["2024-02-29T10:00Z", "2024-02-29T10:00", "10:00"])
def test_a_time_that_is_spelled_in_another_way_is_found_too(api: Api, stored: str) -> None:
    api.import_model("order/1", {**SAMPLE, "at": stored})
    set_keys(api, {"key": ["$.at"]})
    api.lock("order/1")
    api.create({**SAMPLE, "at": stored}, model="order/1")
    assert search(api, *equal(at=stored.replace("10:00", "10:00:00.000"))) == [("a", 1)]


def test_other_comparisons_beside_the_key_hold_too(orders: Api) -> None:
    key = equal(no="b", line=1)
    assert search(orders, *key, simple("$.note", "EQUALS", "y")) == [("b", 1)]
    assert search(orders, *key, simple("$.note", "EQUALS", "x")) == []
    assert search(orders, all_of(*key), any_of(*equal(note="y", open=True))) == [("b", 1)]
    assert search(orders, *key, *equal(line=2)) == []


def test_what_leaves_a_field_open_reads_as_it_did(orders: Api) -> None:
    assert search(orders, *equal(no="a")) == [("a", 1), ("a", 2)]
    assert search(orders, any_of(*equal(no="b", line=2))) == [("a", 2), ("b", 1)]
    assert search(orders, simple("$.no", "EQUALS", "a"), simple("$.line", "GREATER_THAN", 1)) == [("a", 2)]
    assert search(orders, simple("$.no", "IEQUALS", "A"), *equal(line=1)) == [("a", 1)]
    assert "unique_claim" not in plan(orders, *equal(no="a"))


def test_an_entity_is_found_by_the_values_that_it_has_now(orders: Api) -> None:
    changed = orders.create({**SAMPLE, "no": "c", "owner": {"mail": "c@example.org"}}, model="order/1")
    before = changed.transaction
    orders.update(changed.id, {**SAMPLE, "no": "d", "owner": {"mail": "c@example.org"}})
    assert search(orders, *equal(no="c", line=1)) == []
    assert search(orders, *equal(no="d", line=1)) == [("d", 1)]
    at = orders.read(changed.id, f"?transactionId={before}")["meta"]["lastUpdateTime"]
    past = asked(orders, all_of(*equal(no="c", line=1)), path=PATH, pointInTime=at)
    assert [json.loads(line)["data"]["no"] for line in past.text.splitlines()] == ["c"]
    done(orders.delete(f"/entity/{changed.id}"))
    assert search(orders, *equal(no="d", line=1)) == []


def test_counts_pages_and_statistics_agree(orders: Api, service: RunningService) -> None:
    root = Api(service.root, orders.token)
    condition = all_of(*equal(no="a", line=2))
    assert done(root.post("/ops/v1/models/order/1/entities/count", condition))["total"] == 1
    page = done(root.post("/ops/v1/models/order/1/entities/search?sort=note", condition))
    assert [item["data"]["line"] for item in page["items"]] == [2]
    grouped = done(orders.post("/entity/stats/order/1/query", {"groupBy": ["$.no"], "condition": condition}))
    assert [group["count"] for group in grouped] == [1]


def run(service: RunningService, statement: str, *values: object) -> None:
    """Change the database behind the back of the service."""

    async def execute() -> None:
        connection = await asyncpg.connect(service.database)
        try:
            await connection.execute(statement, *values)
        finally:
            await connection.close()

    asyncio.run(execute())


def test_keys_that_changed_without_news_hide_nothing(orders: Api, tenant: str, service: RunningService) -> None:
    assert search(orders, *equal(no="a", line=2)) == [("a", 2)]
    run(service, "UPDATE model SET unique_keys = '[]' WHERE tenant = $1", tenant)
    run(service, "DELETE FROM unique_claim WHERE tenant = $1", tenant)
    assert search(orders, *equal(no="a", line=2)) == [("a", 2)]


def test_a_key_of_the_same_name_over_another_field_is_another_key(api: Api) -> None:
    a_model(api, {"key": ["$.no"]})
    done(api.put("/model/order/1/unlock"))
    set_keys(api, {"key": ["$.note"]})
    api.lock("order/1")
    for note in ("a", "b"):
        api.create({**SAMPLE, "note": note}, model="order/1")
    assert len(search(api, *equal(no="a"))) == 2
    assert len(search(api, *equal(note="b"))) == 1


def test_a_value_that_no_key_can_have_is_compared_with_all(orders: Api) -> None:
    assert search(orders, *equal(no="a", line=f"1{'0' * 70}1")) == []
