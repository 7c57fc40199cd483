"""What has become of entities: versions, transactions, changes, events of runs, waits
(docs/reference/operations.md#versions).
"""

from typing import Annotated, ClassVar, TypeAlias

from msgspec import Meta, field

from statewright.entity import Actor, ChangeType, ModelKey
from statewright.operations.records import (
    Instant,
    Int32,
    Int64,
    Members,
    Record,
    RequestBody,
    Uuid,
    Value,
    name_words,
)

Change: TypeAlias = Annotated[str, name_words(ChangeType)]
PatchStep: TypeAlias = Annotated[
    Members,
    Meta(
        extra_json_schema={
            "type": "object",
            "properties": {
                "op": {"type": "string", "enum": ["add", "remove", "replace"]},
                "path": {"type": "string"},
                "value": {},
            },
            "required": ["op", "path"],
        }
    ),
]
"""An operation of a JSON Patch; one that removes has no value."""


class VersionView(Record, frozen=True, kw_only=True):
    """A version of an entity. It held from ``at`` to ``until``, None: it is the last one."""

    SCHEMA: ClassVar[str] = "OpsVersion"

    transaction_id: Uuid
    at: Instant
    until: Instant | None
    state: str
    transition: str
    change_type: Change
    attributed_to: Actor
    executed_by: Actor
    workflow: str
    workflow_revision: Int64
    bytes: Int32
    current: bool


class WholeVersion(VersionView, frozen=True, kw_only=True):
    """A version with its document, None for a deletion."""

    SCHEMA: ClassVar[str] = "OpsVersionDocument"

    document: Annotated[
        Value,
        Meta(
            extra_json_schema={
                "anyOf": [
                    {"type": "object", "additionalProperties": True},
                    {"type": "array", "items": {}},
                    {"type": "null"},
                ]
            }
        ),
    ]


class Restoration(RequestBody, frozen=True, kw_only=True):
    """Which document is to be brought back, and why; of it only what is at the JSON Pointers ``paths``."""

    SCHEMA: ClassVar[str] = "OpsRestore"

    version: Annotated[str, Meta(description="a transaction, an instant, `current` or `previous`")]
    reason: Annotated[str, Meta(min_length=1, max_length=500)]
    if_match: Uuid | None = None
    transition: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    paths: Annotated[tuple[Annotated[str, Meta(max_length=4096)], ...], Meta(min_length=1, max_length=1000)] | None = (
        None
    )


class Restored(Record, frozen=True, kw_only=True):
    """What a restoration came to: the version that the entity has, and the JSON Patch that led to it; nothing is
    written when the document is the same.
    """

    transaction_id: Uuid
    restored: bool
    patch: tuple[Members, ...]


class StatesOfVersions(Record, frozen=True, kw_only=True):
    """The states of two versions."""

    older: str | None = field(name="from")
    newer: str = field(name="to")


class Difference(Record, frozen=True, kw_only=True):
    """What changed between two versions. ``patch`` is a JSON Patch: applied to the older document it gives the newer
    one. ``older`` and ``newer`` are transactions; the first version is compared with nothing.
    """

    older: Uuid | None = field(name="from")
    newer: Uuid = field(name="to")
    state: StatesOfVersions
    patch: tuple[PatchStep, ...]


class WrittenEntity(Record, frozen=True, kw_only=True):
    """An entity that a transaction has written: the last version of the transaction, how many there were, and how many
    events its run has filed. What is None is not known: its versions were pruned.
    """

    entity_id: Uuid
    at: Instant
    events: Int32
    versions: Int32
    model: ModelKey | None = None
    state: str | None = None
    transition: str | None = None
    change_type: Change | None = None


class ChangedEntity(Record, frozen=True, kw_only=True):
    """What a run has done to an entity. What is None is not known: its versions were pruned."""

    SCHEMA: ClassVar[str] = "OpsChange"

    at: Instant
    entity_id: Uuid
    transaction_id: Uuid
    events: Int32
    model: ModelKey | None = None
    state: str | None = None
    transition: str | None = None
    change_type: Change | None = None
    attributed_to: Actor | None = None
    executed_by: Actor | None = None


class ChangedEntities(Record, frozen=True, kw_only=True):
    """The newest of the changes that one request looked at."""

    SCHEMA: ClassVar[str] = "OpsChanges"

    items: tuple[ChangedEntity, ...]
    scanned: Int32
    next_cursor: str | None = None


class RunEvent(Record, frozen=True, kw_only=True):
    """An event of a run of an entity."""

    SCHEMA: ClassVar[str] = "OpsEvent"

    at: Instant
    transaction_id: Uuid
    event_type: str
    state: str | None = None
    details: str
    data: Members | None


class EntityWait(Record, frozen=True, kw_only=True):
    """How a wait for an entity ended: ``reached`` is False when the time was over, or the entity is gone."""

    SCHEMA: ClassVar[str] = "OpsWaited"

    reached: bool
    deleted: bool
    state: str | None = None
    transaction_id: Uuid | None = None
    at: Instant | None = None
    waited_ms: Int32


class InstanceWait(Record, frozen=True, kw_only=True):
    """How a wait for an instance ended."""

    SCHEMA: ClassVar[str] = "OpsInstanceWaited"

    reached: bool
    deleted: bool
    status: str
    failure_reason: str | None = None
    transaction_id: Uuid | None = None
    at: Instant | None = None
    waited_ms: Int32
