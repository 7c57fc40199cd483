"""Who is told of what was committed, by signed webhooks or by brokers (docs/reference/operations.md#subscriptions)."""

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, TypeAlias, get_args

from msgspec import Meta, field
from msgspec.structs import replace

from statewright.entity import Actor
from statewright.operations.bulk_jobs import NoMembers
from statewright.operations.events import IncludeBody, Kind
from statewright.operations.records import (
    LISTING,
    OPERATOR,
    ApiOperation,
    Command,
    Instant,
    Int32,
    Listed,
    Members,
    Option,
    QueryParameter,
    Record,
    RequestBody,
    Uuid,
    name_words,
)
from statewright.operations.suspensions import Name

DeliveryStatus: TypeAlias = Literal["PENDING", "DELIVERED", "RETRYING", "DEAD"]
DELIVERY_STATUSES: Final[tuple[DeliveryStatus, ...]] = get_args(DeliveryStatus)
SubscriptionStatus: TypeAlias = Literal["STARTING", "ACTIVE", "DISABLED", "FAILING"]

MAX_SUBSCRIPTIONS: Final = 50
"""Of a tenant."""

MAX_IN_FLIGHT: Final = 1_000
MAX_WEBHOOKS: Final = 32
USUAL_WEBHOOKS: Final = 8
USUAL_MESSAGES: Final = 200
"""Events of a subscription that are under way at a time: to whatever target, webhooks, and what they are without a
wish.
"""

MAX_PARKED: Final = 10_000
"""Events of a subscription that wait for their delivery; then no more are read."""

MAX_REDELIVERED: Final = 100_000
"""Deliveries that one request sends again."""

PAUSES_S: Final = (5, 30, 120, 600, 1800, 7200, 21_600, 43_200)
"""Behind each attempt but the last."""

MAX_RETRY_AFTER_S: Final = 3600


HIDDEN: Final = "********"
"""In place of a secret."""

Pem: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100_000)]
Secret: TypeAlias = Annotated[str, Meta(min_length=1, max_length=10_000)]
Server: TypeAlias = Annotated[str, Meta(min_length=1, max_length=300)]


_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
_SUBJECT: Final = re.compile(r"[^\s*>.]+(\.[^\s*>.]+)*")
_STREAM: Final = re.compile(r"[^\s*>./\\]+")


class KafkaTarget(RequestBody, frozen=True, kw_only=True):
    """A topic of Kafka, in the words of its clients. What is PEM: authorities to trust beside the usual ones, and the
    certificate of the client with its key.
    """

    SCHEMA: ClassVar[str] = "OpsKafkaTarget"
    SECRETS: ClassVar[tuple[str, ...]] = ("sasl_password", "tls_key")

    bootstrap_servers: Annotated[list[Server], Meta(min_length=1, max_length=20)]
    topic: Annotated[str, Meta(min_length=1, max_length=249)]
    security_protocol: Literal["SSL", "SASL_SSL", "PLAINTEXT", "SASL_PLAINTEXT"] = "SSL"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_username: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    sasl_password: Secret | None = None
    tls_ca: Pem | None = None
    tls_certificate: Pem | None = None
    tls_key: Secret | None = None

    def check(self) -> None:
        """Raises ``ValueError``."""
        if not _TOPIC.fullmatch(self.topic):
            raise ValueError("a topic has letters, digits, dots, underscores and hyphens")
        needs_sasl = self.security_protocol.startswith("SASL_")
        given = [self.sasl_mechanism, self.sasl_username, self.sasl_password]
        if needs_sasl != all(given) or needs_sasl != any(given):
            raise ValueError(
                "saslMechanism, saslUsername and saslPassword belong to the protocols SASL_…, and to these"
            )


class NatsTarget(RequestBody, frozen=True, kw_only=True):
    """A subject of a stream of NATS, and one way to log in. ``credentials`` are the text of a file of credentials."""

    SCHEMA: ClassVar[str] = "OpsNatsTarget"
    SECRETS: ClassVar[tuple[str, ...]] = ("password", "token", "nkey_seed", "credentials", "tls_key")

    servers: Annotated[list[Server], Meta(min_length=1, max_length=20)]
    subject: Annotated[str, Meta(min_length=1, max_length=250)]
    stream: Annotated[str, Meta(min_length=1, max_length=250)] | None = None
    username: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    password: Secret | None = None
    token: Secret | None = None
    nkey_seed: Secret | None = None
    credentials: Secret | None = None
    tls_ca: Pem | None = None
    tls_certificate: Pem | None = None
    tls_key: Secret | None = None

    def check(self) -> None:
        """Raises ``ValueError``."""
        if not all(server.startswith(("nats://", "tls://")) for server in self.servers):
            raise ValueError("servers of NATS begin with nats:// or tls://")
        if not _SUBJECT.fullmatch(self.subject) or (self.stream is not None and not _STREAM.fullmatch(self.stream)):
            raise ValueError("subjects and streams have no spaces and no wildcards")
        ways = [self.username, self.token, self.nkey_seed, self.credentials]
        if sum([way is not None for way in ways]) > 1 or (self.username is None) != (self.password is None):
            raise ValueError("username with password, token, nkeySeed or credentials: one of these")


class SubscriptionTarget(RequestBody, frozen=True, kw_only=True):
    """Where events are sent to: a ``url``, with ``headers``, or a broker. The values of headers and the secrets of
    brokers are never shown.
    """

    SCHEMA: ClassVar[str] = "OpsTarget"

    url: Annotated[str, Meta(min_length=1, max_length=2000)] | None = None
    headers: Annotated[
        dict[str, Annotated[str, Meta(max_length=1000)]],
        Meta(max_length=10),
    ] = field(default_factory=dict)
    kafka: KafkaTarget | None = None
    nats: NatsTarget | None = None

    @property
    def broker(self) -> KafkaTarget | NatsTarget | None:
        """The broker, where it is one."""
        return self.kafka or self.nats

    def check(self) -> None:
        """Raises ``ValueError``."""
        if sum([one is not None for one in (self.url, self.kafka, self.nats)]) != 1:
            raise ValueError("one of url, kafka and nats")
        if self.broker is not None:
            if self.headers:
                raise ValueError("headers are those of a url")
            self.broker.check()

    def conceal(self) -> tuple["SubscriptionTarget", dict[str, str]]:
        """The target without what is secret of it, and that, by name."""
        broker = self.broker
        if broker is None:
            return replace(self, headers=dict.fromkeys(self.headers, "")), self.headers
        secrets = {name: value for name in broker.SECRETS if (value := getattr(broker, name)) is not None}
        return self._replace_broker(replace(broker, **dict.fromkeys(secrets, HIDDEN))), secrets

    def reveal(self, secrets: dict[str, str]) -> "SubscriptionTarget":
        """The target with what is secret of it."""
        broker = self.broker
        return replace(self, headers=secrets) if broker is None else self._replace_broker(replace(broker, **secrets))

    def _replace_broker(self, broker: KafkaTarget | NatsTarget) -> "SubscriptionTarget":
        return replace(self, **{"kafka" if isinstance(broker, KafkaTarget) else "nats": broker})


class SubscriptionFilter(RequestBody, frozen=True, kw_only=True):
    """Which events are wanted; a member that is absent or null matches all."""

    SCHEMA: ClassVar[str] = "OpsSubscriptionFilter"

    kinds: Annotated[list[Kind], Meta(min_length=1, max_length=10)] | None = None
    model_name: Name | None = None
    model_version: Annotated[int, Meta(ge=1, le=2**31 - 1, extra_json_schema={"format": "int32"})] | None = None
    from_state: Name | None = None
    to_state: Name | None = None
    transition: Name | None = None
    body_predicate: Members | None = None
    """A search condition on the version after the change; it wants name and version of the model."""


class SubscriptionOrder(RequestBody, frozen=True, kw_only=True):
    """What is to be sent where. ``start_at`` is ``NOW``, or an instant since which events are kept. ``max_in_flight``
    is 8, of a broker 200, if it is not given; webhooks have at most 32.
    """

    SCHEMA: ClassVar[str] = "OpsNewSubscription"

    name: Name
    target: SubscriptionTarget
    filters: Annotated[list[SubscriptionFilter], Meta(min_length=1, max_length=20)] = field(
        default_factory=lambda: [SubscriptionFilter()]
    )
    include_body: IncludeBody = "NONE"
    start_at: str = "NOW"
    max_in_flight: Annotated[int, Meta(ge=1, le=MAX_IN_FLIGHT)] | None = None
    disable_after_failures: Annotated[int, Meta(ge=1, le=10_000)] = 50
    enabled: bool = True

    @property
    def in_flight(self) -> int:
        """How many events are under way at a time."""
        return self.max_in_flight or (USUAL_WEBHOOKS if self.target.broker is None else USUAL_MESSAGES)


class SubscriptionPatch(RequestBody, frozen=True, kw_only=True):
    """What is to be different (a JSON merge patch): null brings the default back, headers are changed one by one."""

    SCHEMA: ClassVar[str] = "OpsSubscriptionPatch"

    name: Name | None = None
    target: Members | None = None
    filters: list[SubscriptionFilter] | None = None
    include_body: IncludeBody | None = None
    max_in_flight: int | None = None
    disable_after_failures: int | None = None
    enabled: bool | None = None


class Rotation(RequestBody, frozen=True, kw_only=True):
    """How long the secret before signs, too: an ISO 8601 duration, 7 days at most."""

    SCHEMA: ClassVar[str] = "OpsRotation"

    overlap: str = "PT24H"


class Redelivery(RequestBody, frozen=True, kw_only=True):
    """Which deliveries are to be sent again: by id, or of events between two instants."""

    SCHEMA: ClassVar[str] = "OpsRedelivery"

    delivery_ids: Annotated[list[str], Meta(min_length=1, max_length=1000)] | None = None
    since: Instant | None = field(name="from", default=None)
    until: Instant | None = field(name="to", default=None)


class ShownTarget(Record, frozen=True, kw_only=True):
    """Where events are sent to. In place of the secrets of a broker there are stars."""

    SCHEMA: ClassVar[str] = "OpsShownTarget"

    url: str | None = None
    header_names: Sequence[str] | None = None
    kafka: KafkaTarget | None = None
    nats: NatsTarget | None = None


class Subscription(Record, frozen=True, kw_only=True):
    """Who is told of what was committed. ``position`` is behind the last event that was read for it. The secret is in
    the answer only that makes it.
    """

    id: Uuid
    name: str
    revision: Int32
    status: Annotated[str, name_words(SubscriptionStatus)]
    enabled: bool
    target: ShownTarget
    filters: Sequence[SubscriptionFilter]
    include_body: str
    max_in_flight: Int32
    disable_after_failures: Int32
    position: str
    lag_seconds: float
    parked: Int32
    failures: Int32
    """Attempts in a row that have failed."""
    created_at: Instant
    created_by: Actor
    disabled_reason: str | None = None
    secret: str | None = None


class Delivery(Record, frozen=True, kw_only=True):
    """What became of an event for a subscription, as of the last attempt."""

    delivery_id: Uuid
    event_id: str
    type: str
    subject: Uuid
    attempt: Int32
    status: Annotated[str, name_words(DeliveryStatus)]
    at: Instant
    next_at: Instant | None = None
    http_status: Int32 | None = None
    duration_ms: Int32 | None = None
    error: str | None = None
    answer: str | None = None


class Requeued(Record, frozen=True, kw_only=True):
    """How many deliveries are sent again."""

    SCHEMA: ClassVar[str] = "OpsRequeued"

    count: Int32


class WebhookTest(Record, frozen=True, kw_only=True):
    """What came of a test."""

    SCHEMA: ClassVar[str] = "OpsWebhookTest"

    http_status: Int32 | None
    duration_ms: Int32
    error: str | None


_PATH: Final = "/ops/v1/subscriptions/{subscriptionId}"
_UNKNOWN: Final = ("BAD_REQUEST", "FORBIDDEN", "SUBSCRIPTION_NOT_FOUND")
_COLUMNS: Final = (
    "id | name | status | url: target.url | topic: target.kafka.topic | subject: target.nats.subject"
    " | lagSeconds | parked | disabledReason"
)
CREATE_SUBSCRIPTION: Final = ApiOperation(
    id="createSubscription",
    method="POST",
    path="/ops/v1/subscriptions",
    summary="Have events sent by signed webhooks, or to a broker",
    role=OPERATOR,
    answers_secret=True,
    body=SubscriptionOrder,
    answer=Subscription,
    status=201,
    problems=("BAD_REQUEST", "FORBIDDEN", "TARGET_NOT_ALLOWED", "LIMIT_REACHED", "EVENTS_NOT_RECORDED", "EVENTS_GONE"),
)
LIST_SUBSCRIPTIONS: Final = ApiOperation(
    id="listSubscriptions",
    path="/ops/v1/subscriptions",
    summary="Who is told of events, by id",
    role=OPERATOR,
    query=LISTING,
    answer=Listed[Subscription],
    problems=("BAD_REQUEST", "FORBIDDEN"),
    command=Command("subscriptions list", "List who is told of events.", _COLUMNS),
)
GET_SUBSCRIPTION: Final = ApiOperation(
    id="getSubscription",
    path=_PATH,
    summary="One subscription",
    role=OPERATOR,
    answer=Subscription,
    problems=_UNKNOWN,
    command=Command("subscriptions show", "Show a subscription."),
)
CHANGE_SUBSCRIPTION: Final = ApiOperation(
    id="changeSubscription",
    method="PATCH",
    path=_PATH,
    summary="Change a subscription by a merge patch",
    role=OPERATOR,
    answers_secret=True,
    headers=("If-Match",),
    body=SubscriptionPatch,
    answer=Subscription,
    problems=(*_UNKNOWN, "TARGET_NOT_ALLOWED", "REVISION_MISMATCH"),
)
DELETE_SUBSCRIPTION: Final = ApiOperation(
    id="deleteSubscription",
    method="DELETE",
    path=_PATH,
    summary="End a subscription, with all that waits for it",
    role=OPERATOR,
    recording="commit",
    answer=Subscription,
    problems=_UNKNOWN,
    command=Command("subscriptions delete", "Delete a subscription, with all that waits for it."),
)
ROTATE_SECRET: Final = ApiOperation(
    id="rotateSecret",
    method="POST",
    path=f"{_PATH}/rotate-secret",
    summary="Sign by a new secret, and for a while by the one before",
    role=OPERATOR,
    answers_secret=True,
    body=Rotation,
    body_required=False,
    answer=Subscription,
    problems=_UNKNOWN,
)
TEST_SUBSCRIPTION: Final = ApiOperation(
    id="testSubscription",
    method="POST",
    path=f"{_PATH}/test",
    summary="Send a test now",
    role=OPERATOR,
    body=NoMembers,
    body_required=False,
    answer=WebhookTest,
    problems=_UNKNOWN,
    command=Command("subscriptions test", "Send a test to the target of a subscription."),
)
LIST_DELIVERIES: Final = ApiOperation(
    id="listDeliveries",
    path=f"{_PATH}/deliveries",
    summary="What became of the events of a subscription, newest first",
    role=OPERATOR,
    query=(
        QueryParameter("status", "string", ", ".join(DELIVERY_STATUSES), repeatable=True),
        QueryParameter("subject", "string", "id of the entity or instance", "uuid"),
        QueryParameter("atFrom", "string", "inclusive; of the event", "date-time"),
        QueryParameter("atTo", "string", "exclusive", "date-time"),
        *LISTING,
    ),
    answer=Listed[Delivery],
    problems=_UNKNOWN,
    command=Command(
        "subscriptions deliveries",
        "List what became of the events of a subscription, newest first.",
        "deliveryId | type | subject | attempt | status | httpStatus | error | at | nextAt",
        options=(Option("status"),),
        has_limit=True,
    ),
)
REDELIVER: Final = ApiOperation(
    id="redeliver",
    method="POST",
    path=f"{_PATH}/redeliver",
    summary="Send deliveries again",
    role=OPERATOR,
    recording="commit",
    body=Redelivery,
    answer=Requeued,
    status=202,
    problems=_UNKNOWN,
)
