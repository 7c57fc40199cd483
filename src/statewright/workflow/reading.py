"""From JSON to definitions; the one decoder for both import contracts and for the stored form.

Nothing is judged here beyond JSON types and unknown members; spec/workflows.md §5 is checked on the result.
"""

from functools import partial

from statewright.workflow.contracts import Contract
from statewright.workflow.criterion import Criterion, criterion_of
from statewright.workflow.definition import (
    Processor,
    ProcessorConfig,
    Schedule,
    ScheduleFunction,
    State,
    Transition,
    Workflow,
)
from statewright.workflow.members import Members


def read_workflow(members: Members, contract: Contract) -> Workflow:
    """A workflow as written, ``active`` included, with the defaults of spec/workflows.md §4.4."""
    if contract is Contract.SEED:
        members.ignore_unknown()
    criterion, null_criterion = _criterion(members)
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
        criterion_annotations=members.opaque("criterionAnnotations"),
        annotations=members.opaque("annotations"),
        states={name: state(name=name) for name, state in states.items()},
    )


def _read_state(members: Members) -> partial[State]:
    return partial(
        State,
        transitions=members.each("transitions", _read_transition),
        annotations=members.opaque("annotations"),
    )


def _read_transition(members: Members) -> Transition:
    criterion, null_criterion = _criterion(members)
    return Transition(
        name=members.text("name"),
        next=members.text("next"),
        manual=members.flag("manual") is True,
        disabled=members.flag("disabled") is True,
        criterion=criterion,
        null_criterion=null_criterion,
        processors=members.each("processors", _read_processor),
        schedule=members.one("schedule", _read_schedule),
        annotations=members.opaque("annotations"),
        criterion_annotations=members.opaque("criterionAnnotations"),
    )


def _read_processor(members: Members) -> Processor:
    return Processor(
        type=members.text("type"),
        name=members.text("name"),
        execution_mode=members.text("executionMode"),
        start_new_tx_beside=members.flag("startNewTxOnDispatch"),
        config=members.one("config", _read_config) or ProcessorConfig(),
        annotations=members.opaque("annotations"),
    )


def _read_config(members: Members) -> ProcessorConfig:
    return ProcessorConfig(
        attach_entity=members.flag("attachEntity") is not False,
        calculation_nodes_tags=members.text("calculationNodesTags"),
        response_timeout_ms=members.whole("responseTimeoutMs") or 0,
        retry_policy=members.text("retryPolicy"),
        context=members.text("context"),
        start_new_tx=members.flag("startNewTxOnDispatch"),
        async_result=members.flag("asyncResult"),
        crossover_to_async_ms=members.whole("crossoverToAsyncMs"),
    )


def _read_schedule(members: Members) -> Schedule:
    return Schedule(
        # A negative delay beside a function is accepted and means nothing; alone it is as bad as none (§5.1).
        delay_ms=max(members.whole("delayMs") or 0, 0),
        timeout_ms=members.whole("timeoutMs"),
        function=members.one("function", _read_function),
    )


def _read_function(members: Members) -> ScheduleFunction:
    return ScheduleFunction(
        name=members.text("name"),
        result_kind=members.text("resultKind"),
        calculation_nodes_tags=members.text("calculationNodesTags"),
        attach_entity=members.flag("attachEntity") is not False,
        context=members.text("context"),
        response_timeout_ms=members.whole("responseTimeoutMs") or 0,
    )


def _criterion(members: Members) -> tuple[Criterion | None, bool]:
    """The criterion, and whether it was given as an explicit ``null``."""
    source = members.opaque("criterion")
    if source is not None:
        return criterion_of(source), False
    return None, members.has("criterion")
