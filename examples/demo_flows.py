"""Flows from start to end, through the death of the service: ``make demo-flows`` runs it.

A service on a fresh embedded database and two worker processes are started, and a flow of ten lines of text
(``flows/fulfilment.flow``): a guard, a merge, an iteration over the lines of an order with a subflow, a loop that ends.
While orders are under way the service is killed (SIGKILL) and started again. Every order ends as it would have without
that, and no task counted twice. The program ends with code 1 at the first thing that is not as it should be.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from demo import PROGRAM, Api, Surprise, await_ready, console, expect, free_ports, process, step
from rich.markup import escape
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

FLOWS = Path(__file__).parent / "flows"
TEXT = (FLOWS / "fulfilment.flow").read_text()
ORDERS = 30
WITHIN_S = 90.0

EXPECTED: dict[str, dict[str, Any]] = {
    "small": {"total": 4, "approved": False, "parcels": 1},
    "usual": {"total": 43, "approved": False, "parcels": 2},
    "large": {"total": 210, "approved": True, "parcels": 4},
}
"""What becomes of an order, by its cart."""

TASKS: dict[str, dict[str, int]] = {
    "small": {"load": 1, "price": 1, "reserve": 1, "total": 1, "pack": 1, "ship": 1},
    "usual": {"load": 1, "price": 3, "reserve": 3, "total": 1, "pack": 2, "weigh": 1, "ship": 1},
    "large": {"load": 1, "price": 7, "reserve": 7, "total": 1, "approve": 1, "pack": 4, "weigh": 3, "ship": 1},
}
"""How often each task is done for an order."""


def main() -> int:
    """Run it all; the exit code of the program."""
    with tempfile.TemporaryDirectory(prefix="statewright-demo-") as directory, ExitStack() as workers:
        service = Service(Path(directory))
        try:
            service.start()
            for worker in ("warehouse", "finance"):
                workers.enter_context(work(worker, service.url))
            play(service)
        except Surprise as surprise:
            console.print(Panel(f"[bold red]{escape(str(surprise))}", title="not as expected"))
            return 1
        finally:
            workers.close()
            service.stop()
    console.print(Panel("[bold green]Every order ended as it should, and no task counted twice.", title="done"))
    return 0


class Service:
    """A service on a fresh embedded database and free ports, which can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self._http, grpc, self._admin = free_ports(3)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("STATEWRIGHT_", "CYODA_"))}
        self._environment = kept | {
            "STATEWRIGHT_HTTP_PORT": str(self._http),
            "STATEWRIGHT_GRPC_PORT": str(grpc),
            "STATEWRIGHT_ADMIN_PORT": str(self._admin),
            "STATEWRIGHT_DATA_DIRECTORY": str(directory / "data"),
            "STATEWRIGHT_SUPPRESS_BANNER": "true",
            "STATEWRIGHT_LOG_LEVEL": "error",
        }
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http}"

    def start(self) -> None:
        """Return when it is ready."""
        self._running = subprocess.Popen([str(PROGRAM), "serve"], env=self._environment, stdin=subprocess.DEVNULL)
        await_ready(f"http://127.0.0.1:{self._admin}/readyz", self._running)

    def kill(self) -> None:
        """End it without a word."""
        assert self._running is not None
        self._running.send_signal(signal.SIGKILL)
        self._running.wait()

    def stop(self) -> None:
        """End it in good order."""
        if self._running is not None and self._running.poll() is None:
            self._running.terminate()
            self._running.wait(30)


def play(service: Service) -> None:
    """The whole story."""
    api = Api(service.url)
    step(1, "A flow is a few lines of text")
    console.print(Syntax(TEXT, "text", background_color="default"))
    stored = api.call("POST", "/v1/flows/definitions", {"source": TEXT}, status=201)
    expect((stored["id"], stored["version"]) == ("fulfilment", 1), f"fulfilment, version 1: {stored}")

    step(2, f"{ORDERS} orders are started; the warehouse and the finance department poll for their tasks")
    carts = [list(EXPECTED)[number % len(EXPECTED)] for number in range(ORDERS)]
    instances = [start(api, f"O-{number}", cart) for number, cart in enumerate(carts, 1)]

    step(3, "In the middle of it the service is killed, and started again")
    until(lambda: len(find_completed(api, instances)) >= ORDERS // 6, "some orders are done")
    service.kill()
    console.print("  [bold red]SIGKILL[/]")
    service.start()
    before = len(find_completed(api, instances))
    console.print(f"  back again; {before} orders of {ORDERS} are done")

    step(4, "All orders end as they should")
    until(lambda: len(find_completed(api, instances)) == ORDERS, "all orders are done")
    check(api, instances, carts)
    largest = instances[carts.index("large")]
    show(api, largest)
    step(5, "Each order is an entity, too: found by what it came to, readable at any instant")
    condition = {"type": "simple", "jsonPath": "$.result.total", "operatorType": "GREATER_THAN", "value": 100}
    rows = search(api, condition)
    expect(rows == carts.count("large"), f"{carts.count('large')} large orders are found, not {rows}")
    console.print(f"  {rows} orders above 100")


def start(api: Api, order: str, cart: str) -> str:
    """The id of a new instance."""
    asked = {"definitionId": "fulfilment", "input": {"id": order, "cart": cart}, "businessKey": order}
    return str(api.call("POST", "/v1/flows/instances", asked, status=201, quietly=order != "O-1")["id"])


def find_completed(api: Api, instances: list[str]) -> list[str]:
    """Those of the instances that are done. None may have failed."""
    listed = api.call("GET", "/v1/flows/instances?pageSize=100", quietly=True)["items"]
    failed = [item for item in listed if item["status"] not in ("RUNNING", "COMPLETED")]
    expect(not failed, f"no order fails: {failed}")
    return [item["id"] for item in listed if item["status"] == "COMPLETED" and item["id"] in instances]


def check(api: Api, instances: list[str], carts: list[str]) -> None:
    """Results and histories of all orders."""
    for number, (instance, cart) in enumerate(zip(instances, carts, strict=True), 1):
        result = api.call("GET", f"/v1/flows/instances/{instance}", quietly=True)["result"]
        expected = {"order": f"O-{number}"} | EXPECTED[cart]
        expect(result == expected, f"order {number} comes to {expected}, not {result}")
        done = count_tasks(api, instance)
        expect(done == TASKS[cart], f"order {number} takes {TASKS[cart]}, not {done}")


def read_history(api: Api, instance: str) -> list[dict[str, Any]]:
    """The lines of the history of an instance."""
    path = f"/v1/flows/instances/{instance}/history?pageSize=1000"
    return list(api.call("GET", path, quietly=True)["items"])


def count_tasks(api: Api, instance: str) -> Counter[str]:
    """How often each task was done."""
    lines = read_history(api, instance)
    done = (line for line in lines if line["kind"] == "task" and line["status"] == "COMPLETED")
    return Counter(line["name"].partition(".")[0] for line in done)


def search(api: Api, condition: dict[str, Any]) -> int:
    """How many instances match a condition."""
    return len(api.call("POST", "/api/search/FlowInstance/1", condition))


def show(api: Api, instance: str) -> None:
    """The history of an instance."""
    table = Table("time", "node", "status", box=None)
    colours = {"COMPLETED": "green", "FAILED": "red", "BYPASSED": "dim"}
    for line in read_history(api, instance):
        if line["kind"] == "task":
            status = f"[{colours.get(line['status'], 'cyan')}]{line['status']}"
            table.add_row(line["startedAt"][11:23], line["name"], status)
    console.print(table)


def until(fact: Callable[[], bool], text: str) -> None:
    """Return as soon as a fact is true."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if fact():
            return
        time.sleep(0.05)
    raise Surprise(f"not within {WITHIN_S:g} s: {text}")


@contextmanager
def work(name: str, url: str, directory: Path = FLOWS) -> Iterator[None]:
    """A worker process; it needs no announcement, and waits for a service that is away."""
    environment = dict(os.environ) | {"STATEWRIGHT_LOG_LEVEL": "error"}
    with process([str(PROGRAM), "node", f"{name}:node", "--api", url], environment, directory=directory):
        yield


if __name__ == "__main__":
    if not PROGRAM.exists():
        sys.exit("run `make demo-flows`, or install Statewright first")
    sys.exit(main())
