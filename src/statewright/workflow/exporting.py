"""From definitions to JSON: what an export shows (docs/reference/workflows.md#export), and what is stored.

Optional members appear when they say something; ``attachEntity`` always (decision W10); ``startNewTxOnDispatch``
where it was given (W6). Strict workflows carry the current version, those of the seed contract their own (W1).
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.workflow.contracts import CURRENT_VERSION, Contract
from statewright.workflow.definition import (
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
