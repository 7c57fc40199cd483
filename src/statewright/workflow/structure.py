"""The structural rules of incoming workflows, in the order of spec/workflows.md §5.1.

Each rule yields its violations lazily: an import reports the first one only. The rules that differ per import contract
(decision W1) are the processor's ``type``, ``executionMode`` and ``retryPolicy``.
"""

from collections.abc import Iterable, Iterator

from statewright.workflow.contracts import Contract
from statewright.workflow.definition import EXECUTION_MODES, Processor, Schedule, State, Transition, Workflow
from statewright.workflow.locations import of_state, of_transition, of_workflow, quoted

MAX_NAME_BYTES = 256
"""Longest name of a workflow, state, transition or processor, in UTF-8 (spec/workflows.md §5.1)."""

SEED_TYPES = ("EXTERNAL", "externalized", "")
"""What a processor's ``type`` may say in the seed contract; empty stands for absent."""

RETRY_POLICIES = ("NONE", "FIXED", "")


def structural_violations(workflows: Iterable[Workflow]) -> Iterator[str]:
    """What breaks the rules, workflow by workflow."""
    seen: set[str] = set()
    for workflow in workflows:
        yield from _named(workflow.name, "workflow with empty name is not allowed", "workflow name")
        if workflow.name in seen:
            yield f"duplicate workflow name {quoted(workflow.name)} in request"
        seen.add(workflow.name)
        yield from _started(workflow)
        for state in workflow.states.values():
            yield from _in_state(workflow, state)


def _named(name: str, when_empty: str, what: str) -> Iterator[str]:
    if not name:
        yield when_empty
    length = len(name.encode())
    if length > MAX_NAME_BYTES:
        yield f"{what} length {length} exceeds the {MAX_NAME_BYTES}-char limit"


def _started(workflow: Workflow) -> Iterator[str]:
    if not workflow.initial_state:
        yield f"{of_workflow(workflow)}: initialState must not be empty"
    elif workflow.initial_state not in workflow.states:
        yield f"{of_workflow(workflow)}: initialState {quoted(workflow.initial_state)} is not declared in states"


def _in_state(workflow: Workflow, state: State) -> Iterator[str]:
    place = of_workflow(workflow)
    yield from _named(state.name, f"{place}: empty state name is not allowed in the states map", f"{place}: state name")
    place = of_state(workflow, state)
    seen: set[str] = set()
    for transition in state.transitions:
        yield from _named(
            transition.name, f"{place}: empty transition name is not allowed", f"{place}: transition name"
        )
        if transition.name in seen:
            yield f"{place}: duplicate transition name {quoted(transition.name)}"
        seen.add(transition.name)
        yield from _in_transition(workflow, state, transition)


def _in_transition(workflow: Workflow, state: State, transition: Transition) -> Iterator[str]:
    place = of_transition(workflow, state, transition)
    if transition.next not in workflow.states:
        yield f"{place}: next state {quoted(transition.next)} is not declared in states"
    if transition.schedule is not None:
        if transition.manual:
            yield f"{place}: manual and scheduled are mutually exclusive"
        yield from (f"{place}: {violation}" for violation in _in_schedule(transition.schedule))
    for processor in transition.processors:
        yield from _named(processor.name, f"{place}: empty processor name is not allowed", f"{place}: processor name")
        prefix = f"{of_state(workflow, state)} processor {quoted(processor.name)}"
        yield from (f"{prefix}: {violation}" for violation in _in_processor(processor, workflow.contract))


def _in_schedule(schedule: Schedule) -> Iterator[str]:
    function = schedule.function
    if (schedule.delay_ms > 0) == (function is not None):
        yield "exactly one of schedule.delayMs or schedule.function is required"
    if function is None:
        return
    if function.result_kind != "Schedule":
        yield f'schedule.function.resultKind must be "Schedule" (got {quoted(function.result_kind)})'
    if not (function.name and function.calculation_nodes_tags):
        yield "schedule.function requires name and calculationNodesTags"


def _in_processor(processor: Processor, contract: Contract) -> Iterator[str]:
    config = processor.config
    if config.async_result is True:
        yield f"asyncResult=true {_NO_ASYNC}"
    if config.crossover_to_async_ms is not None:
        yield f"crossoverToAsyncMs {_NO_ASYNC}"
    if None not in (inner := config.start_new_tx, beside := processor.start_new_tx_beside) and inner != beside:
        yield "startNewTxOnDispatch is given twice, with different values"
    yield from _SPELLING[contract](processor)


def _spelled_for_seed(processor: Processor) -> Iterator[str]:
    if processor.type not in SEED_TYPES:
        yield f"unknown type {quoted(processor.type)} (allowed: EXTERNAL, externalized, or absent)"


def _spelled_strictly(processor: Processor) -> Iterator[str]:
    mode, policy = processor.execution_mode, processor.config.retry_policy
    if mode and mode not in EXECUTION_MODES:
        yield f"unknown executionMode {quoted(mode)} (allowed: {', '.join(EXECUTION_MODES)}, or empty)"
    if policy not in RETRY_POLICIES:
        yield f"unknown retryPolicy {quoted(policy)} (allowed: NONE, FIXED, or empty)"


_SPELLING = {Contract.SEED: _spelled_for_seed, Contract.STRICT: _spelled_strictly}

_NO_ASYNC = "is not supported on this backend (async/crossover semantics are not implemented)"
