"""What a transaction changes in the tables of the step engine, and the form in which ``commit.sql`` reads it.

Two parts. ``Progress`` is what nearly every advance of an instance writes: its line in the list, executions, jobs.
``Waits`` is what fewer do: user tasks, timers, instances to be started, jobs and timers held or released, definitions.
Each part costs every statement that has it a few common table expressions, so a batch without one leaves it out.

``json`` columns are given as encoded JSON. A row that is written again under its key replaces what can change of it.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from statewright.identity import EntityId, TenantId


class InstanceLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An instance in the list of instances."""

    id: EntityId
    definition_id: str
    status: str
    business_key: str | None = None
    finished_at: int | None = None


class ExecutionRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the history, or its end: then only status, end, output and reason count, the rest is as it was."""

    instance: EntityId
    id: str
    status: str
    step_id: str = ""
    step_type: str = ""
    attempt: int = 0
    started_at: int = 0
    ended_at: int | None = None
    input: Raw | None = None
    output: Raw | None = None
    failure_reason: str | None = None
    work: str | None = None


class JobRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new job in the queue. ``held`` is always given, since ``false`` is no default in SQL."""

    id: str
    instance: EntityId
    execution: str
    definition_id: str
    step_id: str
    job_type: str
    retries: int
    created_at: int
    held: bool
    tags: str | None = None


class TaskRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new user task in the inbox. ``held`` is always given, since ``false`` is no default in SQL."""

    id: EntityId
    instance: EntityId
    execution: str
    definition_id: str
    definition_version: int
    step_id: str
    job_type: str
    created_at: int
    held: bool
    business_key: str | None = None


class TimerRow(Struct, frozen=True, kw_only=True):
    """An armed timer."""

    id: str
    instance: EntityId
    fire_at: int
    held: bool


class ChildRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An instance to be started; others than the node that commits do so from ``not_before`` on."""

    id: EntityId
    parent: EntityId
    definition_id: str
    variables: Raw
    not_before: int
    business_key: str | None = None


class DefinitionRow(Struct, frozen=True, kw_only=True):
    """A new version of a definition. One that is there already fails the transaction."""

    id: str
    version: int
    name: str
    description: str
    content: str
    uploaded_at: int
    source: str


class Progress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one transaction. Closed jobs are named by id."""

    tenant: TenantId
    instances: Sequence[InstanceLine] = ()
    executions: Sequence[ExecutionRow] = ()
    jobs: Sequence[JobRow] = ()
    closed_jobs: Sequence[str] = ()


class Waits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one transaction. What ends, is held or released is named by id; ids may be of jobs, tasks and timers alike."""

    tenant: TenantId
    tasks: Sequence[TaskRow] = ()
    closed_tasks: Sequence[str] = ()
    timers: Sequence[TimerRow] = ()
    ended_timers: Sequence[str] = ()
    children: Sequence[ChildRow] = ()
    started_children: Sequence[str] = ()
    held: Sequence[str] = ()
    released: Sequence[str] = ()
    definitions: Sequence[DefinitionRow] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not any(getattr(self, field) for field in self.__struct_fields__ if field != "tenant")


class StagedSteps(Struct, frozen=True, kw_only=True):
    """What one transaction changes; a part is None when there is nothing in it."""

    progress: Progress | None = None
    waits: Waits | None = None

    @property
    def size(self) -> int:
        """About how many characters it is, to tell large transactions."""
        if self.progress is None:
            return 0
        return sum(len(memoryview(row.input)) for row in self.progress.executions if row.input is not None)


class _Numbered(Struct, frozen=True):
    t: int
    part: Progress | Waits


_encode = msgspec.json.Encoder().encode


def encoded_progress(batch: Sequence[StagedSteps | None]) -> str | None:
    """The first part of the transactions of a batch, in its order; None when there is none."""
    return _encoded([None if steps is None else steps.progress for steps in batch])


def encoded_waits(batch: Sequence[StagedSteps | None]) -> str | None:
    """The second part of the transactions of a batch, in its order; None when there is none."""
    return _encoded([None if steps is None else steps.waits for steps in batch])


def _encoded(parts: Sequence[Progress | Waits | None]) -> str | None:
    numbered = [_Numbered(t, part) for t, part in enumerate(parts) if part is not None]
    return _encode(numbered).decode() if numbered else None
