"""The two-workflow loan chain from start to end: ``make demo-steps`` runs it.

A service on a fresh embedded database and a worker process are started; then every row of the table "Expected terminal
states" of the Workflow JSON Format is played over the REST API. Timers of 48 and 8 hours are made short by a second
version of the definitions. The program ends with code 1 at the first thing that is not as it should be.
"""

import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from demo import PROGRAM, Api, Surprise, await_ready, console, expect, free_ports, process, step
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

LOAN = Path(__file__).parent / "loan"
APPLICATION, DISBURSEMENT = "LOS::loan-application-full", "LOS::loan-disbursement-workflow"
WITHIN_S = 60.0
LARGE = 600_000_000


@dataclass(frozen=True)
class Row:
    """A row of the table: what the bureau says, how much is asked for, what people decide, where it all ends."""

    scenario: str
    ends: list[str]
    score: int = 720
    fraud: float = 0.12
    amount: int = 200_000_000
    decisions: dict[str, dict[str, str]] = field(default_factory=dict)


SENIOR, REVIEW = "senior-approval-task", "manual-review-task"
ROWS = [
    Row("good score, no fraud, up to 500 million", ["end-approved", "end-disbursed"]),
    Row(
        "a large loan that the senior officer approves",
        ["end-approved", "end-disbursed"],
        amount=LARGE,
        decisions={SENIOR: {"seniorDecision": "APPROVED"}},
    ),
    Row(
        "a large loan that the senior officer rejects",
        ["end-approved", "end-disbursement-rejected"],
        amount=LARGE,
        decisions={SENIOR: {"seniorDecision": "REJECTED"}},
    ),
    Row("a score below 500", ["end-rejected"], score=480),
    Row("a high fraud score", ["end-rejected"], fraud=0.93),
    Row(
        "a review in which the underwriter approves",
        ["end-approved", "end-disbursed"],
        score=600,
        decisions={REVIEW: {"reviewDecision": "APPROVED"}},
    ),
    Row(
        "a review in which the underwriter rejects",
        ["end-rejected"],
        score=600,
        decisions={REVIEW: {"reviewDecision": "REJECTED"}},
    ),
]
OVERDUE = [
    Row("a large loan that nobody decides on", ["end-approved", "end-disbursement-timeout"], amount=LARGE),
    Row("a review that nobody does", ["end-escalated"], score=600),
]
"""With the timers made short."""


def main() -> int:
    """Run all rows; the exit code of the program."""
    with tempfile.TemporaryDirectory(prefix="statewright-demo-") as directory:
        try:
            with service(Path(directory)) as address, worker(address):
                play(Api(address))
        except Surprise as surprise:
            console.print(Panel(f"[bold red]{escape(str(surprise))}", title="not as expected"))
            return 1
    console.print(Panel("[bold green]Every row of the table ended where it should.", title="done"))
    return 0


def play(api: Api) -> None:
    """The whole table."""
    step(1, "Both definitions are uploaded; they get version 1")
    for name in ("disbursement", "application"):
        summary = api.call("POST", "/v1/definitions?warnings=true", definition(name), status=201)
        expect(summary["version"] == 1, f"version 1, not {summary['version']}")
        for warning in summary["warnings"]:
            console.print(f"  [yellow]{escape(warning)}")
    for number, row in enumerate(ROWS, start=1):
        step(number + 1, row.scenario)
        run(api, row, f"APP-{number}")

    step(len(ROWS) + 2, "Version 2: the same definitions with timers of half a second")
    for name in ("disbursement", "application"):
        short = json.loads(re.sub(r'"PT(48|8)H"', '"PT0.5S"', json.dumps(definition(name))))
        expect(api.call("POST", "/v1/definitions", short, status=201)["version"] == 2, "version 2")
    for number, row in enumerate(OVERDUE, start=len(ROWS) + 3):
        step(number, row.scenario)
        run(api, row, f"APP-{number}")


def run(api: Api, row: Row, key: str) -> None:
    """Play one row."""
    is_away = key == "APP-1"
    variables = {
        "applicantId": key,
        "loanAmount": row.amount,
        "applicantEmail": "nguyen.van.a@example.com",
        "bureau": {"creditScore": row.score, "fraudScore": row.fraud, "isAway": is_away},
    }
    if is_away:
        console.print(
            "  [dim]The bureau is away at first. The worker says so in its log, as it should; a retry makes up for it."
        )
    asked = {"definitionId": APPLICATION, "variables": variables, "businessKey": key}
    instance = api.call("POST", "/v1/instances", asked, status=201)
    ends = [finish(api, instance["id"], row)]
    if len(row.ends) > 1:
        ends.append(finish(api, until(lambda: successors(api, key), f"{key} is chained")[0]["id"], row))
    else:
        expect(successors(api, key) == [], f"{key} does not start a disbursement")
    expect(ends == row.ends, f"it ended at {ends} instead of {row.ends}")


def finish(api: Api, instance: str, row: Row) -> str:
    """Decide what people are asked until the instance has ended; the END it reached."""

    def has_ended() -> bool:
        now = read(api, f"/v1/instances/{instance}")
        for task in set(now["currentStepIds"]) & set(row.decisions):
            decision = {"variables": row.decisions[task], "completedBy": "demo"}
            api.call("POST", f"/v1/instances/{instance}/user-tasks/{task}/complete", decision, status=204)
        return now["status"] not in ("ACTIVE", "WAITING")

    until(has_ended, f"instance {instance} has ended")
    ended = read(api, f"/v1/instances/{instance}")
    history = read(api, f"/v1/instances/{instance}/history")["items"]
    show(ended, history)
    expect(ended["status"] == "COMPLETED", f"it is {ended['status']}: {ended.get('failureReason')}")
    return str(next(line["stepId"] for line in reversed(history) if line["stepType"] == "END"))


def successors(api: Api, key: str) -> list[dict[str, Any]]:
    """The disbursements of an application."""
    query = urlencode({"definitionId": DISBURSEMENT, "businessKey": key})
    return list(read(api, f"/v1/instances?{query}")["items"])


def read(api: Api, path: str) -> Any:
    """The JSON of a resource, without telling anybody."""
    return api.call("GET", path, quietly=True)


def definition(name: str) -> dict[str, Any]:
    """A definition of the chain, as the format's documentation has it."""
    return dict(json.loads((LOAN / f"{name}.json").read_text()))


def until(fact: Callable[[], Any], text: str) -> Any:
    """What a fact gives as soon as it is true."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if found := fact():
            return found
        time.sleep(0.05)
    raise Surprise(f"not within {WITHIN_S:g} s: {text}")


def show(instance: dict[str, Any], history: list[dict[str, Any]]) -> None:
    """An instance and its steps."""
    table = Table(
        "time", "step", "type", "status", box=None, title=escape(instance["definitionId"]), title_justify="left"
    )
    colours = {"COMPLETED": "green", "FAILED": "red", "SKIPPED": "dim"}
    for line in history:
        status = f"[{colours.get(line['status'], 'cyan')}]{line['status']}"
        table.add_row(line["startedAt"][11:23], line["stepId"], line["stepType"], status)
    console.print(table)


@contextmanager
def service(directory: Path) -> Iterator[str]:
    """A service on a fresh embedded database and free ports; its address."""
    http, grpc, admin = free_ports(3)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STATEWRIGHT_", "CYODA_"))}
    environment |= {
        "STATEWRIGHT_HTTP_PORT": str(http),
        "STATEWRIGHT_GRPC_PORT": str(grpc),
        "STATEWRIGHT_ADMIN_PORT": str(admin),
        "STATEWRIGHT_DATA_DIRECTORY": str(directory / "data"),
        "STATEWRIGHT_SUPPRESS_BANNER": "true",
        "STATEWRIGHT_LOG_LEVEL": "warn",
    }
    with process([str(PROGRAM), "serve"], environment) as running:
        await_ready(f"http://127.0.0.1:{admin}/readyz", running)
        yield f"http://127.0.0.1:{http}"


@contextmanager
def worker(address: str) -> Iterator[None]:
    """The worker process of ``loan/worker.py``; it needs no announcement, jobs wait for it."""
    with process([str(PROGRAM), "node", "worker:node", "--api", address], dict(os.environ), directory=LOAN):
        yield


if __name__ == "__main__":
    if shutil.which(str(PROGRAM)) is None:
        sys.exit("run `make demo-steps`, or install Statewright first")
    sys.exit(main())
