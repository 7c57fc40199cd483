"""Failed work (docs/reference/operations.md#incidents).

Incidents: failed work that stays visible after its transaction was rolled back
(docs/reference/operations.md#incidents).
"""

import hashlib
import re
from typing import Annotated, Final, Literal, TypeAlias, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from statewright.entity import Actor
from statewright.ids import TenantId
from statewright.operations.records import Instant, Int64, Members, Record, RequestBody, Uuid, Value, name_words

IncidentKind: TypeAlias = Literal[
    "RUN_FAILED",
    "TIMER_FAILED",
    "TIMER_DEAD",
    "TIMER_EXPIRED",
    "JOB_FAILED",
    "INSTANCE_FAILED",
    "CHAIN_FAILED",
    "NO_WORKER",
    "POISONED",
    "STATE_UNKNOWN",
    "WEBHOOK_FAILED",
    "SUBSCRIPTION_DISABLED",
]
Severity: TypeAlias = Literal["ERROR", "WARNING"]
SubjectKind: TypeAlias = Literal["ENTITY", "NEW_ENTITY", "INSTANCE", "QUEUE", "MODEL", "SUBSCRIPTION"]
Resolution: TypeAlias = Literal["RETRIED", "RESOLVED", "SUCCEEDED", "MOVED", "GONE"]
Status: TypeAlias = Literal["OPEN", "RESOLVED"]

INCIDENT_KINDS: Final[tuple[IncidentKind, ...]] = get_args(IncidentKind)


class IncidentSubject(Record, frozen=True, kw_only=True):
    """What an incident is about. ``id`` is that of an entity, instance, queue or model, or stands for a document of
    which no entity came to be.
    """

    kind: Annotated[str, name_words(SubjectKind)]
    id: str
    model: str
    state: str
    transaction_id: Uuid | None


class CalloutAttempt(Record, frozen=True, kw_only=True):
    """A member that was asked, ``at`` an instant in epoch microseconds, and why it could not do it."""

    at: Int64
    member: str
    error: str


class IncidentEnd(Record, frozen=True, kw_only=True):
    """Who closed an incident, and how: RETRIED, RESOLVED, SUCCEEDED, MOVED or GONE."""

    by: Actor
    at: Instant
    how: str
    reason: str | None


class Incident(Record, frozen=True, kw_only=True):
    """Work that failed, ``occurrences`` times. ``payload`` is what was asked for, told to operators who ask for one
    incident.
    """

    id: Uuid
    kind: Annotated[str, name_words(IncidentKind)]
    severity: Annotated[str, name_words(Severity)]
    status: Annotated[str, name_words(Status)]
    fingerprint: str
    title: str
    first_at: Instant
    last_at: Instant
    occurrences: Int64
    subject: IncidentSubject
    workflow: str | None = None
    transition: str | None = None
    step: str | None = None
    component: str | None = None
    code: str
    cause: str | None = None
    message: str
    attempts: tuple[CalloutAttempt, ...]
    principal: Actor
    trace_id: str | None = None
    payload_omitted: bool
    payload: Value | UnsetType = UNSET
    resolution: IncidentEnd | None = None


class IncidentGroup(Record, frozen=True, kw_only=True):
    """The open incidents of one cause. The fields are the columns of its row."""

    fingerprint: str
    title: str
    kind: str
    open: Int64
    occurrences: Int64
    first_at: Instant
    last_at: Instant
    sample_ids: tuple[Uuid, ...]


class Retry(RequestBody, frozen=True, kw_only=True):
    """What is done otherwise than before. ``force``: also when the entity was written since, or nodes ended with it."""

    document: Annotated[Value, Meta(extra_json_schema={"type": "object", "additionalProperties": True})] = None
    variables: Members | None = None
    force: bool = False


class RetryResult(Record, frozen=True, kw_only=True):
    """The incident afterwards, and what the retry came to."""

    incident: Incident
    result: Members


class IncidentResolution(RequestBody, frozen=True, kw_only=True):
    """Why an incident needs nobody any more."""

    reason: Annotated[str, Meta(min_length=1, max_length=500)]


MAX_MESSAGE_BYTES: Final = 2048
MAX_TITLE_CHARS: Final = 200

_MASKED: Final = re.compile(
    r"\"[^\"]*\"|'[^']*'"
    r"|\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
    r"|\b[0-9A-HJKMNP-TV-Z]{26}\b"
    r"|\d+(?:\.\d+)?"
)
"""Quoted texts, ids and numbers, which differ where the cause is the same."""


class IncidentRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failure as it is stored. Instants in epoch microseconds; ``attempts`` and ``payload`` are JSON texts.

    ``subject_id`` is an entity or instance, or the hash of the document of a new entity. ``payload`` repeats what was
    asked for; None when it is too large, or there is nothing to repeat.
    """

    tenant: TenantId
    id: str
    kind: IncidentKind
    severity: Severity
    fingerprint: str
    title: str
    at: int
    occurrences: int
    subject_kind: SubjectKind
    subject_id: str
    model: str
    state: str
    code: str
    message: str
    principal_id: str
    principal_kind: str
    attempts: str = "[]"
    payload_omitted: bool = False
    entity_transaction: str | None = None
    language: str | None = None
    workflow: str | None = None
    transition: str | None = None
    step: str | None = None
    component: str | None = None
    cause: str | None = None
    trace_id: str | None = None
    payload: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for failures that are one incident."""
        return self.tenant, self.subject_id, self.fingerprint


def compute_fingerprint(*parts: str | None, message: str) -> str:
    """Equal for failures with one cause: ``parts`` say where it failed and how."""
    text = "\0".join([*(part or "" for part in parts), _MASKED.sub("#", message)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def hash_subject(model: str, document: str) -> str:
    """What stands for an entity that could not be created."""
    return hashlib.sha256(f"{model}\0{document}".encode()).hexdigest()[:32]


def build_title(place: str, message: str) -> str:
    """One line that tells incidents apart in a list."""
    return f"{place}: {message}".replace("\0", "").split("\n", 1)[0][:MAX_TITLE_CHARS]


def trim_message(message: str) -> str:
    """A message as it is kept."""
    return message.replace("\0", "").encode()[:MAX_MESSAGE_BYTES].decode(errors="ignore")
