"""Playbooks from start to end, through the death of the service: ``make demo-playbooks`` runs it.

A service on a fresh embedded database and a worker process are started, and a playbook (``playbooks/claims.yaml``): a
parallel loop with retries, a join, a step that waits for somebody's decision, a final step. While claims are under way
the service is killed (SIGKILL) and started again. Then the decisions are made. Every claim ends as it would have
without that, and nothing counted twice. The program ends with code 1 at the first thing that is not as it should be.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from demo import PROGRAM, Api, Surprise, console, expect, step
from demo_flows import Service, until, work
from rich.markup import escape
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

PLAYBOOKS = Path(__file__).parent / "playbooks"
TEXT = (PLAYBOOKS / "claims.yaml").read_text()
CLAIMS = 30

WORKLOADS: dict[str, dict[str, Any]] = {
    "small": {"customer": "Ada", "pictures": ["scratch", "dent:blurred"]},
    "large": {"customer": "Bob", "pictures": ["wreck", "dent", "scratch"]},
    "odd": {"customer": "Eve", "pictures": ["scratch"]},
}
DECISIONS = {"large": "pay", "odd": "refuse"}
"""What somebody says of claims that wait for it."""
EXPECTED: dict[str, dict[str, Any]] = {
    "small": {"damage": 520, "paid": 520, "reported": 1},
    "large": {"damage": 9520, "decision": "pay", "paid": 9520, "reported": 1},
    "odd": {"damage": 120, "decision": "refuse", "paid": 0, "reported": 1},
}
"""The ctx that a claim ends with."""


def main() -> int:
    """Run it all; the exit code of the program."""
    with tempfile.TemporaryDirectory(prefix="statewright-demo-") as directory:
        service = Service(Path(directory))
        try:
            service.start()
            with work("office", service.url, PLAYBOOKS):
                play(service)
        except Surprise as surprise:
            console.print(Panel(f"[bold red]{escape(str(surprise))}", title="not as expected"))
            return 1
        finally:
            service.stop()
    console.print(Panel("[bold green]Every claim ended as it should, and nothing counted twice.", title="done"))
    return 0


def play(service: Service) -> None:
    """The whole story."""
    api = Api(service.url)
    step(1, "A playbook is a document: steps, who may run them when, and where to go from there")
    console.print(Syntax(TEXT, "yaml", background_color="default"))
    stored = api.call("POST", "/v1/playbooks", TEXT.encode(), status=201)
    expect((stored["path"], stored["version"]) == ("demo/claims", 1), f"demo/claims, version 1: {stored}")

    step(2, f"{CLAIMS} claims are started; the office polls for their tasks")
    sorts = [list(WORKLOADS)[number % len(WORKLOADS)] for number in range(CLAIMS)]
    claims = [start(api, f"C-{number}", WORKLOADS[sort]) for number, sort in enumerate(sorts, 1)]

    step(3, "In the middle of it the service is killed, and started again")
    until(lambda: count(api, "COMPLETED") + count(api, "WAITING") >= CLAIMS // 6, "some claims are done")
    service.kill()
    console.print("  [bold red]SIGKILL[/]")
    service.start()
    console.print(f"  back again; {count(api, 'COMPLETED')} claims of {CLAIMS} are done")

    step(4, "Claims above the limit, and odd ones, wait for a decision, which is a patch of ctx")
    undecided = len(sorts) - sorts.count("small")
    until(lambda: count(api, "WAITING") == undecided, f"{undecided} claims wait")
    for claim, sort in zip(claims, sorts, strict=True):
        if sort in DECISIONS:
            decision = {"ctx": {"decision": DECISIONS[sort]}, "reason": "looked at"}
            api.call("POST", f"/v1/executions/{claim}/patch", decision, quietly=claim != claims[1])

    step(5, "All claims end as they should")
    until(lambda: count(api, "COMPLETED") == CLAIMS, "all claims are done")
    for number, (claim, sort) in enumerate(zip(claims, sorts, strict=True), 1):
        check(api, claim, number, sort)
    show(api, claims[sorts.index("large")])


def start(api: Api, key: str, workload: dict[str, Any]) -> str:
    """The id of a new execution."""
    asked = {"path": "demo/claims", "workload": workload, "businessKey": key}
    return str(api.call("POST", "/v1/executions", asked, status=201, quietly=key != "C-1")["id"])


def count(api: Api, state: str) -> int:
    """How many claims are in a state. None may have failed."""
    listed = api.call("GET", "/v1/executions?pageSize=100", quietly=True)["items"]
    failed = [item for item in listed if item["state"] in ("FAILED", "CANCELLED")]
    expect(not failed, f"no claim fails: {failed}")
    return sum(item["state"] == state for item in listed)


def read_events(api: Api, claim: str) -> list[dict[str, Any]]:
    """The event log of an execution."""
    return list(api.call("GET", f"/v1/executions/{claim}/events?limit=1000", quietly=True)["items"])


def check(api: Api, claim: str, number: int, sort: str) -> None:
    """What a claim came to, and that each of its steps ended once."""
    ended = api.call("GET", f"/v1/executions/{claim}", quietly=True)
    expect(ended["status"] == "success", f"claim {number} ends well: {ended}")
    expect(ended["ctx"] == EXPECTED[sort], f"claim {number} comes to {EXPECTED[sort]}, not {ended['ctx']}")
    kinds = ("step.done", "loop.done")
    done = Counter(event["step"] for event in read_events(api, claim) if event["event_type"] in kinds)
    expect(set(done.values()) == {1}, f"each step of claim {number} ends once, not {done}")


def show(api: Api, claim: str) -> None:
    """Some of the event log."""
    table = Table("time", "event", "step", box=None)
    shown = ("step.scheduled", "step.done", "loop.done", "join.fired", "workflow.waiting", "ctx.patched")
    for event in read_events(api, claim):
        if event["event_type"] in shown:
            table.add_row(event["timestamp"][11:23], event["event_type"], event.get("step", ""))
    console.print(table)


if __name__ == "__main__":
    if not PROGRAM.exists():
        sys.exit("run `make demo-playbooks`, or install Statewright first")
    sys.exit(main())
