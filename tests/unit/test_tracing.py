"""Places in traces: how they are read, kept and passed on (docs/reference/traces.md#passing-on)."""

import asyncio
import io
import json

import pytest

from statewright.operations.service import Act
from statewright.telemetry import logs
from statewright.telemetry.logs import LogFormat
from statewright.telemetry.tracing import Span, TraceContext, get_trace, list_trace_headers, parse_trace

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PLACE = TraceContext(TRACE, SPAN, 1, "vendor=x")


def test_a_place_is_read_and_written_as_the_specification_says():
    place = parse_trace(f"00-{TRACE}-{SPAN}-01", "vendor=x")
    assert place == PLACE
    assert list_trace_headers(place) == (("traceparent", f"00-{TRACE}-{SPAN}-01"), ("tracestate", "vendor=x"))


def test_flags_that_nobody_knows_are_not_passed_on():
    assert parse_trace(f"00-{TRACE}-{SPAN}-ff") == TraceContext(TRACE, SPAN, 1)
    assert parse_trace(f"00-{TRACE}-{SPAN}-fe") == TraceContext(TRACE, SPAN, 0)


def test_a_later_version_may_say_more():
    assert parse_trace(f"01-{TRACE}-{SPAN}-01-what-the-future-brings") == TraceContext(TRACE, SPAN, 1)


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0g",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0\N{ARABIC-INDIC DIGIT ONE}",
    ],
)
def test_what_is_malformed_names_no_place(malformed: str):
    assert parse_trace(malformed) is None


@pytest.mark.parametrize("state", ["x=" + "y" * 511, "a=\x07", "a=ä"])
def test_a_state_that_nobody_may_pass_on_is_left_out(state: str):
    assert parse_trace(f"00-{TRACE}-{SPAN}-01", state) == TraceContext(TRACE, SPAN, 1)


def test_a_place_lasts_as_long_as_its_span():
    with Span(PLACE) as outer:
        inner = Span(TraceContext(TRACE, "1" * 16))
        assert get_trace() is inner.context
        inner.end()
        assert get_trace() is outer.context
    assert get_trace() is None


def test_other_tasks_are_not_in_the_trace():
    async def work() -> tuple[TraceContext | None, TraceContext | None]:
        beside = asyncio.Event()
        other = asyncio.create_task(look_after(beside))
        with Span(PLACE):
            within = asyncio.create_task(look_after(beside))
            beside.set()
            return await other, await within

    assert asyncio.run(work()) == (None, PLACE)


async def look_after(event: asyncio.Event) -> TraceContext | None:
    await event.wait()
    return get_trace()


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_of_the_log_name_the_trace(form: LogFormat):
    stream = io.BytesIO()
    logs.configure("info", form, stream)
    with Span(PLACE):
        logs.logger("statewright.tests").info("inside")
    logs.logger("statewright.tests").info("outside")
    inside, outside = stream.getvalue().decode().splitlines()
    if form == "json":
        assert json.loads(inside) | {"trace_id": TRACE, "span_id": SPAN} == json.loads(inside)
    else:
        assert inside.endswith(f"trace_id={TRACE} span_id={SPAN}")
    assert "trace_id" not in outside


def test_acts_of_operators_keep_their_trace():
    with Span(PLACE):
        assert Act(action="a", target_kind="ENTITY", target_id="1").trace_id == TRACE
    assert Act(action="a", target_kind="ENTITY", target_id="1").trace_id is None
