"""One advance of an instance as the writes of one transaction: entities, audit events, rows
(docs/reference/steps.md#one-advance-one-version).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Generic

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from statewright.engine.events import build_transition_event
from statewright.entity import LOOPBACK, Entity, Event, EventData
from statewright.failures import InstanceTooLarge
from statewright.ids import EntityId, TenantId, model_id, parse_entity_id
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.background import run_in_thread
from statewright.net.effects import ChangePhase, CloseHumanTask, EnqueueTask, OpenHumanTask, RecordEntry
from statewright.processes.changes import NodeExecution, RowChanges, compute_history_changes, compute_row_changes
from statewright.processes.language import Applied, BuiltinModel, ChildOutcome, I, P, ProcessInstance, ProcessLanguage
from statewright.processes.user_tasks import close_task, open_task
from statewright.schema import Claim
from statewright.services.processes.documents import encode_event, encode_text, read_object
from statewright.services.processes.incident_rows import build_failed_parts
from statewright.services.processes.large_values import (
    ApartValues,
    Reduced,
    encode_values,
    insert_encoded,
    leave_out_known,
    leave_out_lasting,
)
from statewright.storage.commit.overlay import StagedPart
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.processes.parts import (
    LOG,
    PROGRESS,
    WAITS,
    ChildEndRow,
    ChildRow,
    CounterRow,
    ExecutionRow,
    InstanceLine,
    InstanceProgress,
    JobRow,
    LogValue,
    PartRow,
    StagedLog,
    TimerRow,
    UserTaskRow,
    Waits,
)
from statewright.storage.processes.timers import mix_tenant

OUTBOX_DELAY_US: Final = 10_000_000
"""How long the node that wrote a row of an outbox has for carrying it out before others may."""

MAX_INSTANCE_CHARS: Final = 64 * 1024 * 1024
"""Characters of the document of an instance."""


class Advance(Struct, Generic[P, I], frozen=True, kw_only=True):
    """What is to be written. ``before`` is None for a new instance; ``at`` is the instant of the moment."""

    language: ProcessLanguage[P, I]
    process: P
    before: I | None
    applied: Applied[I]
    at: int
    base: Entity | None
    """The version it was computed from."""
    child_ids: Sequence[EntityId] = ()
    """For each instance that is to be started."""
    told_ends: Sequence[EntityId] = ()
    """Of children that have ended, which the instance hears of by this."""
    is_long: bool = False
    """Whether it was too much for a turn of the event loop, or what it writes may be."""
    apart: ApartValues = {}
    """The values of the instance before that are stored already."""
    encoded: dict[int, tuple[JsonValue, Raw]] = field(default_factory=dict[int, tuple[JsonValue, Raw]])
    """Large values of the instance, filled in when it is staged: they are written more than once."""
    logged: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The entries of the log by type and status, filled in when they are staged: for the metrics, after the commit."""

    def encode(self, value: JsonValue) -> str:
        """Something of what it writes, as JSON text."""
        if not self.is_long:
            return encode_text(value, is_small=True)
        return encode_text(insert_encoded(value, self.encoded))


def to_entity_id(text: str) -> EntityId:
    """As ``entity_id``, for an id of our own making."""
    found = parse_entity_id(text)
    assert found is not None, text  # noqa: S101
    return found


class Staged(Struct, frozen=True):
    """The next version of an instance, as it is going to be committed."""

    version: Entity
    changed: RowChanges
    """Beside it."""
    apart: ApartValues
    """Its values that are stored apart."""


async def stage(unit: UnitOfWork, advance: Advance[P, I]) -> Staged:
    """Stage everything that an advance writes: the next version of the instance, and what changes beside it. A thread
    does it where the advance is long: nobody else knows of the unit.

    Reads the entities of user tasks that end, which are written, too.
    """
    changed = compute_row_changes(advance.applied.effects)
    tasks = [(closing, await unit.get_entity(to_entity_id(closing.task))) for closing in changed.closed_tasks]
    closed = [(closing, task) for closing, task in tasks if task is not None]
    if advance.is_long:
        return await run_in_thread(lambda: _stage_all(unit, advance, changed, closed))
    return _stage_all(unit, advance, changed, closed)


def _stage_all(
    unit: UnitOfWork, advance: Advance[P, I], changed: RowChanges, closed: Sequence[tuple[CloseHumanTask, Entity]]
) -> Staged:
    language, models = advance.language, advance.language.models
    instance = advance.applied.instance
    version, reduced = stage_instance(unit, advance)
    for event in build_advance_events(language, advance.process, advance.before, advance.applied):
        unit.record(version.id, event)
    for new in changed.new_tasks:
        assert models.user_task is not None, "a language without user tasks opens none"  # noqa: S101
        state = new.status if new.status != "FAILED" else "CANCELLED"
        document = advance.encode(open_task(language.name, instance, new.task, state, advance.at))
        unit.create(build_entity(unit, models.user_task, to_entity_id(new.task.task), state, document))
    for closing, task in closed:
        state = "COMPLETED" if closing.status == "COMPLETED" else "CANCELLED"
        transition = "complete" if state == "COMPLETED" else "cancel"
        document = advance.encode(close_task(read_object(task.document), closing, state, advance.at))
        unit.save(build_next_version(unit, task, state=state, transition=transition, document=document))
    unit.parts |= build_staged_rows(unit, advance, changed, version.id, reduced.stored)
    return Staged(version, changed, reduced.apart)


# The audit trail of instances: what the entity API shows of an advance (docs/reference/steps.md#recording). Each entry
# is an event of type ``STATE_PROCESS_RESULT`` whose data names its ``kind`` and what belongs to it; transitions of the
# instance are ``TRANSITION_MAKE``, as in every other run.

_encode_events = msgspec.json.Encoder(decimal_format="number").encode


def build_advance_events(
    language: ProcessLanguage[P, I], process: P, before: I | None, applied: Applied[I]
) -> list[Event]:
    """The events of one advance, in order: what happened, then the transitions that it amounts to."""
    states = language.models.instance.states
    status = next(iter(states)) if before is None else before.status
    found = [
        build_entry_event(entry.kind, entry.detail, status)
        for entry in language.list_audit_entries(process, before, applied)
    ]
    for name in applied.transitions:
        target = states[status].get(name, applied.instance.status)
        found.append(build_transition_event(name, status, target))
        status = target
    return found


def build_entry_event(kind: str, detail: JsonObject, state: str | None = None) -> Event:
    """An entry of the audit log of instances."""
    data: EventData = {"kind": kind, "success": not kind.endswith("-failed")}
    data |= {name: value for name, value in detail.items() if isinstance(value, str | int | bool)}
    about = [value for name, value in detail.items() if name.endswith("Id") and isinstance(value, str)]
    return Event("STATE_PROCESS_RESULT", f"{kind} {about[0]}" if about else kind, state, data)


def encode_events(found: Iterable[Event], at: int) -> str:
    """Events as they are stored, for the few statements that write them beside a job."""
    return _encode_events([one.stamp(at) for one in found]).decode()


def stage_instance(unit: UnitOfWork, advance: Advance[P, I]) -> tuple[Entity, Reduced]:
    """Stage the instance as an entity, with the claim on its business key as long as it is in flight; also its document
    as it is written, without large values.

    Raises ``InstanceTooLarge``.
    """
    instance, base = advance.applied.instance, advance.base
    reduced, text = _reduce(advance)
    chars = len(text) + sum(one.chars for one in reduced.apart.values())
    if chars > MAX_INSTANCE_CHARS:
        raise InstanceTooLarge(chars, MAX_INSTANCE_CHARS)
    claims = _compute_claims(instance, None if advance.before is None else not advance.before.is_terminal)
    if base is None:
        version = build_entity(unit, advance.language.models.instance, to_entity_id(instance.id), instance.status, text)
        unit.create(version, claims=claims)
        return version, reduced
    transition = advance.applied.transitions[-1] if advance.applied.transitions else "advance"
    version = build_next_version(unit, base, state=instance.status, transition=transition, document=text)
    unit.expect(base.id, base.transaction_id)
    unit.save(version, claims=claims)
    return version, reduced


def _reduce(advance: Advance[P, I]) -> tuple[Reduced, str]:
    """The document of the instance without the values that are stored apart, and its text."""
    language, patterns = advance.language, advance.language.models.value_paths
    reduced = leave_out_known(language.instance_to_document(advance.applied.instance), patterns, advance.apart)
    if advance.is_long:
        advance.encoded.update(encode_values(reduced.document, patterns))
    if advance.before is None or not advance.encoded:
        return reduced, advance.encode(reduced.document)
    before = language.instance_to_document(advance.before)
    less = leave_out_lasting(reduced, patterns, before, advance.apart, advance.encoded)
    return less, advance.encode(less.document)


def build_staged_rows(
    unit: UnitOfWork,
    advance: Advance[P, I],
    changed: RowChanges,
    instance_id: EntityId,
    values: Sequence[LogValue] = (),
) -> dict[str, StagedPart]:
    """The rows beside the entities, by the parts of the commit statement that write them."""
    instance = advance.applied.instance
    executions = _build_execution_rows(advance, instance_id)
    progress = InstanceProgress(
        tenant=unit.tenant,
        language=advance.language.name,
        instances=_build_instance_line(advance, instance_id),
        executions=executions,
        jobs=_build_job_rows(advance, changed, instance_id, executions),
        closed_jobs=[to_entity_id(closing.task) for closing in changed.closed_jobs],
    )
    waits = Waits(
        tenant=unit.tenant,
        language=advance.language.name,
        tasks=_build_task_rows(advance, changed, instance_id),
        closed_tasks=[to_entity_id(closing.task) for closing in changed.closed_tasks],
        timers=[
            TimerRow(
                id=to_entity_id(timer.timer),
                instance=instance_id,
                fire_at=timer.at,
                held=changed.is_held or False,
                topic=timer.topic,
                matched=None if timer.matched is None else mix_tenant(unit.tenant, timer.matched),
                counter=timer.counter,
            )
            for timer in changed.armed_timers
        ],
        ended_timers=[to_entity_id(timer) for timer in changed.ended_timers],
        parts=[PartRow(instance=instance_id, name=part.name, value=Raw(part.text)) for part in changed.parts],
        counters=[CounterRow(name=name, by=by) for name, by in changed.counters.items()],
        children=[
            ChildRow(
                id=child_id,
                parent=instance_id,
                definition_id=child.net,
                variables=Raw(advance.encode(child.input).encode()),
                not_before=advance.at + OUTBOX_DELAY_US,
                business_key=None if child.awaited_by is not None else instance.business_key,
                execution=None if child.awaited_by is None else to_entity_id(child.awaited_by),
                definition_version=child.version,
            )
            for child_id, child in zip(advance.child_ids, changed.children, strict=True)
        ],
        cancelled_children=[to_entity_id(execution) for execution in changed.cancelled_children],
        started_children=[instance_id] if advance.before is None and instance.parent_instance_id else [],
        child_ends=_build_end_rows(advance, instance_id),
        told_ends=advance.told_ends,
        held=_find_held_ids(advance, changed) if changed.is_held is True else (),
        released=_find_held_ids(advance, changed) if changed.is_held is False else (),
    )
    parts: dict[str, StagedPart] = {PROGRESS.name: progress}
    if (failed := find_failure(advance)) is not None:
        parts.update(build_failed_parts(unit, advance.language, advance.applied, failed, instance_id, advance.at))
    if not waits.is_empty:
        parts[WAITS.name] = waits
    if (log := _build_log(advance, instance_id, unit.tenant, values)) is not None:
        parts[LOG.name] = log
    return parts


def find_failure(advance: Advance[P, I]) -> ChangePhase | None:
    """The change that fails the instance, if any."""
    for effect in advance.applied.effects:
        if isinstance(effect, ChangePhase) and effect.phase == "FAILED":
            return effect
    return None


def _build_end_rows(advance: Advance[P, I], instance_id: EntityId) -> Sequence[ChildEndRow]:
    """The end of an instance that its parent waits for; one that goes on after it, and ends again, tells it again."""
    instance, children = advance.applied.instance, advance.language.children
    parent, execution = instance.parent_instance_id, instance.awaited_by
    if children is None or parent is None or execution is None or not has_just_ended(advance):
        return ()
    row = ChildEndRow(
        id=instance_id,
        parent=to_entity_id(parent),
        execution=to_entity_id(execution),
        outcome=encode_outcome(children.describe_outcome(advance.process, instance)),
        not_before=advance.at + OUTBOX_DELAY_US,
    )
    return (row,)


def encode_outcome(outcome: ChildOutcome) -> Raw:
    """How a child ended, as its parent is told."""
    return Raw(encode_text({"output": outcome.output, "reason": outcome.reason}).encode())


def has_just_ended(advance: Advance[P, I]) -> bool:
    """Whether the instance ends by this advance."""
    return advance.applied.instance.is_terminal and (advance.before is None or not advance.before.is_terminal)


def _build_log(
    advance: Advance[P, I], instance_id: EntityId, tenant: TenantId, values: Sequence[LogValue]
) -> StagedLog | None:
    log = advance.language.log
    events = [] if log is None else log.list_events(advance.process, advance.before, advance.applied)
    if not events and not values:
        return None
    encoded = [encode_event(event, advance.encode) for event in events]
    if log is not None:
        advance.logged.clear()
        advance.logged.update(map(log.find_labels, events))
    return StagedLog(
        tenant=tenant,
        instance=instance_id,
        at=advance.at,
        events=[one.event for one in encoded],
        values=[*values, *(value for one in encoded for value in one.values)],
    )


def build_entity(unit: UnitOfWork, model: BuiltinModel, id_: EntityId, state: str, document: str) -> Entity:
    """The first version of an entity of a built-in model."""
    now = unit.started_at
    key = model.key
    return Entity(
        tenant=unit.tenant,
        id=id_,
        model=model_id(key.name, key.version),
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


def build_next_version(unit: UnitOfWork, base: Entity, *, state: str, transition: str, document: str) -> Entity:
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


def _compute_claims(instance: ProcessInstance, was_in_flight: bool | None) -> tuple[Claim, ...] | None:
    """What the instance claims from now on; None when nothing about that changes."""
    is_in_flight = not instance.is_terminal
    if instance.business_key is None or is_in_flight is was_in_flight:
        return None
    if not is_in_flight:
        return ()
    return (Claim("businessKey", encode([instance.definition_id, instance.business_key])),)


def _build_instance_line(advance: Advance[P, I], instance_id: EntityId) -> Sequence[InstanceLine]:
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


_WORK_EFFECTS: Final = (EnqueueTask, OpenHumanTask)
"""What begins work. A tuple: every advance asks several times, and a union would be made anew each time."""


def _build_execution_rows(advance: Advance[P, I], instance_id: EntityId) -> list[ExecutionRow]:
    """New lines and the ends of earlier ones. Snapshots of the same variables are encoded once."""
    raw = _make_encoder(advance.encode)
    get_node_type = partial(advance.language.get_node_type, advance.process)
    lines = compute_history_changes(get_node_type, advance.applied.instance.id, advance.applied.effects, advance.at)
    work: dict[str, str] = {
        effect.execution: effect.task for effect in advance.applied.effects if isinstance(effect, _WORK_EFFECTS)
    }
    rows = [_build_execution_row(line, instance_id, work.pop(line.id, None), raw) for line in lines.new]
    for end in lines.ended:
        work.pop(end.id, None)
    rows += [  # that go on, with another job than before
        ExecutionRow(instance=instance_id, id=to_entity_id(execution), status="RUNNING", work=to_entity_id(task))
        for execution, task in work.items()
    ]
    rows += [
        ExecutionRow(
            instance=instance_id,
            id=to_entity_id(end.id),
            status=end.status,
            ended_at=end.ended_at,
            output=None if end.output_snapshot is None else raw(end.output_snapshot),
            failure_reason=end.failure_reason,
        )
        for end in lines.ended
    ]
    return rows


def _build_execution_row(
    line: NodeExecution, instance_id: EntityId, work: str | None, raw: Callable[[JsonValue], Raw]
) -> ExecutionRow:
    return ExecutionRow(
        instance=instance_id,
        id=to_entity_id(line.id),
        status=line.status,
        node_id=line.node_id,
        node_type=line.node_type,
        attempt=line.attempt_number,
        started_at=line.started_at,
        ended_at=line.ended_at,
        input=None if line.input_snapshot is None else raw(line.input_snapshot),
        output=None if line.output_snapshot is None else raw(line.output_snapshot),
        failure_reason=line.failure_reason,
        work=None if work is None else to_entity_id(work),
        element=line.element,
    )


def _make_encoder(encode_value: Callable[[JsonValue], str]) -> Callable[[JsonValue], Raw]:
    """Encodes each object once: the variables of an advance occur again and again, and are never changed in place."""
    known: dict[int, tuple[JsonValue, Raw]] = {}

    def encode_raw(value: JsonValue) -> Raw:
        found = known.get(id(value))
        if found is None:
            found = known[id(value)] = (value, Raw(encode_value(value).encode()))
        return found[1]

    return encode_raw


def _build_job_rows(
    advance: Advance[P, I], changed: RowChanges, instance_id: EntityId, executions: Sequence[ExecutionRow]
) -> list[JobRow]:
    sizes = {row.id: len(memoryview(row.input)) for row in executions if row.input is not None}
    language, process = advance.language, advance.process
    return [
        JobRow(
            id=to_entity_id(new.task.task),
            instance=instance_id,
            execution=to_entity_id(new.task.execution),
            definition_id=advance.applied.instance.definition_id,
            definition_version=advance.applied.instance.definition_version,
            node_id=new.task.node,
            job_type=new.task.kind,
            retries=new.task.retries,
            created_at=advance.at,
            held=changed.is_held or False,
            input_bytes=sizes.get(to_entity_id(new.task.execution), 0),
            tags=language.find_member_tags(process, new.task.kind),
            max_losses=language.find_policy(process, new.task.node).max_losses,
        )
        for new in changed.new_jobs
        if new.status == "UNLOCKED"
    ]


def _build_task_rows(advance: Advance[P, I], changed: RowChanges, instance_id: EntityId) -> list[UserTaskRow]:
    instance = advance.applied.instance
    return [
        UserTaskRow(
            id=to_entity_id(new.task.task),
            instance=instance_id,
            execution=to_entity_id(new.task.execution),
            definition_id=instance.definition_id,
            definition_version=instance.definition_version,
            node_id=new.task.node,
            job_type=new.task.kind,
            created_at=advance.at,
            held=changed.is_held or False,
            business_key=instance.business_key,
        )
        for new in changed.new_tasks
        if new.status == "OPEN"
    ]


def _find_held_ids(advance: Advance[P, I], changed: RowChanges) -> list[str]:
    """Jobs, tasks and timers of earlier advances that go on existing while the instance is held, or after it was."""
    if advance.before is None:
        return []
    closed = {one.task for one in changed.closed_jobs} | {one.task for one in changed.closed_tasks}
    ended = set(changed.ended_timers)
    tokens = advance.before.marking.tokens
    work = [token.work for token in tokens if token.work is not None and token.work not in closed]
    timers = [timer.id for token in tokens for timer in token.timers if timer.id not in ended]
    return [*(to_entity_id(one) for one in work), *(to_entity_id(one) for one in timers)]


def list_entered_types(advance: Advance[P, I]) -> list[str]:
    """The types of the nodes that were entered."""
    get_node_type = partial(advance.language.get_node_type, advance.process)
    return [get_node_type(effect.node) for effect in advance.applied.effects if isinstance(effect, RecordEntry)]


def list_job_types(changed: RowChanges) -> list[str]:
    """The types of the jobs that can be claimed now."""
    return [new.task.kind for new in changed.new_jobs if new.status == "UNLOCKED"]
