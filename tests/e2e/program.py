"""The installed program as a process: started with nothing but environment variables, ended by signals."""

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from tests.e2e.fork_server import FORK_SERVER, Process
from tests.service import Api, eventually

EXECUTABLE = Path(sys.executable).with_name("statewright")
EXAMPLES = Path(__file__).parents[2] / "examples"

PATIENCE_S = 30.0
"""After so long a fact that has not come true is taken for a failure."""

PORTS = range(20_000, 32_000)
"""Below the range from which systems take the ports of outgoing connections."""

OWN_PREFIX = "STATEWRIGHT_"

PLAIN_STARTS = (), ("serve",), ("serve", "--workers", "2")
"""The arguments with which the installed command becomes a service: such starts are forked, as are those of a Python
file that calls the program; others are made.
"""

PORT_NAMES: Mapping[str, Mapping[str, str]] = {"WE_": {"HTTP": "REST", "ADMIN": "METRICS"}}
"""What a dialect calls its ports where it has other names, by its prefix."""

_handed_out: set[int] = set()

XDIST = ("PYTEST_XDIST_WORKER", 0), ("PYTEST_XDIST_WORKER_COUNT", 1)
"""What a worker is told of itself (``gw1``) and of the others; nothing when there is one."""


class Program:
    """One run of the program."""

    def __init__(self, process: Process, log: Path, errors: Path, ports: Mapping[str, int]) -> None:
        self.process = process
        self._log = log
        self._errors = errors
        self.ports = ports

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.ports['HTTP']}"

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.ports['GRPC']}"

    def api(self, token: str | None = None, *, context_path: str = "/api") -> Api:
        return Api(f"{self.root}{context_path}", token)

    @property
    def admin(self) -> Api:
        return Api(f"http://127.0.0.1:{self.ports['ADMIN']}")

    @property
    def log(self) -> str:
        """What it has written to stdout so far."""
        return self._log.read_text()

    @property
    def errors(self) -> list[str]:
        """The lines it has written to stderr so far."""
        return self._errors.read_text().splitlines()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def ready(self) -> "Program":
        """Waits until the program says that it is ready."""
        eventually(lambda: not self.is_running or self._is_ready(), within_s=PATIENCE_S)
        assert self.is_running, f"it ended with {self.process.returncode}: {self.errors}\n{self.log}"
        return self

    def _is_ready(self) -> bool:
        try:
            return self.admin.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def tell(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def ended(self) -> int:
        """The exit code, once there is one."""
        return self.process.wait(PATIENCE_S)

    def terminate(self) -> int:
        """Asks it to stop; the exit code."""
        self.tell(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.ended()


def free_ports(*names: str) -> dict[str, int]:
    """Ports on which nobody listens, by name.

    Nobody else gets them while the tests run, not even while the program that listens there is dead for a moment: each
    worker of pytest-xdist has ports of its own, and hands out each of them once.
    """
    worker, workers = (int(os.environ.get(name, "").strip("gw") or default) for name, default in XDIST)
    chosen: dict[str, int] = {}
    while len(chosen) < len(names):
        port = random.choice(PORTS[worker::workers])
        if port in _handed_out:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _handed_out.add(port)
        chosen[names[len(chosen)]] = port
    return chosen


def environment(home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """What a launcher passes on: a path, a home, and the settings."""
    inherited = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**inherited, "HOME": str(home), "LANG": "C.UTF-8", **settings}


def is_forked(executable: Sequence[str | Path], arguments: Sequence[str]) -> bool:
    """Whether the start is one that a fork shows as well."""
    if [*executable] == [EXECUTABLE]:
        return tuple(arguments) in PLAIN_STARTS
    return len(executable) == 2 and executable[0] == sys.executable and str(executable[1]).endswith(".py")


@contextmanager
def started(
    home: Path,
    *arguments: str,
    prefix: str = OWN_PREFIX,
    ports: Mapping[str, int] | None = None,
    executable: Sequence[str | Path] = (EXECUTABLE,),
    **settings: str,
) -> Iterator[Program]:
    """The program, just started in the directory ``home``; killed at the end if it still runs.

    ``settings`` are given without the ``prefix``. Unless told otherwise it listens on free ports, and stops without the
    time that load balancers take to turn away.
    """
    listens = free_ports("HTTP", "GRPC", "ADMIN") | dict(ports or {})
    settings = {"DRAIN_WINDOW": "0s"} | settings if prefix == OWN_PREFIX else settings
    called = PORT_NAMES.get(prefix, {})
    named = {f"{prefix}{called.get(name, name)}_PORT": str(port) for name, port in listens.items()}
    named |= {f"{prefix}{name}": value for name, value in settings.items()}
    run = sum(1 for _ in home.glob("run-*.log"))
    log, errors = home / f"run-{run}.log", home / f"run-{run}.err"
    with log.open("wb") as out, errors.open("wb") as err:
        variables = environment(home, named)
        if is_forked(executable, arguments):
            process: Process = FORK_SERVER.start([str(executable[-1]), *arguments], home, variables, out, err)
        else:
            process = subprocess.Popen(
                [*executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=home,
                env=variables,
                start_new_session=True,
            )
    try:
        yield Program(process, log, errors, listens)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_S)


class Lives:
    """The program on the same ports, life after life."""

    def __init__(self, home: Path, **settings: str) -> None:
        self._home = home
        self._settings = settings
        self._ports = free_ports("HTTP", "GRPC", "ADMIN")
        self._life = ExitStack()
        self.program = self._begin()

    def _begin(self) -> Program:
        return self._life.enter_context(started(self._home, ports=self._ports, **self._settings)).ready()

    def kill(self) -> None:
        """End it without a word, and start it again."""
        self.program.kill()
        self._life.close()
        self.program = self._begin()

    def close(self) -> None:
        self._life.close()


def play_demo(name: str, home: Path) -> str:
    """What a demo of ``examples`` says, which is to end well."""
    told = subprocess.run(
        [EXECUTABLE.with_name("python"), EXAMPLES / name],
        env=environment(home, {}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout
