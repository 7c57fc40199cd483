"""The address of the service as people write it, and the parts of it that requests need."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

URL_VARIABLES: Final = ("STATEWRIGHT_URL", "STATEWRIGHT_API_URL")
"""The older name stays for a release."""

CONTEXT_PATH_VARIABLE: Final = "STATEWRIGHT_CONTEXT_PATH"

DEFAULT_URL: Final = "http://127.0.0.1:8080"
DEFAULT_CONTEXT_PATH: Final = "/api"


class UnusableAddress(ValueError):
    """A text that is no HTTP address."""

    def __init__(self, text: str) -> None:
        super().__init__(f'not the address of a service (http://host:port): "{text}"')


class Address(Struct, frozen=True):
    """Where a service is: ``origin`` is scheme, host and port, ``api`` the same with the context path."""

    origin: str
    api: str

    @property
    def is_encrypted(self) -> bool:
        """Whether it is reached by TLS."""
        return self.origin.startswith("https://")

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, where no proxy leads."""
        return (urlsplit(self.origin).hostname or "") in {"127.0.0.1", "localhost", "::1"}


def parse_address(text: str, *, context_path: str = DEFAULT_CONTEXT_PATH) -> Address:
    """``http://host:port``, with or without the context path; a path that is there is taken for it.

    Raises :class:`UnusableAddress`.
    """
    try:
        parts = urlsplit(text.strip())
        _ = parts.port  # which says whether it is one
    except ValueError as error:
        raise UnusableAddress(text) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UnusableAddress(text)
    origin = f"{parts.scheme}://{parts.netloc}"
    path = parts.path.rstrip("/")
    return Address(origin, origin + (path or context_path.rstrip("/")))


def read_address(environment: Mapping[str, str], given: str | None = None) -> Address:
    """The address that is given, or that the environment names, or that of a service on this machine."""
    text = given or next((value for name in URL_VARIABLES if (value := environment.get(name))), DEFAULT_URL)
    return parse_address(text, context_path=environment.get(CONTEXT_PATH_VARIABLE, DEFAULT_CONTEXT_PATH))
