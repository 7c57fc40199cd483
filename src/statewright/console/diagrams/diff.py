"""Two documents of one workflow compared, part by part: for one picture of both, and as sentences.

Parts are states and transitions, the latter known by state and name. What only travels along (annotations, the
description) is compared, too, since it is part of a revision.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import pick_members
from statewright.console.diagrams.drawing import Drawing, Edge, Node
from statewright.console.diagrams.workflow import (
    Asking,
    StateDocument,
    Transition,
    TransitionDocument,
    WorkflowDocument,
    WorkflowGraph,
    draw_workflow,
    format_delay,
    index_by_name,
    read_document,
    read_workflow,
)
from statewright.jsonval.patches import is_json_equal
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.records import Record, Value

Change: TypeAlias = Literal["added", "removed", "changed"]
TransitionKey: TypeAlias = tuple[str, str]
KeyT = TypeVar("KeyT")
PartT = TypeVar("PartT", Node, Edge)

SIGNS: Final[Mapping[Change, str]] = {"added": "+", "removed": "−", "changed": "~"}

_HEAD_MEMBERS: Final = {
    "desc": "The description",
    "criterion": "The selection criterion",
    "criterionAnnotations": "The annotations of the selection criterion",
    "annotations": "The annotations of the workflow",
    "version": "The version of the import contract",
}
_TRANSITION_MEMBERS: Final = {
    "criterion": "its criterion",
    "schedule": "its schedule",
    "annotations": "its annotations",
    "criterionAnnotations": "the annotations of its criterion",
}
_PROCESSOR_WORDS: Final[Mapping[Change, str]] = {"added": "is new", "removed": "is gone", "changed": "was changed"}


class Sentence(Struct, frozen=True, kw_only=True):
    """A change in words. ``state`` is the one that it concerns; empty where it concerns the workflow."""

    change: Change
    text: str
    state: str = ""

    @property
    def sign(self) -> str:
        """What stands before it."""
        return SIGNS[self.change]


class _Processors(Record, frozen=True, kw_only=True):
    """The processors of a transition, with all that is said of them."""

    processors: Value = None


class WorkflowDiff(Struct, frozen=True, kw_only=True):
    """All that differs; ``old`` and ``new`` are what was compared."""

    old: WorkflowGraph
    new: WorkflowGraph
    states: Mapping[str, Change]
    transitions: Mapping[TransitionKey, Change]
    sentences: tuple[Sentence, ...]


def compare_workflows(old: JsonValue, new: JsonValue) -> WorkflowDiff:
    """What leads from one document to the other; ``None`` for a workflow that is not there."""
    was, now = read_document(old), read_document(new)
    before, after = _index_transitions(was), _index_transitions(now)
    transitions = _compare_keys(before, after)
    left = {state for state, _ in transitions}  # a state is changed when a way out of it is, or the order of those ways
    states = _compare_keys(was.states, now.states, left)
    sentences = (
        *_tell_head(old, new, was, now),
        *_tell_states(states, was, now),
        *(
            _tell_transition(key, change, before.get(key, {}), after.get(key, {}))
            for key, change in transitions.items()
        ),
        *_tell_order(was, now),
    )
    return WorkflowDiff(
        old=read_workflow(old), new=read_workflow(new), states=states, transitions=transitions, sentences=sentences
    )


def _index_transitions(document: WorkflowDocument) -> dict[TransitionKey, JsonObject]:
    return {
        (state, name): each
        for state in document.states
        for name, each in _index_transitions_of(document, state).items()
    }


def _index_transitions_of(document: WorkflowDocument, state: str) -> dict[str, JsonObject]:
    return index_by_name(pick_members(document.states[state], StateDocument).transitions)


def _compare_keys(
    before: Mapping[KeyT, JsonValue], after: Mapping[KeyT, JsonValue], also: Collection[KeyT] = ()
) -> dict[KeyT, Change]:
    """What came, went or changed; ``also``: what has changed whatever it says itself."""
    changes: dict[KeyT, Change] = {}
    for key in {**before, **after}:
        if key not in before:
            changes[key] = "added"
        elif key not in after:
            changes[key] = "removed"
        elif key in also or not is_json_equal(before[key] or {}, after[key] or {}):
            changes[key] = "changed"
    return changes


# Sentences


def _tell_head(old: JsonValue, new: JsonValue, was: WorkflowDocument, now: WorkflowDocument) -> Iterator[Sentence]:
    before, after = was.initial_state, now.initial_state
    if before != after:
        text = f"Entities begin in {after}, no longer in {before}." if before else f"Entities begin in {after}."
        yield Sentence(change="changed", text=text, state=after)
    for member, words in _HEAD_MEMBERS.items():
        if (change := _compare_member(old, new, member)) is not None:
            yield Sentence(change=change, text=f"{words} was {change}.")
    if was.active != now.active:
        words = "chosen for new entities" if now.active else "passed over when a workflow is chosen"
        yield Sentence(change="changed", text=f"The workflow is {words} from now on.")


def _compare_member(old: JsonValue, new: JsonValue, member: str) -> Change | None:
    before = old.get(member) if isinstance(old, dict) else None
    after = new.get(member) if isinstance(new, dict) else None
    if is_json_equal(before, after):
        return None
    return "added" if before is None else "removed" if after is None else "changed"


def _tell_states(states: Mapping[str, Change], was: WorkflowDocument, now: WorkflowDocument) -> Iterator[Sentence]:
    for state, change in states.items():
        if change != "changed":
            text = f"State {state} is {'new' if change == 'added' else 'gone'}."
            yield Sentence(change=change, text=text, state=state)
        elif _compare_member(was.states[state], now.states[state], "annotations") is not None:
            yield Sentence(change="changed", text=f"The annotations of state {state} differ.", state=state)


def _tell_transition(key: TransitionKey, change: Change, old: JsonObject, new: JsonObject) -> Sentence:
    (state, name), was, now = key, pick_members(old, TransitionDocument), pick_members(new, TransitionDocument)
    if change == "added":
        text = f"{state} has a new transition {name} to {now.next}."
    elif change == "removed":
        text = f"{state} loses the transition {name} to {was.next}."
    else:
        differences = (*_tell_members(was, now), *_tell_others(old, new, was, now), *_tell_processors(old, new))
        text = f"{state}.{name}: {'; '.join(differences) or 'other members differ'}."
    return Sentence(change=change, text=text, state=state)


def _tell_members(was: TransitionDocument, now: TransitionDocument) -> Iterator[str]:
    if was.next != now.next:
        yield f"leads to {now.next}, no longer to {was.next}"
    if was.manual != now.manual:
        yield "fires only when asked to" if now.manual else "fires by itself"
    if was.disabled != now.disabled:
        yield "is switched off" if now.disabled else "is switched on"


def _tell_others(old: JsonObject, new: JsonObject, was: TransitionDocument, now: TransitionDocument) -> Iterator[str]:
    delays = [pick_members(each.schedule, Asking).delay_ms for each in (was, now)]
    for member, words in _TRANSITION_MEMBERS.items():
        change = _compare_member(old, new, member)
        if change == "changed" and member == "schedule" and delays[0] != delays[1]:
            yield f"waits {_tell_delay(delays[1])}, no longer {_tell_delay(delays[0])}"
        elif change is not None:
            yield f"{words} was {change}"


def _tell_delay(value: JsonValue) -> str:
    return format_delay(value) if isinstance(value, int) else "for a computed time"


def _tell_processors(old: JsonObject, new: JsonObject) -> Iterator[str]:
    before, after = (index_by_name(pick_members(each, _Processors).processors) for each in (old, new))
    for name, change in _compare_keys(before, after).items():
        yield f"processor {name} {_PROCESSOR_WORDS[change]}"
    if before.keys() == after.keys() and list(before) != list(after):
        yield "its processors run in another order"


def _tell_order(was: WorkflowDocument, now: WorkflowDocument) -> Iterator[Sentence]:
    for state in was.states.keys() & now.states.keys():
        left, right = (list(_index_transitions_of(each, state)) for each in (was, now))
        if [name for name in left if name in right] != [name for name in right if name in left]:
            text = f"The transitions of {state} are tried in another order: {', '.join(right)}."
            yield Sentence(change="changed", text=text, state=state)


# One picture of both


def draw_diff(diff: WorkflowDiff) -> Drawing:
    """The new workflow with what is gone left in; classes and signs say what became of each part.

    A transition that leads elsewhere is drawn twice: as it was, removed, and as it is, changed.
    """
    both = _unite(diff)
    drawn = draw_workflow(both, has_marks=False)
    offset = len(drawn.edges) - len(both.transitions)
    old = {each.key: each for each in diff.old.transitions}
    edges = list(drawn.edges[:offset])
    for edge, transition in zip(drawn.edges[offset:], both.transitions, strict=True):
        change = diff.transitions.get(transition.key)
        previous = old.get(transition.key)
        edges.append(_sign(edge, change))
        if change == "changed" and previous is not None and previous.target != transition.target:
            target = both.states.index(previous.target) + 1
            edges.append(_sign(replace(edge, target=target), "removed"))
    nodes = tuple(node if node.shape == "start" else _sign(node, diff.states.get(node.name)) for node in drawn.nodes)
    return replace(drawn, nodes=nodes, edges=tuple(edges))


def _unite(diff: WorkflowDiff) -> WorkflowGraph:
    gone = tuple(each for each in diff.old.transitions if diff.transitions.get(each.key) == "removed")
    states = tuple(dict.fromkeys((*diff.new.states, *diff.old.states)))
    transitions: tuple[Transition, ...] = (*diff.new.transitions, *gone)
    return replace(diff.new, initial=diff.new.initial or diff.old.initial, states=states, transitions=transitions)


def _sign(part: PartT, change: Change | None) -> PartT:
    if change is None:
        return part
    return replace(part, label=f"{SIGNS[change]} {part.label}", classes=(*part.classes, change))
