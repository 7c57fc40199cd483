"""What is sent, and what comes of it."""

from typing import Literal

from msgspec import Struct

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


class HttpRequest(Struct, frozen=True, kw_only=True):
    """A request. ``tenant``: on whose behalf; each may have only so many under way (empty: the service itself).

    ``timeout_s`` and ``max_response_bytes`` can only shorten what the policy permits. Redirects are answers like any
    other unless ``max_redirects`` says how many are followed. The body must not be longer than the policy permits, and
    the headers ``Host``, ``Content-Length`` and those of the connection are not the caller's.
    """

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    tenant: str = ""
    timeout_s: float | None = None
    max_response_bytes: int | None = None
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

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason
