"""Attacks on the gRPC port: the service stays well, members and clients go on, memory stays within its limits.

These are the sizes of a test; ``python -m benchmarks.attacks`` has the full ones, and prints what it measures. The
limits on time here are far above what is measured, since machines that run tests do much at the same time.
"""

import json
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import grpc
import psutil
import pytest

from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cyoda_cloud_api_pb2_grpc import CloudEventsServiceStub
from tests.database import Template
from tests.e2e.grpc_attacks import FLOODS
from tests.e2e.health import Health
from tests.e2e.program import PATIENCE_S, Program, started
from tests.e2e.test_http_attacks import a_database
from tests.service import a_token, eventually, signing_key_pem

MIB: Final = 1024 * 1024
MAX_CONNECTION_BYTES: Final = 64 * MIB
PORT_BYTES: Final = 128 * MIB
MAX_HEALTH_S: Final = 2.5
"""Five times what is seen on a machine that does much else."""
FLOOD_S: Final = 1.0


class Victim:
    """The program under attack, and somebody who works with it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.health = Health(program)
        self.token = a_token("attacked")
        self._channel = grpc.insecure_channel(program.grpc)
        self._service = CloudEventsServiceStub(self._channel)
        self._process = psutil.Process(program.process.pid)

    @property
    def memory(self) -> int:
        return int(self._process.memory_info().rss)

    def work(self) -> None:
        """A call that has to be answered."""
        event = CloudEvent(id="1", type="EntityModelGetAllRequest", text_data="{}")
        credentials = (("authorization", f"Bearer {self.token}"),)
        answer = self._service.entityModelManage(event, metadata=credentials, timeout=PATIENCE_S)
        assert json.loads(answer.text_data)["success"]

    def close(self) -> None:
        self._channel.close()
        self.health.stop()


@contextmanager
def attack(victim: Victim, kind: str, *options: object) -> Iterator[dict[str, int]]:
    """An attack that holds what it has inside the block."""
    command = [sys.executable, "-m", "tests.e2e.grpc_attacks", kind, str(victim.program.ports["GRPC"])]
    attacker = subprocess.Popen(
        [*command, *map(str, options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert attacker.stdout is not None
    try:
        while True:
            victim.work()
            if attacker.poll() is not None or select.select([attacker.stdout], [], [], 0.02)[0]:
                break
        yield json.loads(attacker.stdout.readline())
    finally:
        attacker.kill()
        attacker.communicate()


@pytest.fixture(scope="module")
def victim(database_template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    settings = {
        "IAM_MODE": "jwt",
        "JWT_SIGNING_KEY": signing_key_pem(),
        "GRPC_MEMORY_BYTES": str(PORT_BYTES),
        "GRPC_MAX_CONNECTIONS": "300",
    }
    home = tmp_path_factory.mktemp("attacked")
    with a_database(database_template) as database, started(home, POSTGRES_URL=database, **settings) as program:
        attacked = Victim(program.ready())
        for _ in range(50):
            attacked.work()
        try:
            yield attacked
        finally:
            attacked.close()
        assert program.terminate() == 0
        assert program.errors == []
        assert "Traceback" not in program.log
        assert len(program.log.splitlines()) < 300, "one line for many of a kind"


def test_a_service_that_stands_still_is_noticed(victim: Victim) -> None:
    """Or the tests below could not fail."""
    begun = monotonic()
    victim.program.tell(signal.SIGSTOP)
    sleep(0.5)
    victim.program.tell(signal.SIGCONT)
    assert victim.health.p99_since(begun) > 0.2


@pytest.mark.parametrize("kind", ["bombs", "complete-bombs", "messages"])
@pytest.mark.parametrize("with_token", [False, True], ids=["stranger", "known"])
def test_a_connection_holds_little_whatever_is_sent_on_it(victim: Victim, kind: str, with_token: bool) -> None:
    idle, begun = victim.memory, monotonic()
    with attack(victim, kind, "--calls", 100, "--mib", 60, "--token", victim.token if with_token else ""):
        assert victim.memory - idle < MAX_CONNECTION_BYTES
        victim.work()
    assert victim.health.p99_since(begun) < MAX_HEALTH_S


def test_many_connections_hold_no_more_than_the_port_has(victim: Victim) -> None:
    idle = victim.memory
    with attack(victim, "messages", "--connections", 12, "--calls", 20, "--mib", 20, "--token", victim.token):
        assert victim.memory - idle < PORT_BYTES + MAX_CONNECTION_BYTES
        victim.work()


def test_idle_connections_shut_nobody_out(victim: Victim) -> None:
    begun = monotonic()
    with attack(victim, "idle", "--connections", 600):
        for _ in range(20):
            victim.work()
        process = psutil.Process(victim.program.process.pid)
        assert process.num_fds() < 500
    assert victim.health.p99_since(begun) < MAX_HEALTH_S


@pytest.mark.parametrize("kind", FLOODS)
def test_floods_hold_up_nobody(victim: Victim, kind: str) -> None:
    begun = monotonic()
    with attack(victim, kind, "--seconds", FLOOD_S, "--token", victim.token) as report:
        victim.work()
    assert report["octets"] > 10_000
    assert victim.health.p99_since(begun) < MAX_HEALTH_S


def test_after_all_that_the_memory_is_given_back(victim: Victim) -> None:
    def held() -> float:
        lines = victim.program.admin.get("/metrics").text.splitlines()
        (line,) = [line for line in lines if line.startswith('statewright_grpc_memory_bytes{port="clients"}')]
        return float(line.rpartition(" ")[2])

    eventually(lambda: held() == 0)
