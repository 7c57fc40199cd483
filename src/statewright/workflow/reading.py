"""From JSON to definitions; the one decoder for both import contracts and for the stored form.

Nothing is checked here beyond JSON types and unknown members; docs/reference/workflows.md#order-of-checks-of-an-import
is checked on the result.
"""

from functools import partial

from statewright.workflow.contracts import Contract
from statewright.workflow.definition import (
    Criterion,
    Processor,
    ProcessorConfig,
    Schedule,
    ScheduleFunction,
    State,
    Transition,
    Workflow,
    parse_criterion,
)
from statewright.workflow.members import WorkflowMembers


def read_workflow(members: WorkflowMembers, contract: Contract) -> Workflow:
    """A workflow as written, ``active`` included, with the defaults of
    docs/reference/workflows.md#defaults-and-the-log.
    """
    if contract is Contract.SEED:
        members.ignore_unknown()
    criterion, null_criterion = _read_criterion(members)
    states = members.by_key("states", _read_state)
    return Workflow(
        version=members.text("version"),
        contract=contract,
        name=members.text("name"),
        desc=members.text("desc"),
        initial_state=members.text("initialState"),
        active=members.flag("active") is not False,
        criterion=criterion,
        null_criterion=null_criterion,
        criterion_annotations=members.get("criterionAnnotations"),
        annotations=members.get("annotations"),
        states={name: state(name=name) for name, state in states.items()},
    )


def _read_state(members: WorkflowMembers) -> partial[State]:
    return partial(
        State,
        transitions=members.each("transitions", _read_transition),
        annotations=members.get("annotations"),
    )


def _read_transition(members: WorkflowMembers) -> Transition:
    criterion, null_criterion = _read_criterion(members)
    return Transition(
        name=members.text("name"),
        next=members.text("next"),
        manual=members.flag("manual") is True,
        disabled=members.flag("disabled") is True,
        criterion=criterion,
        null_criterion=null_criterion,
        processors=members.each("processors", _read_processor),
        schedule=members.one("schedule", _read_schedule),
        annotations=members.get("annotations"),
        criterion_annotations=members.get("criterionAnnotations"),
    )


def _read_processor(members: WorkflowMembers) -> Processor:
    return Processor(
        type=members.text("type"),
        name=members.text("name"),
        execution_mode=members.text("executionMode"),
        start_new_tx_beside=members.flag("startNewTxOnDispatch"),
        config=members.one("config", _read_config) or ProcessorConfig(),
        annotations=members.get("annotations"),
    )


def _read_config(members: WorkflowMembers) -> ProcessorConfig:
    return ProcessorConfig(
        attach_entity=members.flag("attachEntity") is not False,
        calculation_nodes_tags=members.text("calculationNodesTags"),
        response_timeout_ms=members.integer("responseTimeoutMs") or 0,
        retry_policy=members.text("retryPolicy"),
        context=members.text("context"),
        start_new_tx=members.flag("startNewTxOnDispatch"),
        async_result=members.flag("asyncResult"),
        crossover_to_async_ms=members.integer("crossoverToAsyncMs"),
    )


def _read_schedule(members: WorkflowMembers) -> Schedule:
    return Schedule(
        # A negative delay beside a function is accepted and means nothing; alone it is as bad as none
        # (docs/reference/workflows.md#checks-of-the-structure).
        delay_ms=max(members.integer("delayMs") or 0, 0),
        timeout_ms=members.integer("timeoutMs"),
        function=members.one("function", _read_function),
    )


def _read_function(members: WorkflowMembers) -> ScheduleFunction:
    return ScheduleFunction(
        name=members.text("name"),
        result_kind=members.text("resultKind"),
        calculation_nodes_tags=members.text("calculationNodesTags"),
        attach_entity=members.flag("attachEntity") is not False,
        context=members.text("context"),
        response_timeout_ms=members.integer("responseTimeoutMs") or 0,
    )


def _read_criterion(members: WorkflowMembers) -> tuple[Criterion | None, bool]:
    """The criterion, and whether it was given as an explicit ``null``."""
    source = members.get("criterion")
    if source is not None:
        return parse_criterion(source), False
    return None, members.has("criterion")
