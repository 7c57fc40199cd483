"""What the bodies of the administration of keys have in common (docs/reference/authentication.md#keys)."""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from statewright.api.http.request import Request
from statewright.failures import BadRequest, BodyTooLarge
from statewright.instants import from_rfc3339
from statewright.services.auth.windows import Window

MAX_BYTES: Final = 1024 * 1024

_Body = TypeVar("_Body")


class WindowBody(Struct, frozen=True):
    """Members that say when a key is valid."""

    validFrom: str | None = None  # noqa: N815 - the names of the dialect
    validTo: str | None = None  # noqa: N815

    def to_window(self) -> Window:
        """Raises ``BadRequest`` for what is no instant."""
        return Window(valid_from=_read_instant(self.validFrom), valid_to=_read_instant(self.validTo))


class _GraceBody(Struct, frozen=True):
    gracePeriodSec: int | None = None  # noqa: N815


_decode_window = msgspec.json.Decoder(WindowBody).decode
_decode_grace = msgspec.json.Decoder(_GraceBody).decode


async def read_body(request: Request, decode: Callable[[bytes], _Body]) -> _Body:
    """The decoded body. Raises ``BadRequest`` for one that is too large, or not as ``decode`` wants it."""
    try:
        return decode(await request.body(MAX_BYTES))
    except (BodyTooLarge, ValueError, RecursionError) as malformed:  # ValueError: what msgspec raises
        raise BadRequest("invalid request body") from malformed


async def read_window(request: Request) -> Window:
    """The window in a body. Raises ``BadRequest``."""
    return (await read_body(request, _decode_window)).to_window()


async def read_grace(request: Request) -> int | None:
    """The grace in a body, which may be empty, in seconds. Raises ``BadRequest``."""
    return (await read_body(request, lambda body: _decode_grace(body or b"{}"))).gracePeriodSec


def _read_instant(text: str | None) -> int | None:
    if text is None:
        return None
    instant = from_rfc3339(text)
    if instant is None:
        raise BadRequest("invalid request body")
    return instant
