"""The worker of the finance department: ``statewright node finance:node``."""

from datetime import timedelta
from typing import Any

from statewright.sdk import Node, Task

PRICES = {"tea": 4, "cup": 9, "pot": 30}

Json = dict[str, Any]

node = Node(lease=timedelta(seconds=5))  # when a worker dies, others have its tasks after 5 s


@node.task("price")
def price(line: Json, task: Task) -> Json:
    """The price of a line, in the currency that the flow asks for."""
    return {"order": line["order"], "price": PRICES[line["sku"]], "currency": task.parameters["currency"]}


@node.task("total")
def total(lines: list[Json]) -> Json:
    """One record of all lines, each of which has a price and a shelf by now."""
    return {
        "order": lines[0]["order"],
        "total": sum(line["price"] for line in lines),
        "shelves": [line["shelf"] for line in lines],
        "approved": False,
    }


@node.task("approve")
def approve(order: Json) -> Json:
    """Only for large orders."""
    return order | {"approved": True}
