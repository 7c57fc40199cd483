"""Answers of the console."""

from collections.abc import AsyncIterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.guard import NO_STORE, SECURITY_HEADERS, Headers
from statewright.console.views.page import Download

HTML: Final = "text/html; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"


class ConsoleResponse(Struct, frozen=True):
    """What goes back to the browser."""

    body: bytes | AsyncIterator[bytes]
    status: int = 200
    media_type: str = HTML
    headers: Headers = (*SECURITY_HEADERS, NO_STORE)


def build_redirect(target: str, *extra: tuple[bytes, bytes]) -> ConsoleResponse:
    """Send the browser to another page, with a GET."""
    headers = (*SECURITY_HEADERS, NO_STORE, (b"location", target.encode("ascii")), *extra)
    return ConsoleResponse(b"", 303, TEXT, headers)


def build_download(file: Download) -> ConsoleResponse:
    """A file that browsers keep and do not show."""
    disposition = f'attachment; filename="{file.name}"'.encode("ascii", "replace")
    return ConsoleResponse(
        file.body, 200, file.media_type, (*SECURITY_HEADERS, NO_STORE, (b"content-disposition", disposition))
    )


def add_timing(response: ConsoleResponse, *, calls: int, calls_s: float, template_s: float) -> ConsoleResponse:
    """Say in ``Server-Timing`` how many calls a page was made from, how long they took, and the processor time of the
    template. Browsers show it with the request.
    """
    text = f'calls;desc="{calls}";dur={calls_s * 1000:.1f}, template;dur={template_s * 1000:.1f}'
    return replace(response, headers=(*response.headers, (b"server-timing", text.encode())))
