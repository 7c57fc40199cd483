"""Which pages of other origins may call (docs/reference/service.md#cors)."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from statewright.api.http.asgi import Headers
from statewright.api.http.response import Response
from statewright.api.http.security import allows_origin

VARY: Headers = ((b"vary", b"Origin"),)
EXPOSED: Final = (
    b"access-control-expose-headers",
    b"Idempotency-Replayed, Preference-Applied, Retry-After, X-Entity-State, X-Wait-Result, X-Workflow-Revision",
)
ANY_ORIGIN: Headers = ((b"access-control-allow-origin", b"*"), EXPOSED)

PREFLIGHT: Final = Response(
    b"",
    204,
    "",
    (
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE, OPTIONS"),
        (
            b"access-control-allow-headers",
            b"Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, Prefer, traceparent, tracestate",
        ),
        (b"access-control-max-age", b"86400"),
    ),
)


class Cors(Struct, frozen=True):
    """Which origins a browser may call from (docs/reference/service.md#cors): none configured = ``unconfigured``, or
    loopback; ``*`` = all, else exactly these. ``preflight`` answers a browser that asks first.
    """

    origins: tuple[str, ...] = ()
    preflight: Response = PREFLIGHT
    unconfigured: Headers | None = None

    def headers(self, origin: bytes | None) -> Headers:
        """The headers of every response to a request with this ``Origin``."""
        if not self.origins and self.unconfigured is not None:
            return self.unconfigured
        if origin is None or not allows_origin(self.origins, origin.decode("latin-1")):
            return VARY
        return (*VARY, (b"access-control-allow-origin", b"*" if self.origins == ("*",) else origin), EXPOSED)


def is_preflight(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser asks with ``OPTIONS`` for permission rather than for the resource."""
    return b"origin" in headers and b"access-control-request-method" in headers
