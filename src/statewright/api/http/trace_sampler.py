"""The trace sampler of a process (docs/reference/service.md#trace-sampler).

Spans are sampled by what is set here from the moment it is set; where traces are switched off, it is kept and told all
the same.
"""

from typing import Final

import msgspec
from msgspec import Struct

from statewright import logs
from statewright.api.http.administration import MAX_BYTES, require_admin, require_platform_admin
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Route
from statewright.failures import BadRequest
from statewright.tracing import Sampling, get_sampling, set_sampling


class _Wanted(Struct):
    sampler: str = ""
    ratio: float | None = None
    parent_based: bool | None = None


_decode = msgspec.json.Decoder(_Wanted).decode

log = logs.logger(__name__)


async def get_sampler(request: Request) -> Response:
    """What is in force."""
    require_admin(request)
    return Response(encode_json(get_sampling()))


async def set_sampler(request: Request) -> Response:
    """Put a sampler in force."""
    require_platform_admin(request)
    try:
        wanted = _decode(await request.body(MAX_BYTES))
    except ValueError as malformed:  # what msgspec raises
        raise BadRequest("invalid request body") from malformed
    sampling = _read_sampling(wanted)
    previous = set_sampling(sampling)
    log.info("trace_sampler_changed", sampler=sampling.sampler, previous=previous.sampler, by=request.principal.id)
    return Response(encode_json(sampling))


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
        summary="The trace sampler of the process that answers",
        reply="TraceSampler",
        problems=("FORBIDDEN",),
    ),
    Route(
        method="POST",
        path="/admin/trace-sampler",
        endpoint=set_sampler,
        recording="nothing",
        id="setTraceSampler",
        tag="Administration",
        summary="Put another trace sampler in force until the process ends",
        body="TraceSamplerChange",
        reply="TraceSampler",
        problems=("BAD_REQUEST", "FORBIDDEN"),
    ),
)
