"""Trust in the service's certificate, and a certificate of one's own, for ``https`` and ``grpcs``."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import grpc
from msgspec import Struct

CA_VARIABLE: Final = "STATEWRIGHT_CA"
CERT_VARIABLE: Final = "STATEWRIGHT_CLIENT_CERT"
KEY_VARIABLE: Final = "STATEWRIGHT_CLIENT_KEY"


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
        return ", ".join(str(file) for file in (self.ca, self.cert, self.key) if file is not None) or "certificates"


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
