"""The wish to wait that comes with a write (``Prefer``, RFC 7240; docs/reference/operations.md#wait)."""

import re
from datetime import timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.api.http.asgi import Scope
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.failures import Failure
from statewright.services.ops.awaiting import wait_after_write
from statewright.services.ops.waiting import MAX_WAIT, WaitResult
from statewright.services.writing import Saved

HEADER: Final = b"prefer"

_PREFERENCE: Final = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*")+')
_PARAMETER: Final = re.compile(r'\s*([\w-]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s;"]*))?\s*(?:;|$)')
_MAX_STATES: Final = 100


class WaitWish(Struct, frozen=True):
    """For how many seconds a client would wait, and for which states; none: for one without transitions."""

    seconds: int
    states: tuple[str, ...]


def read_wish(scope: Scope) -> WaitWish | None:
    """The wish of a request. What cannot be read is no wish (RFC 7240 §2)."""
    text = ", ".join(value.decode("latin-1") for name, value in scope["headers"] if name == HEADER)
    for preference in _PREFERENCE.findall(text):
        parameters = {name.lower(): value for name, value in _PARAMETER.findall(preference)}
        first = preference.partition("=")[0].strip().lower()
        seconds = parameters.get("wait", "")
        if first == "wait" and seconds.isascii() and seconds.isdecimal() and len(seconds) < 7:
            states = parameters.get("state", "").strip('"')
            names = tuple(name.strip() for name in states.split(",") if name.strip())[:_MAX_STATES]
            return WaitWish(min(int(seconds), MAX_WAIT // timedelta(seconds=1)), names)
    return None


async def hold_entity(request: Request, response: Response) -> Response:
    """Hold the response to the write of one entity. Its status and body stay; headers tell how the wait ended."""
    wish, saved = read_wish(request.scope), request.written
    if wish is None or not isinstance(saved, Saved) or request.caller.transaction is not None:
        return response
    result: WaitResult | None = None
    try:
        result = await wait_after_write(
            request.runtime,
            request.caller,
            saved.entity_ids[0],
            saved.transaction_id,
            states=wish.states,
            within=timedelta(seconds=wish.seconds),
        )
    except Failure:  # the write is done, whatever becomes of the wait
        return add_wait_headers(response, wish, "timeout", "")
    if result is None:
        return add_wait_headers(response, wish, "deleted", "")
    return add_wait_headers(response, wish, result.outcome, result.version.state if result.version else "")


def add_wait_headers(response: Response, wish: WaitWish, outcome: str, state: str) -> Response:
    """The response with what became of the wish."""
    told = [
        (b"preference-applied", b"wait=%d" % wish.seconds),
        (b"x-wait-result", outcome.encode()),
    ]
    if state and state.isascii() and state.isprintable():
        told.append((b"x-entity-state", state.encode()))
    return replace(response, headers=(*response.headers, *told))
