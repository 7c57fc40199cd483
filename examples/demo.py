"""The main job, from an empty database to an approved Nobel prize, one step after the other.

Starts Statewright on an embedded database of its own and the calculation node of ``prizes_node.py`` as separate
processes, then does over REST what a team would do. Every step says what it expects; the program ends with 1 when
anything differs.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

HERE = Path(__file__).parent
PROGRAM = Path(sys.executable).with_name("statewright")
READY_WITHIN_S = 60.0

PRIZE = {
    "category": "physics",
    "year": "2023",
    "motivation": "for attosecond pulses of light",
    "laureates": ["A. L'Huillier"],
}
APPROVAL = {"by": "", "at": "2024-01-01T00:00:00Z", "transition": ""}

WORKFLOW = {
    "version": "1",
    "name": "prize-lifecycle",
    "desc": "State machine for Nobel Prize entities",
    "initialState": "NEW",
    "active": True,
    "criterion": None,
    "states": {
        "NEW": {
            "transitions": [
                {
                    "name": "APPROVE",
                    "next": "APPROVED",
                    "manual": True,
                    "disabled": False,
                    "criterion": None,
                    "processors": [
                        {
                            "type": "EXTERNAL",
                            "name": "notify-approval",
                            "executionMode": "SYNC",
                            "config": {
                                "attachEntity": True,
                                "calculationNodesTags": "approval-service",
                                "responseTimeoutMs": 30000,
                                "retryPolicy": "",
                                "context": "",
                            },
                        }
                    ],
                },
                {
                    "name": "AUTO_VALIDATE",
                    "next": "VALIDATED",
                    "manual": False,
                    "disabled": False,
                    "criterion": {"type": "simple", "jsonPath": "$.year", "operatorType": "EQUALS", "value": "2024"},
                    "processors": [],
                },
            ]
        },
        "APPROVED": {"transitions": []},
        "VALIDATED": {"transitions": []},
    },
}
"""The workflow of the product's first specification, as printed there."""

console = Console(highlight=False)


class Surprise(Exception):
    """Something is not as the demo expects it."""


class Api:
    """The REST API of a running service."""

    def __init__(self, url: str) -> None:
        self._url = url

    def call(self, method: str, path: str, body: object = None, *, status: int = 200, quietly: bool = False) -> Any:
        """The JSON of a response that must have ``status``; None when it has no content. Bytes are sent as they are."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                found, text = response.status, response.read()
        except urllib.error.HTTPError as refused:
            found, text = refused.code, refused.read()
        if not quietly:
            console.print(f"[bold cyan]{method}[/] {path}  [{'green' if found < 300 else 'yellow'}]{found}[/]")
        expect(found == status, f"{method} {path} answered {found}: {text.decode()}")
        return json.loads(text) if text else None


@dataclass(frozen=True)
class Service:
    """Where a running service is."""

    api: Api
    grpc: str
    metrics: str


def main() -> int:
    """Run all steps; the exit code of the program."""
    with tempfile.TemporaryDirectory(prefix="statewright-demo-") as directory:
        try:
            with service(Path(directory)) as running, calculation_node(running.grpc, running.metrics):
                steps(running.api)
        except Surprise as surprise:
            console.print(Panel(f"[bold red]{surprise}", title="not as expected"))
            return 1
    console.print(Panel("[bold green]Every step did what it should.", title="done"))
    return 0


def steps(api: Api) -> None:
    """The story."""
    step(1, "A model is inferred from a sample, then locked so that entities can be created")
    model_id = api.call("POST", "/model/import/JSON/SAMPLE_DATA/nobel-prize/1", PRIZE | {"approval": APPROVAL})
    api.call("PUT", "/model/nobel-prize/1/lock")
    show(api.call("GET", "/model/export/SIMPLE_VIEW/nobel-prize/1"))
    expect(len(model_id) == 36, "the import answers with the model's id")

    step(2, "A workflow is imported for the model")
    api.call("POST", "/model/nobel-prize/1/workflow/import", {"importMode": "MERGE", "workflows": [WORKFLOW]})

    step(3, "A prize of 2024 validates itself: the automated transition fires as the entity is created")
    modern = create(api, PRIZE | {"year": "2024"})
    expect(state(api, modern) == "VALIDATED", "AUTO_VALIDATE has fired")

    step(4, "A prize of 2023 waits in NEW; APPROVE runs a processor on the calculation node, in another process")
    prize = create(api, PRIZE)
    expect(state(api, prize) == "NEW", "nothing fires by itself")
    approved = api.call("PUT", f"/entity/JSON/{prize}/APPROVE", PRIZE)
    envelope = api.call("GET", f"/entity/{prize}")
    show(envelope)
    expect(envelope["meta"]["state"] == "APPROVED", "the entity has moved")
    expect(envelope["data"].get("approval", {}).get("transition") == "APPROVE", "the processor has left its mark")

    step(5, "Every step is on record")
    trail = api.call("GET", f"/audit/entity/{prize}?eventType=StateMachine&transactionId={approved['transactionId']}")
    show_trail(trail["items"])
    kinds = [item["eventType"] for item in reversed(trail["items"])]
    expected = [
        "STATE_MACHINE_START",
        "PAUSE_FOR_PROCESSING",
        "STATE_PROCESS_RESULT",
        "TRANSITION_MAKE",
        "STATE_MACHINE_FINISH",
    ]
    expect(kinds == expected, f"the trail is {kinds}")

    step(6, "Every version stays readable")
    changes = api.call("GET", f"/entity/{prize}/changes")
    before = api.call("GET", f"/entity/{prize}?pointInTime={changes[-1]['timeOfChange']}")
    expect(before["meta"]["state"] == "NEW" and "approval" not in before["data"], "the past is as it was")

    step(7, "What was exported imports again unchanged")
    exported = api.call("GET", "/model/nobel-prize/1/workflow/export")
    again = {"importMode": "REPLACE", "workflows": exported["workflows"]}
    api.call("POST", "/model/nobel-prize/1/workflow/import", again)
    expect(api.call("GET", "/model/nobel-prize/1/workflow/export") == exported, "the second export equals the first")

    step(8, "A wrong transition is refused with the reason")
    problem = api.call("PUT", f"/entity/JSON/{prize}/APPROVE", PRIZE, status=404)
    show(problem)
    expect(problem["properties"]["errorCode"] == "TRANSITION_NOT_FOUND", "the code tells what is wrong")


def create(api: Api, prize: dict[str, object]) -> str:
    """The id of a new prize."""
    return str(api.call("POST", "/entity/JSON/nobel-prize/1", prize)[0]["entityIds"][0])


def state(api: Api, entity: str) -> str:
    """The state an entity is in."""
    return str(api.call("GET", f"/entity/{entity}")["meta"]["state"])


@contextmanager
def service(directory: Path) -> Iterator[Service]:
    """A service on a fresh embedded database and free ports."""
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
        api = Api(f"http://127.0.0.1:{http}/api")
        yield Service(api, grpc=f"127.0.0.1:{grpc}", metrics=f"http://127.0.0.1:{admin}/metrics")


@contextmanager
def calculation_node(grpc: str, metrics: str) -> Iterator[None]:
    """The node of ``prizes_node.py``, once it has joined."""
    command = [str(PROGRAM), "node", "prizes_node:node", "--endpoint", grpc]
    with process(command, dict(os.environ), directory=HERE) as running:
        for _ in attempts(running):
            with urllib.request.urlopen(metrics, timeout=2) as response:
                if b"statewright_compute_members 1.0" in response.read():
                    break
        yield


@contextmanager
def process(
    command: list[str], environment: dict[str, str], *, directory: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    with subprocess.Popen(command, env=environment, cwd=directory, stdin=subprocess.DEVNULL) as running:
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(30)
            except subprocess.TimeoutExpired:
                running.kill()


def await_ready(url: str, running: "subprocess.Popen[bytes]") -> None:
    """Return as soon as the service says that it is ready."""
    for _ in attempts(running):
        try:
            with urllib.request.urlopen(url, timeout=2) as response:
                if response.status == 200:
                    return
        except OSError:
            continue


def attempts(running: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Chances for something to become true while a process is starting; none are left when it has ended."""
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        expect(running.poll() is None, f"{running.args!r} ended with {running.returncode}")
        yield
        time.sleep(0.1)
    raise Surprise(f"{running.args!r} was not ready within {READY_WITHIN_S:g} s")


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody uses now."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def expect(fact: bool, text: str) -> None:
    """Stop the demo unless ``fact`` holds."""
    if not fact:
        raise Surprise(text)


def step(number: int, title: str) -> None:
    console.rule(f"[bold]{number}. {title}", align="left")


def show(value: object) -> None:
    """A JSON value, for reading."""
    console.print(
        Syntax(json.dumps(value, indent=2, ensure_ascii=False), "json", background_color="default", word_wrap=True)
    )


def show_trail(items: list[dict[str, Any]]) -> None:
    """Audit events, oldest first."""
    table = Table("time", "event", "state", "details", box=None)
    for item in reversed(items):
        table.add_row(item["utcTime"][11:26], item["eventType"], item.get("state", ""), escape(item["details"]))
    console.print(table)


if __name__ == "__main__":
    if shutil.which(str(PROGRAM)) is None:
        sys.exit("run `make demo`, or install Statewright first")
    sys.exit(main())
