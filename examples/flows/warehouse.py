"""The worker of the warehouse: ``statewright node warehouse:node``."""

from datetime import timedelta
from typing import Any

from statewright.sdk import Node

PARCEL = 2
"""Lines that fit into one parcel."""

CARTS = {"small": ["tea"], "usual": ["tea", "cup", "pot"], "large": ["pot"] * 7}

Json = dict[str, Any]

node = Node(lease=timedelta(seconds=5))  # when a worker dies, others have its tasks after 5 s


@node.task("load")
def load(order: Json) -> list[Json]:
    """The lines of an order."""
    return [{"order": order["id"], "line": number, "sku": sku} for number, sku in enumerate(CARTS[order["cart"]])]


@node.task("reserve")
def reserve(line: Json) -> Json:
    """A place on the shelf."""
    return {"shelf": f"{line['sku']}-{line['line']}"}


@node.task("pack")
def pack(order: Json) -> Json:
    """One parcel more, as full as it can be."""
    parcels = order.get("parcels", 0) + 1
    return order | {"parcels": parcels, "left": max(0, len(order["shelves"]) - parcels * PARCEL)}


@node.task("weigh")
def weigh(order: Json) -> Json:
    """A parcel that is not the last one; 600 grams a line."""
    return order | {"grams": order.get("grams", 0) + 600 * PARCEL}


@node.task("ship")
def ship(order: Json) -> Json:
    """The end of it."""
    return {name: order[name] for name in ("order", "total", "approved", "parcels")}
