"""Tasks of scheduled transitions: what a unit stages, what the database keeps, how nodes take what is due.

A task belongs to an entity in a state; ``armed_in``, the transaction that armed it last, tells one arming from another.
Only transactions that write the entity arm it, and a removal names the arming it means. Both are checked in
the statement that commits, together with the version of the entity: of everything that competes for a task (two nodes
that took it, a client who moves the entity, its expiry) one commits and the others learn that they came too late.

*Taking* a task marks it with a back-off and hands it to one node; rows that another node is just taking are skipped,
not waited for. A node that dies leaves a task whose back-off ends. A node that is still at work *holds* its tasks, that
is, moves their back-off on, so that work which takes longer than the back-off is not begun a second time.

Clocks. ``now`` is always an argument: the injected clock of a service process, for arming as for taking. When the
clocks of two nodes differ, a task armed by one and taken by the other fires early or late by the difference; nothing
else depends on it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.entity import Actor, Arming, ScheduledTask, TaskKey
from statewright.ids import EntityId, ModelId, TenantId, TransactionId
from statewright.storage.pool import Pool

PARKED: Final = 253_402_300_799_999
"""The back-off of a timer that nobody takes any more, in epoch milliseconds: the last instant of the year 9999."""


class StagedTask(Struct, frozen=True, kw_only=True):
    """What a unit does to one task: arm it, withdraw it, or only rely on it.

    ``expected`` is the arming that must be stored when the unit commits; None demands nothing.
    """

    arming: Arming | None = None
    withdraws: bool = False
    expected: TransactionId | None = None


class OverlayTasks:
    """The tasks in the overlay of a unit of work; nested units see through to those of the ``outer`` one."""

    def __init__(self, outer: "OverlayTasks | None") -> None:
        self._outer = outer
        self._tasks: dict[EntityId, dict[TaskKey, StagedTask]] = {}
        self._rearmed: dict[tuple[EntityId, TaskKey], TransactionId] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __iter__(self) -> Iterator[EntityId]:
        """The entities that have staged tasks."""
        return iter(self._tasks)

    def arm(self, entity: EntityId, key: TaskKey, arming: Arming) -> None:
        """Stage a task in place of any that is stored under the key."""
        self._put(entity, key, StagedTask(arming=arming))

    def withdraw(self, entity: EntityId, key: TaskKey, armed_in: TransactionId | None) -> None:
        """Stage the removal of a task; ``armed_in`` is None when it was never stored."""
        self._put(entity, key, StagedTask(withdraws=True, expected=armed_in))

    def expect(self, entity: EntityId, key: TaskKey, armed_in: TransactionId) -> None:
        """Demand at the next commit that this very arming is still stored."""
        self._put(entity, key, StagedTask(expected=armed_in))

    def overlay(self, entity: EntityId, stored: Mapping[TaskKey, ScheduledTask]) -> dict[TaskKey, TransactionId | None]:
        """The entity's tasks as the unit sees them, with the arming that is stored for each, if any."""
        seen: dict[TaskKey, TransactionId | None] = {key: task.armed_in for key, task in stored.items()}
        for key, staged in self._find_tasks(entity).items():
            if staged.withdraws:
                seen.pop(key, None)
            elif staged.arming is not None:
                seen.setdefault(key, None)
        return seen

    def merge(self, inner: "OverlayTasks") -> None:
        """Take over what a nested unit has staged."""
        for entity, tasks in inner._tasks.items():
            self._tasks.setdefault(entity, {}).update(tasks)

    def mark_committed(self, segment: TransactionId) -> None:
        """Begin anew: what was staged is stored now, armed in ``segment``."""
        for entity, tasks in self._tasks.items():
            for key, staged in tasks.items():
                if staged.arming is not None:
                    self._rearmed[entity, key] = segment
        self._tasks = {}

    def build_rows(self, tenant: TenantId, entity: EntityId, transaction: TransactionId) -> "list[ScheduledTaskRow]":
        """What ``transaction`` is to do to the entity's tasks."""
        return [
            _build_row(tenant, entity, key, staged, transaction) for key, staged in self._tasks.get(entity, {}).items()
        ]

    def _put(self, entity: EntityId, key: TaskKey, staged: StagedTask) -> None:
        # What was relied on before, still is; what an earlier segment of this very unit armed is its own.
        before = self._find_tasks(entity).get(key)
        expected = before.expected if before is not None and before.expected is not None else staged.expected
        if expected is not None:
            expected = self._rearmed.get((entity, key), expected)
        self._tasks.setdefault(entity, {})[key] = replace(staged, expected=expected)

    def _find_tasks(self, entity: EntityId) -> Mapping[TaskKey, StagedTask]:
        inherited = self._outer._find_tasks(entity) if self._outer is not None else {}
        return {**inherited, **self._tasks.get(entity, {})}


class ScheduledTaskRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A staged task as ``commit/commit.sql`` reads it. ``arms`` is False for a withdrawal, None when it is only relied
    on.
    """

    tenant: TenantId
    entity: EntityId
    state: str
    transition: str
    expected: TransactionId | None = None
    arms: bool | None = None
    model: ModelId | None = None
    fire_at: int | None = None
    timeout_ms: int | None = None
    armed_at: int | None = None
    armed_in: TransactionId | None = None
    principal_id: str | None = None
    principal_kind: str | None = None
    trace: str | None = None


def _build_row(
    tenant: TenantId, entity: EntityId, key: TaskKey, staged: StagedTask, transaction: TransactionId
) -> ScheduledTaskRow:
    row = ScheduledTaskRow(
        tenant=tenant, entity=entity, state=key.state, transition=key.transition, expected=staged.expected
    )
    arming = staged.arming
    if arming is None:
        return replace(row, arms=False) if staged.withdraws else row
    return replace(
        row,
        arms=True,
        model=arming.model,
        fire_at=arming.fire_at,
        timeout_ms=arming.timeout_ms,
        armed_at=arming.armed_at,
        armed_in=transaction,
        principal_id=arming.principal.id,
        principal_kind=arming.principal.kind,
        trace=arming.trace,
    )


class _Numbered(Struct, frozen=True):
    """The tasks of one transaction of a batch."""

    t: int
    tasks: Sequence[ScheduledTaskRow]


_encode = msgspec.json.Encoder().encode


def encode_tasks(batch: Sequence[Sequence[ScheduledTaskRow]]) -> str | None:
    """The tasks of the transactions of a batch, in its order, for ``commit/commit.sql``; None when there are none."""
    if not any(batch):
        return None
    return _encode([_Numbered(t, tasks) for t, tasks in enumerate(batch) if tasks]).decode()


class StoredTasks:
    """Tasks in the database."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_for_entity(self, tenant: TenantId, entity: EntityId) -> dict[TaskKey, ScheduledTask]:
        """All committed tasks of an entity."""
        rows = await self._pool.fetch(OF_ENTITY, tenant, entity)
        tasks = [to_task(row) for row in rows]
        return {task.key: task for task in tasks}

    async def hold(self, tasks: Sequence[ScheduledTask], *, until: int) -> None:
        """Keep others from taking tasks that are being worked on before ``until``."""
        columns = zip(
            *[(task.tenant, task.entity, task.key.state, task.key.transition, task.armed_in) for task in tasks],
            strict=True,
        )
        await self._pool.execute(HOLD, until, *map(list, columns))


COLUMNS: Final = """tenant, entity, state, transition, model, fire_at, timeout_ms, armed_at, armed_in, principal_id,
             principal_kind, attempts, trace"""

OF_ENTITY: Final = f"SELECT {COLUMNS} FROM scheduled_task WHERE tenant = $1 AND entity = $2"  # noqa: S608 - a constant


def write_held(first: int) -> str:
    """Whether a task is suspended, in SQL: by columns of tenants, models, workflows and transitions, from the argument
    ``first`` on (``HeldTimers``).
    """
    types = zip(("text", "uuid", "text", "text"), range(first, first + 4), strict=True)
    return f"""(
        EXISTS (SELECT
                  FROM unnest({", ".join(f"${n}::{type_}[]" for type_, n in types)})
                    AS held (tenant, model, workflow, transition)
                 WHERE held.tenant = task.tenant
                   AND coalesce(held.model = task.model, true)
                   AND coalesce(held.transition = task.transition, true)
                   AND (held.workflow IS NULL OR held.workflow = (
                        SELECT workflow FROM entity WHERE entity.tenant = task.tenant AND entity.id = task.entity)))
        OR EXISTS (SELECT FROM entity
                    WHERE entity.tenant = task.tenant AND entity.id = task.entity AND entity.suspended))"""  # noqa: S608


# Skips what is locked, since a commit may hold one of these rows and wait for another. What was parked meanwhile, by
# the fire here or elsewhere, stays so.
HOLD: Final = """
    UPDATE scheduled_task
       SET not_before = greatest(not_before, $1)
     WHERE ctid = ANY (ARRAY(
            SELECT task.ctid
              FROM unnest($2::text[], $3::uuid[], $4::text[], $5::text[], $6::uuid[])
                AS held (tenant, entity, state, transition, armed_in)
             CROSS JOIN LATERAL (
                    SELECT ctid FROM scheduled_task AS stored
                     WHERE stored.tenant = held.tenant AND stored.entity = held.entity
                       AND stored.state = held.state AND stored.transition = held.transition
                       AND stored.armed_in = held.armed_in
                       FOR UPDATE SKIP LOCKED) AS task))
"""


def to_task(row: Iterable[Any]) -> ScheduledTask:
    """A task from a row with ``COLUMNS`` in order."""
    tenant, entity, state, transition, model, fire_at, timeout, armed_at, armed_in, by, by_kind, attempts, trace = row
    return ScheduledTask(
        tenant=tenant,
        entity=EntityId(str(entity)),
        key=TaskKey(state, transition),
        arming=Arming(
            model=ModelId(str(model)),
            fire_at=fire_at,
            timeout_ms=timeout,
            armed_at=armed_at,
            principal=Actor(by, by_kind),
            trace=trace,
        ),
        armed_in=TransactionId(str(armed_in)),
        attempts=attempts,
    )
