"""What browsers are refused, and the headers of every answer (docs/console.md#security)."""

from collections.abc import Mapping
from typing import Final

Headers = tuple[tuple[bytes, bytes], ...]

_POLICY: Final = (
    "default-src 'none'; script-src 'self'{wasm}; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_PERMISSIONS: Final = (
    b"accelerometer=(), camera=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), payment=(), usb=()"
)

COMMON_HEADERS: Final[Headers] = (  # the server itself adds x-content-type-options
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", _PERMISSIONS),
)

SECURITY_HEADERS: Final[Headers] = ((b"content-security-policy", _POLICY.format(wasm="").encode()), *COMMON_HEADERS)
"""Of every answer but one."""

WORKER_HEADERS: Final[Headers] = (
    (b"content-security-policy", _POLICY.format(wasm=" 'wasm-unsafe-eval'").encode()),
    *COMMON_HEADERS,
)
"""Of the script of the worker that lays out diagrams: it compiles WebAssembly, and no page does."""

NO_STORE: Final = (b"cache-control", b"no-store")


def is_foreign_form(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a form was sent by another page than ours, or does not say by which."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site != b"same-origin"
    origin = headers.get(b"origin")
    return origin is None or origin.partition(b"://")[2] != headers.get(b"host", b"")
