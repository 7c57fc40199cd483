"""The processes of a run: database, service, calculation node, baseline, load. All on loopback, with their own data."""

import asyncio
import http.client
import os
import socket
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import msgspec
import psutil
from msgspec import Struct

from benchmarks.jobs import Job, Outcome
from benchmarks.workload import MODEL, PROCESSES, VERSION, documents, workflow_import
from statewright.storage.embedded.server import run_embedded_server

ROOT = Path(__file__).parent.parent
HOST = "127.0.0.1"
READY_WITHIN_S, POLL_S, STOP_WITHIN_S = 60.0, 0.02, 15.0

FLOOR_TENANT, NAIVE_TENANT, SERVICE_TENANT = "floor", "naive", "mock-tenant"

LoadName = Literal["statewright", "asyncpg", "naive", "echo", "callouts"]


class LoadProcess:
    """A process that does jobs, one at a time."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self._decode = msgspec.json.Decoder(Outcome).decode

    async def do(self, job: Job) -> Outcome:
        self._input.write(msgspec.json.encode(job) + b"\n")
        line = await self._output.readline()
        if not line:
            raise RuntimeError(f"the load process ended during {job}; its log says why")
        return self._decode(line)


class ProcessorTime:
    """Seconds of processor time that a process and all below it have used, those that have ended included."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process

    def __call__(self) -> float:
        total = 0.0
        for process in (self._process, *self._process.children(recursive=True)):
            try:
                total += sum(process.cpu_times()[:4])  # its own and that of its ended children, user and system
            except psutil.NoSuchProcess:
                continue
        return total


class Disturbance:
    """What other programs take of the machine, from its making on."""

    def __init__(self) -> None:
        self._ours = ProcessorTime(psutil.Process())
        self._began = time.monotonic(), _machine_time(), self._ours()

    def share(self) -> float:
        """Their part of all processor time there was."""
        elapsed, machine, ours = time.monotonic(), _machine_time(), self._ours()
        available = (elapsed - self._began[0]) * (psutil.cpu_count() or 1)
        return max(machine - self._began[1] - (ours - self._began[2]), 0.0) / available


def _machine_time() -> float:
    times = psutil.cpu_times()
    return float(sum(times)) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)


class Stage(Struct, frozen=True, kw_only=True):
    """Everything that is running."""

    database: str
    loads: dict[LoadName, LoadProcess]
    service_pid: int
    service_port: int
    """Of HTTP."""
    server_cpu: dict[LoadName, ProcessorTime]
    """Of the servers that are processes of their own."""
    database_cpu: ProcessorTime

    @classmethod
    @asynccontextmanager
    async def set(
        cls,
        *,
        log_directory: Path,
        command: tuple[str, ...] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> AsyncIterator[Self]:
        """Start everything; ``command`` replaces the installed ``statewright serve``, ``variables`` are more of its
        settings.
        """
        async with AsyncExitStack() as stack:
            files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="statewright-bench-")))
            database = await stack.enter_async_context(run_embedded_server(files / "data"))
            server = psutil.Process(int(next((files / "data").rglob("postmaster.pid")).read_text().split()[0]))
            start = Starter(stack, log_directory)
            http, grpc, admin, naive = free_ports(4)
            service = await start(
                "service",
                *(command or (str(Path(sys.executable).with_name("statewright")), "serve")),
                variables={**service_settings(database, http=http, grpc=grpc, admin=admin), **variables},
            )
            await _until(lambda: _status(admin, "/readyz") == 200, service, "the service")
            await asyncio.to_thread(_define, http)
            member = await start("member", sys.executable, "-m", "benchmarks.member", str(grpc))
            await _until(lambda: _members(admin) == 1, member, "the calculation node")
            uvicorn = ("-m", "uvicorn", "benchmarks.naive:app", "--port", str(naive), "--no-access-log")
            baseline = await start("naive", sys.executable, *uvicorn, variables={"NAIVE_DATABASE": database})
            await _until(lambda: _status(naive, "/") == 404, baseline, "the naive baseline")
            load, echo = ("-m", "benchmarks.http_load", HOST), ("-m", "benchmarks.echo_load")
            yield cls(
                database=database,
                loads={
                    "statewright": LoadProcess(await start("load", sys.executable, *load, str(http), talks=True)),
                    "naive": LoadProcess(await start("load-naive", sys.executable, *load, str(naive), talks=True)),
                    "asyncpg": LoadProcess(
                        await start(
                            "floor", sys.executable, "-m", "benchmarks.rows", database, FLOOR_TENANT, talks=True
                        )
                    ),
                    "echo": LoadProcess(await start("echo", sys.executable, *echo, "echo", talks=True)),
                    "callouts": LoadProcess(await start("callouts", sys.executable, *echo, "callouts", talks=True)),
                },
                service_pid=service.pid,
                service_port=http,
                server_cpu={
                    "statewright": ProcessorTime(psutil.Process(service.pid)),
                    "naive": ProcessorTime(psutil.Process(baseline.pid)),
                },
                database_cpu=ProcessorTime(server),
            )


class Starter:
    """Starts processes that end with the stage, each with a log of its own."""

    def __init__(self, stack: AsyncExitStack, logs: Path) -> None:
        self._stack = stack
        self._logs = logs

    async def __call__(
        self, name: str, *command: str, talks: bool = False, variables: Mapping[str, str] = MappingProxyType({})
    ) -> Process:
        """A running process, which ``talks`` through pipes or else writes to its log."""
        with (self._logs / f"{name}.log").open("wb") as log:
            pipe = PIPE if talks else DEVNULL
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=PIPE if talks else log, stderr=log, cwd=ROOT, env=_environment(variables)
            )
        self._stack.push_async_callback(_stop, process)
        return process


def service_settings(database: str, *, http: int, grpc: int, admin: int) -> dict[str, str]:
    """All defaults but the database and the ports."""
    return {
        "STATEWRIGHT_POSTGRES_URL": database,
        "STATEWRIGHT_HTTP_PORT": str(http),
        "STATEWRIGHT_GRPC_PORT": str(grpc),
        "STATEWRIGHT_ADMIN_PORT": str(admin),
    }


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The caller's, without settings of a service he may have running."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("STATEWRIGHT_", "CYODA_"))}
    return {**kept, **variables}


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


async def _until(fact: Callable[[], bool], process: Process, what: str) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not await asyncio.to_thread(fact):
        if process.returncode is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not start; its log says why")
        await asyncio.sleep(POLL_S)


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(STOP_WITHIN_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _status(port: int, path: str) -> int | None:
    try:
        return _ask(port, "GET", path)[0]
    except (OSError, http.client.HTTPException):
        return None


def _members(admin: int) -> int:
    """Calculation nodes connected, as the service's metrics have it."""
    lines = _ask(admin, "GET", "/metrics")[1].decode().splitlines()
    return next((int(float(line.split()[1])) for line in lines if line.startswith("statewright_compute_members ")), 0)


def _ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request(method, path, body, {"Authorization": "Bearer bench"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _define(port: int) -> None:
    """Import the model and its workflow, and the definitions of processes."""
    calls: tuple[tuple[str, str, Any], ...] = (
        ("POST", f"/api/model/import/JSON/SAMPLE_DATA/{MODEL}/{VERSION}", documents()[0]),
        ("PUT", f"/api/model/{MODEL}/{VERSION}/lock", None),
        ("POST", f"/api/model/{MODEL}/{VERSION}/workflow/import", workflow_import()),
        *(("POST", process.described_at, process.description) for process in PROCESSES.values()),
    )
    for method, path, body in calls:
        status, answer = _ask(port, method, path, body)
        if status not in {200, 201}:
            raise RuntimeError(f"{method} {path}: {status} {answer.decode(errors='replace')}")
