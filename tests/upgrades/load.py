"""Clients that write and read all the time, and remember what they were told."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import httpx

from tests.builders import Json
from tests.service import Api
from tests.upgrades.filling import ORDER

CLIENTS = 4


@dataclass
class Load:
    """What they were told by all nodes together."""

    approved: dict[str, float] = field(default_factory=dict)
    """Orders that were created and approved, with their totals."""
    completed: list[str] = field(default_factory=list)
    """Instances whose job was completed."""
    served: dict[str, int] = field(default_factory=dict)
    """How many rounds each node has served."""
    refused: list[str] = field(default_factory=list)
    """Answers that a client need not expect: neither success, nor to be repeated."""
    repeated: int = 0
    """Answers that asked for a repetition."""


class Refused(Exception):
    """A round ends: with what was refused, or with nothing where it may be repeated."""


@contextmanager
def under_load(*nodes: tuple[Api, Api], load: Load, numbers: "count[int]") -> Iterator[None]:
    """Clients for each node, its entity API and its step API, while the block runs."""
    stop = threading.Event()
    clients = [
        threading.Thread(target=_work, args=(node, load, numbers, stop)) for node in nodes for _ in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        stop.set()
        for client in clients:
            client.join()


def _work(node: tuple[Api, Api], load: Load, numbers: "count[int]", stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            _do_round(*node, load, next(numbers))
        except Refused as why:
            if why.args:
                load.refused.append(str(why))
            else:
                load.repeated += 1
        else:
            load.served[node[0].url] = load.served.get(node[0].url, 0) + 1


def _do_round(api: Api, v1: Api, load: Load, number: int) -> None:
    """An order is created, read and approved; an instance started, and the oldest job done."""
    total = number + 0.5
    [made] = _expect(api.post("/entity/JSON/order/1", ORDER | {"no": number, "total": total}))
    [order] = made["entityIds"]
    if _expect(api.get(f"/entity/{order}"))["data"]["total"] != total:
        raise Refused(f"{order} was read with another total")
    _expect(api.put(f"/entity/JSON/{order}/APPROVE", ORDER | {"no": number, "total": total}))
    load.approved[order] = total
    _expect(v1.post("/v1/instances", {"definitionId": "upgrade-work", "variables": {"amount": number}}))
    body = {"workerId": "w", "jobTypes": ["upgrade-work"], "maxJobs": 1}
    for job in _expect(v1.post("/v1/jobs/poll", body))["jobs"]:
        _expect(v1.post(f"/v1/jobs/{job['id']}/complete", {"workerId": "w", "variables": {"done": True}}))
        load.completed.append(job["instanceId"])


def _expect(response: httpx.Response) -> Json:
    if response.is_success:
        return response.json() if response.content else None
    told = response.json()
    if told.get("properties", {}).get("retryable") or response.status_code == 503:
        raise Refused
    raise Refused(f"{response.request.method} {response.request.url.path}: {response.status_code} {response.text}")


def read_all(api: Api, v1: Api, load: Load) -> Sequence[Json]:
    """What a node says of everything that was acknowledged."""
    return [
        *(_expect(api.get(f"/entity/{order}")) for order in load.approved),
        *(_expect(v1.get(f"/v1/instances/{instance}")) for instance in load.completed),
    ]
