"""Checks and simulations of workflows (docs/reference/operations.md#checking-workflows), and their revisions
(docs/reference/operations.md#revisions-of-workflows).
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, field

from statewright.entity import Actor
from statewright.operations.records import Instant, Int32, Int64, Members, Record, RequestBody, Value, name_words

FindingSeverity: TypeAlias = Literal["ERROR", "WARNING", "INFO"]
ChangeKind: TypeAlias = Literal["ADDED", "REMOVED", "CHANGED"]
Issue: TypeAlias = Literal["STATE_REMOVED"]
Outcome: TypeAlias = Literal["SETTLED", "FAILED"]


class CheckFinding(Record, frozen=True, kw_only=True):
    """One thing to be told. ``path`` is a JSON pointer into the document of the import; ``witness`` is a document that
    shows it, if there is one that is not too large.
    """

    SCHEMA: ClassVar[str] = "OpsFinding"

    code: str
    severity: Annotated[str, name_words(FindingSeverity)]
    path: str
    message: str
    hint: str | None
    witness: Annotated[Value, Meta(extra_json_schema={"type": "object", "additionalProperties": True})] = None


class WorkflowChange(Record, frozen=True, kw_only=True):
    """A workflow that would not be as it is; ``patch`` is the JSON Patch of its export."""

    name: str
    change: Annotated[str, name_words(ChangeKind)]
    patch: tuple[Members, ...]


class TimerChange(Record, frozen=True, kw_only=True):
    """A scheduled transition that would not be as it is."""

    workflow: str
    state: str
    transition: str
    change: Annotated[str, name_words(ChangeKind)]


class NameChanges(Record, frozen=True, kw_only=True):
    """Names that come and go."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


class WorkflowChanges(Record, frozen=True, kw_only=True):
    """All that would change; states and tags are those of all workflows together."""

    workflows: tuple[WorkflowChange, ...]
    states: NameChanges
    timers: tuple[TimerChange, ...]
    tags: NameChanges


class AffectedState(Record, frozen=True, kw_only=True):
    """Entities that follow a workflow and are in a state; ``issue`` is what the import would do to them, None:
    nothing.
    """

    workflow: str
    state: str
    count: Int64
    issue: Annotated[str, name_words(Issue)] | None


class AffectedEntities(Record, frozen=True, kw_only=True):
    """Whom an import concerns."""

    total: Int64
    by_state: tuple[AffectedState, ...]
    armed_timers: Int64


class WorkflowCheck(Record, frozen=True, kw_only=True):
    """What an import would come to. ``diff`` and ``affected`` are None where they cannot be told, or counting would
    take too long.
    """

    importable: bool
    findings: tuple[CheckFinding, ...]
    diff: WorkflowChanges | None
    affected: AffectedEntities | None


class JudgedCriterion(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A criterion on the way, and why it did not hold; ``name`` is that of its transition."""

    name: str
    matches: bool
    reason: str | None = None


class CalledProcessor(Record, frozen=True, kw_only=True):
    """A processor on the way; ``error`` None: it succeeded."""

    name: str
    mode: str
    error: str | None


class SimulatedMove(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A move of the simulated entity, or one that was tried: then ``failure`` says why it failed. ``event`` is the
    position of the event that it follows from, -1: the start.
    """

    event: Int32
    at: Instant
    from_state: str = field(name="from")
    transition: str
    to_state: str = field(name="to")
    criteria: tuple[JudgedCriterion, ...]
    processors: tuple[CalledProcessor, ...] = ()
    failure: str | None = None


class SimulatedTimer(Record, frozen=True, kw_only=True):
    """A timer that is armed at the end."""

    state: str
    transition: str
    due_at: Instant


class SimulationFinding(Record, frozen=True, kw_only=True):
    """Something to know about a simulation, such as a stub that is missing."""

    code: str
    path: str
    message: str


class Simulation(Record, frozen=True, kw_only=True):
    """What became of the entity: ``outcome`` is SETTLED, or FAILED with the ``failure``."""

    outcome: Annotated[str, name_words(Outcome)]
    state: str | None
    document: Annotated[Value, Meta(extra_json_schema={"type": ["object", "null"], "additionalProperties": True})]
    path: tuple[SimulatedMove, ...]
    timers: tuple[SimulatedTimer, ...]
    findings: tuple[SimulationFinding, ...]
    failure: str | None


Origin: TypeAlias = Literal["IMPORT", "ROLLBACK", "UPGRADE"]
"""An import; bringing an older revision back; what was there without one."""


class WorkflowRevision(Record, frozen=True, kw_only=True):
    """What an import has left, if that was something new. ``mode`` is that of the import, None for other origins;
    ``hash`` tells documents apart.
    """

    revision: Int32
    imported_at: Instant
    imported_by: Actor
    mode: str | None
    hash: str
    origin: Annotated[str, name_words(Origin)]
    note: str | None
    current: bool


class Activation(RequestBody, frozen=True, kw_only=True):
    """Why a revision is to be brought back. ``if_match``: only while the model has this one, 0 stands for none."""

    SCHEMA: ClassVar[str] = "OpsActivation"

    reason: Annotated[str, Meta(min_length=1, max_length=500)]
    if_match: Annotated[int, Meta(ge=0, le=2**31 - 1, extra_json_schema={"format": "int32"})] | None = None


class RevisionDifference(Record, frozen=True, kw_only=True):
    """What changed between two revisions. ``patch`` is a JSON Patch: applied to the older export document it gives the
    newer one. The first revision is compared with no workflows.
    """

    older: Int32 | None = field(name="from")
    newer: Int32 = field(name="to")
    patch: tuple[Members, ...]


class PopulationItem(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Entities that follow a workflow, are in a state, and were moved last under a revision, None: one from before the
    first that is kept. ``issue`` says that no active workflow has the state.
    """

    workflow: str
    state: str
    revision: Int32 | None
    count: Int64
    issue: Annotated[str, name_words(Issue)] | None = None


class Population(Record, frozen=True, kw_only=True):
    """Where the entities of a model are. ``total`` counts those of the first 10,000 items, which are all there are but
    of very many states.
    """

    total: Int64
    items: tuple[PopulationItem, ...]


class WholeRevision(WorkflowRevision, frozen=True, kw_only=True):
    """A revision with its export document."""

    SCHEMA: ClassVar[str] = "OpsWorkflowRevisionDocument"

    document: Members
