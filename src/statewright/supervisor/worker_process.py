"""One worker process as its supervisor sees it: configuration, start, readiness, end.

The supervisor sends the worker its configuration, the worker reports when it is ready; both are one line of JSON.
"""

import asyncio
import os
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Self

import msgspec
from msgspec import Struct

from statewright.app.database import StartFailed


class WorkerConfig(Struct, frozen=True, kw_only=True):
    """Sent on the standard input of the worker, which stays open as long as the supervisor runs.

    Never on the command line: ``database`` is a URL and may hold a password. ``http_socket`` and ``report`` are
    inherited file descriptors.
    """

    number: int
    database: str
    http_socket: int
    grpc_port: int
    report: int

    def to_line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


class ReadyReport(Struct, frozen=True, kw_only=True):
    """The worker is ready; ``admin_port`` is its own admin listener, on loopback."""

    admin_port: int

    def to_line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


read_worker_config = msgspec.json.Decoder(WorkerConfig).decode
read_report = msgspec.json.Decoder(ReadyReport).decode


class WorkerFailed(StartFailed):
    """A worker ended, or was given up, before it was ready; it has logged why on stderr."""


class WorkerProcess:
    """A started process. ``admin_port`` is known once it is ready."""

    def __init__(self, number: int, process: asyncio.subprocess.Process) -> None:
        self.number = number
        self.admin_port = 0
        self.is_stop_requested = False
        self._process = process

    @classmethod
    async def start(cls, config: WorkerConfig) -> tuple[Self, int]:
        """A new process, and the descriptor on which it reports; ``config.report`` is filled in here."""
        reading, writing = os.pipe()
        complete = msgspec.structs.replace(config, report=writing)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "statewright.supervisor.worker",
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(config.http_socket, writing),
                start_new_session=True,  # a key press at the terminal is for the supervisor
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        process.stdin.write(complete.to_line())
        return cls(config.number, process), reading

    async def wait_ready(self, report: int, within: timedelta) -> None:
        """Wait until the worker serves. Raises :class:`WorkerFailed`; the process is gone then.

        When the wait is cancelled, the process goes on and has to be stopped.
        """
        try:
            async with asyncio.timeout(within.total_seconds()):
                self.admin_port = (await _receive_report(report)).admin_port
        except (TimeoutError, msgspec.DecodeError) as failed:
            await self.kill()
            raise WorkerFailed(f"worker {self.number} did not become ready") from failed
        except OSError:
            await self.kill()
            raise

    async def stop(self, within: timedelta) -> None:
        """Ask the process to stop and wait for it; by force when it takes longer."""
        self.request_stop()
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    def request_stop(self) -> None:
        """Send SIGTERM, once: a second one would end the worker without waiting for its requests."""
        if not self.is_stop_requested and self.is_running:  # else it is on its way
            self.is_stop_requested = True
            with suppress(ProcessLookupError):
                self._process.terminate()

    def signal_kill(self) -> None:
        """End the process at once, without waiting."""
        self.is_stop_requested = True
        with suppress(ProcessLookupError):
            self._process.kill()

    async def kill(self) -> None:
        """End the process at once, and wait for it."""
        self.signal_kill()
        await self._process.wait()

    async def wait_ended(self) -> int:
        """Wait for the end; the exit code, negative for a signal."""
        return await self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    @property
    def process_id(self) -> int:
        return self._process.pid


async def _receive_report(descriptor: int) -> ReadyReport:
    """The report of a worker; one that ends before it is ready sends an empty line, which cannot be decoded."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)  # the transport's from now on, which closes it
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return read_report(await reader.readline())
    finally:
        transport.close()
