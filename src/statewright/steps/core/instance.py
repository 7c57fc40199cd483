"""An instance of a definition: its state as one value, as the document that is stored, and as the record clients read.

The stored document is the record and, beside it, what the kernel knows (spec/step-engine.md §11.3, §25.2).
"""

from typing import Final, Literal, Never, TypeAlias, cast

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Marking, Phase, is_waiting, marking_from_document, marking_to_document
from statewright.steps.core.compiling import Process
from statewright.steps.core.times import instant_text, microseconds

Status: TypeAlias = Literal["ACTIVE", "WAITING", "COMPLETED", "FAILED", "CANCELLED"]

IN_FLIGHT: Final[frozenset[Status]] = frozenset({"ACTIVE", "WAITING"})
"""The states in which an instance goes on, and in which its business key is taken."""


class Instance(Struct, frozen=True, kw_only=True):
    """One run of one version of a definition. Instants are microseconds of the epoch."""

    id: str
    """A ULID; the same 128 bits are the id of the entity."""
    definition_id: str
    definition_version: int
    status: Status
    marking: Marking
    started_at: int
    completed_at: int | None = None
    """When it reached its terminal state; ``None`` in flight."""
    business_key: str | None = None
    parent_instance_id: str | None = None
    """The instance whose end started this one."""

    @property
    def variables(self) -> JsonObject:
        """Never changed in place."""
        return self.marking.data

    @property
    def current_step_ids(self) -> tuple[str, ...]:
        """The steps that hold a token, in the order in which it came there."""
        return self.marking.current_nodes

    @property
    def failure_reason(self) -> str | None:
        """Why it failed, or was cancelled (then maybe empty)."""
        return self.marking.reason

    @property
    def is_terminal(self) -> bool:
        """Whether nothing but a manual retry of a failed instance can happen any more."""
        return self.status not in IN_FLIGHT


def status_of(process: Process, marking: Marking) -> Status:
    """The status a marking has: WAITING while it is at a USER_TASK or WAIT, whatever else goes on (§4)."""
    if marking.phase != "RUNNING":
        return marking.phase
    return "WAITING" if is_waiting(process.net, marking) else "ACTIVE"


def instance_record(instance: Instance) -> JsonObject:
    """The record clients read (§11.3); members that are not set are left out."""
    optional: JsonObject = {
        "completedAt": None if instance.completed_at is None else instant_text(instance.completed_at),
        "failureReason": instance.failure_reason,
        "businessKey": instance.business_key,
    }
    return {
        "id": instance.id,
        "definitionId": instance.definition_id,
        "definitionVersion": instance.definition_version,
        "status": instance.status,
        "currentStepIds": list(instance.current_step_ids),
        "variables": instance.variables,
        "startedAt": instant_text(instance.started_at),
        **{name: value for name, value in optional.items() if value is not None},
    }


def to_document(instance: Instance) -> JsonObject:
    """The document to store. :func:`from_document` reads it back unchanged."""
    inner = marking_to_document(instance.marking)
    for known_otherwise in ("phase", "reason"):
        inner.pop(known_otherwise, None)
    document = instance_record(instance)
    if instance.parent_instance_id is not None:
        document["parentInstanceId"] = instance.parent_instance_id
    return {**document, **{_INNER[name]: value for name, value in inner.items()}}


def from_document(document: JsonObject) -> Instance:
    """The instance that :func:`to_document` wrote. Raises ValueError for anything else."""
    stored = _Stored(document)
    status = cast("Status", stored.text("status"))  # checked by the line below
    phase = _PHASES[status] if status in _PHASES else stored.damaged("status")
    inner: JsonObject = {name: document[written] for name, written in _INNER.items() if written in document}
    inner |= {"phase": phase, "reason": stored.optional_text("failureReason")}
    marking = marking_from_document(inner, stored.object("variables"))
    completed_at = stored.optional_text("completedAt")
    return Instance(
        id=stored.text("id"),
        definition_id=stored.text("definitionId"),
        definition_version=stored.whole("definitionVersion"),
        status=status,
        marking=marking,
        started_at=microseconds(stored.text("startedAt")),
        completed_at=None if completed_at is None else microseconds(completed_at),
        business_key=stored.optional_text("businessKey"),
        parent_instance_id=stored.optional_text("parentInstanceId"),
    )


_INNER: Final = {
    "tokens": "tokens",
    "activations": "joins",
    "attempts": "attempts",
    "pending": "pending",
    "answers": "answers",
}
"""What the members of a marking are called in the document."""
_PHASES: Final[dict[Status, Phase]] = {
    "ACTIVE": "RUNNING",
    "WAITING": "RUNNING",
    "COMPLETED": "COMPLETED",
    "FAILED": "FAILED",
    "CANCELLED": "CANCELLED",
}


class _Stored:
    """The members of a stored document, which can only be damaged by a defect of ours."""

    def __init__(self, members: JsonObject) -> None:
        self._members = members

    def text(self, name: str) -> str:
        value = self._members.get(name)
        return value if isinstance(value, str) else self.damaged(name)

    def optional_text(self, name: str) -> str | None:
        return None if self._members.get(name) is None else self.text(name)

    def whole(self, name: str) -> int:
        value = self._members.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else self.damaged(name)

    def object(self, name: str) -> dict[str, JsonValue]:
        value = self._members.get(name)
        return value if isinstance(value, dict) else self.damaged(name)

    def damaged(self, name: str) -> Never:
        raise ValueError(f"stored instance is damaged: {name}")
