"""A primary that is lost, and a synchronous standby that takes over
(docs/guides/postgresql.md#managed-services-and-fail-over).
"""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from statewright.storage.embedded.data_directory import (
    OsUser,
    build_command,
    build_environment,
    change_owner,
    choose_user,
)
from tests.database import connected
from tests.e2e.program import free_ports, started
from tests.e2e.test_database_faults import Clients, get_postmaster, list_backends, signal_all, working
from tests.service import eventually

MINUTE_S = 60.0


class Cluster:
    """A PostgreSQL on a port of its own."""

    def __init__(self, home: Path, port: int) -> None:
        self.directory = home
        self.port = port
        home.mkdir(mode=0o700)
        self.user: OsUser = choose_user(home)
        change_owner(home, self.user)

    @property
    def url(self) -> str:
        return f"postgresql://statewright@127.0.0.1:{self.port}/postgres"

    def line(self, program: str, *arguments: str) -> list[str]:
        """The command line of a program of PostgreSQL."""
        death = signal.SIGINT
        return build_command(program, *arguments, user=self.user, death_signal=death, near=[self.directory])

    def do(self, program: str, *arguments: str) -> None:
        line = self.line(program, *arguments)
        subprocess.run(line, check=True, cwd="/", env=build_environment(), capture_output=True, timeout=MINUTE_S)

    @contextmanager
    def serving(self, **settings: str) -> Iterator[None]:
        """The server runs inside the block, unless somebody kills it."""
        named = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": "", "fsync": "off"}
        arguments = [part for name, value in {**named, **settings}.items() for part in ("-c", f"{name}={value}")]
        line = self.line("postgres", "-D", str(self.directory), *arguments)
        with (self.directory.parent / f"{self.port}.log").open("wb") as log:
            process = subprocess.Popen(line, cwd="/", env=build_environment(), stdout=log, stderr=log)
        try:
            eventually(self.is_ready, within_s=MINUTE_S)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(MINUTE_S)

    def is_ready(self) -> bool:
        try:
            return bool(self.ask("SELECT true"))
        except (OSError, asyncpg.PostgresError):
            return False

    def ask(self, query: str) -> Any:
        """A value, or nothing for a command."""

        async def fetch() -> Any:
            async with connected(self.url) as connection:
                return await connection.fetchval(query)

        return asyncio.run(fetch())


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[Cluster, Cluster]]:
    """A primary, and a standby that has every commit before it is acknowledged."""
    ports = free_ports("PRIMARY", "STANDBY")
    primary, standby = (Cluster(tmp_path / name.lower(), port) for name, port in ports.items())
    with ExitStack() as stack:
        primary.do("initdb", "-D", str(primary.directory), "-U", "statewright", "--auth=trust", "--no-sync")
        stack.enter_context(primary.serving())
        source = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", "statewright"]
        standby.do("pg_basebackup", *source, "-D", str(standby.directory), "-R", "-c", "fast", "--no-sync")
        stack.enter_context(standby.serving())
        primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.ask("SELECT pg_reload_conf()")
        eventually(lambda: primary.ask("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"))
        yield primary, standby


def test_a_fail_over_loses_nothing_that_was_acknowledged(tmp_path: Path, clusters: tuple[Cluster, Cluster]) -> None:
    primary, standby = clusters
    hosts = f"127.0.0.1:{standby.port},127.0.0.1:{primary.port}"
    url = f"postgresql://statewright@{hosts}/postgres?target_session_attrs=read-write"
    with (
        started(tmp_path, POSTGRES_URL=url, SUPPRESS_BANNER="true") as program,
        ExitStack() as stack,
    ):
        api = program.ready().api()
        api.a_model()
        clients = Clients(api, stack)
        with working(clients):
            postmaster = get_postmaster(primary.directory)
            signal_all([postmaster, *list_backends(postmaster)], signal.SIGKILL)
            standby.ask("SELECT pg_promote()")
            before = len(clients.list_of(200))
            eventually(lambda: len(clients.list_of(200)) > before + 50)
        assert clients.list_of(-1) == set()
        clients.assert_truthful()
        assert program.terminate() == 0
