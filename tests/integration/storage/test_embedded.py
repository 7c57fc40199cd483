"""The embedded server, with real processes: its life, and its death in all the ways a machine knows."""

import asyncio
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import asyncpg
import psutil
import pytest

from statewright.storage.embedded.data_directory import (
    FAST_SETTINGS,
    MAX_LOG_BYTES,
    DataDirectory,
    OsUser,
    build_command,
    build_environment,
    can_reach,
    choose_user,
    find_processes,
    find_program,
    prepare_socket_directory,
    remove_abandoned_directories,
)
from statewright.storage.embedded.server import EmbeddedServer, extract_error, run_embedded_server
from statewright.storage.migrate import DataDirectoryInUse, EmbeddedServerRefused
from tests.database import connected, wait_until

SERVICE = Path(__file__).with_name("service.py")

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDirectory]:
    """A data directory to be; whatever a failed test leaves running on it is killed."""
    data = DataDirectory(tmp_path / "data")
    yield data
    end_processes(data)
    if data.pgdata.exists():
        shutil.rmtree(prepare_socket_directory(data, choose_user(data.pgdata)))


def end_processes(data: DataDirectory) -> None:
    """Kill what still works on the data, which may be about to end by itself, and wait for it: it writes meanwhile."""
    left = find_processes(data.pgdata)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=10)


@asynccontextmanager
async def a_server(data: DataDirectory) -> AsyncIterator[asyncpg.Connection]:
    async with run_embedded_server(data.path, durable=False) as dsn, connected(dsn) as connection:
        yield connection


class Service:
    """A service process with an embedded server (``service.py``), and what it reported as durable."""

    def __init__(self, data: DataDirectory, user: str | None = None) -> None:
        self._data = data
        self._report = data.path.with_name("report")
        with self._report.open("wb") as report:
            self.process = subprocess.Popen(
                [sys.executable, str(SERVICE), str(data.path)],
                stdout=report,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                user=user,
                group=None if user is None else pwd.getpwnam(user).pw_gid,
                extra_groups=None if user is None else [],
            )

    @property
    def numbers(self) -> list[int]:
        """The numbers reported so far."""
        *complete, _ = self._report.read_text().split("\n")
        return [int(line) for line in complete]

    def wait_for(self, count: int) -> None:
        """Until so many numbers were reported."""
        wait_until(lambda: len(self.numbers) >= count or self.process.poll() is not None, within_s=30)

    def server(self) -> psutil.Process:
        number = (self._data.pgdata / "postmaster.pid").read_text().split("\n")[0]
        return psutil.Process(int(number))

    def kill(self) -> str:
        """SIGKILL, until it is gone; what it said in the end."""
        self.process.kill()
        _, errors = self.process.communicate(timeout=20)
        return errors


@contextmanager
def a_service(data: DataDirectory, user: str | None = None) -> Iterator[Service]:
    """A service that has begun to write."""
    service = Service(data, user)
    try:
        service.wait_for(1)
        assert service.numbers, service.kill()
        yield service
    finally:
        service.kill()


async def noted(data: DataDirectory) -> list[int]:
    async with a_server(data) as connection:
        return [row["number"] for row in await connection.fetch("SELECT number FROM noted ORDER BY number")]


async def test_an_empty_directory_becomes_a_tuned_database(data: DataDirectory):
    async with run_embedded_server(data.path) as dsn, connected(dsn) as connection:
        names = ["fsync", "synchronous_commit", "full_page_writes", "data_checksums", "jit", "listen_addresses"]
        found = {name: await connection.fetchval("SELECT current_setting($1)", name) for name in names}
        assert found == dict.fromkeys(names[:4], "on") | {"jit": "off", "listen_addresses": ""}
        row = await connection.fetchrow(
            "SELECT current_setting('server_version_num')::int / 10000, pg_encoding_to_char(encoding), datcollate"
            "  FROM pg_database WHERE datname = current_database()"
        )
        assert tuple(row) == (18, "UTF8", "C")


async def test_data_outlives_the_server(data: DataDirectory):
    async with a_server(data) as connection:
        await connection.execute("CREATE TABLE kept AS SELECT 'yes' AS answer")
    async with a_server(data) as connection:
        assert await connection.fetchval("SELECT answer FROM kept") == "yes"


async def test_stopping_leaves_no_process_no_socket_and_no_lock(data: DataDirectory):
    server = EmbeddedServer(data.path, settings=FAST_SETTINGS)
    await server.start()
    sockets = sockets_of(data)
    assert sockets.is_dir()
    await server.stop()
    await server.stop()
    assert find_processes(data.pgdata) == []
    assert not sockets.exists()
    data.acquire_lock().close()


async def test_only_the_account_of_the_server_can_come_near_data_and_socket(data: DataDirectory):
    async with a_server(data):
        sockets = sockets_of(data)
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        assert stat.S_IMODE(data.pgdata.stat().st_mode) == 0o700
        assert sockets.stat().st_uid == data.pgdata.stat().st_uid != 0


async def test_cancelling_a_start_leaves_nothing_behind(data: DataDirectory, monkeypatch: pytest.MonkeyPatch):
    async with a_server(data):
        pass
    monkeypatch.setattr(DataDirectory, "is_ready", lambda *_: False)  # else it may have started before it is cancelled
    start = asyncio.create_task(EmbeddedServer(data.path, settings=FAST_SETTINGS).start())
    await asyncio.to_thread(wait_until, (data.pgdata / "postmaster.pid").exists, within_s=10)  # it is on its way
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert find_processes(data.pgdata) == []
    data.acquire_lock().close()


async def test_a_server_that_ends_by_itself_is_started_again(data: DataDirectory):
    async with run_embedded_server(data.path, durable=False) as dsn:
        first = await asyncio.to_thread(find_processes, data.pgdata)
        for process in first:
            process.kill()
        async with asyncio.timeout(20):
            while True:
                try:
                    async with connected(dsn) as connection:
                        assert await connection.fetchval("SELECT 1") == 1
                        break
                except (OSError, asyncpg.PostgresError):
                    await asyncio.sleep(0.02)
        second = await asyncio.to_thread(find_processes, data.pgdata)
        assert second
        assert not set(first) & set(second)


def test_a_second_service_on_the_same_data_gets_one_clear_line(data: DataDirectory, tmp_path: Path):
    with a_service(data) as first:
        (tmp_path / "second").mkdir()
        (tmp_path / "second" / "data").symlink_to(data.path)
        path = tmp_path / "second" / "data"
        second = Service(DataDirectory(path))
        _, errors = second.process.communicate(timeout=20)
        assert second.process.returncode == 1
        assert errors == f"data directory {path} is in use by another service (process {first.process.pid})\n"
        first.wait_for(len(first.numbers) + 1)
        assert first.process.poll() is None, "the first goes on"


async def test_the_same_process_cannot_open_its_data_twice(data: DataDirectory):
    async with a_server(data):
        with pytest.raises(DataDirectoryInUse, match=f"process {os.getpid()}"):
            await EmbeddedServer(data.path).start()


async def test_kill_9_of_the_service_loses_nothing_and_blocks_no_restart(data: DataDirectory):
    reported: list[int] = []
    for _ in range(6):
        with a_service(data) as service:  # the server of the one before may still be on its way out
            service.wait_for(5)
            service.kill()
            reported += service.numbers
    assert_nothing_is_lost(await noted(data), reported, kills=6)


async def test_kill_9_of_service_and_server_at_once_loses_nothing_and_blocks_no_restart(data: DataDirectory):
    reported: list[int] = []
    for _ in range(6):
        with a_service(data) as service:
            service.wait_for(5)
            service.server().kill()
            service.kill()
            reported += service.numbers
    assert_nothing_is_lost(await noted(data), reported, kills=6)


def assert_nothing_is_lost(found: list[int], reported: list[int], *, kills: int) -> None:
    """What was reported is there; beyond it at most the commits whose reports were cut off, one per kill."""
    assert found == list(range(1, len(found) + 1))
    assert set(reported) <= set(found)
    assert len(found) - len(reported) <= kills


def test_kill_9_of_the_service_ends_its_server_in_good_order(data: DataDirectory):
    with a_service(data) as service:
        service.kill()
        wait_until(lambda: find_processes(data.pgdata) == [], within_s=10)
        assert data.log.read_text().splitlines()[-1].endswith("database system is shut down")


def test_a_kill_in_the_middle_of_the_first_start_blocks_no_restart(data: DataDirectory):
    service = Service(data)
    wait_until(lambda: any(data.path.glob("postgres.new-*/PG_VERSION")), within_s=10)
    service.kill()
    with a_service(data) as again:
        assert again.numbers[0] == 1
    assert not any(data.path.glob("postgres.new-*"))


async def test_a_server_that_outlived_its_service_is_replaced(data: DataDirectory):
    async with a_server(data) as connection:
        await connection.execute("CREATE TABLE kept AS SELECT 1 AS answer")
    with an_orphan(data) as orphan:
        async with a_server(data) as connection:
            assert orphan.poll() is not None
            assert await connection.fetchval("SELECT answer FROM kept") == 1


async def test_a_backend_that_outlived_its_server_does_not_block_a_start(data: DataDirectory):
    async with a_server(data):
        pass
    with an_orphan(data) as orphan:
        sockets = sockets_of(data)
        busy = await asyncpg.connect(user="statewright", database="postgres", host=str(sockets))
        spinning = asyncio.create_task(busy.execute("DO 'BEGIN LOOP END LOOP; END'"))  # it never looks up
        while not await is_active(sockets, busy.get_server_pid()):
            pass
        orphan.kill()
        await asyncio.to_thread(wait_until, lambda: pids_on(data) == [busy.get_server_pid()], within_s=10)
        async with a_server(data) as connection:
            assert await connection.fetchval("SELECT 1") == 1
        with pytest.raises(asyncpg.PostgresConnectionError):
            await spinning


def pids_on(data: DataDirectory) -> list[int]:
    return [process.pid for process in find_processes(data.pgdata)]


async def test_a_claim_left_by_another_life_of_the_machine_does_not_block_a_start(data: DataDirectory):
    async with a_server(data):
        pass
    with a_bystander(choose_user(data.pgdata)) as bystander:
        (data.pgdata / "postmaster.pid").write_text(
            f"{bystander.pid}\n{data.pgdata}\n1700000000\n5432\n/tmp\n\n\nready\n"
        )
        (data.path / "lock").write_text(str(bystander.pid))
        async with a_server(data) as connection:
            assert await connection.fetchval("SELECT 1") == 1
        assert bystander.poll() is None, "the number was somebody else's"


async def test_data_of_another_major_version_is_refused_in_one_line(data: DataDirectory):
    async with a_server(data):
        pass
    (data.pgdata / "PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedServerRefused, match="was written by PostgreSQL 17, this program has 18") as refusal:
        await EmbeddedServer(data.path).start()
    assert "\n" not in str(refusal.value)


async def test_what_the_server_complains_about_is_told(data: DataDirectory):
    server = EmbeddedServer(data.path, settings={**FAST_SETTINGS, "shared_buffers": "many"})
    with pytest.raises(EmbeddedServerRefused, match='invalid value for parameter "shared_buffers": "many"') as refusal:
        await server.start()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("LOG:  starting\nFATAL:  no space\nHINT:  buy some\n", "no space"),
        ("initdb: error: directory exists\ninitdb: hint: empty it\n", "directory exists"),
        ("something odd\n\n", "something odd"),
        ("", "it said nothing"),
    ],
)
def test_the_telling_line_is_found_in_the_output_of_a_program(output: str, expected: str):
    assert extract_error(output.encode()) == expected


async def test_a_data_directory_that_is_a_file_is_refused_in_one_line(tmp_path: Path):
    place = tmp_path / "file"
    place.touch()
    with pytest.raises(EmbeddedServerRefused, match="file cannot be used: File exists"):
        await EmbeddedServer(place).start()


async def test_a_socket_path_that_would_be_too_long_goes_elsewhere(
    data: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    async with a_server(data) as connection:
        assert await connection.fetchval("SELECT 1") == 1
    assert list(long.iterdir()) == []


def test_a_socket_directory_made_by_somebody_else_is_not_used(data: DataDirectory, tmp_path: Path):
    data.path.mkdir()
    account = OsUser(name="me", uid=os.geteuid(), gid=os.getegid())
    expected = prepare_socket_directory(data, account)
    expected.rmdir()
    expected.mkdir(mode=0o777)
    expected.chmod(0o777)
    other = prepare_socket_directory(data, account)
    assert other != expected
    assert stat.S_IMODE(other.stat().st_mode) == 0o700
    expected.rmdir()
    other.rmdir()


def test_socket_directories_of_services_that_are_gone_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    short = Path(tempfile.mkdtemp(prefix="sw-", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    account = OsUser(name="me", uid=os.geteuid(), gid=os.getegid())
    old = time.time() - 3600
    with ExitStack() as stack:
        for name, listens in (("killed", False), ("lives", True), ("begins", False), ("empty", None)):
            path = short / f"statewright-{account.uid}-{name}"
            path.mkdir(mode=0o700)
            if listens is not None:
                server = stack.enter_context(socket.socket(socket.AF_UNIX))
                server.bind(str(path / ".s.PGSQL.5432"))
                if listens:
                    server.listen()
            if name != "begins":
                os.utime(path, (old, old))
        (short / "statewright-of-somebody").mkdir()
        removed = remove_abandoned_directories(account)
    assert {path.name.rpartition("-")[2] for path in removed} == {"killed", "empty"}
    assert {path.name.rpartition("-")[2] for path in short.iterdir()} == {"lives", "begins", "somebody"}
    shutil.rmtree(short)


def test_a_large_log_is_moved_aside(data: DataDirectory):
    data.path.mkdir()
    data.log.write_bytes(b"x" * (MAX_LOG_BYTES + 1))
    with data.open_log() as log:
        log.write(b"new\n")
    assert data.log.read_bytes() == b"new\n"
    assert data.log.with_suffix(".log.1").stat().st_size == MAX_LOG_BYTES + 1


@AS_ROOT
async def test_root_may_keep_data_where_only_root_can_search(data: DataDirectory):
    data.path.mkdir(mode=0o700)
    async with a_server(data) as connection:
        assert not can_reach(choose_user(data.pgdata), data.pgdata)
        assert await connection.fetchval("SELECT 1") == 1


@AS_ROOT
async def test_a_server_that_needs_no_privilege_gets_none(world_readable: DataDirectory):
    async with a_server(world_readable):
        account = choose_user(world_readable.pgdata)
        assert can_reach(account, world_readable.pgdata)
        if not can_reach(account, find_program("postgres")):
            pytest.skip("the server's program is private to root, so it needs the privilege to read it")
        status = (Path("/proc") / str(find_processes(world_readable.pgdata)[0].pid) / "status").read_text()
        assert "CapEff:\t0000000000000000" in status
        assert f"Uid:\t{account.uid}\t{account.uid}" in status


@AS_ROOT
async def test_data_that_root_restored_is_given_to_the_server(data: DataDirectory):
    async with a_server(data):
        pass
    for entry in (data.pgdata, *data.pgdata.rglob("*")):
        os.chown(entry, 0, 0)
    async with a_server(data) as connection:
        assert await connection.fetchval("SELECT 1") == 1


@AS_ROOT
def test_an_ordinary_user_runs_the_server_under_its_own_name_and_root_after_it_too(world_readable: DataDirectory):
    user = "games"
    entry = pwd.getpwnam(user)
    account = OsUser(name=user, uid=entry.pw_uid, gid=entry.pw_gid)
    if not all(can_reach(account, path) for path in (find_program("postgres"), Path(sys.executable), SERVICE)):
        pytest.skip("Python or its packages are private to root")
    world_readable.path.mkdir()
    os.chown(world_readable.path, account.uid, account.gid)
    for someone in (user, None, user):
        with a_service(world_readable, someone) as service:
            assert service.server().username() == user


@pytest.fixture
def world_readable() -> Iterator[DataDirectory]:
    """A data directory to be, in a place that everybody can search."""
    with tempfile.TemporaryDirectory(prefix="statewright-") as directory:
        place = Path(directory)
        place.chmod(0o755)
        data = DataDirectory(place / "data")
        yield data
        end_processes(data)


@contextmanager
def an_orphan(data: DataDirectory) -> Iterator[subprocess.Popen[bytes]]:
    """A running server on the data that no service holds and that nobody told to stop."""
    account = choose_user(data.pgdata)
    sockets = prepare_socket_directory(data, account)
    arguments = ["-D", str(data.pgdata), "-c", f"unix_socket_directories={sockets}", "-c", "listen_addresses="]
    never = signal.Signals(signal.SIGCONT)
    line = build_command("postgres", *arguments, user=account, death_signal=never, near=[data.pgdata, sockets])
    with data.open_log() as log:
        server = subprocess.Popen(line, stdout=log, stderr=log, env=build_environment(), cwd="/")
    try:
        wait_until(lambda: data.is_ready(server.pid), within_s=20)
        yield server
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(sockets, ignore_errors=True)


@contextmanager
def a_bystander(account: OsUser) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the account that has nothing to do with us."""
    process = subprocess.Popen(["sleep", "600"], user=None if account.is_self else account.uid)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def sockets_of(data: DataDirectory) -> Path:
    """The socket directory of the running server, by its own word."""
    return Path((data.pgdata / "postmaster.pid").read_text().splitlines()[4])


async def is_active(sockets: Path, backend: int) -> bool:
    async with connected(f"postgresql://statewright@/postgres?host={sockets}") as connection:
        found = await connection.fetchval("SELECT state FROM pg_stat_activity WHERE pid = $1", backend)
        return bool(found == "active")
