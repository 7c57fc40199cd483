"""Answers of the console.

What browsers are refused, and the headers of every answer (docs/console.md#security).

Style sheet, scripts and what others wrote: kept in memory, compressed once, at paths that change with them.
"""

import gzip
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.views.page import Download

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

STREAM_HEADERS: Final[Headers] = (*SECURITY_HEADERS, NO_STORE, (b"x-accel-buffering", b"no"))
"""Of a stream of events, which proxies are not to keep back."""


def is_foreign_form(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a form was sent by another page than ours, or does not say by which."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site != b"same-origin"
    origin = headers.get(b"origin")
    return origin is None or origin.partition(b"://")[2] != headers.get(b"host", b"")


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


ROOT: Final = files("statewright.console") / "static"

STYLES: Final = (
    "tokens",
    "base",
    "layout",
    "controls",
    "marks",
    "tables",
    "messages",
    "conditions",
    "diagrams",
    "home",
    "entities",
    "processes",
    "work",
)
"""The files of ``styles`` in their order: where two rules weigh the same, the later file wins."""
STYLE_SHEET: Final = "console.css"
"""All of them as one file, which a browser asks for once."""

MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "wasm": "application/wasm",
}
WORKER_SUFFIX: Final = "-worker.js"
HASH_CHARS: Final = 12

_CACHED: Final = (b"cache-control", b"public, max-age=31536000, immutable")


class StaticFile(Struct, frozen=True):
    """A file at the path that it has as long as it stays as it is."""

    name: str
    """Below ``static``."""
    path: str
    media_type: str
    body: bytes
    compressed: bytes

    def respond(self, *, takes_gzip: bool) -> ConsoleResponse:
        """The file, compressed where the browser takes that."""
        policy = WORKER_HEADERS if self.name.endswith(WORKER_SUFFIX) else SECURITY_HEADERS
        headers = (*policy, _CACHED, (b"vary", b"accept-encoding"))
        if takes_gzip:
            return ConsoleResponse(self.compressed, 200, self.media_type, (*headers, (b"content-encoding", b"gzip")))
        return ConsoleResponse(self.body, 200, self.media_type, headers)


@cache
def load_static_files() -> Mapping[str, StaticFile]:
    """All files by their names."""
    styles = b"".join((ROOT / "styles" / f"{name}.css").read_bytes() for name in STYLES)
    return {file.name: file for file in (_build_file(STYLE_SHEET, styles), *_list_files(ROOT, ""))}


def get_static_path(name: str) -> str:
    """The path of a file. Raises ``KeyError`` for one that does not exist."""
    return load_static_files()[name].path


def find_static_file(path: str) -> StaticFile | None:
    """The file at a path."""
    return _index_by_path().get(path)


def refuse_static_file() -> ConsoleResponse:
    """There is no such file, or not any more."""
    return ConsoleResponse(b"no such file\n", 404, TEXT)


@cache
def _index_by_path() -> Mapping[str, StaticFile]:
    return {file.path: file for file in load_static_files().values()}


def _list_files(directory: Traversable, prefix: str) -> Iterator[StaticFile]:
    for entry in directory.iterdir():
        if entry.is_dir():
            if entry.name != "styles":
                yield from _list_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in MEDIA_TYPES:
            yield _build_file(prefix + entry.name, entry.read_bytes())


def _build_file(name: str, body: bytes) -> StaticFile:
    mark = hashlib.sha256(body).hexdigest()[:HASH_CHARS]
    media_type = MEDIA_TYPES[name.rpartition(".")[2]]
    return StaticFile(name, f"/console/static/{mark}/{name}", media_type, body, gzip.compress(body, 9, mtime=0))
