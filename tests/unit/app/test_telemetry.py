"""Switching traces on (docs/reference/traces.md#opentelemetry)."""

import sys
from datetime import timedelta

import pytest

from statewright.app.database import StartFailed
from statewright.app.service import open_tracer
from statewright.loop.background import ShutdownBudget
from statewright.metrics import Metrics
from statewright.settings import Settings

GRACE = ShutdownBudget(timedelta(0))


async def test_no_tracer_is_made_unless_it_is_wanted():
    async with open_tracer(Settings(), Metrics(), GRACE, instance="n1") as tracer:
        assert tracer is None


async def test_without_the_libraries_the_start_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.startswith(("opentelemetry", "statewright.telemetry"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delattr("statewright.telemetry", raising=False)
    settings = Settings.from_environment({"CYODA_OTEL_ENABLED": "true"})
    with pytest.raises(StartFailed, match=r"^CYODA_OTEL_ENABLED is true.*pip install 'statewright\[server,otel\]'$"):
        async with open_tracer(settings, Metrics(), GRACE, instance="n1"):
            pass


async def test_dropped_spans_are_a_metric_of_services_that_make_spans():
    metrics = Metrics()
    assert b"statewright_spans_dropped" not in metrics.render()
    async with open_tracer(Settings(otel_enabled=True), metrics, GRACE, instance="n1") as tracer:
        assert tracer is not None
        assert b"statewright_spans_dropped_total 0.0" in metrics.render()
