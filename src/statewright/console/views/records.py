"""Answers of the entity API and of process languages as the console reads them: of which ``operations`` has no record.

Of those that others store, such as results of processes, a member that is missing is as empty.
"""

from msgspec import UNSET, UnsetType, field

from statewright.entity import ModelKey
from statewright.operations.entity_answers import SearchJobProgress
from statewright.operations.listings import ListedSearchJob
from statewright.operations.records import Members, Record, Value


class EnvelopeMeta(Record, frozen=True, kw_only=True):
    """What the service knows of a version of an entity (docs/reference/entities.md#the-envelope)."""

    id: str = ""
    state: str = ""
    transaction_id: str = ""
    creation_date: str = ""
    last_update_time: str = ""
    model_key: ModelKey = ModelKey("", 0)


class Envelope(Record, frozen=True, kw_only=True):
    """A version of an entity with its document."""

    data: Value = None
    meta: EnvelopeMeta = EnvelopeMeta()


class PageOfResults(Record, frozen=True, kw_only=True):
    """Which page it is of how many."""

    total_pages: int = 0


class SearchResults(Record, frozen=True, kw_only=True):
    """A page of what a search job has found."""

    content: tuple[Envelope, ...] = ()
    page: PageOfResults = PageOfResults()


def list_job(id_: str, told: SearchJobProgress) -> ListedSearchJob:
    """A search job as lists have it, but of no known model."""
    return ListedSearchJob(
        id=id_,
        model=ModelKey("", 0),
        status=told.status,
        hits=told.entities_count,
        created_at=told.create_time,
        finished_at=told.finish_time,
        expires_at=told.expiration_date,
    )


class MessageHeader(Record, frozen=True, kw_only=True):
    """What is known of every message."""

    subject: Value = ""


class Message(Record, frozen=True, kw_only=True):
    """An edge message."""

    header: Members
    meta_data: Value = None
    content: Value = None


class ModelRow(Record, frozen=True, kw_only=True):
    """A model in the list."""

    name: str = field(name="modelName", default="")
    version: int = field(name="modelVersion", default=0)
    state: str = field(name="currentState", default="")
    updated: str = field(name="modelUpdateDate", default="")
    is_suspended: bool = False


class OpenTask(Record, frozen=True, kw_only=True):
    """A task of somebody that is open."""

    id: str = ""
    language: str = ""
    title: str = ""
    description: str = ""
    groups: tuple[str, ...] = ()
    assignee: str = ""
    form: Value | UnsetType = UNSET
    step_id: str = ""
    definition_id: str = ""
    business_key: str = ""
    job_type: str = ""
    instance_id: str = ""
    created_at: str = ""
    payload: Value | UnsetType = UNSET


class FailedNode(Record, frozen=True, kw_only=True):
    """Where a flow failed."""

    node: int = 0
    name: str = ""
    reason: str = ""


class InstanceRecord(Record, frozen=True, kw_only=True):
    """An instance, of whatever process language: each tells some of these members."""

    id: str = ""
    definition_id: str = ""
    definition_version: int = 0
    path: str = ""
    version: int = 0
    status: str = ""
    state: str = ""
    business_key: str = ""
    current_step_ids: tuple[str, ...] = ()
    active_steps: tuple[str, ...] = ()
    failure_reason: str = ""
    failed_nodes: tuple[FailedNode, ...] = ()
    started_at: str = ""
    completed_at: str = ""
    variables: Members | None = None
    input: Value = None
    result: Value = None
    workload: Value = None
    ctx: Value = None
    results: Value = None

    @property
    def definition(self) -> str:
        """Which definition it is of."""
        return self.path or self.definition_id

    @property
    def of_version(self) -> int:
        """That of the definition."""
        return self.definition_version or self.version

    @property
    def standing(self) -> str:
        """How it is doing: what playbooks call their status is how they ended."""
        return self.state or self.status

    @property
    def at(self) -> tuple[str, ...]:
        """Where its tokens are."""
        return *self.current_step_ids, *self.active_steps


class HistoryEntry(Record, frozen=True, kw_only=True):
    """An entry of the history of an instance, of whatever process language."""

    step_id: str = ""
    step: str = ""
    node: int = 0
    element: int | None = None
    step_type: str = ""
    kind: str = ""
    attempt_number: int = 0
    attempt: int = 0
    status: str = ""
    started_at: str = ""
    ended_at: str = ""
    failure_reason: str = ""
    reason: str = ""
    input_snapshot: Members | None = None
    output_snapshot: Value = None
    output: Value = None

    @property
    def key(self) -> str:
        """By which the graph has its node."""
        return self.step_id or self.step or str(self.node)


class StoredToken(Record, frozen=True, kw_only=True):
    """A token of an instance as it is stored."""

    node: str = ""
    stage: str = ""
    was_denied: bool = False


class StoredMarking(Record, frozen=True, kw_only=True):
    """Where the tokens of a playbook are."""

    tokens: tuple[StoredToken, ...] = ()


class StoredExecution(Record, frozen=True, kw_only=True):
    """Of a playbook: which execution started it."""

    parent: str = ""


class StoredData(Record, frozen=True, kw_only=True):
    """What is kept with an instance."""

    execution: StoredExecution = StoredExecution()


class StoredInstance(Record, frozen=True, kw_only=True):
    """An instance as its entity has it, in whatever process language."""

    tokens: tuple[StoredToken, ...] = ()
    marking: StoredMarking = StoredMarking()
    parent_instance_id: str = ""
    data: StoredData = StoredData()

    @property
    def all_tokens(self) -> tuple[StoredToken, ...]:
        """Its tokens, wherever they are kept."""
        return self.tokens or self.marking.tokens

    @property
    def parent(self) -> str:
        """The instance that started it; empty where none did."""
        return self.parent_instance_id or self.data.execution.parent


class ChainStarted(Record, frozen=True, kw_only=True):
    """Of an event: which instance was started at the end of another."""

    kind: str = ""
    instance_id: str = ""


class DefinitionRecord(Record, frozen=True, kw_only=True):
    """A definition, of whatever process language: playbooks are known by their path."""

    id: str = ""
    path: str = ""
    name: str = ""
    description: str = ""
    version: int = 0
    versions: tuple[int, ...] = ()
    uploaded_at: str = ""
    source: str = ""
    settings: Members | None = None
    warnings: tuple[Value, ...] = ()

    @property
    def key(self) -> str:
        """By what it is asked for."""
        return self.path or self.id


class DefinitionCheck(DefinitionRecord, frozen=True, kw_only=True):
    """What is found in a text that was uploaded, or would be."""

    findings: tuple[str, ...] = ()
    nodes: int | None = None
    tasks: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    is_new: bool = True
    reason: str = ""
    line: int = 0
    column: int = 0


class DefinitionWarning(Record, frozen=True, kw_only=True):
    """What looks like a mistake, and where."""

    line: int = 0
    column: int = 0
    path: str = ""
    message: str = ""
    reason: str = ""
    code: str = ""

    @property
    def text(self) -> str:
        """What is said."""
        return self.message or self.reason or self.code

    @property
    def place(self) -> str:
        """Where it is; empty where that is not told."""
        return f"line {self.line}, column {self.column}" if self.line else self.path


class Validation(Record, frozen=True, kw_only=True):
    """Whether a document fits a model."""

    success: bool = False
    message: str = ""


class InstanceFailure(Record, frozen=True, kw_only=True):
    """Why an instance failed."""

    reason: str = ""
    step_id: str = ""
