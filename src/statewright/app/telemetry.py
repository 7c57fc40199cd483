"""Traces of a service, where they are switched on (docs/reference/traces.md)."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from statewright.app.database import StartFailed
from statewright.background import ShutdownBudget
from statewright.metrics import Metrics
from statewright.settings import Settings
from statewright.tracing import Tracer, set_sampling

MIN_FLUSH_S: Final = 1.0
"""What spans have to be sent in at the end, also when nothing is left of the time to shut down."""


@asynccontextmanager
async def open_tracer(
    settings: Settings, metrics: Metrics, grace: ShutdownBudget, *, instance: str
) -> AsyncIterator[Tracer | None]:
    """The tracer inside the block, None where traces are switched off. What is left of the ``grace`` at its end is
    for the spans that are not sent yet. Raises ``StartFailed``.
    """
    if not settings.otel_enabled:
        yield None
        return
    variable = settings.name_variable("otel_enabled")
    try:
        from statewright import telemetry
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("opentelemetry"):
            raise
        raise StartFailed(
            f"{variable} is true, and the libraries are missing: pip install 'statewright[server,otel]'"
        ) from missing
    try:
        tracer = telemetry.build_tracer(instance)
    except ValueError as unreadable:
        raise StartFailed(f"{variable} is true, and a variable of OpenTelemetry cannot be read: {unreadable}") from None
    # As the libraries read their own variables.
    previous = set_sampling(telemetry.read_sampling(os.environ))
    metrics.register_tracer(tracer.queue)
    try:
        yield tracer
    finally:
        set_sampling(previous)
        await asyncio.to_thread(tracer.queue.close, max(grace.remaining_s, MIN_FLUSH_S))
