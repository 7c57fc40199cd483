"""The PostgreSQL that tests run against: one server per test run, one template per worker, one clone per test.

Which server: the one at ``STATEWRIGHT_TEST_POSTGRES_URL``; else a container, when a Docker engine answers; else the
embedded server, with everything off that makes data survive a crash.

Who owns it: with pytest-xdist there are several workers, and none of them knows when the last is done. So the server
lives in a process of its own (this file, run as a program), started by the first worker that needs it, under a file
lock. That process waits for another lock, which pytest's main process holds for as long as it lives. When it ends,
even by ``kill -9``, the server stops and removes its files. They are in memory where there is enough of it: a database
has five hundred files, and to copy them costs a disk's file system six times as much.
"""

import asyncio
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any, Self, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import psutil

from statewright.storage import migrate
from statewright.storage.embedded.server import run_embedded_server

URL_VARIABLE = "STATEWRIGHT_TEST_POSTGRES_URL"

IMAGE = "postgres:18-alpine"

START_WITHIN_S = 120.0
"""An image may have to be fetched."""

STOP_WITHIN_S = 15.0

MEMORY = Path("/dev/shm")
"""Where files are in memory on Linux."""

MIN_FREE_BYTES = 4 * 2**30
"""What there must be of it for the files of a run, and must be left for everybody else."""

DOCKER_SOCKETS = (Path("/var/run/docker.sock"), Path("~/.docker/run/docker.sock"))


_MIGRATIONS_WAIT = """
    SELECT count(*) FROM pg_locks
     WHERE NOT granted AND locktype = 'advisory'
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
"""Those of this database who wait for the lock of migrations: the server shows the locks of all its tests."""


T = TypeVar("T")


class Run:
    """One test run: a directory in which its processes agree on their server."""

    def __init__(self, directory: Path, alive: IO[str] | None = None) -> None:
        self.directory = directory
        self._alive = alive
        self._url = directory / "url"
        self._log = directory / "server.log"

    @classmethod
    def begin(cls) -> Self:
        """A new run, which lasts until ``end`` or until this process is gone."""
        directory = Path(tempfile.mkdtemp(prefix="statewright-tests-", dir=MEMORY if has_memory_to_spare() else None))
        return cls(directory, alive=locked(directory / "alive"))

    def end(self) -> None:
        """Let go of the server, if there is one, and wait until it is gone."""
        assert self._alive is not None, "only the process that began a run ends it"
        was_needed = self._log.exists()
        self._alive.close()
        if was_needed:  # its process removes the directory last
            wait_until(lambda: not self.directory.exists(), within_s=STOP_WITHIN_S)
        else:
            shutil.rmtree(self.directory)

    def server(self) -> str:
        """The URL of the run's server; the first caller starts it."""
        if url := os.environ.get(URL_VARIABLE):
            return url
        with locked(self.directory / "starting"):
            if not self._url.exists():
                self._start()
        return self._url.read_text()

    def _start(self) -> None:
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, __file__, str(self.directory)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,  # Ctrl-C is for pytest, which still wants to drop its databases
            )
        wait_until(lambda: self._url.exists() or process.poll() is not None, within_s=START_WITHIN_S)
        if process.returncode is not None:
            raise RuntimeError(f"the test database did not start:\n{self._log.read_text()}")
        process.returncode = 0  # it outlives this process, which is no reason for a ResourceWarning

    async def serve(self) -> None:
        """Run the server until the run is over. The server process does this."""
        try:
            async with (
                container() if docker_answers() else run_embedded_server(self.directory / "data", durable=False) as url
            ):
                complete = self.directory / "url.new"
                complete.write_text(url)
                complete.rename(self._url)
                await asyncio.to_thread(lambda: locked(self.directory / "alive").close())
        finally:
            shutil.rmtree(self.directory)


class Template:
    """A migrated database that is cloned for each test."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._name = new_name()

    async def create(self) -> None:
        """Create and migrate the template."""
        await create_database(self._server, self._name, template="template0")
        async with connected(database_url(self._server, self._name)) as connection:
            await migrate.apply_pending(connection)

    async def drop(self) -> None:
        """Drop the template; its clones live on."""
        await drop_database(self._server, self._name)

    def clone(self) -> AbstractAsyncContextManager[str]:
        """The URL of a fresh, migrated database, which is gone after the block."""
        return temporary_database(self._server, template=self._name)


@asynccontextmanager
async def temporary_database(server: str, *, template: str = "template0") -> AsyncIterator[str]:
    """The URL of a fresh database, empty unless it is a clone, which is gone after the block."""
    name = new_name()
    await create_database(server, name, template=template)
    try:
        yield database_url(server, name)
    finally:
        await drop_database(server, name)


async def create_database(server: str, name: str, *, template: str) -> None:
    """Create a database like those of the embedded server; by file copy, which takes half the time of the default."""
    form = "ENCODING 'UTF8' LOCALE 'C' STRATEGY FILE_COPY"
    async with connected(server) as admin:
        await admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" {form}')


async def drop_database(server: str, name: str) -> None:
    """Drop a database, whoever may be connected to it."""
    async with connected(server) as admin:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def database_url(server: str, name: str) -> str:
    """The URL of a database beside the one that ``server`` names."""
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def new_name() -> str:
    """A name that no database has, not even one of another test run on the same server."""
    return f"statewright_test_{uuid4().hex[:12]}"


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own, beside all pools."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def explain_generically(connection: asyncpg.Connection, statement: str) -> str:
    """The plan that a connection keeps of a statement, whatever the parameters."""
    nothing = ", ".join("NULL" for _ in {*re.findall(r"\$\d+", statement)})
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE hot AS {statement}")
    return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN (COSTS off) EXECUTE hot ({nothing})"))


async def wait_for_migrations(connection: asyncpg.Connection) -> None:
    """Return when somebody waits for the lock of this database's migrations."""
    while not await connection.fetchval(_MIGRATIONS_WAIT):  # noqa: ASYNC110 - the database has no event
        await asyncio.sleep(0.02)


@contextmanager
def kept_open(block: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """What an asynchronous block yields, for a fixture that lives longer than an event loop."""
    with asyncio.Runner() as runner:
        value = runner.run(_entered(block))
        try:
            yield value
        finally:
            runner.run(_left(block))


async def _entered(block: AbstractAsyncContextManager[T]) -> T:
    return await block.__aenter__()


async def _left(block: AbstractAsyncContextManager[Any]) -> None:
    await block.__aexit__(None, None, None)


@contextmanager
def filled_clone(template: Template, script: str) -> Iterator[str]:
    """The URL of a clone in which a script was run, for tests that only look at it."""

    async def fill(database: str) -> None:
        async with connected(database) as connection:
            await connection.execute(script)

    with kept_open(template.clone()) as database:
        asyncio.run(fill(database))
        yield database


def has_memory_to_spare() -> bool:
    """Whether the databases of a run may be in memory."""
    if not os.access(MEMORY, os.W_OK):
        return False
    return min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available // 2) >= MIN_FREE_BYTES


def docker_answers() -> bool:
    """Whether there is a Docker engine; a quick look, since mostly there is none."""
    if "DOCKER_HOST" not in os.environ and not any(path.expanduser().exists() for path in DOCKER_SOCKETS):
        return False
    import docker  # takes a while, for the few who have an engine

    try:
        return bool(docker.from_env(timeout=3).ping())
    except docker.errors.DockerException:
        return False


@asynccontextmanager
async def container() -> AsyncIterator[str]:
    """The URL of a server in a container. testcontainers removes the container even if this process is killed."""
    from testcontainers.core.container import DockerContainer

    server = (
        DockerContainer(IMAGE)
        .with_env("POSTGRES_PASSWORD", "statewright")
        .with_exposed_ports(5432)
        .with_command("postgres -c fsync=off -c full_page_writes=off -c synchronous_commit=off -c max_connections=200")
    )
    await asyncio.to_thread(server.start)
    try:
        place = f"{server.get_container_host_ip()}:{server.get_exposed_port(5432)}"
        url = f"postgresql://postgres:statewright@{place}/postgres"
        await answering(url)
        yield url
    finally:
        await asyncio.to_thread(server.stop)


async def answering(url: str) -> None:
    """Wait until a server accepts connections."""
    async with asyncio.timeout(START_WITHIN_S):
        while True:
            try:
                async with connected(url):
                    return
            except (OSError, asyncpg.PostgresError):
                await asyncio.sleep(0.1)


def locked(path: Path) -> IO[str]:
    """A file under an exclusive lock, once nobody else holds it; closing it, or dying, gives the lock back."""
    file = path.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def wait_until(happened: Callable[[], bool], *, within_s: float) -> None:
    """Wait for something another process does."""
    deadline = time.monotonic() + within_s
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still waiting after {within_s:.0f} s")
        time.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(Run(Path(sys.argv[1])).serve())
