"""The part of the commit statement that writes records of idempotent requests with their effect."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.failures import Failure, IdempotencyClaimLost, IdempotencyKeyTaken
from statewright.idempotency import KeyStatus
from statewright.ids import TenantId
from statewright.storage.commit.statement import build_staged_part, read_sections
from statewright.storage.commit.submission import PartRefused, StagedPart


class KeyRecord(Struct, frozen=True, kw_only=True):
    """A record as a transaction writes it.

    ``claim`` is the token that the stored record must have; None: there must be none. ``element`` is added to those of
    the chunks before, ``entities`` to the ids that are known. ``kept_us`` is for how long the record counts.
    """

    tenant: TenantId
    principal: str
    key: str
    request_hash: str
    claim: str | None
    token: str
    node: str
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


def _build_refusal(reason: str) -> Failure:
    return IdempotencyKeyTaken() if reason == "taken" else IdempotencyClaimLost()


KEYS: Final = build_staged_part(
    "keys",
    read_sections("statewright.storage.idempotency", "keys.sql"),
    {"idempotency": PartRefused(_build_refusal)},
)
