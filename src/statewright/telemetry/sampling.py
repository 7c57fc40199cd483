"""Which traces are kept: as the variables of OpenTelemetry say, until an administrator says otherwise
(docs/reference/traces.md#sampling).
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import UNSET
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, TraceState, get_current_span
from opentelemetry.util.types import Attributes

from statewright.telemetry import logs
from statewright.telemetry.tracing import Sampling, get_sampling

SAMPLER: Final = "OTEL_TRACES_SAMPLER"
SAMPLER_ARGUMENT: Final = "OTEL_TRACES_SAMPLER_ARG"

_SAMPLERS: Final[dict[str, Literal["always", "never", "ratio"]]] = {
    "always_on": "always",
    "always_off": "never",
    "traceidratio": "ratio",
}

log = logs.logger(__name__)


def read_sampling(environment: Mapping[str, str]) -> Sampling:
    """What the environment demands; all traces, unless whoever began one says otherwise, where it demands nothing that
    is known.
    """
    given = environment.get(SAMPLER, "").strip().lower()
    if not given:
        return Sampling()
    sampler = _SAMPLERS.get(given.removeprefix("parentbased_"))
    if sampler is None:
        log.warning("trace_sampler_unknown", sampler=given[:80])
        return Sampling()
    ratio = _read_ratio(environment.get(SAMPLER_ARGUMENT, "")) if sampler == "ratio" else UNSET
    return Sampling(sampler, ratio, given.startswith("parentbased_"))


def _read_ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        return 1.0
    return ratio if 0 < ratio <= 1 else 1.0


class SettableSampler(Sampler):
    """Samples by what is in force in this process when a span begins.

    A span without parent that was caused by others, such as the commit of many transactions, is kept with them.
    """

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """The decision on a span that is about to begin."""
        sampling = get_sampling()
        parent = get_current_span(parent_context).get_span_context()
        if sampling.parent_based and parent.is_valid:
            is_kept = parent.trace_flags.sampled
        elif sampling.parent_based and links:
            is_kept = any(link.context.trace_flags.sampled for link in links)
        else:
            is_kept = _decide(sampling, trace_id)
        decision = Decision.RECORD_AND_SAMPLE if is_kept else Decision.DROP
        return SamplingResult(decision, attributes if is_kept else None, parent.trace_state)

    def get_description(self) -> str:
        """The name of the sampler."""
        return "SettableSampler"


def _decide(sampling: Sampling, trace_id: int) -> bool:
    if sampling.sampler != "ratio" or sampling.ratio is UNSET:
        return sampling.sampler == "always"
    # The bound of the libraries, so that servers with the same ratio keep the same traces.
    return (trace_id & TraceIdRatioBased.TRACE_ID_LIMIT) < TraceIdRatioBased.get_bound_for_rate(sampling.ratio)
