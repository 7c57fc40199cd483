"""What protects a service from web pages that its user happens to have open, and its own pages from others.

Where requests count without credentials, in mock mode and under an open tenant, the browser of a developer is the
only thing between any web page and the service. Two facts that browsers never let a page forge decide (decision A5):
the ``Host``, which after DNS rebinding still is the name of the attacker, and the ``Origin`` or ``Sec-Fetch-Site``.
A program outside a browser sends neither ``Origin`` nor ``Sec-Fetch-Site``, and names the service by a name of it.

gRPC needs no such guard: browsers cannot speak it, and its content type takes a preflight that nothing answers.

Elsewhere pages of other origins may call as CORS allows (docs/reference/service.md#cors).
"""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from msgspec import Struct

from statewright.failures import Failure, HostNotAllowed, OriginNotAllowed

Headers = tuple[tuple[bytes, bytes], ...]

NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
"""On every response: what is said to be JSON is no script, whatever is in it."""

_CONTENT_SECURITY_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self';"
    b" connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)

PAGE_HEADERS: Final[Headers] = (
    (b"content-security-policy", _CONTENT_SECURITY_POLICY),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""Of every HTML page: it loads what this service serves and nothing else, and no other page shows it in a frame."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_KNOWN_HOSTS: Final = 256
MAX_SHOWN_CHARS: Final = 100

_LOOPBACK: Final = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?")
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:]+)(:[0-9]*)?", re.IGNORECASE)


def allows_origin(origins: Collection[str], origin: str) -> bool:
    """Whether pages of an origin may call: one of those configured, else, as none is, one of this machine.

    Loopback is allowed on every port: a page that is served from here comes from a program of this machine, which could
    call without a browser just as well.
    """
    if not origins:
        return _LOOPBACK.fullmatch(origin) is not None
    return "*" in origins or origin in origins


VARY: Final[Headers] = ((b"vary", b"Origin"),)
EXPOSED: Final = (
    b"access-control-expose-headers",
    b"Idempotency-Replayed, Preference-Applied, Retry-After, X-Entity-State, X-Wait-Result, X-Workflow-Revision",
)
ANY_ORIGIN: Final[Headers] = ((b"access-control-allow-origin", b"*"), EXPOSED)

PREFLIGHT: Final[Headers] = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE, OPTIONS"),
    (
        b"access-control-allow-headers",
        b"Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, Prefer, traceparent, tracestate",
    ),
    (b"access-control-max-age", b"86400"),
)


class Cors(Struct, frozen=True, kw_only=True):
    """Which origins a browser may call from: ``*`` = all, none configured = loopback, else exactly these. A browser
    that asks first is answered with ``preflight``.
    """

    origins: tuple[str, ...] = ()
    preflight: Headers = PREFLIGHT
    preflight_status: int = 204
    others: Headers = VARY
    """The headers of responses to requests that name no origin, or none of these; ``ANY_ORIGIN``: any may call."""

    def headers(self, origin: bytes) -> Headers:
        """The headers of every response to a request with this ``Origin``."""
        if self.others is ANY_ORIGIN or not allows_origin(self.origins, origin.decode("latin-1")):
            return self.others
        return (*VARY, (b"access-control-allow-origin", b"*" if self.origins == ("*",) else origin), EXPOSED)


def is_preflight(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser asks with ``OPTIONS`` for permission rather than for the resource."""
    return b"origin" in headers and b"access-control-request-method" in headers


class PageGuard:
    """Refuses what a foreign page makes a browser ask for, where a request counts without credentials.

    ``hosts`` are further names of the service, ``*`` any; ``origins`` are those that CORS allows, None where it is
    switched off and only pages of the service itself may call. ``anonymous_only``: who has credentials may ask from
    anywhere, since no page has any unless it was given them.
    """

    def __init__(
        self, hosts: Collection[str], origins: Collection[str] | None, *, anonymous_only: bool = False
    ) -> None:
        self._hosts = frozenset(hosts)
        self._origins = origins
        self._anonymous_only = anonymous_only
        self._knows_host = lru_cache(MAX_KNOWN_HOSTS)(self._is_own_host)  # a request costs one look-up

    def find_fault(self, method: str, headers: Mapping[bytes, bytes]) -> Failure | None:
        """Why a request is refused; None when it is not."""
        if self._anonymous_only and headers.get(b"authorization"):
            return None
        host = headers.get(b"host", b"")
        if not self._knows_host(host):
            return HostNotAllowed(_show(host))
        if method in SAFE_METHODS:
            return None
        origin = headers.get(b"origin")
        if origin is None:
            is_foreign = headers.get(b"sec-fetch-site") == b"cross-site"
        else:
            is_foreign = not self._is_own_page(origin.decode("latin-1"), host.decode("latin-1"))
        return OriginNotAllowed(_show(origin or b"another site")) if is_foreign else None

    @property
    def known_hosts(self) -> int:
        """How many names are remembered."""
        return self._knows_host.cache_info().currsize

    def _is_own_host(self, host: bytes) -> bool:
        """Whether no attacker can have the name: an address, a name of the local network, or one of ours.

        HTTP/1.0 needs no host, and browsers do not speak it.
        """
        if not host or "*" in self._hosts:
            return True
        match = _HOST.fullmatch(host.decode("latin-1"))
        if match is None:
            return False
        name = match[1].lower()
        return name in self._hosts or "." not in name.strip("[]") or _is_address(name.strip("[]"))

    def _is_own_page(self, origin: str, host: str) -> bool:
        if origin.partition("://")[2] == host:
            return True
        return self._origins is not None and allows_origin(self._origins, origin)


def build_challenge(reason: str) -> tuple[bytes, bytes]:
    """What a client that was not let in is told to send (RFC 6750 §3): a token, or another one than it sent.

    ``reason`` is that of ``AuthenticationFailed``. What is wrong with a token is told to nobody.
    """
    challenge = b'Bearer realm="statewright"'
    brought_none = reason in {"missing-header", "invalid-format"}
    return b"www-authenticate", challenge if brought_none else challenge + b', error="invalid_token"'


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _show(value: bytes) -> str:
    return value.decode("latin-1")[:MAX_SHOWN_CHARS]
