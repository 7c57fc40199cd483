"""What the host of processes has to know of a language: small protocols, and the values that pass between them.

What a built-in model is; the service registers those it has in ``services.builtin``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from statewright.entity import ModelKey
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import ExecutionId, Marking, Moment
from statewright.net.effects import Effect
from statewright.processes.changes import ENDED, JobPolicy
from statewright.processes.loop_results import SavedLoop, SavedLoops

_encode_source = msgspec.json.Encoder(order="deterministic").encode
SourceT = TypeVar("SourceT")


def source_to_text(source: Struct) -> str:
    """The form in which a definition is stored: equal for equal definitions."""
    return _encode_source(source).decode()


def source_from_text(text: str, type_: type[SourceT]) -> SourceT:
    """The definition that :func:`source_to_text` wrote."""
    return msgspec.json.decode(text, type=type_)


def read_stored(document: JsonObject, type_: type[SourceT], *, noun: str = "instance") -> SourceT:
    """The members of a stored document of an instance. Raises ValueError for one that is damaged."""
    try:
        return msgspec.convert(document, type_)
    except msgspec.ValidationError as defect:
        raise ValueError(f"stored {noun} is damaged: {defect}") from defect


class BuiltinModel(Struct, frozen=True, kw_only=True):
    """A model whose entities the service writes itself; every tenant has it once it needs it."""

    key: ModelKey
    owner: str
    """Who writes its entities, in the words of a refusal."""
    sample: JsonObject
    """A document that has every member; the schema is that of its values."""
    states: Mapping[str, Mapping[str, str]]
    """For each state where its transitions lead, by their names. The first state is that of new entities."""
    client_transitions: frozenset[str] = frozenset()
    """Transitions that clients of the entity API may fire."""
    open_paths: tuple[str, ...] = ()
    """What others choose and has no schema: any path at or below is known, and holds texts, numbers and booleans."""


StateT = TypeVar("StateT", bound=str)
TransitionT = TypeVar("TransitionT", bound=str)


def build_states(
    first: Iterable[StateT], moves: Mapping[tuple[StateT, StateT], TransitionT]
) -> dict[str, dict[str, str]]:
    """The states of a built-in model, from a table of its transitions; ``first`` stand before all others."""
    states: dict[str, dict[str, str]] = {state: {} for state in first}
    for pair in moves:
        for state in pair:
            states.setdefault(state, {})
    for (source, target), name in moves.items():
        states[source][name] = target
    return states


class ProcessInstance(Struct, frozen=True, kw_only=True):
    """One run of one version of a definition. Instants are microseconds of the epoch."""

    id: str
    """A ULID; the same 128 bits are the id of the entity."""
    definition_id: str
    definition_version: int
    marking: Marking
    started_at: int
    completed_at: int | None = None
    """When it ended; ``None`` in flight."""
    business_key: str | None = None
    parent_instance_id: str | None = None
    """The instance that started this one."""
    awaited_by: str | None = None
    """The execution of the parent that goes on when this one has ended; ``None``: nobody waits for it."""
    saved: SavedLoops = field(default_factory=dict[ExecutionId, SavedLoop])
    """What of its loops is stored apart from its document, where its language does that."""

    @property
    def status(self) -> str:
        """The state of the entity. What is ``COMPLETED`` or ``CANCELLED`` may be purged."""
        return self.marking.phase

    @property
    def is_terminal(self) -> bool:
        """Whether it has ended; until then it holds its business key."""
        return self.marking.phase in ENDED


P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)
I = TypeVar("I", bound=ProcessInstance)  # noqa: E741 - P is a compiled process, I an instance


class Applied(Struct, Generic[I], frozen=True, kw_only=True):
    """The instance after an operation, and what has to happen together with storing it.

    No effects means that nothing happened and nothing needs to be stored.
    """

    instance: I
    effects: tuple[Effect, ...]
    transitions: tuple[str, ...]
    """What the operation amounts to in the life of the entity."""
    answer: object = None
    """What it tells who asked for it, beside the instance."""


class Rejection(Struct, frozen=True):
    """Why an operation is not possible, in the words of the language."""

    kind: Literal["bad-request", "not-found", "conflict"]
    reason: str
    member: str = ""
    """That of the request which is wrong, where it is one."""


class InstanceOperation(Protocol[P_contra, I]):
    """What is to be done to an instance: a function of its language at the top of a module or a method, the rest of its
    arguments filled in by ``functools.partial``. So it can be sent to another process.
    """

    def __call__(self, process: P_contra, instance: I, /, *, moment: Moment) -> Applied[I] | Rejection:
        """The instance afterwards, or why it is not possible."""
        ...


class NewInstance(Struct, frozen=True, kw_only=True):
    """What is asked for when an instance is started."""

    id: str
    variables: JsonObject = {}
    business_key: str = ""
    """Empty: none."""
    parent_instance_id: str | None = None
    awaited_by: str | None = None
    """The execution of the parent that waits for its end."""


class ChildOutcome(Struct, frozen=True, kw_only=True):
    """How an awaited instance ended: with ``output``, or without success for ``reason``."""

    output: JsonValue = None
    reason: str | None = None


class AuditEntry(Struct, frozen=True):
    """An entry of the audit log without time and actor, which the host knows."""

    kind: str
    detail: JsonObject


LEASE_LOST: Final = "LEASE_LOST: it was handed out as often as it may be, and no worker came to its end in time"
"""Why a job fails whose leases end again and again."""


class JobPlace(Struct, frozen=True):
    """Where in an instance a job belongs."""

    instance_id: str
    node: str
    element: int | None
    """The element of a loop; ``None``: the node as a whole."""
    execution: str = ""


class DefinitionCompiler(Protocol[P]):
    """Definitions, from the text that is stored."""

    def compile_source(self, source: str, version: int) -> P:
        """The process of a stored version, which was checked when it was uploaded. It is cached and never changes."""
        ...

    def limit_to_turn(self, process: P) -> P:
        """The same process, with operations that raise ``TurnExceeded`` rather than compute for long. The host then has
        a thread do the operation again on the process itself. A language whose operations never do may return it as it
        is.
        """
        ...

    def count_nodes(self, process: P) -> int:
        """How large it is, for the cache."""
        ...


class ProcessOperations(Protocol[P_contra, I]):
    """What the host itself does to instances. Languages add operations of their own (``advancing.advance``)."""

    def start_instance(self, process: P_contra, new: NewInstance, moment: Moment) -> Applied[I]:
        """A new instance, after all the steps that wait for nothing."""
        ...

    def complete_job(
        self, process: P_contra, instance: I, /, job: str, result: JsonValue, moment: Moment
    ) -> Applied[I] | Rejection:
        """A worker's result. Without effect when the job is not part of the instance any more; a result that the
        language does not take is a ``Rejection``.
        """
        ...

    def fail_job(
        self, process: P_contra, instance: I, /, job: str, reason: str, moment: Moment
    ) -> Applied[I] | Rejection:
        """A job failed for good."""
        ...

    def fire_timer(self, process: P_contra, instance: I, /, timer: str, moment: Moment) -> Applied[I] | Rejection:
        """A timer is due. Without effect when it was disarmed, or is held while the instance is failed."""
        ...


class InstanceDocuments(Protocol[I]):
    """Instances as documents of their entities."""

    def instance_to_document(self, instance: I, /) -> JsonObject:
        """The document to store; ``instance_from_document`` reads it back unchanged."""
        ...

    def instance_from_document(self, document: JsonObject) -> I:
        """The instance in the document of its entity."""
        ...


class CompleteTask(Protocol[P_contra, I]):
    """What people do to the instances of a language: its operation."""

    def __call__(
        self, process: P_contra, instance: I, /, *, task: str, result: JsonValue, by: str, moment: Moment
    ) -> Applied[I] | Rejection:
        """An answer to a user task; ``by`` may be empty. A ``Rejection`` where the task is not open any more."""
        ...


class ProcessRecords(Protocol[P_contra, I]):
    """What is recorded of an advance, and what of the definition goes with its jobs."""

    def list_audit_entries(self, process: P_contra, before: I | None, applied: Applied[I]) -> Sequence[AuditEntry]:
        """The entries of an operation, in order; ``before`` ``None``: the instance is new."""
        ...

    def get_definition_name(self, process: P_contra) -> str:
        """What the author calls the definition."""
        ...

    def get_node_type(self, process: P_contra, node: str) -> str:
        """What the history and the metrics call a node of this kind."""
        ...

    def find_member_tags(self, process: P_contra, job_type: str) -> str | None:
        """The tags of the calculation members that jobs of a type are pushed to; None: the job type is the tag."""
        ...

    def find_policy(self, process: P_contra, node: str) -> JobPolicy:
        """How the jobs of a node are done."""
        ...


class ChildOperations(Protocol[P_contra, I]):
    """Instances that wait for others of the same language."""

    def describe_outcome(self, process: P_contra, instance: I) -> ChildOutcome:
        """What one that has ended means to its parent."""
        ...

    def end_child(
        self, process: P_contra, instance: I, execution: str, outcome: ChildOutcome, moment: Moment
    ) -> Applied[I] | Rejection:
        """The awaited instance of an execution has ended. Without effect when nothing waits for it any more."""
        ...

    def cancel(self, process: P_contra, instance: I, moment: Moment) -> Applied[I] | Rejection:
        """The parent of an instance waits for it no more."""
        ...


class InstanceLog(Protocol[P_contra, I]):
    """A log of everything that happened in an instance, beside its history and its audit trail."""

    def list_events(self, process: P_contra, before: I | None, applied: Applied[I]) -> Sequence[JsonObject]:
        """The events of an operation, in order; ``before`` ``None``: the instance is new. The host numbers them, and
        stores large members of their ``payload`` elsewhere."""
        ...

    def find_labels(self, event: JsonObject) -> tuple[str, str]:
        """Type and status of an event, by which metrics count: of each there are few."""
        ...


class RunReports(Protocol[P_contra, I]):
    """Jobs that report what they do before they are done."""

    def take_report(
        self, process: P_contra, instance: I, /, job: str, report: JsonValue, lease: int, moment: Moment
    ) -> Applied[I] | Rejection:
        """A report. ``lease``: when that of its worker began; a later one replaces an earlier. Reports that come again
        are without effect; a job that is not part of the instance any more is a ``Rejection``."""
        ...

    def describe_taken(self, instance: I, job: str) -> JsonObject:
        """What the worker of a job need not report again."""
        ...


class FailLostJob(Protocol[P_contra, I]):
    """What becomes of a job that was lost more often than it may be."""

    def __call__(self, process: P_contra, instance: I, /, job: str, moment: Moment) -> Applied[I] | Rejection:
        """Without effect when it is not part of the instance any more."""
        ...


class LeaseLosses(Struct, Generic[P, I], frozen=True, kw_only=True):
    """Jobs whose workers were not heard of any more."""

    limit: int | None = None
    """How often a job is handed out again because of that, where its policy says nothing; ``None``: always."""
    fail: FailLostJob[P, I] | None = None
    """``None``: it fails as any other does, with the reason ``LEASE_LOST``."""


class InputPayloads(Struct, Generic[P], frozen=True):
    """Workers are given what was known when the job was made."""

    build: Callable[[P, JobPlace, JsonValue], JsonObject]
    """From the input of the execution that the job is for."""


class InstancePayloads(Struct, Generic[P, I], frozen=True):
    """Workers are given the instance, too, as it is when they claim."""

    build: Callable[[P, I, JobPlace, JsonValue], JsonObject]
    """From the instance, and the input of the execution that the job is for."""


class LanguageModels(Struct, frozen=True, kw_only=True):
    """The built-in models of a language.

    User tasks have the states ``OPEN``, ``COMPLETED`` and ``CANCELLED``, definitions one of their own choice.
    """

    instance: BuiltinModel
    definition: BuiltinModel
    user_task: BuiltinModel | None = None
    """``None``: the language asks no people."""
    namespace: str
    """Stands before what the ids of definitions' entities are made of, so that those of two languages differ."""
    task_types: tuple[str, ...] = ()
    """The types of nodes whose work is a user task, an entity of its own."""
    value_paths: tuple[tuple[str, ...], ...] = ()
    """Where the documents of instances have values of their clients, which the host may store apart from them: by the
    names of members, ``*`` for each member or each item.
    """

    @property
    def all(self) -> tuple[BuiltinModel, ...]:
        return tuple(model for model in (self.instance, self.definition, self.user_task) if model is not None)


class ProcessLanguage(
    DefinitionCompiler[P],
    ProcessOperations[P, I],
    InstanceDocuments[I],
    ProcessRecords[P, I],
    Protocol[P, I],
):
    """All of it. ``name`` is what tables call the language; it never changes."""

    @property
    def name(self) -> str: ...

    @property
    def models(self) -> LanguageModels: ...

    @property
    def merges_results(self) -> bool:
        """Whether results of jobs that come while their instance is being changed may be applied by one advance, and
        so make one version.
        """
        ...

    @property
    def complete_task(self) -> CompleteTask[P, I] | None:
        """``None``: its instances have no user tasks, and ``models`` no model of them."""
        ...

    @property
    def children(self) -> ChildOperations[P, I] | None:
        """``None``: its instances wait for no others."""
        ...

    @property
    def log(self) -> InstanceLog[P, I] | None:
        """``None``: its instances have no log of their own."""
        ...

    @property
    def run_reports(self) -> RunReports[P, I] | None:
        """``None``: its jobs report their results and nothing before."""
        ...

    @property
    def lease_losses(self) -> LeaseLosses[P, I] | None:
        """``None``: its jobs are handed out again however often their leases end."""
        ...

    @property
    def payloads(self) -> InputPayloads[P] | InstancePayloads[P, I]:
        """What workers are given."""
        ...


class Drawing(Struct, frozen=True, kw_only=True):
    """How a diagram is wanted, as far as a language can draw it so."""

    is_vertical: bool = False
    with_docs: bool = False
    as_graph: bool = False
    """As JSON rather than as a diagram; of definitions only."""


def escape_label(text: str) -> str:
    """The text for a label of a Mermaid diagram: on one line, and nothing in it ends the label, is markup, or a
    directive to Mermaid.
    """
    return text.translate(_LABEL_ESCAPES)


_LABEL_ESCAPES: Final = str.maketrans(
    {
        "#": "#35;",
        '"': "#quot;",
        "<": "#lt;",
        ">": "#gt;",
        "&": "#amp;",
        "%": "#37;",
        "`": "#96;",
        "\\": "#92;",
        "\n": " ",
        "\r": " ",
    }
)
