"""What a transaction changes in the tables of processes: optional parts of the commit statement.

``InstanceProgress`` is what nearly every advance of an instance writes: its line in the list, executions, jobs.
``Waits`` is what fewer do: user tasks, timers, instances to be started, ends of instances, jobs and timers held or
released, definitions. ``StagedLog`` is written for languages whose instances have a log.
Each part costs every statement that has it a few common table expressions, so a batch without one leaves it out.

``json`` columns are given as encoded JSON. A row that is written again under its key replaces what can change of it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from statewright.ids import EntityId, TenantId
from statewright.storage.commit.overlay import StagedPart, Submission
from statewright.storage.commit.statement import Part, build_staged_part, read_sections
from statewright.storage.processes.definitions import LATEST


class InstanceLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An instance in the list of instances."""

    id: EntityId
    definition_id: str
    status: str
    business_key: str | None = None
    finished_at: int | None = None


class ExecutionRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the history, or its end: then only status, end, output and reason count, the rest is as it was; or the
    work that it goes on with.
    """

    instance: EntityId
    id: str
    status: str
    node_id: str = ""
    node_type: str = ""
    attempt: int = 0
    started_at: int = 0
    ended_at: int | None = None
    input: Raw | None = None
    output: Raw | None = None
    failure_reason: str | None = None
    work: str | None = None
    element: int | None = None


class JobRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new job in the queue. What has no default here has none in SQL, and is always given."""

    id: str
    instance: EntityId
    execution: str
    definition_id: str
    definition_version: int
    node_id: str
    job_type: str
    retries: int
    created_at: int
    held: bool
    input_bytes: int
    """Of the input of its execution, as JSON text."""
    tags: str | None = None
    max_losses: int | None = None
    """How often it is handed out again because its lease ended; None: as its language has it."""


class UserTaskRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new user task in the inbox. ``held`` is always given, since ``false`` is no default in SQL."""

    id: EntityId
    instance: EntityId
    execution: str
    definition_id: str
    definition_version: int
    node_id: str
    job_type: str
    created_at: int
    held: bool
    business_key: str | None = None


class TimerRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An armed timer, or what an event or a counter fires. What has no default here is always given."""

    id: str
    instance: EntityId
    fire_at: int
    held: bool
    topic: str | None = None
    matched: Sequence[int] | None = None
    counter: str | None = None


class CounterRow(Struct, frozen=True, kw_only=True):
    """What is added to a counter."""

    name: str
    by: int


class PartRow(Struct, frozen=True, kw_only=True):
    """A part of an instance that its document leaves out."""

    instance: EntityId
    name: str
    value: Raw


class ChildRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An instance to be started; others than the node that commits do so from ``not_before`` on."""

    id: EntityId
    parent: EntityId
    definition_id: str
    variables: Raw
    not_before: int
    business_key: str | None = None
    execution: EntityId | None = None
    """The execution of the parent that waits for its end."""
    definition_version: int = 0
    """0: the latest when it is started."""


class ChildEndRow(Struct, frozen=True, kw_only=True):
    """The end of an instance that an execution of its parent waits for; others than the node that commits tell the
    parent from ``not_before`` on.
    """

    id: EntityId
    parent: EntityId
    execution: EntityId
    outcome: Raw
    not_before: int


class DefinitionRow(Struct, frozen=True, kw_only=True):
    """A new version of a definition. One that is there already fails the transaction."""

    id: str
    version: int
    name: str
    description: str
    content: str
    uploaded_at: int
    source: str


class InstanceProgress(StagedPart, frozen=True, kw_only=True, omit_defaults=True):
    """Of one transaction. Closed jobs are named by id."""

    tenant: TenantId
    language: str
    instances: Sequence[InstanceLine] = ()
    executions: Sequence[ExecutionRow] = ()
    jobs: Sequence[JobRow] = ()
    closed_jobs: Sequence[str] = ()

    @property
    def size(self) -> int:
        return sum(
            [len(memoryview(raw)) for row in self.executions for raw in (row.input, row.output) if raw is not None]
        )


class Waits(StagedPart, frozen=True, kw_only=True, omit_defaults=True):
    """Of one transaction. What ends, is held or released is named by id; ids may be of jobs, tasks and timers alike."""

    tenant: TenantId
    language: str
    tasks: Sequence[UserTaskRow] = ()
    closed_tasks: Sequence[str] = ()
    timers: Sequence[TimerRow] = ()
    ended_timers: Sequence[str] = ()
    counters: Sequence[CounterRow] = ()
    parts: Sequence[PartRow] = ()
    children: Sequence[ChildRow] = ()
    cancelled_children: Sequence[str] = ()
    """Executions that wait no more for the instances that were started for them."""
    started_children: Sequence[str] = ()
    child_ends: Sequence[ChildEndRow] = ()
    told_ends: Sequence[str] = ()
    """Of children whose parent hears of their end by this transaction."""
    held: Sequence[str] = ()
    released: Sequence[str] = ()
    definitions: Sequence[DefinitionRow] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write, as in most advances."""
        _tenant, _language, *rows = astuple(self)
        return not any(rows)

    @property
    def size(self) -> int:
        sources = sum([len(definition.source) for definition in self.definitions])
        outcomes = sum([len(memoryview(end.outcome)) for end in self.child_ends])
        parts = sum([len(memoryview(part.value)) for part in self.parts])
        return sources + outcomes + parts + sum([len(memoryview(child.variables)) for child in self.children])


class LogValue(Struct, frozen=True, kw_only=True):
    """A large value of events, stored beside them as a part of the instance. One that is there stays as it is."""

    name: str
    value: Raw


class StagedLog(StagedPart, frozen=True, kw_only=True):
    """Of one transaction, of a language whose instances have a log of their own: what comes behind the last event."""

    tenant: TenantId
    instance: EntityId
    at: int
    events: Sequence[Raw]
    values: Sequence[LogValue] = ()

    @property
    def size(self) -> int:
        values = sum([len(memoryview(one.value)) for one in self.values])
        return values + sum([len(memoryview(event)) for event in self.events])


_encode = msgspec.json.Encoder().encode

_PROGRESS_NAME: Final = "progress"


class _Progressed(Struct, frozen=True, omit_defaults=True):
    """What a transaction has besides rows of tables."""

    tenant: TenantId
    language: str
    closed_jobs: Sequence[str] = ()


def _encode_progress(batch: Sequence[Submission]) -> str | None:
    """The rows of all transactions table by table, each with the number of its transaction as ``t``."""
    found = [(t, submission.parts.get(_PROGRESS_NAME)) for t, submission in enumerate(batch)]
    staged = [(t, part) for t, part in found if isinstance(part, InstanceProgress)]
    if not staged:
        return None
    tables = (
        ("transactions", [(t, _Progressed(one.tenant, one.language, one.closed_jobs)) for t, one in staged]),
        ("instances", [(t, row) for t, one in staged for row in one.instances]),
        ("executions", [(t, row) for t, one in staged for row in one.executions]),
        ("jobs", [(t, row) for t, one in staged for row in one.jobs]),
    )
    return f"{{{','.join([_encode_table(name, rows) for name, rows in tables])}}}"


def _encode_table(name: str, rows: Iterable[tuple[int, Struct]]) -> str:
    lines = [b'{"t":%d,%b' % (t, _encode(row)[1:]) for t, row in rows]  # each has members of its own
    return f'"{name}":[{b",".join(lines).decode()}]'


PROGRESS: Final = Part(
    name=_PROGRESS_NAME,
    sections=read_sections("statewright.storage.processes", "progress.sql"),
    encode=_encode_progress,
    staged_as=_PROGRESS_NAME,
)
WAITS: Final = build_staged_part("waits", read_sections("statewright.storage.processes", "waits.sql"))

LOG: Final = build_staged_part("log", read_sections("statewright.storage.processes", "log.sql"))

PROCESS_PARTS: Final = (LATEST, PROGRESS, WAITS, LOG)
