"""Everything that can be said of an import before it is done (docs/reference/operations.md#checking-workflows): whether
it may be done, what it changes, and warnings of workflows that may be imported and probably do not do what was
meant.

The rules are those of the import (``import_checks``), so what is called importable here is imported there. All of it is
pure: what the model, its entities, its timers and the connected members are is given.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.conditions import Function, KnownFields
from statewright.conditions.checks import find_criterion_defects
from statewright.entity import ModelKey
from statewright.failures import BadRequest
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue, quote_name
from statewright.operations.checks import CheckFinding, FindingSeverity, WorkflowChanges
from statewright.workflow.definition import Criterion, State, Transition, Workflow
from statewright.workflow.exporting import compare_workflows
from statewright.workflow.import_checks import find_doubts, find_merged_violations, find_violations
from statewright.workflow.import_request import IMPORT_MODES, ImportRequest, read_import
from statewright.workflow.reading import UnreadableMember
from statewright.workflow.selection import find_governing, list_candidates
from statewright.workflow.structure import Violation, find_long_names, point_at_workflow, point_below
from statewright.workflow.witnesses import find_common_witness, is_never_true

Doubt: TypeAlias = Literal[
    "UNREACHABLE_STATE",
    "DEAD_END",
    "SHADOWED_TRANSITION",
    "OVERLAPPING_CRITERIA",
    "NEVER_TRUE",
    "PATH_NOT_IN_MODEL",
    "TYPE_MISMATCH",
    "TAG_WITHOUT_MEMBER",
    "TAG_NEVER_SEEN",
    "TIMER_SHORTER_THAN_SCAN",
    "TIMEOUT_SHORTER_THAN_SCAN",
    "REMOVED_STATE_IN_USE",
    "REMOVED_TRANSITION_WITH_TIMER",
    "SELECTION_GAP",
    "FIELD_IGNORED",
    "SUSPENDED_TARGET",
    "INVALID_CRITERION",
    "FUNCTION_WITHOUT_TAGS",
]
"""The codes of warnings."""

Note: TypeAlias = Literal["NO_TERMINAL_STATE", "DISABLED_TRANSITION", "INACTIVE_WORKFLOW", "RETRY_REPEATS_EFFECTS"]
"""The codes of what is only worth knowing."""

SEVERITIES: Final[tuple[FindingSeverity, ...]] = ("ERROR", "WARNING", "INFO")
"""In the order in which findings are listed."""

MAX_FINDINGS: Final = 1_000

MAX_PAIRS: Final = 2_000
"""Pairs of criteria of one check for which a document is looked for that both take."""


MAX_WITNESS_BYTES: Final = 10_000
"""Largest witness that is shown, as JSON: a thousand findings may each have one."""


class StateUse(Struct, frozen=True, kw_only=True):
    """How many entities that follow a workflow are in a state; of timers, with the ``transition`` that they fire."""

    workflow: str
    state: str
    count: int
    transition: str | None = None


class Surroundings(Struct, frozen=True, kw_only=True):
    """What workflows are held against. ``has_member``: whether a connected member declares all of some tags; None where
    that is not known, as ``uses`` and ``timers`` are where nobody has counted. ``scan_interval_ms``: how often timers
    are looked at.
    """

    fields: KnownFields | None = None
    has_member: Callable[[Collection[str]], bool] | None = None
    uses: Sequence[StateUse] | None = None
    timers: Sequence[StateUse] | None = None
    scan_interval_ms: int = 1_000
    suspends: Callable[[str, str], bool] | None = None
    """Whether a workflow, or with a name a transition of it, is suspended; None where that is not known."""
    suspends_tags: Callable[[Collection[str]], bool] | None = None
    has_seen: Callable[[str], bool] | None = None
    """Whether a member ever declared a tag; None where that is not known."""


def list_findings(
    violations: Iterable[Violation],
    request: ImportRequest | None,
    merged: Sequence[Workflow] | None,
    around: Surroundings,
) -> tuple[CheckFinding, ...]:
    """The violations, and what a request is to be warned of, in the order in which they are told.

    ``request`` is None where the document cannot be read, ``merged`` what the import would leave, None where it is
    refused.
    """
    found = [
        CheckFinding(severity="ERROR", code=each.code, path=each.pointer, message=each.message, hint=None)
        for each in violations
    ]
    if request is not None:
        found += islice(_review_request(request, around), MAX_FINDINGS)
    if request is not None and merged is not None:
        found += islice(_review_merged(request, merged, around), MAX_FINDINGS)
    found.sort(key=lambda each: (SEVERITIES.index(each.severity), each.path, each.code))
    return tuple(found[:MAX_FINDINGS])


def _warn(code: Doubt, path: str, message: str, hint: str | None = None, witness: JsonValue = None) -> CheckFinding:
    return CheckFinding(severity="WARNING", code=code, path=path, message=message, hint=hint, witness=witness)


def _inform(code: Note, path: str, message: str, hint: str | None = None) -> CheckFinding:
    return CheckFinding(severity="INFO", code=code, path=path, message=message, hint=hint)


def _review_request(request: ImportRequest, around: Surroundings) -> Iterator[CheckFinding]:
    for pointer in request.ignored:
        hint = 'a workflow of version "1.1" or later is refused for it'
        yield _warn("FIELD_IGNORED", pointer, "the contract of this workflow does not know the member", hint)
    pairs = iter(range(MAX_PAIRS))
    for index, workflow in enumerate(request.workflows):
        at = point_at_workflow(index)
        yield from _review_shape(workflow, at)
        yield from _review_criteria(workflow, at, around)
        yield from _review_overlaps(workflow, at, around, pairs)
        yield from _review_work(workflow, at, around)
        yield from _review_suspensions(workflow, at, around)


# What can be told from states and transitions alone.


def _review_shape(workflow: Workflow, at: str) -> Iterator[CheckFinding]:
    if not workflow.active:
        yield _inform("INACTIVE_WORKFLOW", f"{at}/active", "no new entity takes it")
    reached = _find_reachable(workflow)
    for state in workflow.states.values():
        place = point_below(at, "states", state.name)
        enabled = [each for each in state.transitions if not each.disabled]
        if reached and state.name not in reached:
            message = f"no way leads from {quote_name(workflow.initial_state)} to it"
            yield _warn("UNREACHABLE_STATE", place, message, "remove it, or add a transition")
        if state.transitions and not enabled:
            yield _warn("DEAD_END", place, "every way out is disabled", "enable one, or make it a last state")
        yield from _review_order(state, place)
    if workflow.states and all(state.transitions for state in workflow.states.values()):
        yield _inform("NO_TERMINAL_STATE", f"{at}/states", "a way leads out of every state: no entity ever ends")


def _find_reachable(workflow: Workflow) -> set[str]:
    """The states to which enabled transitions lead, of whatever kind; none where the initial one is not declared."""
    reached: set[str] = set()
    ahead = [workflow.initial_state] if workflow.initial_state in workflow.states else []
    while ahead:
        state = ahead.pop()
        if state not in reached and state in workflow.states:
            reached.add(state)
            ahead += (each.next for each in workflow.states[state].transitions if not each.disabled)
    return reached


def _review_order(state: State, at: str) -> Iterator[CheckFinding]:
    winner: Transition | None = None
    for index, transition in enumerate(state.transitions):
        place = point_below(at, "transitions", index)
        if transition.disabled:
            yield _inform("DISABLED_TRANSITION", place, "it never fires")
        elif transition.is_automated and winner is not None:
            message = f"{quote_name(winner.name)} stands before it, has no criterion, and always fires first"
            yield _warn("SHADOWED_TRANSITION", place, message, "move it up, or give the other one a criterion")
        elif transition.is_automated and transition.criterion is None:
            winner = transition


# What can be told of criteria.


def _list_criteria(workflow: Workflow, at: str) -> Iterator[tuple[str, Criterion]]:
    if workflow.criterion is not None:
        yield f"{at}/criterion", workflow.criterion
    for state in workflow.states.values():
        for index, transition in enumerate(state.transitions):
            if transition.criterion is not None:
                yield point_below(at, "states", state.name, "transitions", index, "criterion"), transition.criterion


def _review_criteria(workflow: Workflow, at: str, around: Surroundings) -> Iterator[CheckFinding]:
    for place, criterion in _list_criteria(workflow, at):
        condition = criterion.condition
        doubts = list(find_doubts(criterion, workflow.contract, around.fields))
        yield from (_warn(code, place, message) for code, message in doubts)
        if condition is None or isinstance(condition, Function) or any(find_criterion_defects(condition)):
            continue
        declared = {} if around.fields is None else around.fields.declared
        if (reason := is_never_true(condition, declared)) is not None:
            yield _warn("NEVER_TRUE", place, reason)


def _review_overlaps(workflow: Workflow, at: str, around: Surroundings, pairs: Iterator[int]) -> Iterator[CheckFinding]:
    if around.fields is None:
        return
    for state in workflow.states.values():
        guarded = [
            (index, each.name, each.criterion.condition)
            for index, each in enumerate(state.transitions)
            if each.is_automated and each.criterion is not None and each.criterion.condition is not None
        ]
        for (_, first, one), (index, _, other) in combinations(guarded, 2):
            if next(pairs, None) is None:
                return
            witness = find_common_witness(one, other, around.fields.declared)
            if witness is not None:
                place = point_below(at, "states", state.name, "transitions", index, "criterion")
                message = f"{quote_name(first)} stands before it, and both take some documents"
                shown = witness if len(encode(witness)) <= MAX_WITNESS_BYTES else None
                yield _warn("OVERLAPPING_CRITERIA", place, message, "the first one wins for such a document", shown)


# What can be told of timers and of what members do.


def _review_work(workflow: Workflow, at: str, around: Surroundings) -> Iterator[CheckFinding]:
    asked = list(_list_asked(workflow, at)) if around.has_member is not None and workflow.active else []
    for place, tags in asked:
        if around.has_member is not None and not around.has_member(tags):
            unknown = [] if around.has_seen is None else [tag for tag in tags if not around.has_seen(tag)]
            if unknown:
                message = f"no member ever had the tag {', '.join(unknown)}"
                yield _warn("TAG_NEVER_SEEN", place, message, "check how it is written, or start its node")
                continue
            told = f"the tags {', '.join(tags)}" if tags else "any tags"
            yield _warn("TAG_WITHOUT_MEMBER", place, f"no member with {told} is connected", "start its node")
    for state in workflow.states.values():
        for index, transition in enumerate(state.transitions):
            place = point_below(at, "states", state.name, "transitions", index)
            yield from _review_schedule(transition, f"{place}/schedule", around.scan_interval_ms)
            for number, processor in enumerate(transition.processors):
                if processor.retry is not None and processor.retry.repeats_work:
                    message = "an attempt may follow one that has reached a member: what it did outside is done twice"
                    hint = "make the processor idempotent"
                    yield _inform("RETRY_REPEATS_EFFECTS", point_below(place, "processors", number), message, hint)


def _review_schedule(transition: Transition, at: str, scan_interval_ms: int) -> Iterator[CheckFinding]:
    schedule = transition.schedule
    if schedule is None:
        return
    told = f"timers are looked at every {scan_interval_ms} ms"
    if 0 < schedule.delay_ms < scan_interval_ms:
        yield _warn("TIMER_SHORTER_THAN_SCAN", f"{at}/delayMs", f"it may fire later: {told}")
    if schedule.timeout_ms is not None and schedule.timeout_ms < scan_interval_ms:
        yield _warn("TIMEOUT_SHORTER_THAN_SCAN", f"{at}/timeoutMs", f"it may expire before anybody looks: {told}")


def _list_asked(workflow: Workflow, at: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What members are asked for, with the tags that they need."""
    for place, criterion in _list_criteria(workflow, at):
        if isinstance(criterion.condition, Function):
            yield place, criterion.condition.tags
    for state in workflow.states.values():
        for index, transition in enumerate(state.transitions):
            place = point_below(at, "states", state.name, "transitions", index)
            for number, processor in enumerate(transition.processors):
                yield point_below(place, "processors", number), processor.config.tags
            if transition.schedule is not None and transition.schedule.function is not None:
                yield f"{place}/schedule/function", transition.schedule.function.tags


def _review_suspensions(workflow: Workflow, at: str, around: Surroundings) -> Iterator[CheckFinding]:
    message, hint = "it is suspended, and stays so after the import", "resume it"
    if around.suspends is not None:
        if around.suspends(workflow.name, ""):
            yield _warn("SUSPENDED_TARGET", at, message, hint)
        for state in workflow.states.values():
            for index, transition in enumerate(state.transitions):
                if around.suspends(workflow.name, transition.name):
                    place = point_below(at, "states", state.name, "transitions", index)
                    yield _warn("SUSPENDED_TARGET", place, message, hint)
    for place, tags in _list_asked(workflow, at) if around.suspends_tags is not None else ():
        if around.suspends_tags is not None and around.suspends_tags(tags):
            yield _warn("SUSPENDED_TARGET", place, f"the tags {', '.join(tags)} are suspended", hint)


# What can be told of the list that the import leaves.


def _review_merged(request: ImportRequest, merged: Sequence[Workflow], around: Surroundings) -> Iterator[CheckFinding]:
    places = {workflow.name: point_at_workflow(index) for index, workflow in enumerate(request.workflows)}
    candidates = list_candidates(merged)
    if candidates and all(workflow.criterion is not None for workflow in candidates):
        message = "every active workflow has a criterion: an entity that none of them takes follows the default one"
        yield _warn("SELECTION_GAP", "/workflows", message, "let the last one have no criterion")
    for use in around.uses or ():
        if find_governing(merged, use.state, use.workflow) is None:
            message = f"{use.count} entities are in {quote_name(use.state)}, which no active workflow has any more"
            yield _warn("REMOVED_STATE_IN_USE", _point_at_states(places, use), message, "move them first")
    for timer in around.timers or ():
        if not _still_fires(merged, timer):
            told = f"{timer.count} timers are armed for {quote_name(timer.transition or '')}"
            message = f"{told} of {quote_name(timer.state)}, which will not fire any more"
            yield _warn("REMOVED_TRANSITION_WITH_TIMER", _point_at_states(places, timer), message)


def _point_at_states(places: Mapping[str, str], use: StateUse) -> str:
    return f"{places[use.workflow]}/states" if use.workflow in places else "/workflows"


def _still_fires(merged: Sequence[Workflow], timer: StateUse) -> bool:
    governing = find_governing(merged, timer.state, timer.workflow) if merged else None
    transition = governing.find_transition(timer.state, timer.transition or "") if governing is not None else None
    return transition is not None and not transition.disabled and transition.schedule is not None


MAX_VIOLATIONS: Final = 1_000


class CheckResult(Struct, frozen=True, kw_only=True):
    """``merged`` and ``changes`` are what the import would leave and change; None where it is refused."""

    findings: tuple[CheckFinding, ...]
    merged: tuple[Workflow, ...] | None
    changes: WorkflowChanges | None

    @property
    def is_importable(self) -> bool:
        """Whether the import would be done."""
        return self.merged is not None


def check_import(document: JsonValue, key: ModelKey, stored: Sequence[Workflow], around: Surroundings) -> CheckResult:
    """Check the document of an import for a model with these stored workflows."""
    try:
        request = read_import(document)
    except BadRequest as unreadable:
        violations = [_to_violation(unreadable)]
        return CheckResult(findings=list_findings(violations, None, None, around), merged=None, changes=None)
    if violations := list(islice(find_long_names(request.workflows), MAX_VIOLATIONS)):
        return CheckResult(findings=list_findings(violations, None, None, around), merged=None, changes=None)
    violations = list(islice(chain(_find_other_model(request, key), find_violations(request)), MAX_VIOLATIONS))
    merged: tuple[Workflow, ...] | None = None
    if not violations:
        merged = IMPORT_MODES[request.mode](stored, request.workflows)
        places = {workflow.name: index for index, workflow in enumerate(request.workflows)}
        found = find_merged_violations(merged, allow_cycles=request.allow_cycles, places=places)
        violations = list(islice(found, MAX_VIOLATIONS))
    findings = list_findings(violations, request, None if violations else merged, around)
    if violations or merged is None:
        return CheckResult(findings=findings, merged=None, changes=None)
    return CheckResult(findings=findings, merged=merged, changes=compare_workflows(stored, merged))


def _find_other_model(request: ImportRequest, key: ModelKey) -> Iterator[Violation]:
    try:
        request.require_model(key)
    except BadRequest as other:
        yield _to_violation(other)


def _to_violation(refusal: BadRequest) -> Violation:
    at = refusal.pointer if isinstance(refusal, UnreadableMember) else ""
    return Violation("INVALID_STRUCTURE", at, refusal.message)
