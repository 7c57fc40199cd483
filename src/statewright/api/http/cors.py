"""Cross-origin requests (spec/auth-and-operations.md §22)."""

import re
from collections.abc import Mapping

from msgspec import Struct

_LOOPBACK = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?")

VARY: tuple[tuple[bytes, bytes], ...] = ((b"vary", b"Origin"),)

PREFLIGHT_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE, OPTIONS"),
    (b"access-control-allow-headers", b"Authorization, Content-Type, traceparent, tracestate"),
    (b"access-control-max-age", b"86400"),
)


class Cors(Struct, frozen=True):
    """Which origins a browser may call from: none configured = loopback, ``*`` = all, else exactly these."""

    origins: tuple[str, ...] = ()

    def headers(self, origin: bytes | None) -> tuple[tuple[bytes, bytes], ...]:
        """The headers of every response to a request with this ``Origin``."""
        if origin is None or not self._allows(origin.decode("latin-1")):
            return VARY
        return (*VARY, (b"access-control-allow-origin", b"*" if self.origins == ("*",) else origin))

    def _allows(self, origin: str) -> bool:
        if not self.origins:
            return _LOOPBACK.fullmatch(origin) is not None
        return self.origins == ("*",) or origin in self.origins


def is_preflight(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser asks with ``OPTIONS`` for permission rather than for the resource."""
    return b"origin" in headers and b"access-control-request-method" in headers
