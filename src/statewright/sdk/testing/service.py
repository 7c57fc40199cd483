"""A real service for tests: a process of this machine, with a database of its own.

    @pytest.fixture(scope="session")
    def service():
        with run_service() as service:
            yield service

It needs ``pip install 'statewright[server]'``. The process is the installed program, started with nothing but settings,
so what holds for it holds for a service elsewhere.
"""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from statewright.operations.history import EntityWait
from statewright.sdk.client import Client
from statewright.sdk.errors import CallFailed
from statewright.sdk.exchange import ONCE
from statewright.sdk.node import Node

PORTS: Final = ("HTTP", "GRPC", "ADMIN")
OWN_PREFIXES: Final = ("STATEWRIGHT_", "CYODA_", "WE_", "DB_MAX_CONNS", "DB_MIN_CONNS")
STARTS: Final = 3
"""A port that was free may be taken by somebody else before the service listens there."""

LOOK_INTERVAL_S: Final = 0.05
STOP_S: Final = 30.0
LOG_TAIL_CHARS: Final = 4000
PROGRAM: Final = "from statewright.cli.main import main; main()"


class ServiceNotReady(RuntimeError):
    """The service did not come up; the message has the end of its log."""


class LocalService:
    """A service that was started for tests."""

    def __init__(self, ports: Mapping[str, int], log: Path) -> None:
        self.url = f"http://127.0.0.1:{ports['HTTP']}"
        """The address, without the context path."""
        self.grpc = f"127.0.0.1:{ports['GRPC']}"
        """The address for nodes."""
        self.admin = f"http://127.0.0.1:{ports['ADMIN']}"
        """The address of metrics and health."""
        self._log = log

    @property
    def log(self) -> str:
        """What the service has written so far."""
        return self._log.read_text(errors="replace")

    def connect(self, token: str | None = None) -> Client:
        """A client, to be closed; without a token it is the mock principal, an administrator."""
        return Client(self.url, token=token)

    @contextmanager
    def run_node(self, node: Node, *, token: str | None = None, timeout_s: float = 30.0) -> Iterator[None]:
        """Serve a node in a thread while the block runs; it is connected when the block begins, if it has functions for
        callouts. Raises what its start raises, and ``TimeoutError``.
        """
        loop, ended = asyncio.new_event_loop(), threading.Event()
        failures: list[BaseException] = []

        def serve() -> None:
            try:
                loop.run_until_complete(node.serve(self.grpc, api=self.url, token=token))
            except BaseException as failure:
                failures.append(failure)
            finally:
                ended.set()
                loop.close()

        with self.connect(token) as client:
            before = _list_streams(client)
            thread = threading.Thread(target=serve, name="node", daemon=True)
            thread.start()
            try:
                if any(function.kind in _CALLOUTS for function in node.functions):
                    _wait_until(lambda: ended.is_set() or bool(_list_streams(client) - before), timeout_s)
                if failures:
                    raise failures[0]
                yield
            finally:
                with suppress(RuntimeError):  # the loop is closed already
                    loop.call_soon_threadsafe(node.stop)
                thread.join(STOP_S)


_CALLOUTS: Final = ("processor", "criteria", "function")


@contextmanager
def run_service(
    *, database_url: str | None = None, settings: Mapping[str, str] | None = None, timeout_s: float = 120.0
) -> Iterator[LocalService]:
    """A service in a process of its own, which ends with the block; ready when the block begins.

    Without ``database_url`` it has an embedded PostgreSQL, whose data are gone afterwards. ``settings`` are variables
    (``STATEWRIGHT_…``); those of this process do not reach it. Raises :class:`ServiceNotReady`.
    """
    with TemporaryDirectory(prefix="statewright-", ignore_cleanup_errors=True) as directory, ExitStack() as stack:
        home = Path(directory)
        told = ""
        for start in range(1, STARTS + 1):
            given = dict(settings or {})
            if database_url is not None:
                given["STATEWRIGHT_POSTGRES_URL"] = database_url
            ports = _choose_ports(given)
            log = home / f"service-{start}.log"
            process = stack.enter_context(_run_process(home, log, _build_environment(home, given, ports)))
            service = LocalService(ports, log)
            if _await_ready(service, process, timeout_s):
                yield service
                return
            told = service.log
            if process.poll() is None or "in use" not in told:
                break
        raise ServiceNotReady(f"the service did not get ready within {timeout_s:g} s:\n{told[-LOG_TAIL_CHARS:]}")


def wait_for_state(client: Client, entity_id: str, *states: str, timeout_s: float = 30.0) -> EntityWait:
    """Wait until an entity is in one of the states; without any, until no transition leads out of its state.

    Raises ``AssertionError`` when it does not get there, which says why it is where it is: the verdict of
    ``explain``, open incidents, and what blocks each transition.
    """
    found = client.ops.wait(entity_id, states=states, timeout_s=timeout_s)
    if not found.reached:
        wanted = " or ".join(states) or "a state that nothing leads out of"
        raise AssertionError(f"{entity_id} is not in {wanted} after {timeout_s:g} s: {tell_why(client, entity_id)}")
    return found


def tell_why(client: Client, entity_id: str) -> str:
    """Why an entity is where it is, in a few lines: for messages of tests."""
    try:
        found = client.ops.explain(entity_id)
    except CallFailed as failure:
        return str(failure)
    lines = [f"{found.state}, {found.verdict}: {found.summary}"]
    lines += [
        f"  {each.name} -> {each.next}: {', '.join(each.blocked_by)}" for each in found.transitions if each.blocked_by
    ]
    lines += [f"  incident {each.kind}: {each.message}" for each in found.incidents or ()]
    return "\n".join(lines)


def _choose_ports(settings: Mapping[str, str]) -> dict[str, int]:
    """Free ports, but for those that settings name."""
    probes = [socket.socket() for _ in PORTS]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        free = {name: probe.getsockname()[1] for name, probe in zip(PORTS, probes, strict=True)}
    finally:
        for probe in probes:
            probe.close()
    return {name: int(settings.get(f"STATEWRIGHT_{name}_PORT", port)) for name, port in free.items()}


def _build_environment(home: Path, settings: Mapping[str, str], ports: Mapping[str, int]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OWN_PREFIXES)}
    places = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_DATA_HOME": str(home / "data")}
    own = {"STATEWRIGHT_DRAIN_WINDOW": "0s", "STATEWRIGHT_SUPPRESS_BANNER": "true"}
    listening = {f"STATEWRIGHT_{name}_PORT": str(port) for name, port in ports.items()}
    return {**inherited, **places, **own, **listening, **settings}


@contextmanager
def _run_process(home: Path, log: Path, environment: Mapping[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    """The program, which is asked to end when the block does, and killed if it does not."""
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-c", PROGRAM, "serve"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=dict(environment),
            start_new_session=True,  # ^C in the tests is theirs; the service is told to end
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(service: LocalService, process: "subprocess.Popen[bytes]", timeout_s: float) -> bool:
    """Whether it got ready; it may have ended instead."""
    with Client(service.admin, retry=ONCE, timeout_s=5.0) as client, suppress(TimeoutError):
        _wait_until(lambda: process.poll() is not None or _is_ready(client), timeout_s)
        return process.poll() is None
    return False


def _is_ready(client: Client) -> bool:
    try:
        return client.fetch("GET", "/readyz", at_root=True).status == 200
    except CallFailed:
        return False


def _list_streams(client: Client) -> set[str]:
    return {member.id for member in client.ops.members(kinds=["STREAM"])}


def _wait_until(fact: Callable[[], bool], timeout_s: float) -> None:
    """Raises ``TimeoutError``."""
    until = time.monotonic() + timeout_s
    while not fact():
        if time.monotonic() > until:
            raise TimeoutError(f"it has not come true within {timeout_s:g} s")
        time.sleep(LOOK_INTERVAL_S)
