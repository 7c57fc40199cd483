"""One worker process as its supervisor sees it: start, readiness, end."""

import asyncio
import os
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Self

import msgspec

from statewright.supervisor.assignment import Assignment, Report, read_report


class WorkerFailed(Exception):
    """A worker ended, or was given up, before it was ready; it has said why on stderr."""


class Worker:
    """A started process. ``admin_port`` is known once it is ready."""

    def __init__(self, number: int, process: asyncio.subprocess.Process) -> None:
        self.number = number
        self.admin_port = 0
        self.is_told_to_stop = False
        self._process = process

    @classmethod
    async def start(cls, assignment: Assignment) -> tuple[Self, int]:
        """A new process, and where it reports. ``assignment.report`` is filled in here."""
        reading, writing = os.pipe()
        told = msgspec.structs.replace(assignment, report=writing)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "statewright.supervisor.worker",
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(assignment.http_socket, writing),
                start_new_session=True,  # a key press at the terminal is for the supervisor
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        assert process.stdin is not None  # noqa: S101 - we asked for it
        process.stdin.write(told.line())
        return cls(assignment.number, process), reading

    async def ready(self, report: int, within: timedelta) -> None:
        """Returns when the worker serves. Raises :class:`WorkerFailed`; the process is gone then.

        Who is cancelled meanwhile still has the process, and stops it.
        """
        try:
            async with asyncio.timeout(within.total_seconds()):
                self.admin_port = (await _reported(report)).admin_port
        except (TimeoutError, msgspec.DecodeError) as failed:
            await self.kill()
            raise WorkerFailed(f"worker {self.number} did not become ready") from failed
        except OSError:
            await self.kill()
            raise

    async def stop(self, within: timedelta) -> None:
        """Ask the process to stop and wait for it; by force when it takes longer."""
        self.tell_to_stop()
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    def tell_to_stop(self) -> None:
        """SIGTERM, once: a second one would mean at once."""
        if not self.is_told_to_stop and self.is_running:  # else it is on its way
            self.is_told_to_stop = True
            with suppress(ProcessLookupError):
                self._process.terminate()

    def signal_kill(self) -> None:
        """End the process at once, without waiting."""
        self.is_told_to_stop = True
        with suppress(ProcessLookupError):
            self._process.kill()

    async def kill(self) -> None:
        """End the process at once."""
        self.signal_kill()
        await self._process.wait()

    async def ended(self) -> int:
        """The exit code, once there is one; negative for a signal."""
        return await self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    @property
    def process_id(self) -> int:
        return self._process.pid


async def _reported(descriptor: int) -> Report:
    """What a worker says when it is ready; an empty line, which is none, when it ends before."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)  # the transport's from now on, which closes it
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return read_report(await reader.readline())
    finally:
        transport.close()
