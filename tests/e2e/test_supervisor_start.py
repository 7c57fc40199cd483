"""A signal while ``statewright serve --workers`` starts: whatever was begun is undone, and nobody is left behind."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from statewright.storage import migrate
from tests.database import connected, wait_for_migrations
from tests.e2e.program import Program, started
from tests.service import eventually

WITHIN_S = 60.0


def processes_of(home: Path) -> list[str]:
    """Command lines of everything that was started from there: supervisor, workers, database server."""
    return [" ".join(found.info["cmdline"] or []) for found in psutil.process_iter(["cmdline"]) if is_of(found, home)]


def is_of(process: psutil.Process, home: Path) -> bool:
    try:
        named = any(str(home) in word for word in process.info["cmdline"] or [])
        return named or process.environ().get("HOME") == str(home)
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False


def workers_of(home: Path) -> list[str]:
    return [line for line in processes_of(home) if "statewright.supervisor.worker" in line]


Moment = Callable[[Path, Program], bool]

MOMENTS: dict[str, Moment] = {
    "the data directory is made": lambda home, _program: any(home.glob("data/postgres.new-*")),
    "the server runs": lambda home, _program: any(home.glob("data/postgres/postmaster.pid")),
    "workers are started": lambda home, _program: len(workers_of(home)) > 0,
    "a worker listens": lambda _home, program: "grpc_listening" in program.log,
    "a worker is ready": lambda _home, program: "worker_ready" in program.log,
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose embedded database was used before, so that it starts fast."""
    home = tmp_path_factory.mktemp("supervised")
    with started(home, "migrate", DATA_DIRECTORY=str(home / "data")) as program:
        assert program.ended() == 0
    return home


@pytest.mark.parametrize(
    ("moment", "number"),
    [*((moment, signal.SIGTERM) for moment in MOMENTS), ("a worker listens", signal.SIGINT)],
)
def test_a_signal_undoes_the_start(prepared: Path, tmp_path: Path, moment: str, number: signal.Signals) -> None:
    home = tmp_path if moment == "the data directory is made" else prepared
    with started(home, "serve", "--workers", "2", DATA_DIRECTORY=str(home / "data")) as program:
        eventually(lambda: MOMENTS[moment](home, program), within_s=WITHIN_S)
        program.tell(number)
        assert program.ended() == 0
        assert program.errors == []
        assert "embedded_postgres_orphan_stopped" not in program.log
    assert processes_of(home) == []


def test_a_signal_while_migrations_wait_ends_the_wait(tmp_path: Path, database: str) -> None:
    async def ended_while_locked(program: Program) -> int:
        async with connected(database) as other, other.transaction():
            await other.execute(migrate.TAKE_LOCK, migrate.LOCK_KEY)
            async with asyncio.timeout(WITHIN_S):
                await wait_for_migrations(other)
            program.tell(signal.SIGTERM)
            return await asyncio.to_thread(program.ended)

    with started(tmp_path, "serve", "--workers", "2", POSTGRES_URL=database) as program:
        assert asyncio.run(ended_while_locked(program)) == 0
        assert program.errors == []
    assert processes_of(tmp_path) == []


def test_a_second_signal_waits_for_nobody(prepared: Path) -> None:
    with started(prepared, "serve", "--workers", "2", DATA_DIRECTORY=str(prepared / "data")) as program:
        eventually(lambda: "grpc_listening" in program.log, within_s=WITHIN_S)
        program.tell(signal.SIGTERM)
        program.tell(signal.SIGTERM)
        assert program.ended() in {0, 2}  # the first one may have been enough
    eventually(lambda: processes_of(prepared) == [], within_s=WITHIN_S)


def test_a_hangup_before_there_are_workers_does_nothing(tmp_path: Path, database: str) -> None:
    async def hung_up_while_locked(program: Program) -> None:
        async with connected(database) as other, other.transaction():
            await other.execute(migrate.TAKE_LOCK, migrate.LOCK_KEY)
            async with asyncio.timeout(WITHIN_S):
                await wait_for_migrations(other)
            program.tell(signal.SIGHUP)

    with started(tmp_path, "serve", "--workers", "2", POSTGRES_URL=database) as program:
        asyncio.run(hung_up_while_locked(program))
        program.ready()
        assert program.terminate() == 0
