"""Incidents: failed work that stays visible after its transaction was rolled back
(docs/reference/operations.md#incidents).
"""

import hashlib
import re
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

from statewright.ids import TenantId

IncidentKind: TypeAlias = Literal[
    "RUN_FAILED",
    "TIMER_FAILED",
    "TIMER_DEAD",
    "TIMER_EXPIRED",
    "JOB_FAILED",
    "INSTANCE_FAILED",
    "CHAIN_FAILED",
    "NO_WORKER",
]
Severity: TypeAlias = Literal["ERROR", "WARNING"]
SubjectKind: TypeAlias = Literal["ENTITY", "NEW_ENTITY", "INSTANCE", "QUEUE"]
Resolution: TypeAlias = Literal["RETRIED", "RESOLVED", "SUCCEEDED", "MOVED", "GONE"]

INCIDENT_KINDS: Final[tuple[IncidentKind, ...]] = get_args(IncidentKind)

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
