"""Spans of OpenTelemetry behind the protocol that the service knows (docs/reference/traces.md#spans)."""

from collections.abc import Sequence
from importlib import metadata
from types import MappingProxyType
from typing import Final

from msgspec import UNSET, UnsetType
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter

from statewright.telemetry.export import SpanQueue
from statewright.telemetry.sampling import SettableSampler
from statewright.tracing import Attribute, Attributes, Span, SpanKind, TraceContext, get_trace

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
        """A span that has begun (``statewright.tracing.Tracer``)."""
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
