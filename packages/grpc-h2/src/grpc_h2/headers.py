"""What stands at the beginning and at the end of a call: its method, time limit and metadata, its status.

Source: "Requests" and "Responses" in the protocol description "gRPC over HTTP2".
"""

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Final, TypeAlias
from urllib.parse import quote, unquote_to_bytes

import grpc
from msgspec import Struct

from grpc_h2.http2 import MAX_HEADER_BYTES
from grpc_h2.messages import IDENTITY, WINDOW_BITS

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]
Headers: TypeAlias = list[tuple[bytes, bytes]]

CONTENT_TYPE: Final = b"application/grpc"

RESPONSE_HEADERS: Final[Headers] = [
    (b":status", b"200"),
    (b"content-type", CONTENT_TYPE),
    (b"grpc-accept-encoding", ",".join((IDENTITY, *WINDOW_BITS)).encode()),
]

_UNIT_SECONDS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])", re.ASCII)
_NAME: Final = re.compile(rb":?[!-9;-@\[-~]+")
_FORBIDDEN_OCTETS: Final = re.compile(rb"[\0\r\n]")
"""What no header may have (RFC 9113 §8.2.1)."""

_HEADER_OVERHEAD: Final = 32
"""Bytes that each header counts for beside its own (RFC 9113 §6.5.2)."""

_HEADER_MEMORY: Final = 192
"""Bytes that each header takes in memory beside its own: two texts and a pair."""

_LEGAL_NAME: Final = re.compile(r"[0-9a-z_.-]+", re.ASCII)
_LEGAL_VALUE: Final = re.compile(r"[ -~]*", re.ASCII)
"""What metadata of ours may be."""

MAX_STATUS_TEXT_BYTES: Final = 4096
"""Bytes of ``grpc-message``: clients take as little as 8 KiB of headers in all, and drop the status with the rest."""

_HALF_ESCAPE: Final = re.compile(rb"%.?\Z")
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
_PROTOCOL_HEADERS: Final = frozenset({"te", "content-type", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding"})
"""What the protocol says about the call; not metadata of the caller's."""


class RequestHeaders(Struct, frozen=True, kw_only=True):
    """What a call begins with. ``timeout`` is in seconds, None for no limit; ``memory_bytes`` is what all of it takes
    in memory, roughly.
    """

    path: str
    metadata: Metadata
    timeout: float | None
    encoding: str
    memory_bytes: int = 0


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


def read_request_headers(headers: Iterable[tuple[bytes, bytes]]) -> RequestHeaders:
    """Raises :class:`NotGrpc` and :class:`CallRefused`."""
    path, timeout, encoding, method, content_type = "", None, IDENTITY, "", ""
    metadata: list[tuple[str, str | bytes]] = []
    decoded = _decode_headers(headers)
    for name, value in decoded:
        match name:
            case ":path":
                path = value
            case ":method":
                method = value
            case "content-type":
                content_type = value
            case "grpc-timeout":
                timeout = _parse_timeout(value)
            case "grpc-encoding":
                encoding = value
            case _ if name in _PROTOCOL_HEADERS or name.startswith(":"):
                pass
            case _ if name.endswith("-bin"):
                metadata += [(name, _decode_binary(part)) for part in value.split(",")]
            case _:
                metadata.append((name, value))
    if not path or method != "POST":
        raise NotGrpc(405 if path else 400)
    if not _speaks_grpc(content_type):
        raise NotGrpc(415)
    if encoding != IDENTITY and encoding not in WINDOW_BITS:
        raise CallRefused(grpc.StatusCode.UNIMPLEMENTED, f"unsupported grpc-encoding: {encoding}")
    memory = sum(len(name) + len(value) + _HEADER_MEMORY for name, value in decoded)
    return RequestHeaders(path=path, metadata=tuple(metadata), timeout=timeout, encoding=encoding, memory_bytes=memory)


def _decode_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Names and values, when there are not too many of them and none has what it must not have."""
    size = 0
    decoded: list[tuple[str, str]] = []
    for name, value in headers:
        if not _NAME.fullmatch(name) or _FORBIDDEN_OCTETS.search(value):
            raise NotGrpc(400)
        size += len(name) + len(value) + _HEADER_OVERHEAD
        decoded.append((name.decode("ascii"), value.strip(b" \t").decode("latin-1")))
    if size > MAX_HEADER_BYTES:
        text = f"received metadata larger than max ({size} vs. {MAX_HEADER_BYTES})"
        raise CallRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
    return decoded


def build_trailers(code: grpc.StatusCode, text: str, metadata: Iterable[tuple[str, str | bytes]] = ()) -> Headers:
    """The end of a call that has begun to answer."""
    number: int = code.value[0]
    headers: Headers = [(b"grpc-status", b"%d" % number)]
    if text:
        headers.append((b"grpc-message", _encode_status_text(text)))
    return headers + encode_metadata(metadata)


def _encode_status_text(text: str) -> bytes:
    """At most ``MAX_STATUS_TEXT_BYTES`` bytes of it."""
    message = _percent_encode(text)
    if len(message) <= MAX_STATUS_TEXT_BYTES:
        return message
    whole = _HALF_ESCAPE.sub(b"", message[:MAX_STATUS_TEXT_BYTES])
    return _percent_encode(unquote_to_bytes(whole).decode(errors="ignore").rstrip(" "))


def _percent_encode(text: str) -> bytes:
    """Spaces at the ends, too: HTTP strips them (RFC 9110 §5.5)."""
    middle = text.strip(" ")
    before, _, after = text.partition(middle) if middle else (text, "", "")
    return "".join(
        (before.replace(" ", "%20"), quote(middle, safe=_PRINTABLE, errors="replace"), after.replace(" ", "%20"))
    ).encode()


def encode_metadata(metadata: Iterable[tuple[str, str | bytes]]) -> Headers:
    """Metadata of ours as headers. Raises ``ValueError`` for names and values that cannot be sent."""
    return [(name.encode(), _encode_value(name, value)) for name, value in metadata]


def _encode_value(name: str, value: str | bytes) -> bytes:
    if not _LEGAL_NAME.fullmatch(name):
        raise ValueError(f"no name for metadata: {name!r}")
    if name.endswith("-bin"):
        return base64.b64encode(value if isinstance(value, bytes) else value.encode()).rstrip(b"=")
    text = value if isinstance(value, str) else value.decode("latin-1")
    if not _LEGAL_VALUE.fullmatch(text):
        raise ValueError(f"metadata that is neither printable nor named -bin: {name}")
    return text.encode()


def _speaks_grpc(content_type: str) -> bool:
    kind, _, _ = content_type.partition(";")
    return kind == "application/grpc" or kind.startswith("application/grpc+")


def _parse_timeout(text: str) -> float:
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        raise CallRefused(grpc.StatusCode.INTERNAL, "malformed grpc-timeout")
    return int(found[1]) * _UNIT_SECONDS[found[2]]


def _decode_binary(text: str) -> bytes:
    """One value of a ``-bin`` header, with or without padding."""
    try:
        unpadded = text.strip().rstrip("=")
        return base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CallRefused(grpc.StatusCode.INTERNAL, "malformed binary metadata") from error
