"""The workers of the claims office: ``statewright node office:node``."""

from datetime import timedelta
from typing import Any

from statewright.sdk import Node, TaskCall

COSTS = {"scratch": 120, "dent": 400, "wreck": 9000}
CLAIMS = {"Ada": 0, "Bob": 1, "Eve": 7}

Json = dict[str, Any]

node = Node(lease=timedelta(seconds=5))  # when a worker dies, others have its jobs after 5 s


@node.task_kind("vision")
def look(task: Json, call: TaskCall) -> Json:
    """What a picture shows, and what that costs. A blurred one needs a second look."""
    picture, _, how = str(task["picture"]).partition(":")
    if how == "blurred" and call.attempt == 1:
        raise RuntimeError("the picture is blurred")
    return {"shows": picture, "cost": COSTS[picture]}


@node.task_kind("records")
def read_records(task: Json) -> Json:
    """How many claims a customer has made."""
    return {"claims": CLAIMS[task["customer"]]}


@node.task_kind("bank")
def transfer(task: Json, call: TaskCall) -> Json:
    """A payment. The key is the same when the bank is asked again for the same one."""
    return {"paid": task["amount"], "to": task["customer"], "reference": call.key}


@node.task_kind("mail")
def write(task: Json) -> Json:
    """A letter."""
    return {"sent": task["text"]}
