"""The address of the server, the connection to it, and the pauses between attempts to connect."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import grpc
import grpc.aio
from msgspec import Struct

from statewright.sdk.tls import NO_FILES, Tls

ENDPOINT_VARIABLES: Final = ("STATEWRIGHT_COMPUTE_ENDPOINT", "CYODA_COMPUTE_GRPC_ENDPOINT")
TAGS_VARIABLES: Final = ("STATEWRIGHT_COMPUTE_TAGS",)

DEFAULT_ENDPOINT: Final = "localhost:9090"

DEFAULT_PORT: Final = 9090
_PORTS: Final = {"http": 9090, "grpc": 9090, "https": 443, "grpcs": 443}

CHANNEL_OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Finds out within 40 s that a connection is dead that was never closed.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A channel lives for one connection: the node's own back-off decides when to try again, not one inherited from
    # an earlier channel to the same address.
    ("grpc.use_local_subchannel_pool", 1),
]


class UnusableEndpoint(ValueError):
    """A text that names no server."""

    def __init__(self, text: str) -> None:
        super().__init__(f"not an endpoint (host:port, or https://host): {text}")


class Endpoint(Struct, frozen=True):
    """A server's address, whether the connection is encrypted, and by which certificates."""

    target: str
    is_encrypted: bool
    tls: Tls = NO_FILES

    @property
    def default_api(self) -> str:
        """The address of the REST API of the same server, if it has the default port and path."""
        host = self.target.rpartition(":")[0]
        return f"https://{host}/api" if self.is_encrypted else f"http://{host}:8080/api"

    def open_channel(self) -> grpc.aio.Channel:
        """A new connection. Raises ``UnusableTls``."""
        if self.is_encrypted:
            return grpc.aio.secure_channel(self.target, self.tls.build_credentials(), options=CHANNEL_OPTIONS)
        return grpc.aio.insecure_channel(self.target, options=CHANNEL_OPTIONS)


def parse_endpoint(text: str, tls: Tls = NO_FILES) -> Endpoint:
    """``host:port``, ``http://host:port``, ``https://host`` or ``grpcs://host``; the last two encrypted.

    Raises :class:`UnusableEndpoint`.
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError) as error:
        raise UnusableEndpoint(text) from error
    if not host:
        raise UnusableEndpoint(text)
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Endpoint(target, parts.scheme in {"https", "grpcs"}, tls)


def get_first_set(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The value of the first variable that is set and not empty."""
    return next((value for name in names if (value := environment.get(name))), None)


MIN_PAUSE_S: Final = 0.2
MAX_PAUSE_S: Final = 10.0
"""Pause before the second attempt to connect, and the longest one."""


class BackOff:
    """Doubling pauses, each shortened by up to a half at random so that nodes do not all reconnect at once."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance = chance
        self._pause = MIN_PAUSE_S

    def reset(self) -> None:
        """Start with the shortest pause again, after a successful attempt."""
        self._pause = MIN_PAUSE_S

    def next(self) -> float:
        """Seconds to wait before the next attempt."""
        pause = self._pause
        self._pause = min(2 * pause, MAX_PAUSE_S)
        return pause * (1 - self._chance() / 2)
