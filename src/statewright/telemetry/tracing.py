"""Traces: which one the work under way belongs to, and the spans of which it consists (docs/reference/traces.md).

Every request may name the trace that it is a part of (W3C Trace Context). The name is kept for the task that works on
the request, and is passed on with what the request causes: callouts, calls of other nodes, lines of the log. That takes
no library and, where no trace comes in, no more than a look for it.

Spans say what was done, and for how long. They are made by a :class:`Tracer`, which a service has only where
OpenTelemetry is switched on. Elsewhere work runs within ``NO_SPAN``, and nothing is computed for a span.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from types import MappingProxyType, TracebackType
from typing import Annotated, Final, Literal, Protocol, Self, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
"""Names of headers, of metadata and of CloudEvents attributes."""

MAX_STATE_CHARS: Final = 512
"""A longer ``tracestate`` is left out; the specification asks for no more."""

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_STATE: Final = re.compile(r"[\x20-\x7e]*")
_SAMPLED: Final = 1


class TraceContext(Struct, frozen=True):
    """A place in a trace: the span that what comes next is a part of. ``state`` is what vendors note about it."""

    trace_id: str
    span_id: str
    flags: int = 0
    state: str = ""

    @property
    def traceparent(self) -> str:
        """The place as a header."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def parse_trace(traceparent: str, tracestate: str | None = None) -> TraceContext | None:
    """The place that headers name; None for what is malformed, which is ignored."""
    found = _PARENT.fullmatch(traceparent.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    state = (tracestate or "").strip()
    if len(state) > MAX_STATE_CHARS or not _STATE.fullmatch(state):
        state = ""
    return TraceContext(trace_id, span_id, int(flags, 16) & _SAMPLED, state)


_current: ContextVar[TraceContext | None] = ContextVar("trace", default=None)

get_trace = _current.get
"""The place in a trace of the work under way in this task; None outside all traces."""


def list_trace_headers(trace: TraceContext | None) -> tuple[tuple[str, str], ...]:
    """The headers by which a place in a trace is passed on; none outside all traces."""
    if trace is None:
        return ()
    parent = (TRACEPARENT, trace.traceparent)
    return (parent, (TRACESTATE, trace.state)) if trace.state else (parent,)


SpanKind: TypeAlias = Literal["internal", "server", "client", "consumer", "producer"]
Attribute: TypeAlias = str | int | bool | Sequence[str]
Attributes: TypeAlias = Mapping[str, Attribute]


class Span:
    """Work in a trace, which :meth:`end` ends. Until then, what this task does is a part of it.

    This one records nothing: it is for passing on a trace that came in.
    """

    __slots__ = ("_outer", "context")

    def __init__(self, context: TraceContext | None) -> None:
        self.context = context
        """The place of what is done within; None outside all traces."""
        self._outer = _current.get()
        _current.set(context)

    def set(self, name: str, value: Attribute) -> None:
        """Note something about the work; never a document, a secret, or the text of a failure."""

    def fail(self, code: str) -> None:
        """The work failed; ``code`` says how."""

    def end(self, error: BaseException | None = None) -> None:
        """The work is over, and failed if there is an ``error``."""
        if error is not None:
            self.fail(get_error_code(error))
        # Not by a token: a generator may be closed by another task than the one that began it.
        _current.set(self._outer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(error)


def get_error_code(error: BaseException) -> str:
    """What an error is called in traces. Its text may quote documents, and stays out of them."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code else type(error).__name__


NO_SPAN: Final = nullcontext()
"""In place of a span where none is made."""


def get_trace_id() -> str | None:
    """The trace of the work under way in this task; None outside all traces."""
    trace = _current.get()
    return None if trace is None else trace.trace_id


class Tracer(Protocol):
    """Begins spans."""

    def begin(
        self,
        name: str,
        kind: SpanKind = "internal",
        attributes: Attributes = MappingProxyType({}),
        *,
        parent: TraceContext | None | UnsetType = UNSET,
        links: Sequence[TraceContext] = (),
    ) -> Span:
        """A span that has begun.

        ``parent`` unset: it is a part of what is under way in this task; None: it begins a trace. ``links`` are what
        caused it.
        """
        ...


class Sampling(Struct, frozen=True):
    """Which traces are kept: ``ratio`` is the share of them, and absent unless they are sampled by ratio.

    ``parent_based``: who began a trace has decided for the others.
    """

    sampler: Literal["always", "never", "ratio"] = "always"
    ratio: Annotated[float, Meta(gt=0, le=1)] | UnsetType = UNSET
    parent_based: bool = True


class _InForce:
    sampling = Sampling()


def get_sampling() -> Sampling:
    """What is in force in this process."""
    return _InForce.sampling


def set_sampling(sampling: Sampling) -> Sampling:
    """Put another sampler in force, for the whole process as the log level is; the previous one."""
    previous, _InForce.sampling = _InForce.sampling, sampling
    return previous
