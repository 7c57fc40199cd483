"""Where events are delivered to: webhooks, Kafka, and JetStream of NATS (docs/reference/operations.md#targets).

A ``Sender`` delivers one event, and says what came of it. What that means for the delivery, when it is tried again and
when it is given up, is the same for all (``services/ops/deliveries.py``).
"""

import base64
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import fields
from standardwebhooks.webhooks import Webhook

from statewright.egress import Egress, HttpFailure, HttpRequest, HttpResponse
from statewright.egress.brokers import Broker, Message, NotPublished, TlsSettings
from statewright.egress.policy import format_host
from statewright.failures import TargetNotAllowed
from statewright.ids import TenantId
from statewright.jsonval.values import JsonValue
from statewright.operations.subscriptions import (
    MAX_RETRY_AFTER_S,
    KafkaTarget,
    NatsTarget,
    SubscriptionTarget,
)

if TYPE_CHECKING:
    from statewright.egress.nats import NatsSettings

SECRET_BYTES: Final = 32
SEND_TIMEOUT_S: Final = 15.0
MAX_ANSWER_BYTES: Final = 256 * 1024
KEPT_ANSWER_CHARS: Final = 1024

MEDIA_TYPE: Final = "application/cloudevents+json"
"""Events are sent whole, in the structured mode of CloudEvents, to targets of all kinds."""


class Signer(Struct, frozen=True):
    """A secret; ``until`` in epoch microseconds, None for the one that is shown last."""

    secret: str
    until: int | None = None


def make_secret() -> str:
    """A new one, in the form of Standard Webhooks."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"


class Letter(Struct, frozen=True, kw_only=True):
    """An event that is delivered. ``again``: an operator has it delivered once more."""

    tenant: TenantId
    id: str
    subject: str
    body: bytes
    again: bool = False


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of an attempt; ``error`` None: the event is delivered. ``retry_after_s``: how long the
    target wants to be left alone. ``is_gone``: it wants none. ``is_away``: no other event would be delivered now.
    """

    error: str | None = None
    http_status: int | None = None
    answer: str | None = None
    retry_after_s: float | None = None
    is_gone: bool = False
    is_away: bool = False


class Sender(Protocol):
    """A target of events."""

    async def deliver(self, letter: Letter) -> Outcome:
        """Try it once."""
        ...

    async def close(self) -> None:
        """Let go of what is kept open. To be called when nothing is under way."""
        ...


class WebhookSender(Struct, frozen=True, kw_only=True):
    """Sends requests, signed by each secret that is good."""

    egress: Egress
    url: str
    headers: dict[str, str]
    signers: tuple[Signer, ...]
    clock: Callable[[], int]

    async def deliver(self, letter: Letter) -> Outcome:
        """Send a request."""
        return read_answer(await self.egress.send(self._build_request(letter, self.clock())), datetime.now(UTC))

    def _build_request(self, letter: Letter, now: int) -> HttpRequest:
        at, text = datetime.fromtimestamp(now // 1_000_000, UTC), letter.body.decode()
        good = [one.secret for one in self.signers if one.until is None or one.until > now]
        signatures = [Webhook(secret).sign(letter.id, at, text) for secret in good]
        return HttpRequest(
            url=self.url,
            method="POST",
            headers=(
                *self.headers.items(),
                ("Content-Type", MEDIA_TYPE),
                ("webhook-id", letter.id),
                ("webhook-timestamp", str(now // 1_000_000)),
                ("webhook-signature", " ".join(signatures)),
                *((("webhook-redelivery", "true"),) if letter.again else ()),
            ),
            body=letter.body,
            tenant=letter.tenant,
            timeout_s=SEND_TIMEOUT_S,
            max_response_bytes=MAX_ANSWER_BYTES,
            cuts_response=True,
        )

    async def close(self) -> None:
        """Connections are those of all webhooks."""


def read_answer(answer: HttpResponse | HttpFailure, now: datetime) -> Outcome:
    """What a webhook has answered."""
    if isinstance(answer, HttpFailure):
        return Outcome(error=str(answer))
    text = answer.body[: 4 * KEPT_ANSWER_CHARS].decode(errors="replace").replace("\0", "")[:KEPT_ANSWER_CHARS]
    status = answer.status
    is_busy = status in (429, 503)
    return Outcome(
        error=None if 200 <= status < 300 else f"the target answered {status}",
        http_status=status,
        answer=text or None,
        retry_after_s=_read_retry_after(answer.get_header("retry-after"), now) if is_busy else None,
        is_gone=status == 410,
    )


def _read_retry_after(text: str | None, now: datetime) -> float | None:
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return float(min(int(text[:9]), MAX_RETRY_AFTER_S))
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the target says what it likes
        return None
    seconds = (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds()
    return min(max(seconds, 0.0), float(MAX_RETRY_AFTER_S))


class BrokerSender(Struct, frozen=True):
    """Publishes messages; those of an entity have the same key."""

    broker: Broker

    async def deliver(self, letter: Letter) -> Outcome:
        """Publish a message."""
        message = Message(
            key=letter.subject, id=letter.id, body=letter.body, media_type=MEDIA_TYPE, is_repeated=letter.again
        )
        try:
            await self.broker.publish(message)
        except NotPublished as failure:
            return Outcome(error=str(failure), is_away=failure.is_away)
        return Outcome()

    async def close(self) -> None:
        """Close the connections to the broker."""
        await self.broker.close()


def open_sender(
    egress: Egress, target: SubscriptionTarget, signers: tuple[Signer, ...], clock: Callable[[], int]
) -> Sender:
    """What delivers to a target with its secrets. Nothing is connected yet."""
    if target.kafka is not None:
        return BrokerSender(_open_kafka(egress, target.kafka))
    if target.nats is not None:
        return BrokerSender(_open_nats(egress, target.nats))
    return WebhookSender(egress=egress, url=target.url or "", headers=target.headers, signers=signers, clock=clock)


def _open_kafka(egress: Egress, target: KafkaTarget) -> Broker:
    from statewright.egress.kafka import KafkaBroker, KafkaSettings

    return KafkaBroker(
        egress,
        KafkaSettings(
            servers=tuple(target.bootstrap_servers),
            topic=target.topic,
            protocol=target.security_protocol,
            mechanism=target.sasl_mechanism,
            username=target.sasl_username,
            password=target.sasl_password,
            tls=_build_tls(target),
        ),
    )


def _open_nats(egress: Egress, target: NatsTarget) -> Broker:
    from statewright.egress.nats import NatsBroker

    return NatsBroker(egress, _describe_nats(target))


def _describe_nats(target: NatsTarget) -> "NatsSettings":
    from statewright.egress.nats import NatsSettings

    return NatsSettings(
        servers=tuple(target.servers),
        subject=target.subject,
        stream=target.stream,
        username=target.username,
        password=target.password,
        token=target.token,
        seed=target.nkey_seed,
        credentials=target.credentials,
        tls=_build_tls(target),
    )


def _build_tls(target: KafkaTarget | NatsTarget) -> TlsSettings:
    return TlsSettings(authorities=target.tls_ca, certificate=target.tls_certificate, key=target.tls_key)


_INSIDE: Final = (".internal", ".local", ".localhost")
"""Names that are never public."""


def _is_inside(host: str) -> bool:
    """Whether a name is never public."""
    return f".{host.rstrip('.').lower()}".endswith(_INSIDE)


_USUAL_PORTS: Final = {"https": 443, "http": 80, "nats": 4222, "tls": 4222}
_LIBRARIES: Final = {"kafka": "aiokafka", "nats": "nats"}
"""By the extra that brings them."""


async def check_broker(egress: Egress, target: KafkaTarget | NatsTarget, *, allows_inside: bool) -> None:
    """Raises ``TargetNotAllowed``, which does not tell what a name was resolved to."""
    extra = "kafka" if isinstance(target, KafkaTarget) else "nats"
    if find_spec(_LIBRARIES[extra]) is None:
        raise TargetNotAllowed(f"this service cannot do it: it is installed without statewright[{extra}]", extra)
    if egress.policy.requires_https and not _uses_tls(target):
        raise TargetNotAllowed("it must be reached by TLS", extra)
    try:
        _build_tls(target).build_context(egress.policy)
        if isinstance(target, NatsTarget):
            _describe_nats(target).read_credentials()
    except ValueError as unusable:
        raise TargetNotAllowed(str(unusable), extra) from unusable
    for host, port in _list_servers(target, extra):
        url = f"https://{format_host(host)}:{port}/"
        await check_url(egress, url, allows_inside=allows_inside, member=extra)


async def check_url(egress: Egress, url: str, *, allows_inside: bool, member: str = "url") -> None:
    """Raises ``TargetNotAllowed``, which does not tell what a name was resolved to."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        raise TargetNotAllowed("not an absolute URL with a host", member) from None
    failure = await egress.check(url)
    if (_is_inside(host) and not allows_inside) or (
        failure is not None and failure.reason in ("name_unresolved", "address_refused")
    ):
        inside = "" if allows_inside else "; private ones need STATEWRIGHT_WEBHOOK_ALLOW_PRIVATE_NETWORKS"
        raise TargetNotAllowed(f"its host cannot be reached, or may not be{inside}", member)
    if failure is not None:
        unsafe = "; http needs STATEWRIGHT_WEBHOOK_ALLOW_HTTP" if failure.reason == "scheme_refused" else ""
        raise TargetNotAllowed(f"{failure.detail}{unsafe}", member)


def find_exposed_secret(before: SubscriptionTarget, after: SubscriptionTarget, patch: JsonValue) -> str | None:
    """The place, a JSON pointer below the target, of a secret that would be sent where it was not meant for, since a
    merge patch of the target changes the address and does not give the secret; None: there is none.

    Who changes subscriptions cannot read their secrets, and could have them sent to a server of his own.
    """
    if _list_places(after) <= _list_places(before):
        return None
    section = "headers" if after.broker is None else "kafka" if after.kafka else "nats"
    member = patch.get(section) if isinstance(patch, dict) else None
    given = member if isinstance(member, dict) else {}
    wire = {} if after.broker is None else {one.name: one.encode_name for one in fields(after.broker)}
    kept = [name for secret in after.conceal()[1] if (name := wire.get(secret, secret)) not in given]
    return f"/{section}/{kept[0].replace('~', '~0')}" if kept else None


def _list_places(target: SubscriptionTarget) -> frozenset[tuple[str, str | None, int | None]]:
    """The servers that what is secret of a target is sent to, with the protocol."""
    if target.kafka is not None:
        return frozenset(
            (target.kafka.security_protocol, server.lower(), None) for server in target.kafka.bootstrap_servers
        )
    urls = [target.url or ""] if target.nats is None else target.nats.servers
    parts = [urlsplit(url) for url in urls]
    return frozenset((one.scheme, one.hostname, one.port or _USUAL_PORTS.get(one.scheme)) for one in parts)


def _uses_tls(target: KafkaTarget | NatsTarget) -> bool:
    if isinstance(target, KafkaTarget):
        return target.security_protocol.endswith("SSL")
    return all(server.startswith("tls://") for server in target.servers)


_NAMED: Final = "a server is named by its host and its port"


def _list_servers(target: KafkaTarget | NatsTarget, member: str) -> list[tuple[str, int]]:
    """The hosts and ports of its servers. Raises ``TargetNotAllowed``."""
    if isinstance(target, KafkaTarget):
        texts, usual = [f"//{server}" for server in target.bootstrap_servers], None
    else:
        texts, usual = target.servers, 4222
    found: list[tuple[str, int]] = []
    for text in texts:
        try:
            split = urlsplit(text)
            host, port = split.hostname, split.port or usual
        except ValueError:
            raise TargetNotAllowed(_NAMED, member) from None
        if host is None or port is None or "@" in text or split.path or split.query or split.fragment:
            raise TargetNotAllowed(_NAMED, member)
        found.append((host, port))
    return found
