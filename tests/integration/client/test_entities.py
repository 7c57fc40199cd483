"""Entities through the client of applications (docs/guides/client.md)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from msgspec import Struct

from statewright import Client, Conflicting, Invalid, Missing, Modified, NotAllowed
from statewright.sdk.conditions import all_of, any_of, field, items, lifecycle, state
from tests.builders import a_workflow, manual
from tests.integration.client.conftest import Connect
from tests.service import RunningService

ORDERS = a_workflow("orders", OPEN=[manual("PAY", to="PAID"), manual("CANCEL", to="CANCELLED")], PAID=[], CANCELLED=[])
SAMPLE = {"sku": "A-1", "qty": 1, "total": Decimal("1.5"), "tags": ["new"]}


@pytest.fixture
def orders(client: Client) -> Client:
    """A client in a tenant with a model ``order``."""
    client.models.import_sample("order", 1, SAMPLE)
    client.workflows.import_("order", 1, [ORDERS])
    client.models.lock("order", 1)
    return client


def test_an_entity_lives_from_its_creation_to_its_deletion(orders: Client) -> None:
    made = orders.create("order", 1, {"sku": "A-1", "qty": 2})
    assert orders.get(made.id).state == "OPEN"
    changed = orders.update(made.id, {"sku": "A-1", "qty": 3}, if_match=made.transaction_id)
    orders.patch(made.id, {"total": Decimal("1234567.89")}, if_match=changed.transaction_id)
    assert orders.transitions(made.id) == ["PAY", "CANCEL"]
    orders.transition(made.id, "PAY")
    found = orders.get(made.id)
    assert (found.state, found.transition) == ("PAID", "PAY")
    assert found.data == {"sku": "A-1", "qty": 3, "total": Decimal("1234567.89")}
    orders.delete(made.id)
    with pytest.raises(Missing) as missing:
        orders.get(made.id)
    assert missing.value.code == "ENTITY_NOT_FOUND"
    assert missing.value.properties["entityId"] == made.id


def test_every_version_can_be_read_again(orders: Client) -> None:
    made = orders.create("order", 1, {"qty": 1})
    paid = orders.update(made.id, {"qty": 2}, transition="PAY")
    last, first = orders.history(made.id)
    assert [first.change_type, last.change_type] == ["CREATE", "UPDATE"]
    assert first.user == "alice"
    assert orders.get(made.id, at=first.time_of_change).data == {"qty": 1}
    assert orders.get(made.id, transaction_id=made.transaction_id).state == "OPEN"
    assert orders.get(made.id, at=datetime.now(UTC) + timedelta(hours=1)).transaction_id == paid.transaction_id
    assert orders.history(made.id, at=first.time_of_change) == [first]
    assert orders.transitions(made.id, at=first.time_of_change) == ["PAY", "CANCEL"]


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_of_dots_leads_to_no_other_path(orders: Client, name: str) -> None:
    made = orders.create("order", 1, {"qty": 1})
    with pytest.raises(Missing) as missing:
        orders.update(made.id, {"qty": 2}, transition=name)
    assert missing.value.code == "TRANSITION_NOT_FOUND"


def test_a_version_that_is_not_current_is_not_overwritten(orders: Client) -> None:
    made = orders.create("order", 1, {"qty": 1})
    orders.update(made.id, {"qty": 2})
    with pytest.raises(Modified) as modified:
        orders.update(made.id, {"qty": 3}, if_match=made.transaction_id)
    assert (modified.value.status, modified.value.retryable) == (412, False)


def test_what_the_service_refuses_says_why(orders: Client) -> None:
    with pytest.raises(Invalid) as refused:
        orders.create("order", 1, {"qty": "many"})
    assert refused.value.code == "INCOMPATIBLE_TYPE"
    assert refused.value.properties["fieldPath"] == "qty"
    with pytest.raises(Missing, match="MODEL_NOT_FOUND"):
        orders.create("nosuch", 1, {})
    with pytest.raises(Missing, match="TRANSITION_NOT_FOUND"):
        orders.transition(orders.create("order", 1, {}).id, "FLY")


def test_no_token_is_not_allowed(connect: Connect, service: RunningService) -> None:
    with pytest.raises(NotAllowed) as refused:
        connect(service.root).models.list()
    assert (refused.value.status, refused.value.code) == (401, "UNAUTHORIZED")


def test_long_lists_are_read_page_by_page(orders: Client) -> None:
    made = orders.create_many("order", 1, [{"qty": n} for n in range(7)])
    assert [found.data["qty"] for found in orders.iterate("order", 1, size=3)] == list(range(7))
    then = orders.get(made.entity_ids[0]).created
    orders.delete(made.entity_ids[0])
    assert len(list(orders.iterate("order", 1, size=3))) == 6
    assert len(list(orders.iterate("order", 1, size=3, at=then))) == 7
    assert [found.data for found in orders.page("order", 1, size=2, number=1)] == [{"qty": 3}, {"qty": 4}]


def test_searches_answer_at_once_or_page_by_page(orders: Client) -> None:
    orders.create_many("order", 1, [{"qty": n, "sku": f"S-{n % 2}"} for n in range(9)])
    even = field("$.sku").equals("S-0")
    assert [found.data["qty"] for found in orders.search("order", 1, even, sort=["qty:desc"])] == [8, 6, 4, 2, 0]
    with pytest.raises(Invalid, match="SEARCH_RESULT_LIMIT"):
        orders.search("order", 1, even, limit=3)
    found = orders.search_all("order", 1, even & field("qty").at_least(2), sort=["qty"], size=2)
    assert [each.data["qty"] for each in found] == [2, 4, 6, 8]
    assert list(orders.search_all("order", 1, field("qty").greater_than(100))) == []


def test_a_search_job_can_be_watched(orders: Client) -> None:
    orders.create("order", 1, {"qty": 1})
    job = orders.searches.start("order", 1, all_of())
    assert orders.searches.wait(job).entities_count == 1
    assert orders.searches.status(job).status == "SUCCESSFUL"
    assert [found.data for found in orders.searches.results(job)] == [{"qty": 1}]
    with pytest.raises(Invalid, match="SEARCH_JOB_ALREADY_TERMINAL"):
        orders.searches.cancel(job)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (field("sku").equals("a-1"), 0),
        (field("sku").equals("a-1", ignore_case=True), 1),
        (field("sku").not_equal("A-1"), 1),
        (field("qty").between(1, 2), 2),
        (field("qty").between(1, 2, inclusive=False), 0),
        (field("qty").less_than(2), 1),
        (field("qty").at_most(2), 2),
        (field("sku").contains("-"), 2),
        (field("sku").not_contains("-"), 0),
        (field("sku").starts_with("A") | field("sku").ends_with("2"), 2),
        (field("sku").not_starts_with("A") & field("sku").not_ends_with("3"), 1),
        (field("sku").like("_-%"), 2),
        (field("sku").matches("[AB]-[0-9]"), 2),
        (field("total").is_null(), 1),
        (field("total").not_null(), 1),
        (field("$.tags[*]").equals("red"), 1),
        (items("$.tags", [None, "red"]), 1),
        (state().equals("OPEN"), 2),
        (lifecycle("creationDate").less_than(datetime(2020, 1, 1, tzinfo=UTC)), 0),
        (any_of(), 0),
        ({"type": "simple", "jsonPath": "$.qty", "operatorType": "EQUALS", "value": 2}, 1),
    ],
)
def test_conditions_can_be_written_in_python(orders: Client, condition, found: int) -> None:
    orders.create("order", 1, {"sku": "A-1", "qty": 1, "total": Decimal("2.5")})
    orders.create("order", 1, {"sku": "B-2", "qty": 2, "tags": ["blue", "red"]})
    assert len(orders.search("order", 1, condition)) == found


def test_entities_are_counted_and_grouped(orders: Client) -> None:
    [first, *_] = orders.create_many("order", 1, [{"qty": n, "sku": f"S-{n % 2}"} for n in range(4)]).entity_ids
    orders.transition(first, "PAY")
    assert orders.count("order", 1) == 4
    assert {one.state: one.count for one in orders.count_states("order", 1)} == {"OPEN": 3, "PAID": 1}
    assert [one.count for one in orders.count_states("order", 1, states=["PAID"])] == [1]
    groups = orders.group(
        "order",
        1,
        ["$.sku"],
        aggregations=[{"op": "sum", "field": "$.qty", "as": "qty"}],
        condition=field("qty").greater_than(0),
    )
    assert {one.key["$.sku"]: (one.count, one.aggregations["qty"]) for one in groups} == {"S-0": (1, 2), "S-1": (2, 4)}


def test_entities_are_deleted_by_condition(orders: Client) -> None:
    made = orders.create_many("order", 1, [{"qty": n} for n in range(4)])
    gone = orders.delete_matching("order", 1, field("qty").greater_than(2), verbose=True)
    assert (gone.found, gone.deleted, gone.ids) == (1, 1, made.entity_ids[3:])
    assert orders.delete_matching("order", 1).deleted == 3


def test_the_trail_of_an_entity_is_read_to_its_end(orders: Client) -> None:
    made = orders.create("order", 1, {"qty": 1})
    orders.transition(made.id, "PAY")
    trail = list(orders.audit(made.id, size=2))
    assert len(trail) > 4
    assert trail == list(orders.audit(made.id))
    assert {event.kind for event in trail} == {"StateMachine", "EntityChange"}
    changes = orders.audit(made.id, kinds=["EntityChange"])
    assert [event.type for event in changes] == ["UPDATE", "CREATE"]
    own = list(orders.audit(made.id, transaction_id=made.transaction_id))
    assert {event.transaction_id for event in own} == {made.transaction_id}


class Order(Struct):
    sku: str
    qty: int


def test_documents_may_be_structs(orders: Client) -> None:
    made = orders.create("order", 1, Order("A-1", 2))
    assert orders.get(made.id).view(Order) == Order("A-1", 2)


def test_a_unique_key_is_taken_once(client: Client) -> None:
    client.models.import_sample("order", 1, SAMPLE)
    client.models.set_unique_keys("order", 1, {"by-sku": ["$.sku"]})
    client.models.lock("order", 1)
    client.create("order", 1, {"sku": "A-1"})
    with pytest.raises(Conflicting) as taken:
        client.create("order", 1, {"sku": "A-1"})
    assert (taken.value.code, taken.value.retryable) == ("UNIQUE_VIOLATION", False)


def test_a_write_has_the_warnings_of_its_run(client: Client) -> None:
    client.models.import_sample("parcel", 1, {"kg": 1})
    client.models.lock("parcel", 1)
    made = client.create("parcel", 1, {"kg": 2})
    assert made.warnings == ("no workflows imported for model — using default workflow",)
    assert client.transition(made.id, "UPDATE").warnings == ()
