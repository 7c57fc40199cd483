"""examples/orders: the installed program, its node as a process, and the shop beside them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from statewright import Client, RunFailed
from statewright.sdk.conditions import all_of
from tests.e2e.program import EXECUTABLE, Program, environment, started
from tests.service import eventually

ORDERS = Path(__file__).parents[2] / "examples" / "orders"


def load_shop() -> ModuleType:
    """The module, without the directory of the example on the path."""
    spec = spec_from_file_location("orders_shop", ORDERS / "shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SHOP = load_shop()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A service with the node of the example."""
    home = tmp_path_factory.mktemp("orders")
    settings = {"DATA_DIRECTORY": str(home / "data"), "SCHEDULER_SCAN_INTERVAL": "100ms"}
    with started(home, **settings) as running:
        running.ready()
        with node_of(running, home):
            yield running
        running.terminate()


@contextmanager
def node_of(program: Program, home: Path) -> Iterator[None]:
    named = {"STATEWRIGHT_URL": program.root, "STATEWRIGHT_COMPUTE_ENDPOINT": program.grpc}
    log = home / "node.log"
    with log.open("wb") as out:
        node = subprocess.Popen(
            [EXECUTABLE, "node", "node:node"], cwd=ORDERS, env=environment(home, named), stdout=out, stderr=out
        )
    try:
        eventually(lambda: b"node_joined" in log.read_bytes(), within_s=60)
        yield
    finally:
        node.terminate()
        assert node.wait(30) == 0, log.read_text()


@pytest.fixture(scope="module")
def client(program: Program) -> Iterator[Client]:
    """The shop's client, with something on the shelf."""
    with Client(program.root) as client:
        SHOP.set_up(client)
        SHOP.set_up(client)  # which may be repeated
        client.create("stock", 1, {"sku": "hat", "left": 3, "price": 20})
        yield client


def on_shelf(client: Client, sku: str = "hat") -> tuple[int, str]:
    [stock] = [found for found in client.iterate("stock", 1) if found.data["sku"] == sku]
    return stock.data["left"], stock.state


def test_the_morning_of_the_shop_is_played(program: Program, client: Client, tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, ORDERS / "shop.py"],
        env=environment(tmp_path, {"STATEWRIGHT_URL": program.root}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[0] == "Ada's order is RESERVED and comes to 21.0"
    assert lines[1] == "waiting for money: Ada"
    assert lines[2] == "fulfilment: COMPLETED"
    assert lines[3].startswith("Ada's order is SHIPPED as T-")
    assert lines[4].startswith("Bob's order is refused: WORKFLOW_FAILED")
    assert "only 2 of cup are left" in lines[4]


def test_goods_that_run_out_and_come_back_change_state_by_themselves(client: Client) -> None:
    order = SHOP.place_order(client, "Eve", hat=3)
    assert on_shelf(client) == (0, "SOLD_OUT")
    client.transition(order, "cancel")
    assert on_shelf(client) == (3, "ON_SHELF")
    assert [found for found in client.iterate("reservation", 1) if found.data["order"] == order] == []


def test_an_order_is_reserved_as_a_whole_or_not_at_all(client: Client) -> None:
    before = client.count("reservation", 1)
    with pytest.raises(RunFailed, match="there is no boot"):
        SHOP.place_order(client, "Eve", hat=1, boot=1)
    assert (on_shelf(client), client.count("reservation", 1)) == ((3, "ON_SHELF"), before)


def test_an_order_that_is_incomplete_waits_where_it_begins(client: Client) -> None:
    order = SHOP.place_order(client, "", hat=1)
    assert client.get(order).state == "RECEIVED"
    [refusal] = [event for event in client.audit(order) if event.type == "TRANSITION_NOT_MATCH_CRITERION"]
    assert refusal.data["reason"] == "nobody to send it to"


def test_a_courtesy_that_fails_stops_nothing(client: Client) -> None:
    order = SHOP.place_order(client, "Nemo", hat=1)
    assert client.get(order).state == "RESERVED"
    client.transition(order, "cancel")


def test_a_card_that_is_refused_leaves_the_order_reserved(client: Client) -> None:
    client.create("stock", 1, {"sku": "crown", "left": 1, "price": 20000})
    order = SHOP.place_order(client, "Eve", crown=1)
    with pytest.raises(RunFailed, match="the card is not good for that"):
        client.transition(order, "pay")
    assert client.get(order).state == "RESERVED"


def test_an_order_that_is_not_paid_in_time_expires_and_gives_its_goods_back(client: Client) -> None:
    order = SHOP.place_order(client, "Oblomov", hat=2)
    eventually(lambda: client.get(order).state == "EXPIRED", within_s=30)
    assert on_shelf(client) == (3, "ON_SHELF")


def test_a_parcel_that_is_not_in_order_is_not_shipped(client: Client) -> None:
    order = SHOP.place_order(client, "Eve", hat=1)
    client.transition(order, "pay")
    assert client.get(order).data["receipt"] == f"R-{order}"
    process = SHOP.fulfil(client, order)
    client.steps.wait(process.id, until=["WAITING"])
    SHOP.check_parcel(client, process.id, in_order=False)
    done = client.steps.wait(process.id)
    assert (done.status, done.variables["parcel"]) == ("COMPLETED", ["1 x hat"])
    assert client.get(order).state == "PAID"
    assert [step.step_id for step in client.steps.history(process.id)] == ["pick", "check", "decide", "rejected"]


def test_the_past_can_be_searched(client: Client) -> None:
    order = SHOP.place_order(client, "Zoe", hat=1)
    then = client.history(order)[0].time_of_change
    client.transition(order, "cancel")
    found = {each.id: each.state for each in client.search("order", 1, all_of(), at=then)}
    assert found[order] == "RESERVED"
