"""The fake engine: functions are called as a node calls them, on entities in memory."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from msgspec import Struct

from statewright.sdk import Caller, Context, Missing, Node, Rejected, Schedule
from statewright.sdk.functions import NoWayBack
from statewright.sdk.testing import FakeEngine, Lifecycle, Place, Request

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)


class Order(Struct):
    total: int
    state: str = ""


def a_node() -> Node:
    return Node(tags=["orders"])


def test_a_processor_gets_the_document_and_its_result_becomes_the_entitys():
    node = a_node()
    node.processor("price")(lambda order: order | {"total": order["amount"] * Decimal("1.19")})
    engine = FakeEngine(node)
    order = engine.add("order", 1, {"amount": 100})
    done = engine.process("price", order)
    assert (done.success, done.changed, done.document) == (True, True, {"amount": 100, "total": Decimal("119.00")})
    assert engine.entity(order.id).data == done.document


def test_a_bare_document_will_do():
    node = a_node()
    node.processor("price")(lambda order: None)
    done = FakeEngine(node).process("price", {"amount": 1})
    assert (done.changed, done.document) == (False, {"amount": 1})


def test_structs_are_decoded_and_encoded_as_in_a_node():
    node = a_node()

    @node.processor("price")
    def price(order: Order) -> Order:
        return Order(total=order.total + 1, state="priced")

    done = FakeEngine(node).process("price", {"total": 1, "customer": "ada"})
    assert done.document == {"total": 2, "state": "priced", "customer": "ada"}


def test_what_a_function_raises_is_its_failure_and_can_be_looked_at():
    node = a_node()

    @node.processor("price")
    def price(order: object, context: Context) -> None:
        context.warn("low stock")
        raise LookupError("no tariff")

    done = FakeEngine(node).process("price", {"amount": 1})
    assert (done.success, done.error, done.error_code) == (False, "no tariff", "LookupError")
    assert (done.warnings, done.document) == (("low stock",), {"amount": 1})
    assert isinstance(done.exception, LookupError)


def test_a_result_that_is_no_json_fails_here_as_it_would_in_production():
    node = a_node()
    node.processor("price")(lambda order: object())
    done = FakeEngine(node).process("price", {})
    assert (done.success, done.error_code) == (False, "NotJson")


def test_a_function_that_is_not_there_is_unknown():
    done = FakeEngine(a_node()).process("price", {})
    assert (done.success, done.error) == (False, "this node has no processor named price")


def test_an_unknown_function_is_told_with_those_there_are():
    node = a_node()
    node.processor("price")(lambda order: None)
    node.processor("tax")(lambda order: None)
    node.criterion("is-dear")(lambda order: True)
    assert FakeEngine(node).process("prcie", {}).error == "this node has no processor named prcie; it has price, tax"
    told = FakeEngine(node).judge("tax", {}).error
    assert told == "this node has no criterion named tax; it has is-dear; a processor has that name"


def test_entities_that_are_added_begin_where_their_lifecycle_does():
    engine = FakeEngine(a_node())
    engine.lifecycle("order", 1, {"initialState": "NEW", "states": {"NEW": {}}})
    assert engine.add("order", 1, {}).state == "NEW"
    assert engine.add("order", 1, {}, state="PAID").state == "PAID"
    assert engine.add("note", 1, {}).state == "CREATED"


@pytest.mark.parametrize("outcome", [{"matches": False}, "no", b"no"])
def test_a_criterion_that_returns_an_object_or_a_text_fails(outcome):
    """They would be true, whatever they say."""
    node = a_node()
    node.criterion("is-dear")(lambda order: outcome)
    done = FakeEngine(node).judge("is-dear", {})
    expected = f"a criterion returns True, False or Rejected(reason), not {type(outcome).__name__}"
    assert (done.success, done.error) == (False, expected)


def test_a_schedule_function_that_returns_no_time_fails():
    node = a_node()
    node.schedule("soon")(lambda order: 5)
    done = FakeEngine(node).schedule("soon", {})
    assert done.error == "a schedule function returns a Schedule, a timedelta or a datetime, not int"


def test_the_context_tells_the_place_it_is_called_from():
    node, seen = a_node(), list[Context]()
    node.processor("price")(lambda order, context: seen.append(context))
    engine = FakeEngine(node)
    order = engine.add("order", 3, {}, state="NEW")
    place = Place(
        workflow="orders",
        transition="SUBMIT",
        state_to="SUBMITTED",
        parameters="strict",
        principal=Caller(id="ada", kind="user", roles=("ROLE_USER",)),
    )
    engine.process("price", order, place)
    [context] = seen
    assert (context.workflow, context.transition, context.parameters) == ("orders", "SUBMIT", "strict")
    assert (context.state, context.state_to, context.model) == ("NEW", "SUBMITTED", ("order", 3))
    assert (context.principal.id, context.principal.roles) == ("ada", ("ROLE_USER",))
    assert context.tx_token == context.transaction_id != ""


def test_every_request_is_recorded():
    node = a_node()

    @node.processor("price")
    def price(order: object, context: Context) -> None:
        context.client.create("note", 1, {"text": "priced"})
        with pytest.raises(Missing):
            context.client.get("nobody")

    engine = FakeEngine(node)
    done = engine.process("price", {})
    assert done.requests == (
        Request(operation="create", target=("note", "1"), body={"text": "priced"}, joined=True),
        Request(operation="get", target=("nobody",), joined=True, error_code="ENTITY_NOT_FOUND"),
    )
    assert [note.data for note in engine.entities("note", 1)] == [{"text": "priced"}]


def test_what_a_failing_function_wrote_is_gone_unless_it_was_outside_the_transaction():
    node = a_node()

    @node.processor("price")
    def price(order: object, context: Context) -> None:
        context.client.create("note", 1, {})
        raise ValueError("no")

    engine = FakeEngine(node)
    engine.process("price", {})
    assert engine.entities("note", 1) == []
    engine.process("price", {}, Place(joins=False))
    assert len(engine.entities("note", 1)) == 1


def test_entities_move_along_their_lifecycle():
    workflow = {
        "version": "1.3",
        "name": "notes",
        "initialState": "OPEN",
        "states": {"OPEN": {"transitions": [{"name": "CLOSE", "next": "CLOSED", "manual": True}]}, "CLOSED": {}},
    }
    engine = FakeEngine(a_node())
    engine.lifecycle("note", 1, workflow)
    note = engine.client.create("note", 1, {}).id
    assert (engine.entity(note).state, engine.client.transitions(note)) == ("OPEN", ["CLOSE"])
    engine.client.transition(note, "CLOSE")
    assert engine.entity(note).state == "CLOSED"
    with pytest.raises(Missing, match="TRANSITION_NOT_FOUND"):
        engine.client.transition(note, "CLOSE")
    assert Lifecycle.of(workflow).states["OPEN"] == {"CLOSE": "CLOSED"}


def test_a_criterion_says_yes_or_no_and_why():
    node = a_node()
    node.criterion("rich")(lambda order: order["total"] > 10 or Rejected("too small"))
    engine = FakeEngine(node)
    assert engine.judge("rich", {"total": 11}).matches
    no = engine.judge("rich", {"total": 1})
    assert (no.success, no.matches, no.reason) == (True, False, "too small")


@pytest.mark.parametrize(
    ("answer", "fires", "expires"),
    [
        (timedelta(hours=1), NOW + timedelta(hours=1), None),
        (datetime.fromisoformat("2026-03-02T00:00:00"), datetime(2026, 3, 2, tzinfo=UTC), None),
        (
            Schedule(after=timedelta(hours=1), expire_after=timedelta(minutes=5)),
            NOW + timedelta(hours=1),
            NOW + timedelta(minutes=65),
        ),
        (
            Schedule(at=NOW + timedelta(days=1), expire_at=NOW + timedelta(days=2)),
            NOW + timedelta(days=1),
            NOW + timedelta(days=2),
        ),
        ({"fireAfterMs": 1000, "expireAt": None}, NOW + timedelta(seconds=1), None),
    ],
)
def test_a_schedule_function_says_when(answer, fires, expires):
    node = a_node()
    node.schedule("reminder")(lambda order: answer)
    scheduled = FakeEngine(node).schedule("reminder", {})
    assert (scheduled.fires(NOW), scheduled.expires(NOW)) == (fires, expires)


@pytest.mark.parametrize("answer", [{}, {"fireAt": 1, "fireAfterMs": 1}, {"fireAt": "soon"}, {"fireAt": True}])
def test_an_answer_that_the_server_would_refuse_is_no_schedule(answer):
    node = a_node()
    node.schedule("reminder")(lambda order: answer)
    with pytest.raises(ValueError, match="not a schedule"):
        FakeEngine(node).schedule("reminder", {}).fires(NOW)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"after": timedelta(1), "at": NOW},
        {"after": timedelta(1), "expire_after": timedelta(1), "expire_at": NOW},
    ],
)
def test_a_schedule_that_contradicts_itself_cannot_be_made(members):
    with pytest.raises(ValueError, match="a schedule has"):
        Schedule(**members)


async def test_it_works_in_a_test_that_has_a_loop_and_for_async_functions():
    node = a_node()

    @node.processor("price")
    async def price(order: object, context: Context) -> None:
        await asyncio.gather(*(context.async_client.create("note", 1, {"n": n}) for n in range(3)))

    engine = FakeEngine(node)
    assert engine.process("price", {}).success
    assert len(engine.entities("note", 1)) == 3


def test_functions_may_use_the_client_in_several_threads():
    node = a_node()

    @node.processor("price")
    def price(order: object, context: Context) -> None:
        threads = [threading.Thread(target=context.client.create, args=("note", 1, {})) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    engine = FakeEngine(node)
    engine.process("price", {})
    assert len(engine.entities("note", 1)) == 8


def test_a_context_made_by_hand_has_no_way_back():
    with pytest.raises(NoWayBack, match="FakeEngine"):
        _ = Context(name="f", request_id="r", entity_id="e").client
