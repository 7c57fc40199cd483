"""One advance of an instance as the writes of one transaction: entities, audit events, rows (spec §25.4)."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from msgspec import Raw, Struct
from msgspec.structs import replace

from statewright.engine.run import record
from statewright.entity import LOOPBACK, Entity, ModelKey
from statewright.identity import EntityId, ModelId
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue
from statewright.net import ulid_number
from statewright.net.effects import Effect, EnqueueTask, OpenHumanTask, RecordEntry
from statewright.schema import Claim
from statewright.services.steps import builtin, trail
from statewright.services.steps.documents import closed_task, instance_text, opened_task, read_object, written
from statewright.steps.core import Applied, Changes, Execution, Instance, Process, changes, history_changes, member_tags
from statewright.steps.core.instance import IN_FLIGHT
from statewright.storage.steps.staged import (
    ChildRow,
    ExecutionRow,
    InstanceLine,
    JobRow,
    Progress,
    StagedSteps,
    TaskRow,
    TimerRow,
    Waits,
)
from statewright.storage.unit_of_work import UnitOfWork

HEAD_START_US = 10_000_000
"""How long the node that ended an instance has for starting the next one before others may."""


class Advance(Struct, frozen=True, kw_only=True):
    """What is to be written. ``before`` is None for a new instance; ``at`` is the instant of the moment."""

    process: Process
    before: Instance | None
    applied: Applied
    at: int
    base: Entity | None
    """The version it was computed from."""
    child_ids: Sequence[EntityId] = ()
    """For each instance that is to be started."""


@lru_cache(maxsize=20_000)
def entity_id(text: str) -> EntityId | None:
    """The id of the entity that a ULID names; None when it is none."""
    number = ulid_number(text)
    return None if number is None else entity_of(number)


def uuid(text: str) -> EntityId:
    """As ``entity_id``, for an id of our own making."""
    found = entity_id(text)
    assert found is not None, text  # noqa: S101
    return found


def entity_of(number: int) -> EntityId:
    """The entity id of a 128-bit number."""
    text = f"{number:032x}"
    return EntityId(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")


async def stage(unit: UnitOfWork, advance: Advance) -> Changes:
    """Stage everything that an advance writes; what it changes beside the instance.

    Reads the entities of user tasks that end, which are written, too.
    """
    instance, effects = advance.applied.instance, advance.applied.effects
    changed = changes(effects)
    version = stage_instance(unit, advance)
    for event in trail.of_advance(advance.process, advance.before, advance.applied):
        record(unit, version.id, event)
    for new in changed.new_tasks:
        state = new.status if new.status != "FAILED" else "CANCELLED"
        document = written({**opened_task(instance, new.task, advance.at), "status": state})
        unit.create(new_entity(unit, builtin.USER_TASK_ID, uuid(new.task.task), state, document))
    for closing in changed.closed_tasks:
        task = await unit.entity(uuid(closing.task))
        if task is not None:
            state = "COMPLETED" if closing.status == "COMPLETED" else "CANCELLED"
            transition = "complete" if state == "COMPLETED" else "cancel"
            document = written(closed_task(read_object(task.document), closing, state=state, at=advance.at))
            unit.save(next_version(unit, task, state=state, transition=transition, document=document))
    unit.steps = staged_rows(unit, advance, changed, version.id)
    return changed


def stage_instance(unit: UnitOfWork, advance: Advance) -> Entity:
    """Stage the instance as an entity, with the claim on its business key as long as it is in flight."""
    instance, base = advance.applied.instance, advance.base
    text = instance_text(instance)
    claims = _claims(instance, None if advance.before is None else advance.before.status in IN_FLIGHT)
    if base is None:
        version = new_entity(unit, builtin.INSTANCE_ID, uuid(instance.id), instance.status, text)
        unit.create(version, claims=claims)
        return version
    transition = advance.applied.transitions[-1] if advance.applied.transitions else "advance"
    version = next_version(unit, base, state=instance.status, transition=transition, document=text)
    unit.expect(base.id, base.transaction_id)
    unit.save(version, claims=claims)
    return version


def staged_rows(unit: UnitOfWork, advance: Advance, changed: Changes, instance_id: EntityId) -> StagedSteps:
    """The rows beside the entities."""
    instance = advance.applied.instance
    progress = Progress(
        tenant=unit.tenant,
        instances=_line(advance, instance_id),
        executions=_executions(advance, instance_id),
        jobs=_jobs(advance, changed, instance_id),
        closed_jobs=[uuid(closing.task) for closing in changed.closed_jobs],
    )
    waits = Waits(
        tenant=unit.tenant,
        tasks=_tasks(advance, changed, instance_id),
        closed_tasks=[uuid(closing.task) for closing in changed.closed_tasks],
        timers=[
            TimerRow(id=uuid(timer.timer), instance=instance_id, fire_at=timer.at, held=changed.is_held or False)
            for timer in changed.armed_timers
        ],
        ended_timers=[uuid(timer) for timer in changed.ended_timers],
        children=[
            ChildRow(
                id=child_id,
                parent=instance_id,
                definition_id=child.net,
                variables=Raw(written(child.input).encode()),
                not_before=advance.at + HEAD_START_US,
                business_key=instance.business_key,
            )
            for child_id, child in zip(advance.child_ids, changed.children, strict=True)
        ],
        started_children=[instance_id] if advance.before is None and instance.parent_instance_id else [],
        held=_kept(advance, changed) if changed.is_held is True else (),
        released=_kept(advance, changed) if changed.is_held is False else (),
    )
    return StagedSteps(progress=progress, waits=None if waits.is_empty else waits)


def new_entity(unit: UnitOfWork, model: ModelId, id_: EntityId, state: str, document: str) -> Entity:
    """The first version of an entity of a built-in model."""
    now = unit.started_at
    key: ModelKey = builtin.KEYS[model]
    return Entity(
        tenant=unit.tenant,
        id=id_,
        model=model,
        state=state,
        transaction_id=unit.id,
        entry_transaction_id=unit.label,
        created_at=now,
        updated_at=now,
        transition=LOOPBACK,
        workflow=key.name,
        attributed=unit.attributed,
        executor=unit.executor,
        document=document,
    )


def next_version(unit: UnitOfWork, base: Entity, *, state: str, transition: str, document: str) -> Entity:
    """The next version of an entity of a built-in model."""
    return replace(
        base,
        state=state,
        transaction_id=unit.id,
        entry_transaction_id=unit.label,
        updated_at=unit.started_at,
        transition=transition,
        attributed=unit.attributed,
        executor=unit.executor,
        document=document,
    )


def _claims(instance: Instance, was_in_flight: bool | None) -> tuple[Claim, ...] | None:
    """What the instance claims from now on; None when nothing about that changes."""
    is_in_flight = instance.status in IN_FLIGHT
    if instance.business_key is None or is_in_flight is was_in_flight:
        return None
    if not is_in_flight:
        return ()
    return (Claim("businessKey", encode([instance.definition_id, instance.business_key])),)


def _line(advance: Advance, instance_id: EntityId) -> Sequence[InstanceLine]:
    instance, before = advance.applied.instance, advance.before
    if before is not None and before.status == instance.status and before.completed_at == instance.completed_at:
        return ()
    line = InstanceLine(
        id=instance_id,
        definition_id=instance.definition_id,
        status=instance.status,
        business_key=instance.business_key,
        finished_at=instance.completed_at,
    )
    return (line,)


def _executions(advance: Advance, instance_id: EntityId) -> list[ExecutionRow]:
    """New lines and the ends of earlier ones. Snapshots of the same variables are encoded once."""
    raw = _encoder()
    lines = history_changes(advance.process, advance.applied.instance.id, advance.applied.effects, advance.at)
    work: dict[str, str] = {
        effect.execution: effect.task
        for effect in advance.applied.effects
        if isinstance(effect, EnqueueTask | OpenHumanTask)
    }
    rows = [_new_execution(line, instance_id, work.get(line.id), raw) for line in lines.new]
    rows += [
        ExecutionRow(
            instance=instance_id,
            id=uuid(end.id),
            status=end.status,
            ended_at=end.ended_at,
            output=None if end.output_snapshot is None else raw(end.output_snapshot),
            failure_reason=end.failure_reason,
        )
        for end in lines.ended
    ]
    return rows


def _new_execution(
    line: Execution, instance_id: EntityId, work: str | None, raw: Callable[[JsonValue], Raw]
) -> ExecutionRow:
    return ExecutionRow(
        instance=instance_id,
        id=uuid(line.id),
        status=line.status,
        step_id=line.step_id,
        step_type=line.step_type,
        attempt=line.attempt_number,
        started_at=line.started_at,
        ended_at=line.ended_at,
        input=None if line.input_snapshot is None else raw(line.input_snapshot),
        output=None if line.output_snapshot is None else raw(line.output_snapshot),
        failure_reason=line.failure_reason,
        work=None if work is None else uuid(work),
    )


def _encoder() -> Callable[[JsonValue], Raw]:
    """Encodes each object once: the variables of an advance occur again and again, and are never changed in place."""
    known: dict[int, tuple[JsonValue, Raw]] = {}

    def raw(value: JsonValue) -> Raw:
        found = known.get(id(value))
        if found is None:
            found = known[id(value)] = (value, Raw(written(value).encode()))
        return found[1]

    return raw


def _jobs(advance: Advance, changed: Changes, instance_id: EntityId) -> list[JobRow]:
    return [
        JobRow(
            id=uuid(new.task.task),
            instance=instance_id,
            execution=uuid(new.task.execution),
            definition_id=advance.applied.instance.definition_id,
            step_id=new.task.node,
            job_type=new.task.kind,
            retries=new.task.retries,
            created_at=advance.at,
            held=changed.is_held or False,
            tags=member_tags(advance.process.definition, new.task.kind),
        )
        for new in changed.new_jobs
        if new.status == "UNLOCKED"
    ]


def _tasks(advance: Advance, changed: Changes, instance_id: EntityId) -> list[TaskRow]:
    instance = advance.applied.instance
    return [
        TaskRow(
            id=uuid(new.task.task),
            instance=instance_id,
            execution=uuid(new.task.execution),
            definition_id=instance.definition_id,
            definition_version=instance.definition_version,
            step_id=new.task.node,
            job_type=new.task.kind,
            created_at=advance.at,
            held=changed.is_held or False,
            business_key=instance.business_key,
        )
        for new in changed.new_tasks
        if new.status == "OPEN"
    ]


def _kept(advance: Advance, changed: Changes) -> list[str]:
    """Jobs, tasks and timers of earlier advances that go on existing while the instance is held, or after it was."""
    if advance.before is None:
        return []
    closed = {one.task for one in changed.closed_jobs} | {one.task for one in changed.closed_tasks}
    ended = set(changed.ended_timers)
    tokens = advance.before.marking.tokens
    work = [token.work for token in tokens if token.work is not None and token.work not in closed]
    timers = [timer.id for token in tokens for timer in token.timers if timer.id not in ended]
    return [*(uuid(one) for one in work), *(uuid(one) for one in timers)]


def entered_types(process: Process, effects: Iterable[Effect]) -> list[str]:
    """The types of the steps that were entered."""
    return [process.steps[effect.node].type for effect in effects if isinstance(effect, RecordEntry)]


def job_types(changed: Changes) -> list[str]:
    """The types of the jobs that can be claimed now."""
    return [new.task.kind for new in changed.new_jobs if new.status == "UNLOCKED"]
