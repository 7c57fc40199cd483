"""The calculation node of the shop: what happens to an order on its way, and the work of its fulfilment.

Run with ``statewright node node:node`` in this directory; docs/sdk.md explains it.
"""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from statewright import Client
from statewright.sdk import Context, Node, Rejected, Schedule
from statewright.sdk.conditions import field

PAYMENT_TIME = timedelta(hours=2)

node = Node(tags=["orders"])
application = Client()
"""For jobs, which have no transaction to join."""


@node.criterion("is-complete")
def is_complete(order: dict[str, Any]) -> bool | Rejected:
    """Whether an order says who wants what."""
    if not order.get("customer", {}).get("name"):
        return Rejected("nobody to send it to")
    return bool(order.get("lines")) or Rejected("nothing is ordered")


@node.processor("price")
def price(order: dict[str, Any], context: Context) -> dict[str, Any]:
    """The total, by the prices of the moment."""
    total = sum(find_stock(context, line["sku"]).data["price"] * line["qty"] for line in order["lines"])
    return order | {"total": total}


@node.processor("reserve")
def reserve(order: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take the goods off the shelf, all of them or none: whatever is refused undoes the order, too."""
    made = []
    for line in order["lines"]:
        stock = find_stock(context, line["sku"])
        left = stock.data["left"] - line["qty"]
        if left < 0:
            raise ValueError(f"only {stock.data['left']} of {line['sku']} are left")
        context.client.patch(stock.id, {"left": left}, if_match=stock.transaction_id)
        made.append(context.client.create("reservation", 1, {"order": context.entity_id, **line}).id)
    return order | {"reservations": made}


@node.processor("greet")
def greet(order: dict[str, Any]) -> None:
    """A courtesy that may fail: the order goes on without it."""
    if order["customer"]["name"] == "Nemo":
        raise ValueError("there is no address to write to")


@node.processor("charge")
def charge(order: dict[str, Any], context: Context) -> dict[str, Any]:
    """Outside of any transaction, since it takes its time; the entity's id makes a repetition harmless."""
    if order["total"] > Decimal(10_000):
        raise ValueError("the card is not good for that")
    return order | {"receipt": f"R-{context.entity_id}"}


@node.processor("release")
def release(order: dict[str, Any], context: Context) -> None:
    """Put the goods back."""
    for reservation_id in order["reservations"]:
        reservation = context.client.get(reservation_id)
        stock = find_stock(context, reservation.data["sku"])
        context.client.patch(stock.id, {"left": stock.data["left"] + reservation.data["qty"]})
        context.client.delete(reservation_id)


@node.schedule("payment-deadline")
def payment_deadline(order: dict[str, Any], context: Context) -> Schedule:
    """How long goods stay reserved without being paid: not at all for those who are known to forget."""
    if order["customer"]["name"] == "Oblomov":
        return Schedule(after=timedelta(milliseconds=1))
    return Schedule(after=PAYMENT_TIME, expire_after=timedelta(days=1))


@node.job("pick-goods")
def pick_goods(variables: dict[str, Any]) -> dict[str, Any]:
    """What is in the parcel."""
    order = application.get(variables["order"])
    return {"parcel": [f"{line['qty']} x {line['sku']}" for line in order.data["lines"]]}


@node.job("dispatch-parcel")
def dispatch_parcel(variables: dict[str, Any]) -> dict[str, Any]:
    """The order learns its tracking number and is shipped; done twice, it is shipped once."""
    order = application.get(variables["order"])
    tracking = f"T-{order.id}"
    if order.state == "PAID":
        application.patch(order.id, {"tracking": tracking}, transition="ship", if_match=order.transaction_id)
    return {"tracking": tracking}


def find_stock(context: Context, sku: str) -> Any:
    """The goods of a kind, as the transaction sees them."""
    found = context.client.search("stock", 1, field("$.sku").equals(sku))
    if not found:
        raise ValueError(f"there is no {sku}")
    return found[0]
