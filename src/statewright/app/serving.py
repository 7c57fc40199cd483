"""``statewright serve`` in one process."""

import asyncio
import sys

from statewright import logs
from statewright.app.banner import print_banner
from statewright.app.database import StartFailed
from statewright.app.service import running
from statewright.app.signals import Interrupted, first_of, interruptible, on_signals
from statewright.settings import Settings
from statewright.storage.refusals import StartRefused

log = logs.logger("app")


async def serve(settings: Settings) -> int:
    """Run the service until a signal ends it; the exit code of the process."""
    logs.configure(settings.log_level, settings.log_format)
    for warning in settings.warnings:
        log.warning("setting_doubtful", text=warning)
    signalled, stopped = asyncio.Event(), asyncio.Event()
    on_signals(signalled)
    try:
        async with interruptible(signalled) as started, running(settings, stopped) as service:
            started()
            print_banner(settings, service.http_port, service.grpc_port, service.admin_port)
            await first_of(signalled, stopped)
            log.info("shutdown_started")
    except Interrupted:
        log.info("startup_interrupted")
        return 0
    except (StartFailed, StartRefused, OSError) as failure:
        log.error("startup_failed", error=str(failure))  # noqa: TRY400 - one line; the operator knows the cause
        sys.stderr.write(f"statewright: {failure}\n")
        return 1
    log.info("shutdown_complete")
    return 0
