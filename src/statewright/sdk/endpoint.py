"""The address of the server, the connection to it, and the pauses between attempts to connect.

The address of the service as people write it, and the parts of it that requests need.

Trust in the service's certificate, and a certificate of one's own, for ``https`` and ``grpcs``.
"""

import random
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import grpc
import grpc.aio
from msgspec import Struct

CA_VARIABLE: Final = "STATEWRIGHT_CA"
CERT_VARIABLE: Final = "STATEWRIGHT_CLIENT_CERT"
KEY_VARIABLE: Final = "STATEWRIGHT_CLIENT_KEY"


_TLS_ADVICE: Final = {
    "unable to get local issuer certificate": f"{CA_VARIABLE} names the authority of a private certificate",
    "self-signed certificate": f"{CA_VARIABLE} names the authority of a private certificate",
    "self signed certificate": f"{CA_VARIABLE} names the authority of a private certificate",
    "Hostname mismatch": "the address must have a name that the certificate has",
    "Hostname Verification": "the address must have a name that the certificate has",
    "WRONG_VERSION_NUMBER": "that port speaks no TLS: http:// and plain host:port are without",
    "illegal request line": "that port may speak TLS: https://",
    "certificate required": f"the service asks for a certificate: {CERT_VARIABLE} and {KEY_VARIABLE}",
    "CERTIFICATE_REQUIRED": f"the service asks for a certificate: {CERT_VARIABLE} and {KEY_VARIABLE}",
}
"""What to do about what TLS libraries say, by words of theirs."""


def advise_on_tls(reason: str) -> str:
    """``reason``, why there is no connection, with what to do about it where that is known."""
    return next((f"{reason.rstrip('.')}; {advice}" for words, advice in _TLS_ADVICE.items() if words in reason), reason)


class UnusableTls(ValueError):
    """Files of certificates that cannot be used."""


class Tls(Struct, frozen=True, kw_only=True):
    """Files in PEM form. ``ca`` has the authorities that are trusted in place of the system's; ``cert`` and ``key`` are
    what the client shows to a service that asks for certificates (mutual TLS).
    """

    ca: str | Path | None = None
    cert: str | Path | None = None
    key: str | Path | None = None

    def build_context(self) -> ssl.SSLContext:
        """What HTTP clients check certificates with. Raises :class:`UnusableTls`."""
        self._refuse_half()
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key, password="")  # or a locked key would ask the terminal
        except (OSError, ssl.SSLError) as error:
            raise UnusableTls(f"{self._name_files()}: {error.strerror or error}") from error
        return context

    def build_credentials(self) -> grpc.ChannelCredentials:
        """The same for gRPC. Raises :class:`UnusableTls`."""
        self.build_context()  # which says what is wrong with the files; gRPC would not connect, and say nothing
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.ca), private_key=_read(self.key), certificate_chain=_read(self.cert)
        )

    def _refuse_half(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise UnusableTls(f"a client certificate needs its key: {CERT_VARIABLE} and {KEY_VARIABLE} go together")

    def _name_files(self) -> str:
        files = {CA_VARIABLE: self.ca, CERT_VARIABLE: self.cert, KEY_VARIABLE: self.key}
        return ", ".join(f"{file} ({name})" for name, file in files.items() if file is not None) or "certificates"


NO_FILES: Final = Tls()
"""The authorities of the system, and no certificate."""


def read_tls(environment: Mapping[str, str]) -> Tls:
    """The files that the environment names."""
    return Tls(
        ca=environment.get(CA_VARIABLE) or None,
        cert=environment.get(CERT_VARIABLE) or None,
        key=environment.get(KEY_VARIABLE) or None,
    )


def _read(file: str | Path | None) -> bytes | None:
    return None if file is None else Path(file).read_bytes()


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
