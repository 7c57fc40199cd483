"""What may be called, and how much of it (docs/reference/egress.md#what-is-refused)."""

from ipaddress import ip_address
from pathlib import Path
from typing import Final

import httpx
from msgspec import Struct

from statewright.egress.addresses import Address, Network, is_reachable
from statewright.egress.messages import HttpFailure
from statewright.tls import TlsVersion

MAX_URL_CHARS: Final = 8192


class EgressLimits(Struct, frozen=True, kw_only=True):
    """Times in seconds: ``timeout_s`` is for a request with all its redirects, ``connect_timeout_s`` for resolving a
    name and connecting to it, and ``read_timeout_s`` for each silence of a server. The bodies of requests and of
    unpacked responses have at most ``max_body_bytes``. ``max_requests`` are under way at a time, and
    ``max_tenant_requests`` of each tenant; as many again wait for their turn.
    """

    timeout_s: float = 30.0
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 30.0
    max_body_bytes: int = 4 * 1024 * 1024
    max_header_bytes: int = 32 * 1024
    max_requests: int = 64
    max_tenant_requests: int = 16


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
    except (httpx.InvalidURL, ValueError, UnicodeError):
        return malformed
    if not url.is_absolute_url or not url.host or "%" in url.host:  # a percent sign: the zone of an IPv6 address
        return malformed
    if url.userinfo:
        return HttpFailure(reason="url_malformed", detail="credentials in a URL are not supported")
    return url


def _is_host_of(host: str, pattern: str) -> bool:
    name = host.lower().rstrip(".")
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern
