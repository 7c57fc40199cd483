"""Attack the gRPC port of the installed program at full size, and print what it costs: ``python -m benchmarks.attacks``.

The program runs in jwt mode with its own embedded database. One process asks for its health all the time, a client does
calls beside each attack, and the memory of the program is looked at every 50 ms. The limits are those of decision D3:
no connection holds more than 64 MiB, twenty no more than the port's budget, 1,500 idle connections leave health below
100 ms, and floods below 250 ms, at the 99th percentile. The exit code is 1 when one does not hold.
"""

import argparse
import json
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep, time
from typing import Final

import grpc
import psutil
from rich.console import Console
from rich.table import Table

from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cyoda_cloud_api_pb2_grpc import CloudEventsServiceStub
from tests.e2e.grpc_attacks import FLOODS
from tests.e2e.health import Health
from tests.e2e.program import Program, started
from tests.service import a_token, signing_key_pem

MIB: Final = 1024 * 1024
PORT_MIB: Final = 256
"""The default of ``GRPC_MEMORY_BYTES``."""
ONE_CONNECTION_MIB: Final = 64
ROOT: Final = Path(__file__).parent.parent


class Measured:
    """What one attack has cost. ``limit`` is of megabytes for what is held, else of milliseconds."""

    def __init__(self, name: str, *, mib: float, health_ms: float, call_ms: float, failed: int, says: str) -> None:
        self.name = name
        self.mib = mib
        self.health_ms = health_ms
        self.call_ms = call_ms
        self.failed = failed
        self.says = says


class Caller:
    """A client that does a call every 20 ms, and the memory of the program meanwhile."""

    def __init__(self, program: Program, token: str) -> None:
        channel = grpc.insecure_channel(program.grpc)
        self._stub = CloudEventsServiceStub(channel)  # type: ignore[arg-type]  # its types are those of grpc.aio
        self._process = psutil.Process(program.process.pid)
        self._credentials = (("authorization", f"Bearer {token}"),)
        self._is_over = False
        self.times: list[float] = []
        self.failed = 0
        self.peak = 0

    @property
    def memory(self) -> int:
        return int(self._process.memory_info().rss)

    def call(self) -> None:
        begun = monotonic()
        try:
            event = CloudEvent(id="1", type="EntityModelGetAllRequest", text_data="{}")
            self._stub.entityModelManage(event, metadata=self._credentials, timeout=20)
        except grpc.RpcError:
            self.failed += 1
        self.times.append(monotonic() - begun)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self.times.clear()
        self.failed, self.peak, self._is_over = 0, self.memory, False
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield
        finally:
            self._is_over = True
            thread.join()

    def _work(self) -> None:
        while not self._is_over:
            self.call()
            self.peak = max(self.peak, self.memory)
            sleep(0.02)


class Range:
    """Where attacks are tried."""

    def __init__(self, program: Program) -> None:
        self._port = program.ports["GRPC"]
        self.token = a_token("attacked", exp=int(time()) + 7200)
        self._health = Health(program)
        self._caller = Caller(program, self.token)
        for _ in range(200):
            self._caller.call()

    def attack(self, name: str, kind: str, *options: object, lasting_s: float = 3.0) -> Measured:
        """Try one, and go on for some seconds when it holds what it holds."""
        idle, begun = self._caller.memory, monotonic()
        command = [sys.executable, "-m", "tests.e2e.grpc_attacks", kind, str(self._port), *map(str, options)]
        with self._caller.at_work():
            attacker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
            assert attacker.stdout is not None
            select.select([attacker.stdout], [], [], 120)
            says = json.loads(attacker.stdout.readline() or "{}")
            if kind not in FLOODS:
                sleep(lasting_s)
            attacker.kill()
            attacker.communicate()
        times = sorted(self._caller.times)
        return Measured(
            name,
            mib=(self._caller.peak - idle) / MIB,
            health_ms=self._health.p99_since(begun) * 1000,
            call_ms=times[int(len(times) * 0.99)] * 1000,
            failed=self._caller.failed,
            says=" ".join(f"{key} {value:,}" for key, value in says.items()),
        )

    def stop(self) -> None:
        self._health.stop()


def run(attacked: Range, seconds: float, only: str, console: Console) -> bool:
    """Try all whose name begins so; whether the limits hold."""
    table = Table("attack", "MiB above idle", "health p99 ms", "call p99 ms", "failed calls", "attacker")
    holds = True

    def attack(
        name: str,
        kind: str,
        *arguments: object,
        mib: float = PORT_MIB,
        health_ms: float = 250.0,
        lasting_s: float = 3.0,
    ) -> None:
        nonlocal holds
        if not name.startswith(only):
            return
        measured = attacked.attack(name, kind, *arguments, lasting_s=lasting_s)
        is_good = measured.mib <= mib and measured.health_ms <= health_ms and not measured.failed
        holds = holds and is_good
        figures = f"{measured.mib:.0f}", f"{measured.health_ms:.0f}", f"{measured.call_ms:.0f}", str(measured.failed)
        table.add_row(measured.name, *figures, measured.says, style="" if is_good else "red")
        console.print(" ".join((measured.name, *figures)))

    for who, token in (("stranger", ""), ("known", attacked.token)):
        for kind in ("bombs", "complete-bombs", "messages"):
            name = f"{kind}, {who}"
            attack(name, kind, "--calls", 300, "--token", token, mib=ONE_CONNECTION_MIB)
            many = ("--connections", 20, "--calls", 30, "--mib", 30, "--token", token)
            attack(f"{name}, 20 connections", kind, *many)
    attack("idle: 1,500 connections", "idle", "--connections", 1500, lasting_s=6.0, health_ms=100.0)
    for kind in FLOODS:
        attack(kind, kind, "--seconds", seconds, "--token", attacked.token)
    attack("pings, 10 connections", "pings", "--seconds", seconds, "--connections", 10)
    console.print(table)
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each flood")
    parser.add_argument("--only", default="", help="attacks whose name begins so")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        started(
            Path(home),
            "serve",
            DATA_DIRECTORY=home,
            IAM_MODE="jwt",
            JWT_SIGNING_KEY=signing_key_pem(),
            SUPPRESS_BANNER="true",
        ) as program,
    ):
        attacked = Range(program.ready())
        try:
            holds = run(attacked, options.seconds, options.only, Console(width=160))
        finally:
            attacked.stop()
        program.terminate()
        tracebacks = program.log.count("Traceback")
        Console().print(f"log: {len(program.log.splitlines())} lines, {tracebacks} tracebacks")
    return 0 if holds and not tracebacks else 1


if __name__ == "__main__":
    sys.exit(main())
