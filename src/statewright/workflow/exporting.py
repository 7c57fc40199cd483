"""From definitions to JSON: what an export shows (docs/reference/workflows.md#export), and what is stored.

Optional members appear when they say something; ``attachEntity`` always (decision W10); ``startNewTxOnDispatch``
where it was given (W6). Strict workflows carry the current version, those of the seed contract their own (W1).

From two lists of definitions follows what an import would change of a model
(docs/reference/operations.md#checking-workflows).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from statewright.conditions import Function
from statewright.jsonval.patches import build_json_patch
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.checks import ChangeKind, NameChanges, TimerChange, WorkflowChange, WorkflowChanges
from statewright.workflow.definition import (
    CURRENT_VERSION,
    Contract,
    Criterion,
    Processor,
    ProcessorConfig,
    Schedule,
    ScheduleFunction,
    State,
    Transition,
    Workflow,
)

T = TypeVar("T")


def export(workflows: Iterable[Workflow]) -> list[JsonValue]:
    """The ``workflows`` member of an export."""
    return [write_workflow(workflow, version=_choose_version(workflow)) for workflow in workflows]


def write_workflow(workflow: Workflow, *, version: str) -> JsonObject:
    """The workflow as JSON under that version."""
    shown: JsonObject = {"version": version, "name": workflow.name}
    _add(shown, "desc", workflow.desc or None)
    shown["initialState"] = workflow.initial_state
    shown["active"] = workflow.active
    _add_criterion(shown, workflow.criterion, null=workflow.null_criterion)
    _add(shown, "criterionAnnotations", workflow.criterion_annotations)
    _add(shown, "annotations", workflow.annotations)
    shown["states"] = {name: _write_state(state) for name, state in sorted(workflow.states.items())}
    return shown


def _choose_version(workflow: Workflow) -> str:
    return CURRENT_VERSION if workflow.contract is Contract.STRICT else workflow.version


def _write_state(state: State) -> JsonObject:
    shown: JsonObject = {}
    _add_list(shown, "transitions", [_write_transition(transition) for transition in state.transitions])
    _add(shown, "annotations", state.annotations)
    return shown


def _write_transition(transition: Transition) -> JsonObject:
    shown: JsonObject = {"name": transition.name, "next": transition.next, "manual": transition.manual}
    _add(shown, "disabled", transition.disabled or None)
    _add_criterion(shown, transition.criterion, null=transition.null_criterion)
    _add(shown, "criterionAnnotations", transition.criterion_annotations)
    _add_list(shown, "processors", [_write_processor(processor) for processor in transition.processors])
    _add(shown, "schedule", _write_optional(_write_schedule, transition.schedule))
    _add(shown, "annotations", transition.annotations)
    return shown


def _write_processor(processor: Processor) -> JsonObject:
    shown: JsonObject = {"type": processor.type, "name": processor.name}
    _add(shown, "executionMode", processor.execution_mode or None)
    _add(shown, "startNewTxOnDispatch", processor.start_new_tx_beside)
    shown["config"] = _write_config(processor.config)
    _add(shown, "annotations", processor.annotations)
    return shown


def _write_config(config: ProcessorConfig) -> JsonObject:
    shown: JsonObject = {"attachEntity": config.attach_entity}
    _add(shown, "calculationNodesTags", config.calculation_nodes_tags or None)
    _add(shown, "responseTimeoutMs", config.response_timeout_ms or None)
    _add(shown, "retryPolicy", config.retry_policy or None)
    _add(shown, "context", config.context or None)
    _add(shown, "startNewTxOnDispatch", config.start_new_tx)
    _add(shown, "asyncResult", config.async_result)
    return shown


def _write_schedule(schedule: Schedule) -> JsonObject:
    shown: JsonObject = {"delayMs": schedule.delay_ms}
    _add(shown, "timeoutMs", schedule.timeout_ms)
    _add(shown, "function", _write_optional(_write_function, schedule.function))
    return shown


def _write_function(function: ScheduleFunction) -> JsonObject:
    shown: JsonObject = {
        "name": function.name,
        "resultKind": function.result_kind,
        "calculationNodesTags": function.calculation_nodes_tags,
        "attachEntity": function.attach_entity,
    }
    _add(shown, "context", function.context or None)
    _add(shown, "responseTimeoutMs", function.response_timeout_ms or None)
    return shown


def _add(shown: JsonObject, name: str, value: JsonValue) -> None:
    if value is not None:
        shown[name] = value


def _add_list(shown: JsonObject, name: str, items: list[JsonValue]) -> None:
    if items:
        shown[name] = items


def _add_criterion(shown: JsonObject, criterion: Criterion | None, *, null: bool) -> None:
    if criterion is not None or null:
        shown["criterion"] = criterion.source if criterion is not None else None


def _write_optional(write: Callable[[T], JsonObject], value: T | None) -> JsonValue:
    return None if value is None else write(value)


TimerKey: TypeAlias = tuple[str, str, str]
"""Workflow, state and transition."""


def compare_workflows(stored: Sequence[Workflow], merged: Sequence[Workflow]) -> WorkflowChanges:
    """What leads from the stored workflows to those that an import would leave."""
    return WorkflowChanges(
        workflows=tuple(_compare_each(_index(stored), _index(merged))),
        states=_compare_names(_list_states(stored), _list_states(merged)),
        timers=tuple(_compare_timers(_index_timers(stored), _index_timers(merged))),
        tags=_compare_names(_list_tags(stored), _list_tags(merged)),
    )


def _index(workflows: Iterable[Workflow]) -> dict[str, JsonObject]:
    return {workflow.name: write_workflow(workflow, version=workflow.version) for workflow in workflows}


def _compare_each(old: Mapping[str, JsonObject], new: Mapping[str, JsonObject]) -> Iterator[WorkflowChange]:
    for name in {**old, **new}:
        kind: ChangeKind = "CHANGED" if name in old and name in new else "ADDED" if name in new else "REMOVED"
        patch = build_json_patch(old[name], new[name]) if kind == "CHANGED" else []
        if kind != "CHANGED" or patch:
            yield WorkflowChange(name=name, change=kind, patch=tuple(patch))


def _compare_names(old: frozenset[str], new: frozenset[str]) -> NameChanges:
    return NameChanges(added=tuple(sorted(new - old)), removed=tuple(sorted(old - new)))


def _list_states(workflows: Iterable[Workflow]) -> frozenset[str]:
    return frozenset(name for workflow in workflows for name in workflow.states)


def _list_tags(workflows: Iterable[Workflow]) -> frozenset[str]:
    found: set[str] = set()
    for workflow in workflows:
        transitions = [each for state in workflow.states.values() for each in state.transitions]
        for criterion in (workflow.criterion, *(each.criterion for each in transitions)):
            if criterion is not None and isinstance(criterion.condition, Function):
                found.update(criterion.condition.tags)
        for transition in transitions:
            found.update(tag for processor in transition.processors for tag in processor.config.tags)
            if transition.schedule is not None and transition.schedule.function is not None:
                found.update(transition.schedule.function.tags)
    return frozenset(found)


def _index_timers(workflows: Iterable[Workflow]) -> dict[TimerKey, Schedule]:
    return {
        (workflow.name, state.name, transition.name): transition.schedule
        for workflow in workflows
        for state in workflow.states.values()
        for transition in state.scheduled
        if transition.schedule is not None
    }


def _compare_timers(old: Mapping[TimerKey, Schedule], new: Mapping[TimerKey, Schedule]) -> Iterator[TimerChange]:
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            kind: ChangeKind = "CHANGED" if key in old and key in new else "ADDED" if key in new else "REMOVED"
            workflow, state, transition = key
            yield TimerChange(workflow=workflow, state=state, transition=transition, change=kind)
