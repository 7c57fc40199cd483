"""The files of the API explorer that ``/docs`` starts: served by this service, pinned by their hashes.

``explorer/README.md`` says where they are from. A browser runs a script of the page only if it has the hash that the
page says (subresource integrity), and a test holds the files against what is written here.
"""

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import Final

from msgspec import Struct

VERSION: Final = "5.35.0"
"""Of swagger-ui-dist; part of the paths, so that browsers may keep the files for ever."""

PREFIX: Final = f"/docs/{VERSION}"


class ExplorerFile(Struct, frozen=True, kw_only=True):
    """A file that the page loads. ``sha384`` in base64; None for one of ours, whose hash is taken when it is read."""

    name: str
    media_type: str
    sha384: str | None = None

    @property
    def path(self) -> str:
        """Where it is served: a file of ours has its hash in its path, since it may change with any version."""
        return f"{PREFIX}/{self.name}" if self.sha384 else f"/docs/{_read_digest(self.name).hex()[:12]}/{self.name}"

    @property
    def integrity(self) -> str:
        """What the page says of it."""
        return f"sha384-{self.sha384 or base64.b64encode(_read_digest(self.name)).decode()}"

    def read(self) -> bytes:
        """Its content; from the disk once."""
        return _read(self.name)


SCRIPT: Final = ExplorerFile(
    name="swagger-ui-bundle.js",
    media_type="text/javascript; charset=utf-8",
    sha384="gjRm0bEPMeTmMh5jT2cHccIwCUZSTd8YC+j0d0sXw0MdGEfScduGpSyF3ZSSLkX9",
)
STYLE: Final = ExplorerFile(
    name="swagger-ui.css",
    media_type="text/css; charset=utf-8",
    sha384="WlYgdmXYOOBWL5apwjDEZwN+U3HmXSSu5R6V5aGxEcf7z+KuRNwBhoxKVN1i3D5I",
)
START: Final = ExplorerFile(name="docs.js", media_type="text/javascript; charset=utf-8")

EXPLORER_FILES: Final = (SCRIPT, STYLE, START)


@cache
def _read(name: str) -> bytes:
    return resources.files("statewright.api.http.openapi").joinpath("explorer", name).read_bytes()


@cache
def _read_digest(name: str) -> bytes:
    return hashlib.sha384(_read(name)).digest()
