"""Style sheet, scripts and what others wrote: kept in memory, compressed once, at paths that change with them."""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from msgspec import Struct

from statewright.console.guard import SECURITY_HEADERS, WORKER_HEADERS
from statewright.console.response import TEXT, ConsoleResponse

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
