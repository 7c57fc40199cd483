"""Brokers of messages that tests run: Kafka on the JDK, and ``nats-server``.

They are no part of CI: the environment variable ``STATEWRIGHT_TEST_BROKERS`` names a directory where they are installed
once (by Maven and Go), and tests that want one are skipped without it. ``make brokers`` runs them.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.certificates import Authority

PLACE: Final = "STATEWRIGHT_TEST_BROKERS"
KAFKA: Final = "4.3.1"
NATS: Final = "v2.15.2"
WITHIN_S: Final = 60.0
TOPIC: Final = "events"
STREAM: Final = "EVENTS"
SUBJECT: Final = "events.all"
USER, PASSWORD = "alice", "a word"

_POM: Final = f"""
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>t</groupId><artifactId>broker</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA}</version>
</dependency></dependencies></project>
"""


def find_place() -> Path:
    """Where brokers are installed."""
    if PLACE not in os.environ:
        pytest.skip(f"{PLACE} names no directory for brokers")
    return Path(os.environ[PLACE]).absolute()


def find_program(name: str) -> str:
    """A program of the tool chain."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def find_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def install_kafka() -> Path:
    """The directory of its archives."""
    place = find_place() / "kafka"
    if not (place / "jars").exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "pom.xml").write_text(_POM)
        command = (find_program("mvn"), "-q", "dependency:copy-dependencies", "-DoutputDirectory=jars")
        subprocess.run(command, cwd=place, check=True, timeout=600, capture_output=True)
    return place / "jars"


def install_nats() -> Path:
    """The program."""
    place = find_place() / "bin"
    if not (place / "nats-server").exists():
        command = (find_program("go"), "install", f"github.com/nats-io/nats-server/v2@{NATS}")
        environment = {**os.environ, "GOBIN": str(place)}
        subprocess.run(command, env=environment, check=True, timeout=600, capture_output=True)
    return place / "nats-server"


class RunningBroker:
    """A broker that can be killed, and started again with what it has on its disk."""

    def __init__(self, command: Sequence[str], directory: Path, ports: Sequence[int]) -> None:
        self.command = command
        self.directory = directory
        self.ports = ports
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self.ports[0]

    def start(self) -> None:
        with (self.directory / "output.txt").open("ab") as output:
            self.process = subprocess.Popen(self.command, cwd=self.directory, stdout=output, stderr=output)
        deadline = time.monotonic() + WITHIN_S
        for port in self.ports:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    assert self.process.poll() is None, (self.directory / "output.txt").read_text()[-2000:]
                    assert time.monotonic() < deadline, "the broker does not listen"
                    time.sleep(0.05)

    def kill(self) -> None:
        """As the kernel would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@contextmanager
def _run(broker: RunningBroker) -> Iterator[RunningBroker]:
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@contextmanager
def run_kafka(
    directory: Path, authority: Authority | None = None, *, by_certificate: bool = False
) -> Iterator[RunningBroker]:
    """Kafka with a topic of six partitions. With an authority it speaks TLS only, and wants a user by SCRAM, or a
    certificate of that authority.
    """
    java, jars = find_program("java"), install_kafka()
    port, controller = find_ports(2)
    name = "PLAINTEXT" if authority is None else "SSL" if by_certificate else "SASL_SSL"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{name}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"{name}://127.0.0.1:{port}",
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{name}:{name}",
        "inter.broker.listener.name": name,
        "log.dirs": str(directory / "logs"),
        "num.partitions": "6",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "initial.broker.registration.timeout.ms": "30000",
        "message.max.bytes": "4194304",
    }
    users: tuple[str, ...] = ()
    if authority is not None:
        certificate, key = authority.issue("broker")
        pem = directory / "server.pem"
        pem.write_text(key.read_text() + certificate.read_text())
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(pem),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.file),
            "ssl.client.auth": "required" if by_certificate else "none",
        }
    if name == "SASL_SSL":
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        settings |= {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
                f'{login} username="{USER}" password="{PASSWORD}";'
            ),
        }
        users = ("--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]")
    file = directory / "server.properties"
    file.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    program = (java, "-Xmx512m", "-cp", f"{jars}/*")
    form = ("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(file), *users)
    subprocess.run((*program, *form), check=True, timeout=120, capture_output=True)
    with _run(RunningBroker((*program, "kafka.Kafka", str(file)), directory, [port])) as broker:
        yield broker


@contextmanager
def run_nats(
    directory: Path, authority: Authority | None = None, *, by_certificate: bool = False
) -> Iterator[RunningBroker]:
    """NATS with JetStream. With an authority it wants TLS, and a user, or a certificate of that authority."""
    program = install_nats()
    [port] = find_ports(1)
    settings: dict[str, object] = {
        "host": "127.0.0.1",
        "port": port,
        "max_payload": 4 * 1024 * 1024,
        "jetstream": {"store_dir": str(directory / "store"), "sync_interval": "always"},
    }
    if authority is not None:
        certificate, key = authority.issue("broker")
        tls = {"cert_file": str(certificate), "key_file": str(key)}
        if by_certificate:
            settings["tls"] = {**tls, "ca_file": str(authority.file), "verify": True}
        else:
            settings |= {"tls": tls, "authorization": {"user": USER, "password": PASSWORD}}
    file = directory / "server.json"
    file.write_text(json.dumps(settings))
    with _run(RunningBroker((str(program), "-c", str(file)), directory, [port])) as broker:
        yield broker
