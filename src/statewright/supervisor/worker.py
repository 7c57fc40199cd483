"""A worker process: ``python -m statewright.supervisor.worker``, started by the supervisor and nobody else."""

import asyncio
import os
import socket
import sys
from contextlib import suppress

import uvloop
from msgspec.structs import replace

from statewright import logs
from statewright.app import StartFailed, running
from statewright.app.signals import Interrupted, first_of, interruptible, on_signals
from statewright.settings import Secret, Settings
from statewright.storage.refusals import StartRefused
from statewright.supervisor.assignment import Assignment, Report, read_assignment

log = logs.logger("worker")


def main() -> int:
    """Serve until told to stop; the exit code."""
    assignment = read_assignment(sys.stdin.buffer.readline())
    settings = _settings(Settings.from_environment(os.environ), assignment)
    logs.configure(settings.log_level, settings.log_format)
    return uvloop.run(_serve(settings, assignment))


def _settings(settings: Settings, assignment: Assignment) -> Settings:
    name = settings.node_id or f"{socket.gethostname()}"
    return replace(
        settings,
        storage_backend="postgres",
        postgres_url=Secret(assignment.database),
        grpc_port=assignment.grpc_port,
        admin_port=0,
        admin_bind_address="127.0.0.1",
        node_id=f"{name}/{assignment.number}",
    )


async def _serve(settings: Settings, assignment: Assignment) -> int:
    signalled, stopped = asyncio.Event(), asyncio.Event()
    on_signals(signalled)
    listener = socket.socket(fileno=assignment.http_socket)
    lifeline = asyncio.create_task(_supervisor_gone(signalled), name="lifeline")
    try:
        async with interruptible(signalled) as started, running(settings, stopped, listener=listener) as service:
            started()
            with suppress(BrokenPipeError):  # nobody waits for it any more; the signal to stop is on its way
                os.write(assignment.report, Report(admin_port=service.admin_port).line())
            os.close(assignment.report)
            await first_of(signalled, stopped)
            log.info("worker_stopping", number=assignment.number)
    except Interrupted:
        return 0
    except (StartFailed, StartRefused, OSError) as failure:
        sys.stderr.write(f"statewright: worker {assignment.number}: {failure}\n")
        return 1
    finally:
        lifeline.cancel()
    return 0


async def _supervisor_gone(stopped: asyncio.Event) -> None:
    """Stop when nobody is left at the other end of the standard input."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    log.warning("supervisor_gone")
    stopped.set()


if __name__ == "__main__":
    sys.exit(main())
