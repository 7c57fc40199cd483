"""The parts of the commit statement that write records of idempotent requests with their effect."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.failures import IdempotencyClaimLost, IdempotencyKeyTaken
from statewright.idempotency import KeyStatus
from statewright.ids import TenantId
from statewright.storage.commit.statement import Part, read_sections
from statewright.storage.commit.submission import PartRefused, Refusal, StagedPart, Submission

NOBODY: Final = "00000000-0000-0000-0000-000000000000"
"""The token of an attempt that is over with its first write."""


class KeyRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record as a transaction writes it.

    ``claim`` is the token that the stored record must have; None: there must be none. ``token`` and ``node`` tell who
    is at work, and count as long as somebody is. ``element`` is added to those of the chunks before, ``entities`` to
    the ids that are known. ``kept_us`` is for how long the record counts.
    """

    tenant: TenantId
    principal: str
    key: str
    request_hash: str
    claim: str | None = None
    token: str = NOBODY
    node: str = ""
    status: KeyStatus
    is_segmented: bool = False
    transaction_id: str | None = None
    entities: Sequence[str] = ()
    element: str | None = None
    answer_status: int | None = None
    answer_type: str | None = None
    answer: str | None = None
    kept_us: int


class KeyRecords(StagedPart, frozen=True, kw_only=True):
    """The records of one transaction."""

    records: tuple[KeyRecord, ...]

    @property
    def size(self) -> int:
        return sum(len(record.answer or "") + len(record.element or "") for record in self.records)

    @property
    def names(self) -> Sequence[str]:
        return [f"{record.tenant}/{record.principal}/{record.key}" for record in self.records]

    def merge(self, inner: StagedPart) -> "KeyRecords":
        assert isinstance(inner, KeyRecords)  # noqa: S101 - nothing else is staged under its name
        return replace(self, records=(*self.records, *inner.records))


def _build_part(name: str, file: str, refusals: Mapping[str, Refusal], *, claimed: bool) -> Part:
    """A part that writes the records of a batch that are claimed, or those that are not. Its parameter is a list of
    them, each with ``t``, the number of its transaction.
    """

    def encode(batch: Sequence[Submission]) -> str | None:
        parts = [
            b'{"t":%d,%b' % (t, _encode(record)[1:])
            for t, submission in enumerate(batch)
            if isinstance(staged := submission.parts.get(KEYS), KeyRecords)
            for record in staged.records
            if (record.claim is not None) is claimed
        ]
        return f"[{b','.join(parts).decode()}]" if parts else None

    sections = read_sections("statewright.storage.idempotency", file)
    return Part(name=name, sections=sections, encode=encode, refusals=refusals, staged_as=KEYS)


_encode = msgspec.json.Encoder().encode

KEYS: Final = "keys"
"""The name under which records are staged."""

NEW_KEYS: Final = _build_part(
    KEYS, "keys.sql", {"idempotency_taken": PartRefused(lambda _: IdempotencyKeyTaken())}, claimed=False
)
CLAIMED_KEYS: Final = _build_part(
    "key_claims", "claims.sql", {"idempotency_lost": PartRefused(lambda _: IdempotencyClaimLost())}, claimed=True
)
KEY_PARTS: Final = (NEW_KEYS, CLAIMED_KEYS)
