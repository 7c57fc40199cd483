"""Requests with an ``Idempotency-Key`` over HTTP (docs/reference/operations.md#idempotent-requests): what a key may be,
what makes two requests the same, and how stored answers are given.
"""

from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import Final
from urllib.parse import parse_qsl, unquote

from msgspec.structs import replace

from statewright.api.http.asgi import Scope
from statewright.api.http.response import Response
from statewright.api.http.security import Headers
from statewright.auth.keys import Encrypted, KeyCipher
from statewright.failures import InvalidParameter
from statewright.loop.background import MAX_INLINE_BYTES, run_in_thread
from statewright.operations import idempotency
from statewright.operations.idempotency import StoredAnswer
from statewright.services.runtime import Runtime

HEADER: Final = b"idempotency-key"
PARAMETER: Final = "Idempotency-Key"
REPLAYED: Final[Headers] = ((b"idempotency-replayed", b"true"),)

IGNORED_PARAMETERS: Final = frozenset({"waitForConsistencyAfter", "transactionTimeoutMillis"})
"""Query parameters that do not make it another request."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_SEALED: Final = "sealed"


def read_key(scope: Scope) -> str:
    """The key of a request that has one: a structured-field string, or the bare text. Raises ``InvalidParameter``."""
    values = [value for name, value in scope["headers"] if name == HEADER]
    if len(values) != 1:
        raise InvalidParameter(PARAMETER, "it is given more than once")
    key = idempotency.read_key(values[0].decode("latin-1"))
    if key is None:
        raise InvalidParameter(PARAMETER, "1 to 255 visible ASCII characters, in quotes or without")
    return key


async def hash_request(scope: Scope, headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    """What makes two requests the same: method, path, query, precondition, media type and body."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    if not path.isascii() or b"?" in path or b"%" in path:
        path = _decode_path(path.decode("latin-1").partition("?")[0])
    parts = [scope["method"].encode(), path]
    if scope["query_string"]:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        query.sort(key=_get_name)  # the values of a parameter that is repeated keep their order
        parts += [f"{name}={value}".encode() for name, value in query if name not in IGNORED_PARAMETERS]
    parts += (headers.get(b"if-match", b"-"), headers.get(b"content-type", b"-"), body)
    return hash_parts(parts) if len(body) <= MAX_INLINE_BYTES else await run_in_thread(partial(hash_parts, parts))


def _decode_path(path: str) -> bytes:
    """The path without escapes, but for those without which its segments could be others: of ``/``, and of ``%`` itself
    where there are any. How a letter is spelt makes no other request.
    """
    segments = [unquote(segment) for segment in path.split("/")]
    if any("/" in segment or "%" in segment for segment in segments):
        segments = [segment.replace("%", "%25").replace("/", "%2F") for segment in segments]
    return "/".join(segments).encode()


def _get_name(parameter: tuple[str, str]) -> str:
    return parameter[0]


def hash_parts(parts: list[bytes]) -> bytes:
    """A hash of some texts, each with its length, so that none runs over into the next."""
    return sha256(b"".join([b"%d:%b" % (len(part), part) for part in parts])).digest()


class Sealing:
    """Keeps answers that hold a secret from being readable in the database."""

    def __init__(self, cipher: KeyCipher) -> None:
        self._cipher = cipher

    def seal(self, answer: StoredAnswer) -> StoredAnswer:
        """The answer as it is stored."""
        sealed = self._cipher.encrypt(answer.body.encode())
        return replace(
            answer, media_type=f"{_SEALED} {sealed.key_name} {answer.media_type}", body=sealed.ciphertext.decode()
        )


def find_sealing(runtime: Runtime) -> Sealing | None:
    """How answers with secrets are kept; None where there are none, because nobody is asked who he is."""
    identity = runtime.identity.identity
    return Sealing(identity.cipher) if identity is not None else None


def unseal(answer: StoredAnswer, runtime: Runtime) -> StoredAnswer:
    """The answer as it was given at first."""
    if not answer.media_type.startswith(f"{_SEALED} "):
        return answer
    _, key_name, media_type = answer.media_type.split(" ", 2)
    cipher = runtime.identity.require_identity("M2M client").cipher
    body = cipher.decrypt(Encrypted(answer.body.encode(), key_name)).decode()
    return StoredAnswer(answer.status, media_type, body)


def to_stored(response: Response) -> StoredAnswer:
    """What is kept of a response."""
    assert isinstance(response.body, bytes)  # noqa: S101 - no operation with an effect answers in parts
    return StoredAnswer(response.status, response.media_type, response.body.decode())


def to_response(answer: StoredAnswer, headers: Headers = ()) -> Response:
    """A stored answer as a response."""
    return Response(answer.body.encode(), answer.status, answer.media_type, headers)
