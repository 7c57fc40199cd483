"""A worker process: ``python -m statewright.supervisor.worker``, which only the supervisor starts."""

import asyncio
import os
import socket
import sys
from contextlib import suppress

import uvloop
from msgspec.structs import replace

from statewright.app import StartFailed, run_warm_service
from statewright.app.listeners import raise_file_limit
from statewright.app.serving import Interrupted, end_when_still, handle_signals, interrupt_on_signal, wait_first
from statewright.settings import Secret, Settings
from statewright.storage.migrate import StartRefused
from statewright.supervisor.worker_pool import ReadyReport, WorkerConfig, read_worker_config
from statewright.telemetry import logs

log = logs.logger(__name__)


def main() -> int:
    """Serve until a signal or the end of the standard input; the exit code."""
    config = read_worker_config(sys.stdin.buffer.readline())
    settings = _build_settings(Settings.from_environment(os.environ), config)
    logs.configure(settings.log_level, settings.log_format)
    raise_file_limit()
    return uvloop.run(_serve(settings, config))


def _build_settings(settings: Settings, config: WorkerConfig) -> Settings:
    name = settings.node_id or f"{socket.gethostname()}"
    return replace(
        settings,
        storage_backend="postgres",
        postgres_url=Secret(config.database),
        grpc_port=config.grpc_port,
        admin_port=0,
        admin_bind_address="127.0.0.1",
        node_id=f"{name}/{config.number}",
    )


async def _serve(settings: Settings, config: WorkerConfig) -> int:
    signalled, stopped = asyncio.Event(), asyncio.Event()
    handle_signals(signalled)
    listener = socket.socket(fileno=config.http_socket)
    supervisor_watch = asyncio.create_task(_watch_supervisor(signalled), name="lifeline")
    try:
        async with (
            end_when_still(settings.drain_window + settings.shutdown_timeout),
            interrupt_on_signal(signalled) as mark_started,
            run_warm_service(settings, stopped, listener=listener) as service,
        ):
            mark_started()
            with suppress(BrokenPipeError):  # the supervisor has given up; the signal to stop is on its way
                os.write(config.report, ReadyReport(admin_port=service.admin_port).to_line())
            os.close(config.report)
            await wait_first(signalled, stopped)
            log.info("worker_stopping", number=config.number)
    except Interrupted:
        return 0
    except (StartFailed, StartRefused, OSError) as failure:
        sys.stderr.write(f"statewright: worker {config.number}: {failure}\n")
        return 1
    finally:
        supervisor_watch.cancel()
    return 0


async def _watch_supervisor(stopped: asyncio.Event) -> None:
    """Set ``stopped`` at the end of the standard input, which means that the supervisor is gone."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    log.warning("supervisor_gone")
    stopped.set()


if __name__ == "__main__":
    sys.exit(main())
