"""TLS of what listens, the same for HTTP and gRPC (docs/deployment.md)."""

import ssl
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

TlsVersion = Literal["1.2", "1.3"]

TLS_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class Tls(Struct, frozen=True, kw_only=True):
    """Certificate chain and key as PEM files. With ``client_ca`` only clients with a certificate of it are let in."""

    certificate: Path
    key: Path
    min_version: TlsVersion = "1.2"
    client_ca: Path | None = None


def build_server_context(tls: Tls, *, protocols: tuple[str, ...]) -> ssl.SSLContext:
    """What a server needs that offers the ``protocols`` by ALPN.

    Raises ``OSError`` when the files are not there or do not fit together. A key with a passphrase is refused: there is
    no one to ask.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = TLS_VERSIONS[tls.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    if protocols:
        context.set_alpn_protocols(list(protocols))
    file = tls.certificate
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_refuse_passphrase)
        if tls.client_ca is not None:
            file = tls.client_ca
            context.load_verify_locations(tls.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:  # ValueError: the passphrase
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise OSError(f"cannot use the TLS files of {file}: {reason}") from error
    return context


def load_authorities(context: ssl.SSLContext, file: Path) -> None:
    """Have a client trust the authorities in a PEM file, too. Raises ``OSError`` when the file cannot be used."""
    try:
        context.load_verify_locations(file)
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or error
        raise OSError(f"cannot use the certificates of {file}: {reason}") from error


def check_authorities(file: Path | None) -> None:
    """Raises ``OSError`` when no client could trust what is in this file."""
    if file is not None:
        load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), file)


def _refuse_passphrase() -> str:
    raise ValueError("the key has a passphrase")


def check_tls(tls: Tls | None) -> None:
    """Raises ``OSError`` when a server could not start with these files, so that it is told before anything begins."""
    if tls is not None:
        build_server_context(tls, protocols=())
