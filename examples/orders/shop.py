"""The application: sets the shop up, and plays a few orders. Run ``python shop.py`` beside a service and the node.

docs/guides/client.md explains the client.
"""

import json
from pathlib import Path
from typing import Any

from statewright import Client, Conflicting, RunFailed
from statewright.sdk.conditions import field, state

HERE = Path(__file__).parent


def set_up(client: Client) -> None:
    """Models, workflows and the process; may be repeated."""
    workflows = json.loads((HERE / "workflows.json").read_text())
    for model, sample in json.loads((HERE / "models.json").read_text()).items():
        try:
            client.models.import_sample(model, 1, sample)
            if model == "stock":
                client.models.set_unique_keys(model, 1, {"by-sku": ["$.sku"]})
            client.models.lock(model, 1)
        except Conflicting as refused:
            if refused.code != "MODEL_ALREADY_LOCKED":
                raise
        if model in workflows:
            client.workflows.import_(model, 1, workflows[model], mode="REPLACE")
    client.steps.upload(json.loads((HERE / "fulfilment.json").read_text()))


def place_order(client: Client, name: str, **goods: int) -> str:
    """The id of an order; it is accepted at once, or refused with a reason."""
    lines = [{"sku": sku, "qty": qty} for sku, qty in goods.items()]
    return client.create("order", 1, {"customer": {"name": name, "city": "Oslo"}, "lines": lines}).id


def fulfil(client: Client, order_id: str) -> Any:
    """Start the fulfilment of a paid order; its id is the business key, so there is one for each."""
    return client.steps.start("SHOP::fulfilment", {"order": order_id}, business_key=order_id)


def check_parcel(client: Client, process_id: str, *, in_order: bool) -> None:
    """What a person does: look at the parcel, and say what he thinks of it."""
    for task in client.steps.user_tasks(job_type="parcel-check"):
        if task.instance_id == process_id:
            client.steps.complete_task(task.id, {"inOrder": in_order}, completed_by="grace")


def list_unpaid(client: Client, above: int) -> list[str]:
    """Who has large orders that are not paid."""
    condition = state().equals("RESERVED") & field("$.total").greater_than(above)
    return [order.data["customer"]["name"] for order in client.search_all("order", 1, condition, sort=["total:desc"])]


def main() -> None:
    """A morning in the shop."""
    with Client() as client:
        set_up(client)
        client.create_many(
            "stock", 1, [{"sku": "tea", "left": 10, "price": 4.5}, {"sku": "cup", "left": 3, "price": 12}]
        )

        order = place_order(client, "Ada", tea=2, cup=1)
        print("Ada's order is", client.get(order).state, "and comes to", client.get(order).data["total"])
        print("waiting for money:", ", ".join(list_unpaid(client, above=10)))
        client.transition(order, "pay")

        process = fulfil(client, order)
        client.steps.wait(process.id, until=["WAITING"])
        check_parcel(client, process.id, in_order=True)
        print("fulfilment:", client.steps.wait(process.id).status)
        print("Ada's order is", client.get(order).state, "as", client.get(order).data["tracking"])

        try:
            place_order(client, "Bob", cup=5)
        except RunFailed as refused:
            print("Bob's order is refused:", refused)

        for version in client.history(order):
            print(" ", version.time_of_change, version.change_type)


if __name__ == "__main__":
    main()
