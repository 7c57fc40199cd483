"""What brokers of messages have in common (docs/reference/operations.md#brokers)."""

import os
import ssl
from typing import Final, Protocol

from msgspec import Struct

from statewright.egress.client import build_client_context
from statewright.egress.policy import EgressPolicy

PUBLISH_TIMEOUT_S: Final = 15.0
"""For a message, until the broker says that it keeps it."""


class NotPublished(Exception):
    """The broker does not say that it keeps a message; it may keep it all the same. The text may be shown to whoever
    has named the broker. ``is_away``: it would not keep any other one now.
    """

    def __init__(self, problem: str, *, is_away: bool = False) -> None:
        super().__init__(problem)
        self.is_away = is_away


def describe_failure(broker: str, error: Exception, *, is_lost: bool) -> str:
    """The kind of a failure; what it says may name addresses. ``is_lost``: it was a connection by TLS that has ended.
    In TLS 1.3 a server judges the certificate of its client when the client has taken the handshake for done.
    """
    what = f"{broker}: {type(error).__name__}"
    return (
        f"{what}: a server that does not accept the client's certificate closes the connection so" if is_lost else what
    )


class Message(Struct, frozen=True, kw_only=True):
    """What is published. Messages of one ``key`` keep their order. ``is_repeated``: somebody wants it a second time."""

    key: str
    id: str
    body: bytes
    media_type: str
    is_repeated: bool = False


class Broker(Protocol):
    """Keeps messages for others."""

    async def publish(self, message: Message) -> None:
        """Come back when the broker keeps the message on all the replicas that it is to have. Raises
        ``NotPublished``.
        """
        ...

    async def close(self) -> None:
        """Close the connections. To be called when nothing is under way."""
        ...


class TlsSettings(Struct, frozen=True, kw_only=True):
    """What TLS with a broker needs beside the usual authorities, as PEM: other authorities, and a certificate of the
    client with its key. Raises ``ValueError`` where they cannot be used (``build_context``).
    """

    authorities: str | None = None
    certificate: str | None = None
    key: str | None = None

    def build_context(self, policy: EgressPolicy) -> ssl.SSLContext:
        """What a client of the broker needs."""
        context = build_client_context(policy)
        try:
            if self.authorities is not None:
                context.load_verify_locations(cadata=self.authorities)
            if self.certificate is not None:
                self._load_own(context, self.certificate)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ValueError("the certificates for the broker cannot be used") from error
        return context

    def _load_own(self, context: ssl.SSLContext, certificate: str) -> None:
        file = os.memfd_create("client")  # the library reads files only, and keys are not written to disks
        try:
            os.write(file, f"{certificate}\n{self.key or ''}\n".encode())
            context.load_cert_chain(f"/proc/self/fd/{file}", password="")
        finally:
            os.close(file)
