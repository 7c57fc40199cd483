"""What stands at the beginning and at the end of a call: its method, time limit and metadata, its status.

Source: "Requests" and "Responses" in the protocol description "gRPC over HTTP2".
"""

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Final, TypeAlias
from urllib.parse import quote

import grpc
from msgspec import Struct

from statewright.rpc.messages import IDENTITY, WINDOW_BITS

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]
Headers: TypeAlias = list[tuple[bytes, bytes]]

CONTENT_TYPE: Final = b"application/grpc"

RESPONSE_HEAD: Final[Headers] = [
    (b":status", b"200"),
    (b"content-type", CONTENT_TYPE),
    (b"grpc-accept-encoding", ",".join((IDENTITY, *WINDOW_BITS)).encode()),
]

_UNIT_SECONDS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])", re.ASCII)
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
_OURS: Final = frozenset({"te", "content-type", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding"})
"""What the protocol says about the call; not metadata of the caller's."""


class Head(Struct, frozen=True, kw_only=True):
    """What a call begins with. ``timeout`` is in seconds, None for no limit."""

    path: str
    metadata: Metadata
    timeout: float | None
    encoding: str


class NotGrpc(ValueError):
    """A request that is no gRPC call at all, and the HTTP status it gets."""

    def __init__(self, status: int) -> None:
        super().__init__(f"no gRPC call: HTTP status {status}")
        self.status = status


class CallRefused(ValueError):
    """A call whose head says something that cannot be."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """Raises :class:`NotGrpc` and :class:`CallRefused`."""
    path, timeout, encoding, method, content_type = "", None, IDENTITY, "", ""
    metadata: list[tuple[str, str | bytes]] = []
    for raw_name, raw in headers:
        name, value = raw_name.decode("latin-1"), raw.decode("latin-1")
        match name:
            case ":path":
                path = value
            case ":method":
                method = value
            case "content-type":
                content_type = value
            case "grpc-timeout":
                timeout = _timeout(value)
            case "grpc-encoding":
                encoding = value
            case _ if name in _OURS or name.startswith(":"):
                pass
            case _ if name.endswith("-bin"):
                metadata += [(name, _octets(part)) for part in value.split(",")]
            case _:
                metadata.append((name, value))
    if method != "POST":
        raise NotGrpc(405)
    if not _speaks_grpc(content_type):
        raise NotGrpc(415)
    if encoding != IDENTITY and encoding not in WINDOW_BITS:
        raise CallRefused(grpc.StatusCode.UNIMPLEMENTED, f"unsupported grpc-encoding: {encoding}")
    return Head(path=path, metadata=tuple(metadata), timeout=timeout, encoding=encoding)


def trailers(code: grpc.StatusCode, text: str, metadata: Iterable[tuple[str, str | bytes]] = ()) -> Headers:
    """The end of a call that has begun to answer."""
    number: int = code.value[0]
    headers: Headers = [(b"grpc-status", b"%d" % number)]
    if text:
        headers.append((b"grpc-message", _percent_encoded(text)))
    return headers + encoded(metadata)


def _percent_encoded(text: str) -> bytes:
    """Spaces at the ends, too: HTTP strips them (RFC 9110 §5.5)."""
    middle = text.strip(" ")
    before, _, after = text.partition(middle) if middle else (text, "", "")
    return "".join(
        (before.replace(" ", "%20"), quote(middle, safe=_PRINTABLE, errors="replace"), after.replace(" ", "%20"))
    ).encode()


def encoded(metadata: Iterable[tuple[str, str | bytes]]) -> Headers:
    """Metadata of ours as headers."""
    return [
        (name.encode(), base64.b64encode(value).rstrip(b"=") if isinstance(value, bytes) else value.encode())
        for name, value in metadata
    ]


def _speaks_grpc(content_type: str) -> bool:
    kind, _, _ = content_type.partition(";")
    return kind == "application/grpc" or kind.startswith("application/grpc+")


def _timeout(text: str) -> float:
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        raise CallRefused(grpc.StatusCode.INTERNAL, "malformed grpc-timeout")
    return int(found[1]) * _UNIT_SECONDS[found[2]]


def _octets(text: str) -> bytes:
    """One value of a ``-bin`` header, with or without padding."""
    try:
        return base64.b64decode(text.strip() + "=" * (-len(text.strip()) % 4))
    except (binascii.Error, ValueError) as error:
        raise CallRefused(grpc.StatusCode.INTERNAL, "malformed binary metadata") from error
