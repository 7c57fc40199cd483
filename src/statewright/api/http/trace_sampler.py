"""The trace sampler of a process (docs/reference/service.md#trace-sampler).

This service makes no traces, so nothing is sampled. The endpoints keep what they are told, for tools that set the
sampler of every server they know; whoever adds traces reads :func:`get_sampling` where spans begin.
"""

from typing import Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from statewright import logs
from statewright.api.http.administration import MAX_BYTES, require_admin, require_platform_admin
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Route
from statewright.failures import BadRequest


class Sampling(Struct, frozen=True):
    """Which traces are kept: ``ratio`` is the share of them, and absent unless they are sampled by ratio."""

    sampler: Literal["always", "never", "ratio"] = "always"
    ratio: float | UnsetType = UNSET
    parent_based: bool = True


class _Wanted(Struct):
    sampler: str = ""
    ratio: float | None = None
    parent_based: bool | None = None


_decode = msgspec.json.Decoder(_Wanted).decode
_current = Sampling()

log = logs.logger(__name__)


def get_sampling() -> Sampling:
    """What is in force in this process."""
    return _current


async def get_sampler(request: Request) -> Response:
    """What is in force."""
    require_admin(request)
    return Response(encode_json(_current))


async def set_sampler(request: Request) -> Response:
    """Put a sampler in force."""
    global _current  # of the process, as the log level is
    require_platform_admin(request)
    try:
        wanted = _decode(await request.body(MAX_BYTES))
    except ValueError as malformed:  # what msgspec raises
        raise BadRequest("invalid request body") from malformed
    previous, _current = _current, _read_sampling(wanted)
    log.info("trace_sampler_changed", sampler=_current.sampler, previous=previous.sampler, by=request.principal.id)
    return Response(encode_json(_current))


def _read_sampling(wanted: _Wanted) -> Sampling:
    parent_based = wanted.parent_based is not False
    match wanted.sampler:
        case "always" | "never":
            if wanted.ratio:
                raise BadRequest(f"ratio has no meaning for the sampler {wanted.sampler}")
            return Sampling(wanted.sampler, parent_based=parent_based)
        case "ratio":
            if wanted.ratio is None or not 0 < wanted.ratio <= 1:
                raise BadRequest("ratio must be above 0 and at most 1; the sampler never keeps none")
            return Sampling("ratio", wanted.ratio, parent_based)
        case _:
            raise BadRequest("sampler must be always, never or ratio")


TRACE_SAMPLER: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/admin/trace-sampler",
        endpoint=get_sampler,
        id="getTraceSampler",
        tag="Administration",
        summary="The trace sampler that was set; this service makes no traces",
        reply="TraceSampler",
        problems=("FORBIDDEN",),
    ),
    Route(
        method="POST",
        path="/admin/trace-sampler",
        endpoint=set_sampler,
        id="setTraceSampler",
        tag="Administration",
        summary="Keep a trace sampler until the process ends; this service makes no traces",
        body="TraceSamplerChange",
        reply="TraceSampler",
        problems=("BAD_REQUEST", "FORBIDDEN"),
    ),
)
