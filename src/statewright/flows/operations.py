"""What can be done to an instance of a flow: one function per operation, from a state to a state and effects.

A shell loads the instance, calls one of these, and in the same transaction stores the new instance and carries out the
effects. No effects means that nothing happened: reports that come late or twice are accepted without effect.

Changing what a stopped node works on, before it is begun again (docs/reference/flows.md#change-of-context).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.flows.advancing import (
    FlowEvent,
    advance_marking,
    deliver_event,
    is_user_task,
    list_waits,
    start_marking,
    take_answer,
)
from statewright.flows.definition import FlowProcess
from statewright.flows.graph import describe
from statewright.flows.instance import FlowInstance, NodePlace, list_transitions
from statewright.flows.language import INPUT
from statewright.flows.parts import forget_items, save_parts
from statewright.flows.requests import METHODS, join_reference
from statewright.jsonval.values import JsonObject, JsonValue, tidy_numbers, weigh
from statewright.net import ExecutionId, KernelResult, Marking, Moment, Problem, TimerId, Token, WorkId
from statewright.net.effects import (
    AdjustCounter,
    Cancelled,
    ChangePhase,
    Effect,
    Event,
    RecordPatch,
    Restarted,
    TaskCompleted,
    TaskFailed,
    Terminated,
    TimerFired,
)
from statewright.processes import language as processes
from statewright.processes.changes import JOB_FAILED, find_completion
from statewright.processes.language import JobPlace, NewInstance, Rejection
from statewright.processes.user_tasks import TaskAnswer

STOPPED: Final = frozenset({"FAILED", "INTERRUPTED"})


class ContextChange(Struct, frozen=True, kw_only=True):
    """Another input for a node that failed or was interrupted."""

    node: int
    input: JsonValue
    """An object or an array; of an element of an iteration any value."""
    element: int | None = None
    """Of an iteration over a task: which element. Of a node within an iterated subflow: which pass."""
    reason: str = ""


class UnchangeableContext(ValueError):
    """A change that cannot be made; the message says why."""


def change_input(process: FlowProcess, marking: Marking, change: ContextChange) -> tuple[Marking, ExecutionId | None]:
    """The instance with another input of a node, and the loop whose sequence was changed, if one was.

    Raises :class:`UnchangeableContext`.
    """
    found = list(_find_tokens(marking, change))
    if len(found) != 1:
        place = f"node {change.node}" + ("" if change.element is None else f", element {change.element}")
        raise UnchangeableContext(
            f"nothing has failed or was interrupted at {place}"
            if not found
            else f"several have failed or were interrupted at {place}: name the element"
        )
    [token] = found
    if token.owner is not None:
        return _change_item(process, marking, token, change.input), token.owner
    if not isinstance(change.input, dict | list):
        raise UnchangeableContext("the input of a node is an object or an array")
    return _put(marking, replace(token, payloads=(change.input,))), None


def _find_tokens(marking: Marking, change: ContextChange) -> Iterator[Token]:
    elements = _map_elements(marking)
    for token in marking.tokens:
        if token.stage not in STOPPED or int(token.node) != change.node:
            continue
        if change.element is None or elements.get(token.id) == change.element:
            yield token


def _map_elements(marking: Marking) -> Mapping[ExecutionId, int | None]:
    """Of an iteration over a task: which element. Of a node within an iterated subflow: which pass."""
    passes = {scope.id: scope.element for scope in marking.scopes}
    return {
        token.id: passes[token.scope] if token.owner is None and token.scope is not None else token.element
        for token in marking.tokens
    }


def _change_item(process: FlowProcess, marking: Marking, token: Token, item: JsonValue) -> Marking:
    """An element is begun again from the sequence of its loop: that is changed."""
    [owner] = [other for other in marking.tokens if other.id == token.owner]
    node = process.flow.net.nodes[owner.node]
    given = process.create_language().build_input(marking.data, node, owner.payloads)
    if isinstance(given, Problem) or token.element is None:
        raise UnchangeableContext("the sequence of the iteration cannot be read")
    items: list[JsonValue] = list(given) if isinstance(given, list) else [given]
    items[token.element] = item
    return _put(_put(marking, replace(owner, payloads=(items,))), replace(token, payloads=(item,)))


def _put(marking: Marking, changed: Token) -> Marking:
    return replace(marking, tokens=tuple(changed if token.id == changed.id else token for token in marking.tokens))


Applied: TypeAlias = processes.Applied[FlowInstance]
"""An instance of a flow after an operation."""

MAX_KEPT_EVENTS: Final = 1_000
"""Events that wait with an instance for tasks that will wait for them (decision F6)."""
MAX_KEPT_VALUES: Final = 32_768
"""In them all, 64 characters of text counted as one: each advance of the instance writes them once more."""
OUTPUT: Final = "$output"
"""The member of a result that has no other: its value is the output. For workers that can send objects only."""


def start_instance(process: FlowProcess, new: NewInstance, moment: Moment) -> Applied:
    """A new instance, as far as it comes without any task. The variables have the input, a member of its name."""
    data = tidy_numbers({INPUT: new.variables.get(INPUT, {})})
    result = start_marking(process, data, moment)
    instance = FlowInstance(
        id=new.id,
        definition_id=process.source.id,
        definition_version=process.version,
        marking=Marking(data=data),
        started_at=moment.at,
        business_key=new.business_key or None,
    )
    return _to_applied(process, None, instance, result, moment)


def complete_job(process: FlowProcess, instance: FlowInstance, job: str, result: JsonValue, moment: Moment) -> Applied:
    """The output of a task. While the instance is not running it is kept, to be put on the edges by a restart."""
    if isinstance(result, dict) and result.keys() == {OUTPUT}:
        result = result[OUTPUT]
    tidied = tidy_numbers({OUTPUT: result})[OUTPUT]
    return _report_job(process, instance, TaskCompleted(WorkId(job), tidied), moment)


def complete_task(
    process: FlowProcess, instance: FlowInstance, /, *, task: str, result: JsonValue, by: str, moment: Moment
) -> Applied | Rejection:
    """A person's answer to a user task, which is its output; ``{}`` without one. As with jobs, one that comes while the
    instance is not running is kept.
    """
    if instance.status in ("COMPLETED", "CANCELLED"):
        return Rejection("conflict", f"instance is {instance.status}")
    if not is_user_task(process, instance.marking, task):
        return Rejection("not-found", "user task not found")
    answer = tidy_numbers({OUTPUT: {} if result is None else result})[OUTPUT]
    advanced = take_answer(
        process, instance.marking, TaskAnswer(task=WorkId(task), result=answer, by=by), moment, instance.events
    )
    return _apply_result(process, replace(instance, events=advanced.kept), advanced.result, moment)


def fail_job(process: FlowProcess, instance: FlowInstance, job: str, reason: str, moment: Moment) -> Applied:
    """A task failed for good: the instance fails with it, and what runs is left to end."""
    return _report_job(process, instance, TaskFailed(WorkId(job), reason or JOB_FAILED), moment)


def _report_job(
    process: FlowProcess, instance: FlowInstance, event: TaskCompleted | TaskFailed, moment: Moment
) -> Applied:
    if is_user_task(process, instance.marking, event.task):  # a worker has no say in it
        return Applied(instance=instance, effects=(), transitions=())
    return _apply(process, instance, event, moment)


def fire_timer(process: FlowProcess, instance: FlowInstance, timer: str, moment: Moment) -> Applied:
    """A task that only waits is done, and its output is its input; or a task has taken as long as it may, and fails."""
    is_limit = any(armed.id == timer for token in instance.marking.tokens for armed in token.timers)
    event = TimerFired(TimerId(timer)) if is_limit else TaskCompleted(WorkId(timer))
    return _apply(process, instance, event, moment)


def receive_event(
    process: FlowProcess, instance: FlowInstance, waits: Sequence[str], event: FlowEvent, moment: Moment
) -> Applied:
    """Complete those of the tasks that wait for an event, by their ids. The answer is the ``Arrival``."""
    arrival = deliver_event(process, instance.marking, waits, event, moment, instance.events)
    instance = replace(instance, events=arrival.kept)
    return replace(_apply_result(process, instance, arrival.result, moment), answer=arrival)


def take_event(process: FlowProcess, instance: FlowInstance, event: FlowEvent, moment: Moment) -> Applied | Rejection:
    """Complete the tasks that wait for an event, which is addressed to this instance; where none does, keep it for the
    next that will. The answer is the ``Arrival``: of no task where the event is kept.
    """
    if instance.status in ("COMPLETED", "CANCELLED"):
        return Rejection("conflict", f"instance is {instance.status}")
    applied = receive_event(process, instance, list_waits(process, instance.marking, event.kind), event, moment)
    if applied.effects:
        return applied
    if len(instance.events) >= MAX_KEPT_EVENTS:
        return Rejection("conflict", f"{MAX_KEPT_EVENTS} events are kept for the instance: no task waits for them")
    events = (*instance.events, event)
    values: list[JsonValue] = [[one.fields, one.output] for one in events]
    if weigh(values, MAX_KEPT_VALUES) > MAX_KEPT_VALUES:
        told = "values in all, 64 characters of text counted as one: send it when its task waits"
        return Rejection("conflict", f"the events that are kept for an instance have at most {MAX_KEPT_VALUES} {told}")
    instance = replace(instance, events=events)
    kept: JsonObject = {"event": event.kind}
    result = KernelResult(instance.marking, (RecordPatch(kept),), moment.first_id)
    return replace(_apply_result(process, instance, result, moment), answer=applied.answer)


def cancel_instance(process: FlowProcess, instance: FlowInstance, reason: str, moment: Moment) -> Applied | Rejection:
    """Stop an instance for good, and withdraw all its tasks."""
    if instance.status in ("COMPLETED", "CANCELLED"):
        return Rejection("conflict", f"instance is {instance.status}")
    return _apply(process, instance, Cancelled(reason), moment)


def terminate_instance(process: FlowProcess, instance: FlowInstance, moment: Moment) -> Applied | Rejection:
    """Stop an instance so that it can be restarted: tasks that run are left to end. Once more: at once."""
    if instance.status not in ("RUNNING", "TERMINATING"):
        return Rejection("conflict", f"instance is {instance.status}, not RUNNING")
    return _apply(process, instance, Terminated(), moment)


def restart_instance(process: FlowProcess, instance: FlowInstance, moment: Moment) -> Applied | Rejection:
    """Begin all that failed or was interrupted again, with the same input."""
    if instance.status not in ("FAILED", "TERMINATED"):
        return Rejection("conflict", f"instance is {instance.status}, not FAILED or TERMINATED")
    applied = _apply(process, instance, Restarted(), moment)
    return applied if applied.effects else Rejection("conflict", "there is nothing to begin again")


def change_context(
    process: FlowProcess, instance: FlowInstance, change: ContextChange, moment: Moment
) -> Applied | Rejection:
    """Give a node that failed or was interrupted another input, with which a restart begins it again."""
    if instance.status not in ("FAILED", "TERMINATED"):
        return Rejection("conflict", f"instance is {instance.status}, not FAILED or TERMINATED")
    tidied = replace(change, input=tidy_numbers({INPUT: change.input})[INPUT])
    try:
        marking, loop = change_input(process, instance.marking, tidied)
    except UnchangeableContext as defect:
        return Rejection("bad-request", str(defect))
    element: JsonObject = {} if change.element is None else {"element": change.element}
    place: JsonObject = {"node": change.node, **element, "reason": change.reason}
    if loop is not None:
        instance = replace(instance, saved=forget_items(instance.saved, loop))
    applied = _apply_result(process, instance, KernelResult(marking, (RecordPatch(place),), 0), moment)
    return replace(applied, transitions=("change",))


def build_payload(process: FlowProcess, job: JobPlace, value: JsonValue) -> JsonObject:
    """What the worker of a task is given. Parameters and input are apart; nothing is merged."""
    node = process.flow.graph.nodes[int(job.node)]
    payload: JsonObject = {
        "instanceId": job.instance_id,
        "node": node.index,
        "name": node.name if isinstance(node.name, str) else node.kind,
        "base": node.job_type,
        "parameters": node.parameters if isinstance(node.parameters, dict | list) else {},
        "input": value,
    }
    settings = process.source.settings
    if isinstance(node.uri, str):
        payload["uri"] = join_reference(settings.base_uri, node.uri)
    elif payload["base"] in METHODS:
        bases: JsonObject = {} if settings.base_uri is None else {"baseUri": settings.base_uri}
        named: JsonObject = dict(settings.base_uris)
        payload |= bases | ({"baseUris": named} if named else {})
    if job.element is not None:
        payload["element"] = job.element
    return payload


def _apply(process: FlowProcess, instance: FlowInstance, event: Event, moment: Moment) -> Applied:
    advanced = advance_marking(process, instance.marking, event, moment, instance.events)
    return _apply_result(process, replace(instance, events=advanced.kept), advanced.result, moment)


def _apply_result(process: FlowProcess, instance: FlowInstance, result: KernelResult, moment: Moment) -> Applied:
    if not result.effects:
        return Applied(instance=instance, effects=(), transitions=())
    return _to_applied(process, instance, instance, result, moment)


def _to_applied(
    process: FlowProcess, before: FlowInstance | None, instance: FlowInstance, result: KernelResult, moment: Moment
) -> Applied:
    marking = result.marking
    is_stopped = marking.phase not in ("RUNNING", "COMPLETED")
    saved, stored = save_parts(marking, instance.saved)
    held, released = _hold_counters(instance.held, result.effects)
    after = replace(
        instance,
        marking=marking,
        saved=saved,
        held=held,
        events=() if marking.phase in ("COMPLETED", "CANCELLED") else instance.events,
        completed_at=find_completion(instance.completed_at, result.effects, moment.at),
        failed_nodes=_list_failed(process, marking) if is_stopped else (),
        waiting_nodes=_list_waiting(process, marking) if is_stopped else (),
    )
    moves = list_transitions(None if before is None else before.marking.phase, result.effects)
    return Applied(instance=after, effects=(*result.effects, *stored, *released), transitions=moves)


def _hold_counters(
    held: Mapping[str, int], effects: Sequence[Effect]
) -> tuple[Mapping[str, int], tuple[AdjustCounter, ...]]:
    """What an instance holds of counters after these effects, and what releases it where they cancel the instance:
    nobody else knows then that nothing is going to.
    """
    adjusted = [effect for effect in effects if isinstance(effect, AdjustCounter)]
    if adjusted:
        changed = {**held}
        for one in adjusted:
            changed[one.name] = changed.get(one.name, 0) + one.by
        held = {name: by for name, by in changed.items() if by}
    if not any(isinstance(effect, ChangePhase) and effect.phase == "CANCELLED" for effect in effects):
        return held, ()
    return {}, tuple(AdjustCounter(name=name, by=-by) for name, by in held.items() if by > 0)


def _list_waiting(process: FlowProcess, marking: Marking) -> tuple[NodePlace, ...]:
    """The nodes at which values wait for others, each once."""
    places = (_locate(process, token) for token in marking.tokens if token.stage == "WAITING")
    return tuple({place.node: place for place in places}.values())


def _list_failed(process: FlowProcess, marking: Marking) -> tuple[NodePlace, ...]:
    elements = _map_elements(marking)
    return tuple(_locate(process, token, elements[token.id]) for token in marking.failures)


def _locate(process: FlowProcess, token: Token, element: int | None = None) -> NodePlace:
    node = process.flow.graph.nodes[int(token.node)]
    return NodePlace(node=node.index, name=describe(node), element=element, reason=token.reason)
