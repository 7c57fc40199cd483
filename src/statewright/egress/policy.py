"""What may be called, how much of it, and what comes of a call (docs/reference/egress.md#what-is-refused).

Requests reach addresses of the public internet, and networks that the operator names. The blocked ranges are listed
here rather than asked of :mod:`ipaddress`, whose answers change between versions of Python. For IPv6 it is the other
way round: only what has been given out for global unicast is not blocked.
"""

from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

import httpx
from msgspec import Struct

from statewright.loop.background import run_by_size
from statewright.network.tls import TlsVersion

T = TypeVar("T")

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

BLOCKED_IPV4: Final = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers; metadata of some clouds
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a public address by which machines of a large cloud reach their host
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
GLOBAL_IPV6: Final = IPv6Network("2000::/3")
"""What lies outside is loopback, link-local, unique local, multicast, or not given out."""
BLOCKED_IPV6: Final = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address inside
        "3fff::/20",  # documentation
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


def is_reachable(address: Address, allowed: Sequence[Network] = ()) -> bool:
    """Whether requests may go to ``address``: it is public, or in one of the ``allowed`` networks.

    An IPv4 address that an IPv6 one stands for (mapped, or translated by NAT64) is judged itself.
    """
    if isinstance(address, IPv6Address):
        inner = _find_ipv4(address)
        if inner is not None:
            address = inner
    if any(address in network for network in allowed if network.version == address.version):
        return True
    if isinstance(address, IPv4Address):
        return not any(address in block for block in BLOCKED_IPV4)
    return address in GLOBAL_IPV6 and not any(address in block for block in BLOCKED_IPV6)


def _find_ipv4(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else None


FailureReason = Literal[
    "url_malformed",
    "request_malformed",
    "scheme_refused",
    "port_refused",
    "host_refused",
    "name_unresolved",
    "address_refused",
    "too_many_requests",
    "connection_failed",
    "tls_failed",
    "connection_lost",
    "timed_out",
    "headers_too_large",
    "body_too_large",
    "encoding_unsupported",
    "response_malformed",
    "redirect_refused",
    "too_many_redirects",
]
"""Why there is no response (docs/reference/egress.md#failures)."""

_PASSING: Final[frozenset[FailureReason]] = frozenset(
    {"name_unresolved", "too_many_requests", "connection_failed", "connection_lost", "timed_out", "response_malformed"}
)


class HttpRequest(Struct, frozen=True, kw_only=True):
    """A request. ``tenant``: on whose behalf; each may have only so many under way (empty: the service itself).

    ``timeout_s`` and ``max_response_bytes`` can only shorten what the policy permits; a longer response is a failure,
    or is cut there. Redirects are answers like any other unless ``max_redirects`` says how many are followed. The body
    must not be longer than the policy permits, and the headers ``Host``, ``Content-Length`` and those of the connection
    are not the caller's.
    """

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    tenant: str = ""
    timeout_s: float | None = None
    max_response_bytes: int | None = None
    cuts_response: bool = False
    max_redirects: int = 0

    def __repr__(self) -> str:
        return f"HttpRequest(method={self.method!r})"  # URLs, headers and bodies hold secrets


class HttpResponse(Struct, frozen=True, kw_only=True):
    """A response of any status. Names of headers are in lower case; a name may occur more than once. ``body`` is
    unpacked; ``url`` is that of the last hop.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    url: str

    async def read(self, read: Callable[["HttpResponse"], T]) -> T:
        """What ``read`` makes of the response, in a thread if its body is large. Raises what it does."""
        return await run_by_size(len(self.body), lambda: read(self))

    def get_header(self, name: str) -> str | None:
        """The first header with this name, which is in lower case."""
        return next((value for known, value in self.headers if known == name), None)

    @property
    def media_type(self) -> str:
        """``Content-Type`` without its parameters, in lower case; empty when there is none."""
        return (self.get_header("content-type") or "").partition(";")[0].strip().lower()

    def __repr__(self) -> str:
        return f"HttpResponse(status={self.status})"


class HttpFailure(Struct, frozen=True, kw_only=True):
    """There is no response. ``detail`` may be logged and shown to who wrote the URL: it names the host at most.

    ``was_sent``: the server may have got a request, or a part of it; False says that nothing has been sent.
    """

    reason: FailureReason
    detail: str = ""
    was_sent: bool = False

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.reason in _PASSING

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class NotReached(OSError):
    """There is no connection to a server that is not called by HTTP."""

    def __init__(self, failure: HttpFailure) -> None:
        super().__init__(str(failure))
        self.failure = failure


MAX_URL_CHARS: Final = 8192


class EgressLimits(Struct, frozen=True, kw_only=True):
    """Times in seconds: ``timeout_s`` is for a request with all its redirects, ``connect_timeout_s`` for resolving a
    name and connecting to it, and ``read_timeout_s`` for each silence of a server. The bodies of requests and of
    unpacked responses have at most ``max_body_bytes``. ``max_requests`` are under way at a time, and
    ``max_tenant_requests`` of each tenant; ``max_tenant_waiting`` more wait for their turn.
    """

    timeout_s: float = 30.0
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 30.0
    max_body_bytes: int = 4 * 1024 * 1024
    max_header_bytes: int = 32 * 1024
    max_requests: int = 64
    max_tenant_requests: int = 16
    max_tenant_waiting: int = 16


class EgressPolicy(Struct, frozen=True, kw_only=True):
    """Where requests may go. ``networks``: ranges that are reached although they are not public; ``is_open``: all are.

    ``hosts``: names or addresses, of which ``*.example.com`` are all below one, to which requests are confined; empty:
    any. ``ports``: ranges, first and last. ``certificates``: a PEM file of authorities to trust beside the usual ones.
    """

    networks: tuple[Network, ...] = ()
    is_open: bool = False
    hosts: tuple[str, ...] = ()
    ports: tuple[tuple[int, int], ...] = ((80, 80), (443, 443), (1024, 65535))
    requires_https: bool = False
    min_tls: TlsVersion = "1.2"
    certificates: Path | None = None
    limits: EgressLimits = EgressLimits()

    def permits_address(self, address: Address) -> bool:
        """Whether connections to ``address`` are made."""
        return self.is_open or is_reachable(address, self.networks)

    def check_url(self, text: str) -> httpx.URL | HttpFailure:
        """The parsed URL, unless it is malformed or what it says is not permitted. Names are not resolved here."""
        url = _parse_url(text)
        return url if isinstance(url, HttpFailure) else self._find_problem(url) or url

    def _find_problem(self, url: httpx.URL) -> HttpFailure | None:
        if url.scheme != "https" and (self.requires_https or url.scheme != "http"):
            expected = "https" if self.requires_https else "http or https"
            return HttpFailure(reason="scheme_refused", detail=f"the scheme must be {expected}")
        port = get_port(url)
        if not any(first <= port <= last for first, last in self.ports):
            return HttpFailure(reason="port_refused", detail=f"requests to port {port} are not permitted")
        if self.hosts and not any(_is_host_of(url.host, pattern) for pattern in self.hosts):
            return HttpFailure(reason="host_refused", detail=f"requests to {url.host:.253} are not permitted")
        literal = read_literal(url.host)
        return None if literal is None else self.find_address_problem(url.host, literal)

    def find_address_problem(self, host: str, address: Address) -> HttpFailure | None:
        """Why no connection is made to the ``address`` that ``host`` has. It is not shown: whoever may not reach a
        network need not learn what is in it.
        """
        if self.permits_address(address):
            return None
        return HttpFailure(reason="address_refused", detail=f"{host:.253} has an address that is not permitted")


def get_port(url: httpx.URL) -> int:
    """The port of the URL, or that of its scheme."""
    return url.port if url.port is not None else (443 if url.scheme == "https" else 80)


def format_host(host: str) -> str:
    """A name or an address as URLs have it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def read_literal(host: str) -> Address | None:
    """The address that ``host`` is, unless it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def _parse_url(text: str) -> httpx.URL | HttpFailure:
    malformed = HttpFailure(reason="url_malformed", detail="not an absolute URL with a host")
    if len(text) > MAX_URL_CHARS:
        return HttpFailure(reason="url_malformed", detail=f"longer than {MAX_URL_CHARS} characters")
    try:
        url = httpx.URL(text)
        host = url.host  # which is decoded here
    except (httpx.InvalidURL, ValueError, UnicodeError):
        return malformed
    if not url.is_absolute_url or not host or "%" in host:  # a percent sign: the zone of an IPv6 address
        return malformed
    if url.userinfo:
        return HttpFailure(reason="url_malformed", detail="credentials in a URL are not supported")
    return url


def _is_host_of(host: str, pattern: str) -> bool:
    name = host.lower().rstrip(".")
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern
