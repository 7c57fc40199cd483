"""Traces of functions: their callouts may be a part of one, and so are the requests that they send
(docs/sdk.md#traces).

Where the program uses OpenTelemetry a function runs in a span of its own. Nothing is imported for that: who uses it has
imported it. Otherwise the trace is passed on as it came.
"""

import sys
from contextvars import Token
from typing import TYPE_CHECKING

from statewright.tracing import Span, TraceContext, get_error_code, get_trace

if TYPE_CHECKING:
    from opentelemetry import trace as otel
    from opentelemetry.context import Context as OtelContext


def get_active_trace() -> TraceContext | None:
    """The place in a trace of what this task or thread does: by OpenTelemetry, where it is used, else as it came."""
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import trace as otel

        context = otel.get_current_span().get_span_context()
        if context.is_valid:
            return _to_trace(context)
    return get_trace()


def begin_function_span(name: str, trace: TraceContext | None) -> Span | None:
    """The span of a function; None outside all traces. ``trace`` is the one of its callout."""
    if "opentelemetry.trace" in sys.modules:
        return _begin_otel_span(name, trace)
    return None if trace is None else Span(trace)


class _FunctionSpan(Span):
    """A span of the program's own OpenTelemetry, which is the active one until it ends."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: "otel.Span", token: "Token[OtelContext]") -> None:
        super().__init__(_to_trace(span.get_span_context()))
        self._span = span
        self._token = token

    def end(self, error: BaseException | None = None) -> None:
        """The function has returned, or raised ``error``; its text stays with the program."""
        from opentelemetry import context, trace

        if error is not None:
            self._span.set_status(trace.StatusCode.ERROR, get_error_code(error))
        context.detach(self._token)
        self._span.end()
        super().end()


def _begin_otel_span(name: str, trace: TraceContext | None) -> Span | None:
    from opentelemetry import context
    from opentelemetry import trace as otel

    above = context.Context() if trace is None else otel.set_span_in_context(_to_remote_span(trace), context.Context())
    span = otel.get_tracer("statewright.sdk").start_span(name, above, otel.SpanKind.SERVER, record_exception=False)
    if not span.get_span_context().is_valid:
        return None
    return _FunctionSpan(span, context.attach(otel.set_span_in_context(span)))


def _to_remote_span(trace: TraceContext) -> "otel.Span":
    from opentelemetry import trace as otel

    state = otel.TraceState.from_header([trace.state]) if trace.state else None
    return otel.NonRecordingSpan(
        otel.SpanContext(int(trace.trace_id, 16), int(trace.span_id, 16), True, otel.TraceFlags(trace.flags), state)
    )


def _to_trace(context: "otel.SpanContext") -> TraceContext:
    state = context.trace_state.to_header()
    return TraceContext(f"{context.trace_id:032x}", f"{context.span_id:016x}", int(context.trace_flags), state)
