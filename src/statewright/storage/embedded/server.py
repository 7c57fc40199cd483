"""PostgreSQL as a part of the service: started with it, stopped with it, its data in a directory of ours.

*Start.* Take the lock on the data directory, or refuse in one line. Stop what an earlier, killed service left behind
(``data_directory.py``). Create the cluster if there is none: under another name first, so that a kill in the middle
leaves nothing that looks complete. Start the server under an unprivileged account (``launcher.py``) and wait until it
accepts connections.

*Run.* The server listens on a Unix socket only, in a directory that only its account and root can enter; that
is why its connections need no password. If the server ends by itself it is started again, and the pool replaces its
connections.

*Stop.* Fast shutdown, then immediate shutdown, then kill. The lock goes last.

*Kill.* The kernel gives the lock back and tells the server to shut down (``launcher.py``). What was committed is in the
write-ahead log in any case.
"""

import asyncio
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

from statewright.storage.embedded.data_directory import (
    DURABLE_SETTINGS,
    FAST_SETTINGS,
    FAST_SHUTDOWN,
    IMMEDIATE_SHUTDOWN,
    DataDirectory,
    OsUser,
    build_command,
    build_environment,
    change_owner,
    choose_user,
    prepare_socket_directory,
    remove_abandoned_directories,
    stop_orphans,
)
from statewright.storage.migrate import EmbeddedServerRefused
from statewright.telemetry import logs

SUPERUSER: Final = "statewright"

START_TIMEOUT: Final = timedelta(seconds=60)
"""Includes recovery; ``max_wal_size`` bounds that to some seconds."""

FAST_TIMEOUT: Final = timedelta(seconds=20)
IMMEDIATE_TIMEOUT: Final = timedelta(seconds=5)

READY_PAUSE_S: Final = 0.01
"""Between two looks for the server's word that it is ready; it does not call back."""

RESTART_PAUSE_S, MAX_RESTART_PAUSE_S = 1.0, 30.0

log = logs.logger(__name__)


@asynccontextmanager
async def run_embedded_server(data_directory: Path, *, durable: bool = True) -> AsyncGenerator[str, None]:
    """The URL of an embedded server that runs inside the ``with`` block; raises ``EmbeddedServerRefused``.

    Without ``durable`` (tests) a crash of the machine destroys the data.
    """
    server = EmbeddedServer(data_directory, settings=DURABLE_SETTINGS if durable else FAST_SETTINGS)
    dsn = await server.start()
    try:
        yield dsn
    finally:
        await server.stop()


class EmbeddedServer:
    """One PostgreSQL on one data directory. Start it from the thread that lives as long as the service."""

    def __init__(self, data_directory: Path, *, settings: Mapping[str, str] = DURABLE_SETTINGS) -> None:
        self._data = DataDirectory(data_directory.absolute())
        self._settings = settings
        self._lock: BinaryIO | None = None
        self._process: Process | None = None
        self._restart_task: asyncio.Task[None] | None = None
        self._sockets: Path | None = None

    async def start(self) -> str:
        """Start the server, creating its data if there is none; its URL. Raises ``EmbeddedServerRefused``."""
        self._lock = self._data.acquire_lock()
        try:
            user = choose_user(self._data.pgdata)
            await self._prepare(user)
            await self._launch(user)
        except OSError as error:
            await self.stop()
            raise EmbeddedServerRefused(f"the embedded PostgreSQL cannot be started: {error}") from error
        except BaseException:
            await self.stop()
            raise
        self._restart_task = asyncio.create_task(self._restart_on_exit(user), name="embedded-postgres")
        return f"postgresql://{SUPERUSER}@/postgres?host={quote(str(self._sockets))}"

    async def stop(self) -> None:
        """Stop the server and let go of the data directory. Does nothing when it is stopped already."""
        if self._restart_task is not None:
            self._restart_task.cancel()
            await asyncio.wait([self._restart_task])
            self._restart_task = None
        try:
            await self._stop_process()
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    async def _prepare(self, user: OsUser) -> None:
        """See that there is a complete cluster, owned by ``user``, that no process works on."""
        orphans = await asyncio.to_thread(stop_orphans, self._data.pgdata)
        if orphans:
            log.warning("embedded_postgres_orphan_stopped", processes=orphans, data_directory=str(self._data.path))
        if not self._data.pgdata.exists():
            await self._create(user)
        self._data.check_version()
        if self._data.pgdata.stat().st_uid != user.uid:  # restored from a backup by root, say
            await asyncio.to_thread(change_owner, self._data.pgdata, user)

    async def _create(self, user: OsUser) -> None:
        staged = self._data.create_staging()
        change_owner(staged, user)
        arguments = [
            "-D",
            str(staged),
            "-U",
            SUPERUSER,
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--data-checksums",
        ]
        if self._settings["fsync"] == "off":
            arguments.append("--no-sync")
        line = build_command("initdb", *arguments, user=user, death_signal=signal.SIGTERM, near=[staged])
        process = await asyncio.create_subprocess_exec(
            *line, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, cwd="/", env=build_environment(), start_new_session=True
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise EmbeddedServerRefused(f"cannot create a database cluster: {extract_error(output)}")
        self._data.adopt(staged)

    async def _launch(self, user: OsUser) -> None:
        if self._sockets is None or not self._sockets.exists():  # else clients know this one
            self._sockets = prepare_socket_directory(self._data, user)
            await asyncio.to_thread(remove_abandoned_directories, user)
        settings = {**self._settings, "unix_socket_directories": str(self._sockets)}
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        near = [self._data.pgdata, self._sockets]
        line = build_command(
            "postgres",
            "-D",
            str(self._data.pgdata),
            *arguments,
            user=user,
            death_signal=FAST_SHUTDOWN,
            near=near,
        )
        with self._data.open_log() as output:
            beginning = output.tell()
            self._process = await asyncio.create_subprocess_exec(
                *line,
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=build_environment(),
                start_new_session=True,
            )
        await self._wait_until_ready(self._process, beginning)

    async def _wait_until_ready(self, process: Process, beginning: int) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT.total_seconds()):
                while not self._data.is_ready(process.pid):
                    if process.returncode is not None:
                        reason = extract_error(self._data.read_log_since(beginning))
                        raise EmbeddedServerRefused(
                            f"the embedded PostgreSQL did not start: {reason} (see {self._data.log})"
                        )
                    await asyncio.sleep(READY_PAUSE_S)
        except TimeoutError as late:
            seconds = START_TIMEOUT.total_seconds()
            raise EmbeddedServerRefused(
                f"the embedded PostgreSQL was not ready within {seconds:.0f} s (see {self._data.log})"
            ) from late

    async def _restart_on_exit(self, user: OsUser) -> None:
        """Start the server again whenever it ends without being asked to."""
        pause = RESTART_PAUSE_S
        while self._process is not None:
            code = await self._process.wait()
            log.error("embedded_postgres_ended", exit_code=code, data_directory=str(self._data.path))
            try:
                await asyncio.to_thread(stop_orphans, self._data.pgdata)
                await self._launch(user)
            except (EmbeddedServerRefused, OSError) as error:
                log.error("embedded_postgres_not_restarted", reason=str(error))  # noqa: TRY400 - expected, one line
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_RESTART_PAUSE_S)
            else:
                pause = RESTART_PAUSE_S
                log.warning("embedded_postgres_restarted", process=self._process.pid)

    async def _stop_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for signal_, within in ((FAST_SHUTDOWN, FAST_TIMEOUT), (IMMEDIATE_SHUTDOWN, IMMEDIATE_TIMEOUT)):
            if await _stop_and_wait(process, signal_, within):
                break
        else:
            process.kill()
            await process.wait()
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)


async def _stop_and_wait(process: Process, signal_: signal.Signals, within: timedelta) -> bool:
    """Whether the process ends in time after the signal."""
    if process.returncode is None:
        process.send_signal(signal_)
    try:
        async with asyncio.timeout(within.total_seconds()):
            await process.wait()
    except TimeoutError:
        return False
    return True


def extract_error(output: bytes) -> str:
    """The line that says what went wrong in the output of a PostgreSQL program."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    for mark in ("PANIC:", "FATAL:", "error:"):
        for line in lines:
            if mark in line:
                return line.split(mark, 1)[1].strip()
    return lines[-1] if lines else "it said nothing"
