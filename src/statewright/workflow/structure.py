"""The structural rules of incoming workflows, in the order of docs/reference/workflows.md#checks-of-the-structure.

Each rule yields its violations lazily: an import reports the first one only. A violation has a code and a JSON pointer
into the document of an import, for checks that tell them all (docs/reference/operations.md#checking-workflows). The
rules that differ per import contract (decision W1) are the processor's ``type``, ``executionMode`` and ``retryPolicy``.

Of the annotations, the member ``statewright`` is read by the service itself and has rules, too
(docs/reference/workflows.md#annotations-of-the-service). How much the workflows of one model may define together is
limited (docs/reference/workflows.md#settings-and-limits-of-workflows).
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.conditions import Function
from statewright.failures import BadRequest, ValidationFailed
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue, list_children, quote_name
from statewright.workflow.definition import (
    EXECUTION_MODES,
    Contract,
    Criterion,
    Processor,
    Schedule,
    State,
    Transition,
    Workflow,
)
from statewright.workflow.retries import MalformedRetry, parse_retry

OWN: Final = "statewright"


def find_own_violations(annotations: JsonValue, *, takes_retry: bool) -> Iterator[str]:
    """What is wrong with the service's own part of annotations; each begins with the path of the member."""
    own = annotations.get(OWN) if isinstance(annotations, dict) else None
    if own is None:
        return
    if not isinstance(own, dict):
        yield f"{OWN} must be a JSON object"
        return
    for name, value in own.items():
        if name == "retry" and takes_retry:
            yield from _find_retry_violations(value, f"{OWN}.retry")
        elif name == "retry":
            yield f"{OWN}.retry is for processors and for criteria that are functions"
        else:
            yield f"{OWN}.{name} is unknown"


def is_asked(criterion: Criterion | None) -> bool:
    """Whether a member decides the criterion, so that asking it can be tried again."""
    return criterion is not None and isinstance(criterion.condition, Function)


def _find_retry_violations(source: JsonValue, place: str) -> Iterator[str]:
    try:
        parse_retry(source)
    except MalformedRetry as malformed:
        yield f"{place}{'.' if malformed.member else ''}{malformed.member} {malformed}"


ViolationCode: TypeAlias = Literal[
    "INVALID_STRUCTURE",
    "UNKNOWN_NEXT",
    "DUPLICATE_NAME",
    "UNGUARDED_CYCLE",
    "INVALID_CRITERION",
    "INVALID_ANNOTATION",
    "UNSUPPORTED_VERSION",
    "INVALID_MODE",
]


class Violation(Struct, frozen=True):
    """One thing for which an import is refused."""

    code: ViolationCode
    pointer: str
    message: str


MAX_STEP_CHARS: Final = 1_000
"""Characters of a name in a pointer: a name may be as long as the document, and have thousands of things below it."""


def point_below(pointer: str, *steps: str | int) -> str:
    """A JSON pointer (RFC 6901) to something further down; very long names are cut."""
    names = (str(step) for step in steps)
    cut = (name if len(name) <= MAX_STEP_CHARS else f"{name[:MAX_STEP_CHARS]}…" for name in names)
    tokens = (name.replace("~", "~0").replace("/", "~1") for name in cut)
    return "".join([pointer, *(f"/{token}" for token in tokens)])


def point_at_workflow(index: int) -> str:
    """The place of a workflow in the document of an import."""
    return f"/workflows/{index}"


def refuse_first(violations: Iterable[Violation]) -> None:
    """Raises ValidationFailed with the first violation, if there is one.

    Rules yield violations lazily, so the others are not looked for.
    """
    for violation in violations:
        raise ValidationFailed(violation.message)


MAX_NAME_BYTES: Final = 256
"""Longest name of a workflow, state, transition or processor, in UTF-8
(docs/reference/workflows.md#checks-of-the-structure).
"""

SEED_TYPES: Final = ("EXTERNAL", "externalized", "")
"""What a processor's ``type`` may say in the seed contract; empty stands for absent."""

RETRY_POLICIES: Final = ("NONE", "FIXED", "")
"""What ``retryPolicy`` may say; empty stands for absent."""


def find_structural_violations(workflows: Iterable[Workflow]) -> Iterator[Violation]:
    """What breaks the rules, workflow by workflow."""
    seen: set[str] = set()
    for index, workflow in enumerate(workflows):
        at = point_at_workflow(index)
        yield from _check_name(workflow.name, "workflow with empty name is not allowed", "workflow name", f"{at}/name")
        if workflow.name in seen:
            message = f"duplicate workflow name {quote_name(workflow.name)} in request"
            yield Violation("DUPLICATE_NAME", f"{at}/name", message)
        seen.add(workflow.name)
        yield from _check_initial_state(workflow, f"{at}/initialState")
        for state in workflow.states.values():
            yield from _check_state(workflow, state, point_below(at, "states", state.name))


def find_long_names(workflows: Iterable[Workflow]) -> Iterator[Violation]:
    """The names that are too long. What is below them cannot be told with its place: the answer to a document could be
    thousands of times as long as the document.
    """
    for index, workflow in enumerate(workflows):
        for what, at, name in _list_names(workflow, point_at_workflow(index)):
            if len(name) > MAX_NAME_BYTES or len(name.encode()) > MAX_NAME_BYTES:
                yield from _check_name(name, "", f"{what} name", at)


def _list_names(workflow: Workflow, at: str) -> Iterator[tuple[str, str, str]]:
    yield "workflow", f"{at}/name", workflow.name
    for state in workflow.states.values():
        below = point_below(at, "states", state.name)
        yield "state", below, state.name
        for index, transition in enumerate(state.transitions):
            yield "transition", point_below(below, "transitions", index, "name"), transition.name
            for number, processor in enumerate(transition.processors):
                place = point_below(below, "transitions", index, "processors", number, "name")
                yield "processor", place, processor.name


def _check_name(name: str, when_empty: str, what: str, at: str) -> Iterator[Violation]:
    if not name:
        yield Violation("INVALID_STRUCTURE", at, when_empty)
    length = len(name.encode())
    if length > MAX_NAME_BYTES:
        yield Violation("INVALID_STRUCTURE", at, f"{what} length {length} exceeds the {MAX_NAME_BYTES}-char limit")


def _check_initial_state(workflow: Workflow, at: str) -> Iterator[Violation]:
    if not workflow.initial_state:
        yield Violation("INVALID_STRUCTURE", at, f"{locate_workflow(workflow)}: initialState must not be empty")
    elif workflow.initial_state not in workflow.states:
        initial = quote_name(workflow.initial_state)
        message = f"{locate_workflow(workflow)}: initialState {initial} is not declared in states"
        yield Violation("INVALID_STRUCTURE", at, message)


def _check_state(workflow: Workflow, state: State, at: str) -> Iterator[Violation]:
    place = locate_workflow(workflow)
    yield from _check_name(
        state.name, f"{place}: empty state name is not allowed in the states map", f"{place}: state name", at
    )
    place = locate_state(workflow, state)
    seen: set[str] = set()
    for index, transition in enumerate(state.transitions):
        below = point_below(at, "transitions", index)
        yield from _check_name(
            transition.name,
            f"{place}: empty transition name is not allowed",
            f"{place}: transition name",
            f"{below}/name",
        )
        if transition.name in seen:
            message = f"{place}: duplicate transition name {quote_name(transition.name)}"
            yield Violation("DUPLICATE_NAME", f"{below}/name", message)
        seen.add(transition.name)
        yield from _check_transition(workflow, state, transition, below)


def _check_transition(workflow: Workflow, state: State, transition: Transition, at: str) -> Iterator[Violation]:
    place = locate_transition(workflow, state, transition)
    if transition.next not in workflow.states:
        message = f"{place}: next state {quote_name(transition.next)} is not declared in states"
        yield Violation("UNKNOWN_NEXT", f"{at}/next", message)
    if transition.schedule is not None:
        at_schedule = f"{at}/schedule"
        if transition.manual:
            yield Violation("INVALID_STRUCTURE", at_schedule, f"{place}: manual and scheduled are mutually exclusive")
        for violation in _check_schedule(transition.schedule):
            yield Violation("INVALID_STRUCTURE", at_schedule, f"{place}: {violation}")
    for index, processor in enumerate(transition.processors):
        below = point_below(at, "processors", index)
        yield from _check_name(
            processor.name,
            f"{place}: empty processor name is not allowed",
            f"{place}: processor name",
            f"{below}/name",
        )
        prefix = f"{locate_state(workflow, state)} processor {quote_name(processor.name)}"
        for code, member, message in _check_processor(processor, workflow.contract):
            yield Violation(code, f"{below}/{member}", f"{prefix}: {message}")


def _check_schedule(schedule: Schedule) -> Iterator[str]:
    function = schedule.function
    if (schedule.delay_ms > 0) == (function is not None):
        yield "exactly one of schedule.delayMs or schedule.function is required"
    if function is None:
        return
    if function.result_kind != "Schedule":
        yield f'schedule.function.resultKind must be "Schedule" (got {quote_name(function.result_kind)})'
    if not (function.name and function.calculation_nodes_tags):
        yield "schedule.function requires name and calculationNodesTags"


_ProcessorViolation: TypeAlias = tuple[ViolationCode, str, str]
"""A code, the path below the processor, and a message."""


def _check_processor(processor: Processor, contract: Contract) -> Iterator[_ProcessorViolation]:
    config = processor.config
    if config.async_result is True:
        yield "INVALID_STRUCTURE", "config/asyncResult", f"asyncResult=true {_NO_ASYNC}"
    if config.crossover_to_async_ms is not None:
        yield "INVALID_STRUCTURE", "config/crossoverToAsyncMs", f"crossoverToAsyncMs {_NO_ASYNC}"
    if None not in (inner := config.start_new_tx, beside := processor.start_new_tx_beside) and inner != beside:
        yield "INVALID_MODE", "startNewTxOnDispatch", "startNewTxOnDispatch is given twice, with different values"
    yield from _SPELLING[contract](processor)


def _check_seed_spelling(processor: Processor) -> Iterator[_ProcessorViolation]:
    if processor.type not in SEED_TYPES:
        message = f"unknown type {quote_name(processor.type)} (allowed: EXTERNAL, externalized, or absent)"
        yield "INVALID_STRUCTURE", "type", message


def _check_strict_spelling(processor: Processor) -> Iterator[_ProcessorViolation]:
    mode, policy = processor.execution_mode, processor.config.retry_policy
    if mode and mode not in EXECUTION_MODES:
        message = f"unknown executionMode {quote_name(mode)} (allowed: {', '.join(EXECUTION_MODES)}, or empty)"
        yield "INVALID_MODE", "executionMode", message
    if policy not in RETRY_POLICIES:
        message = f"unknown retryPolicy {quote_name(policy)} (allowed: NONE, FIXED, or empty)"
        yield "INVALID_STRUCTURE", "config/retryPolicy", message


_SPELLING: Final = {Contract.SEED: _check_seed_spelling, Contract.STRICT: _check_strict_spelling}

_NO_ASYNC: Final = "is not supported on this backend (async/crossover semantics are not implemented)"


MAX_ANNOTATION_BYTES: Final = 65_536
"""Largest annotation, in bytes of compact JSON; one rule for all six places that carry one
(docs/reference/workflows.md#annotations).
"""


def find_annotation_violations(workflow: Workflow, index: int = 0) -> Iterator[Violation]:
    """Annotations that are no object, or too large, in document order; ``index``: of the workflow in its document."""
    for each in _list_annotations(workflow, point_at_workflow(index)):
        annotations = each.value
        if annotations is None:
            continue
        found: list[str] = []
        if not isinstance(annotations, dict):
            found.append("annotations must be a JSON object")
        elif (size := len(encode(annotations))) > MAX_ANNOTATION_BYTES:
            found.append(f"annotations size {size} bytes exceeds the {MAX_ANNOTATION_BYTES}-byte limit")
        found += (f"annotations.{own}" for own in find_own_violations(annotations, takes_retry=each.takes_retry))
        for message in found:
            yield Violation("INVALID_ANNOTATION", each.pointer, f"{each.place}: {message}")


class _Annotations(Struct, frozen=True):
    """Annotations, and where they are; ``takes_retry``: they are of something that a member is asked for."""

    place: str
    pointer: str
    value: JsonValue
    takes_retry: bool = False


def _list_annotations(workflow: Workflow, at: str) -> Iterator[_Annotations]:
    place, asks = locate_workflow(workflow), is_asked(workflow.criterion)
    yield _Annotations(place, f"{at}/annotations", workflow.annotations)
    guard = (f"{at}/criterionAnnotations", workflow.criterion_annotations, asks)
    yield _Annotations(f"{place} criterionAnnotations", *guard)
    for state in workflow.states.values():
        below = point_below(at, "states", state.name)
        yield _Annotations(locate_state(workflow, state), f"{below}/annotations", state.annotations)
        for index, transition in enumerate(state.transitions):
            yield from _list_of_transition(workflow, state, transition, point_below(below, "transitions", index))


def _list_of_transition(workflow: Workflow, state: State, transition: Transition, at: str) -> Iterator[_Annotations]:
    place, asks = locate_transition(workflow, state, transition), is_asked(transition.criterion)
    yield _Annotations(place, f"{at}/annotations", transition.annotations)
    guard = (f"{at}/criterionAnnotations", transition.criterion_annotations, asks)
    yield _Annotations(f"{place} criterionAnnotations", *guard)
    for index, processor in enumerate(transition.processors):
        place_of_processor = locate_processor(workflow, state, transition, processor)
        pointer = point_below(at, "processors", index, "annotations")
        yield _Annotations(place_of_processor, pointer, processor.annotations, takes_retry=True)


def locate_workflow(workflow: Workflow) -> str:
    """``workflow "W"``."""
    return f"workflow {quote_name(workflow.name)}"


def locate_state(workflow: Workflow, state: State) -> str:
    """``workflow "W" state "S"``."""
    return f"{locate_workflow(workflow)} state {quote_name(state.name)}"


def locate_transition(workflow: Workflow, state: State, transition: Transition) -> str:
    """``workflow "W" state "S" transition "T"``."""
    return f"{locate_state(workflow, state)} transition {quote_name(transition.name)}"


def locate_processor(workflow: Workflow, state: State, transition: Transition, processor: Processor) -> str:
    """``workflow "W" state "S" transition "T" processor "P"``."""
    return f"{locate_transition(workflow, state, transition)} processor {quote_name(processor.name)}"


MAX_ELEMENTS: Final = 50_000
"""Workflows, states, transitions and processors of one model together: reading and freeing them takes its time."""

_LEVELS: Final = ("workflows", "states", "transitions", "processors")


def refuse_many_elements(request: JsonValue) -> None:
    """Refuse a request before it is read. Raises ``BadRequest``; what is no definition is not looked at."""
    count, level = 0, [request]
    for name in _LEVELS:
        level = [inner for outer in level if isinstance(outer, dict) for inner in list_children(outer.get(name))]
        count += len(level)
    if count > MAX_ELEMENTS:
        raise BadRequest(_describe_excess(count))


def find_many_elements(workflows: Iterable[Workflow]) -> Iterator[Violation]:
    """The refusal of what a model would have, if it is too much."""
    count = sum(map(_count_elements, workflows))
    if count > MAX_ELEMENTS:
        yield Violation("INVALID_STRUCTURE", "/workflows", _describe_excess(count))


def _describe_excess(count: int) -> str:
    return f"the model would have {count} workflows, states, transitions and processors, and {MAX_ELEMENTS} is the most"


def _count_elements(workflow: Workflow) -> int:
    transitions = [transition for state in workflow.states.values() for transition in state.transitions]
    return 1 + len(workflow.states) + len(transitions) + sum(len(transition.processors) for transition in transitions)
