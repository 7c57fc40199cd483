"""Sampling and sending of spans (docs/reference/traces.md#opentelemetry, docs/reference/traces.md#sampling)."""

import threading
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from statewright.telemetry.sampling import read_sampling
from statewright.telemetry.tracer import SpanQueue, build_tracer
from statewright.telemetry.tracing import Sampling, TraceContext, get_sampling, get_trace, set_sampling

KEPT = TraceContext("a" * 32, "b" * 16, 1)
NOT_KEPT = TraceContext("a" * 32, "b" * 16, 0)


class Collector(SpanExporter):
    """Keeps what it is sent; while ``door`` is shut it takes nothing and answers nothing."""

    def __init__(self, result: SpanExportResult = SpanExportResult.SUCCESS) -> None:
        self.spans: list[ReadableSpan] = []
        self.door = threading.Event()
        self.asked = threading.Event()
        self.door.set()
        self.result = result

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked.set()
        self.door.wait(20)
        self.spans += spans
        return self.result


@pytest.fixture(autouse=True)
def _sampling() -> Iterator[None]:
    previous = set_sampling(Sampling())
    yield
    set_sampling(previous)


@pytest.mark.parametrize(
    ("sampler", "argument", "sampling"),
    [
        ("", "", Sampling()),
        ("always_on", "", Sampling("always", parent_based=False)),
        ("parentbased_always_off", "", Sampling("never", parent_based=True)),
        ("traceidratio", "0.25", Sampling("ratio", 0.25, False)),
        ("parentbased_traceidratio", "0", Sampling("ratio", 1.0, True)),
        ("traceidratio", "often", Sampling("ratio", 1.0, False)),
        ("jaeger_remote", "", Sampling()),
    ],
)
def test_the_sampler_of_the_environment(sampler: str, argument: str, sampling: Sampling):
    given = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert read_sampling(given) == sampling
    assert get_sampling() == Sampling()


def names_kept(sampling: Sampling, parent: TraceContext | None, links: Sequence[TraceContext] = ()) -> list[str]:
    """The spans that a collector sees of one that was begun."""
    collector = Collector()
    tracer = build_tracer("n1", collector)
    set_sampling(sampling)
    tracer.begin("work", parent=parent, links=links).end()
    tracer.queue.close(20)
    return [span.name for span in collector.spans]


@pytest.mark.parametrize(
    ("sampling", "parent", "kept"),
    [
        (Sampling("always"), None, True),
        (Sampling("always"), NOT_KEPT, False),
        (Sampling("always", parent_based=False), NOT_KEPT, True),
        (Sampling("never"), None, False),
        (Sampling("never"), KEPT, True),
        (Sampling("never", parent_based=False), KEPT, False),
        (Sampling("ratio", 1.0), None, True),
        (Sampling("ratio", 1e-12), None, False),
    ],
)
def test_which_spans_are_kept(sampling: Sampling, parent: TraceContext | None, kept: bool):
    assert names_kept(sampling, parent) == (["work"] if kept else [])


def test_a_batch_is_kept_with_what_it_carries():
    assert names_kept(Sampling("never"), None, [NOT_KEPT, KEPT]) == ["work"]
    assert names_kept(Sampling("always"), None, [NOT_KEPT]) == []


def test_a_span_is_a_part_of_the_one_around_it():
    collector = Collector()
    tracer = build_tracer("n1", collector)
    with tracer.begin("outer", parent=KEPT) as outer:
        assert get_trace() == outer.context
        tracer.begin("inner").end()
    tracer.begin("beside").end()
    tracer.queue.close(20)
    inner, outer_seen, beside = collector.spans
    assert inner.parent is not None
    assert inner.parent.span_id == outer_seen.get_span_context().span_id
    assert outer_seen.parent is not None
    assert outer_seen.parent.span_id == int("b" * 16, 16)
    assert beside.parent is None
    assert outer_seen.resource.attributes["service.name"] == "statewright"
    assert outer_seen.resource.attributes["service.instance.id"] == "n1"


def test_the_name_of_the_service_is_the_operators_choice(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=prizes,team=a")
    collector = Collector()
    tracer = build_tracer("n1", collector)
    tracer.begin("work").end()
    tracer.queue.close(20)
    attributes = collector.spans[0].resource.attributes
    assert (attributes["service.name"], attributes["team"]) == ("prizes", "a")


def test_a_failure_is_told_by_its_code_alone():
    collector = Collector()
    tracer = build_tracer("n1", collector)
    with pytest.raises(LookupError), tracer.begin("work"):
        raise LookupError("the document")
    tracer.queue.close(20)
    [span] = collector.spans
    assert (span.attributes or {})["error.code"] == "LookupError"
    assert "the document" not in span.to_json()


def test_what_finds_no_room_is_dropped_and_counted():
    collector = Collector()
    queue = SpanQueue(collector, limit=3, interval_s=0.01)
    tracer = build_tracer("n1", collector)
    tracer.queue.close(20)
    collector.door.clear()
    collector.asked.clear()
    queue.on_end(a_span())
    assert collector.asked.wait(20)  # that one is on its way
    for _ in range(5):
        queue.on_end(a_span())
    assert queue.dropped == 2
    collector.door.set()
    queue.close(20)
    assert (len(collector.spans), queue.dropped) == (4, 2)


def test_what_the_collector_refuses_is_dropped_and_counted():
    queue = SpanQueue(Collector(SpanExportResult.FAILURE), interval_s=0.01)
    queue.on_end(a_span())
    queue.close(20)
    assert queue.dropped == 1


def test_the_end_waits_no_longer_than_it_may():
    collector = Collector()
    collector.door.clear()
    queue = SpanQueue(collector, interval_s=0.01)
    queue.on_end(a_span())
    assert collector.asked.wait(20)
    queue.on_end(a_span())
    queue.close(0.05)
    assert queue.dropped == 1  # the other is on its way, and nobody knows what becomes of it
    collector.door.set()


def a_span() -> ReadableSpan:
    return ReadableSpan("work")
