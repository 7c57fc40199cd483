"""Timers link to the trace in which they were armed, also after a restart (docs/reference/traces.md#spans)."""

import secrets
from contextlib import nullcontext
from datetime import timedelta

import pytest

from tests.builders import SAMPLE, a_workflow
from tests.collector import a_collector
from tests.database import Template
from tests.service import eventually, hosted

LATE = {"name": "LATE", "next": "B", "manual": False, "schedule": {"delayMs": 1}}


def test_what_a_timer_does_links_to_what_armed_it_before_a_restart(
    database_template: Template, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    with a_collector() as collector, hosted(database_template.clone(), scheduler_enabled=False) as first:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        api = first.api(tenant)
        api.a_model(a_workflow(A=[LATE], B=[]))
        [made] = api.post("/entity/JSON/prize/1", SAMPLE, traceparent=f"00-{trace}-{span}-01").json()
        with hosted(
            nullcontext(first.database), otel_enabled=True, scheduler_scan_interval=timedelta(milliseconds=50)
        ) as second:
            eventually(lambda: second.api(tenant).state(made["entityIds"][0]) == "B")
            spans = collector.wait_for(lambda seen: {"timer", "engine.run"} <= {each.name for each in seen})
    [timer] = [each for each in spans if each.name == "timer"]
    [run] = [each for each in spans if each.name == "engine.run"]
    assert (timer.links, timer.parent) == (((trace, span),), "")
    assert (timer.attributes["entity.id"], timer.attributes["transition.name"]) == (made["entityIds"][0], "LATE")
    assert (run.trace, run.parent) == (timer.trace, timer.id)
