"""Spans of OpenTelemetry behind the protocol that the service knows (docs/reference/traces.md#spans).

A request only puts its spans into a queue, from which a thread sends them. Whatever becomes of the collector, no
request waits for it: spans for which there is no room, or which the collector does not take, are dropped and counted.
"""

import logging
import threading
from collections import deque
from collections.abc import Sequence
from importlib import metadata
from time import monotonic
from types import MappingProxyType
from typing import Final

from msgspec import UNSET, UnsetType
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from statewright.telemetry import logs
from statewright.telemetry.sampling import SettableSampler
from statewright.telemetry.tracing import Attribute, Attributes, Span, SpanKind, TraceContext, get_trace

MAX_QUEUED: Final = 2_048
"""Spans that wait to be sent."""

MAX_BATCH: Final = 512
"""Spans of one message to the collector."""

SEND_INTERVAL_S: Final = 1.0
"""Longest wait of a span until it is sent."""

REPORT_INTERVAL_S: Final = 60.0
"""Between two lines of the log on spans that were dropped."""

log = logs.logger(__name__)


class SpanQueue(SpanProcessor):
    """Sends spans to ``exporter``, at most ``limit`` of which wait."""

    def __init__(self, exporter: SpanExporter, *, limit: int = MAX_QUEUED, interval_s: float = SEND_INTERVAL_S) -> None:
        self._exporter = exporter
        self._limit = limit
        self._interval_s = interval_s
        self._waiting: deque[ReadableSpan] = deque()
        self._wake = threading.Event()
        self._sent = threading.Condition()
        self._is_closed = False
        self._is_sending = False
        self._reported_at = -REPORT_INTERVAL_S
        self._reported = 0
        self.dropped = 0
        """Spans that no collector will see."""
        # What the exporter says of every attempt is said once a minute here.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span that has ended."""
        if len(self._waiting) >= self._limit or self._is_closed:
            self.dropped += 1
            return
        self._waiting.append(span)
        if len(self._waiting) >= MAX_BATCH:
            self._wake.set()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until all that has ended so far is sent or dropped; whether that was in time."""
        self._wake.set()
        with self._sent:
            return self._sent.wait_for(
                lambda: not self._waiting and not self._is_sending, timeout=timeout_millis / 1000
            )

    def close(self, within_s: float) -> None:
        """Send what waits, and take nothing more. What is not sent ``within_s`` seconds is dropped."""
        self.force_flush(int(within_s * 1000))
        self._is_closed = True
        self.dropped += len(self._waiting)
        self._waiting.clear()
        self._wake.set()
        self._exporter.shutdown()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._is_closed:
            self._wake.wait(self._interval_s)
            self._wake.clear()
            while self._waiting:
                self._is_sending = True
                try:
                    self._send([self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))])
                finally:
                    self._is_sending = False
            with self._sent:
                self._sent.notify_all()

    def _send(self, batch: list[ReadableSpan]) -> None:
        try:
            is_taken = self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception:  # whatever it is, the next batch has its chance
            is_taken = False
        if not is_taken:
            self.dropped += len(batch)
        if self.dropped > self._reported and monotonic() - self._reported_at >= REPORT_INTERVAL_S:
            log.warning("spans_dropped", count=self.dropped - self._reported)
            self._reported, self._reported_at = self.dropped, monotonic()


_KINDS: Final[dict[SpanKind, otel.SpanKind]] = {
    "internal": otel.SpanKind.INTERNAL,
    "server": otel.SpanKind.SERVER,
    "client": otel.SpanKind.CLIENT,
    "consumer": otel.SpanKind.CONSUMER,
    "producer": otel.SpanKind.PRODUCER,
}

_UNNAMED: Final = "unknown_service"
"""How the libraries name a service that nobody has named."""

_OUTSIDE: Final = Context()
"""Where there is no parent."""


class OtelSpan(Span):
    """A span that is recorded, unless it was not sampled."""

    __slots__ = ("_span",)

    def __init__(self, span: otel.Span) -> None:
        super().__init__(_to_context(span.get_span_context()))
        self._span = span

    def set(self, name: str, value: Attribute) -> None:
        """Note something about the work."""
        self._span.set_attribute(name, value)

    def fail(self, code: str) -> None:
        """The work failed."""
        self._span.set_attribute("error.code", code)
        self._span.set_status(otel.StatusCode.ERROR, code)

    def end(self, error: BaseException | None = None) -> None:
        """The work is over."""
        super().end(error)
        self._span.end()


class OtelTracer:
    """Begins spans, which ``queue`` sends when they have ended."""

    def __init__(self, provider: TracerProvider, queue: SpanQueue) -> None:
        self._tracer = provider.get_tracer("statewright")
        self.queue = queue

    def begin(
        self,
        name: str,
        kind: SpanKind = "internal",
        attributes: Attributes = MappingProxyType({}),
        *,
        parent: TraceContext | None | UnsetType = UNSET,
        links: Sequence[TraceContext] = (),
    ) -> Span:
        """A span that has begun (``statewright.telemetry.tracing.Tracer``)."""
        above = get_trace() if parent is UNSET else parent
        span = self._tracer.start_span(
            name,
            _OUTSIDE if above is None else otel.set_span_in_context(_to_span(above), _OUTSIDE),
            _KINDS[kind],
            attributes,
            [otel.Link(_to_span(cause).get_span_context()) for cause in links],
            record_exception=False,
        )
        return OtelSpan(span)


def build_tracer(instance: str, exporter: SpanExporter | None = None) -> OtelTracer:
    """The tracer of a process; ``instance`` is what its node is called. Without an ``exporter`` spans are sent as the
    ``OTEL_*`` variables say. Raises ``ValueError`` for variables that the libraries cannot read.
    """
    if exporter is None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    chosen = Resource.create()
    ours = Resource({"service.name": "statewright", "service.version": metadata.version("statewright")})
    is_named = not str(chosen.attributes.get("service.name", _UNNAMED)).startswith(_UNNAMED)
    chosen = ours.merge(chosen) if is_named else chosen.merge(ours)
    resource = chosen.merge(Resource({"service.instance.id": instance}))
    queue = SpanQueue(exporter)
    provider = TracerProvider(sampler=SettableSampler(), resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(queue)
    return OtelTracer(provider, queue)


def _to_context(context: otel.SpanContext) -> TraceContext | None:
    if not context.is_valid:
        return None
    return TraceContext(
        otel.format_trace_id(context.trace_id),
        otel.format_span_id(context.span_id),
        int(context.trace_flags),
        context.trace_state.to_header(),
    )


def _to_span(trace: TraceContext) -> otel.Span:
    state = otel.TraceState.from_header([trace.state]) if trace.state else None
    context = otel.SpanContext(
        int(trace.trace_id, 16), int(trace.span_id, 16), True, otel.TraceFlags(trace.flags), state
    )
    return otel.NonRecordingSpan(context)
