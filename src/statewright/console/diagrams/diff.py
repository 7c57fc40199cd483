"""Two documents of one workflow compared, part by part: for one picture of both, and as sentences.

Parts are states and transitions, the latter known by state and name. What only travels along (annotations, the
description) is compared, too, since it is part of a revision.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import get_object, get_objects, get_text
from statewright.console.diagrams.drawing import Drawing, Edge, Node
from statewright.console.diagrams.workflow import (
    Transition,
    WorkflowGraph,
    draw_workflow,
    format_delay,
    read_workflow,
)
from statewright.jsonval.patches import is_json_equal
from statewright.jsonval.values import JsonObject, JsonValue

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
_TRANSITION_FLAGS: Final = {
    "manual": ("fires only when asked to", "fires by itself"),
    "disabled": ("is switched off", "is switched on"),
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


class WorkflowDiff(Struct, frozen=True, kw_only=True):
    """All that differs; ``old`` and ``new`` are what was compared."""

    old: WorkflowGraph
    new: WorkflowGraph
    states: Mapping[str, Change]
    transitions: Mapping[TransitionKey, Change]
    sentences: tuple[Sentence, ...]


def compare_workflows(old: JsonValue, new: JsonValue) -> WorkflowDiff:
    """What leads from one document to the other; ``None`` for a workflow that is not there."""
    before, after = _index_transitions(old), _index_transitions(new)
    transitions = _compare_keys(before, after)
    left = {state for state, _ in transitions}  # a state is changed when a way out of it is, or the order of those ways
    states = _compare_keys(get_object(old, "states"), get_object(new, "states"), left)
    sentences = (
        *_tell_head(old, new),
        *_tell_states(states, old, new),
        *(
            sentence
            for key, change in transitions.items()
            for sentence in _tell_transition(key, change, before.get(key, {}), after.get(key, {}))
        ),
        *_tell_order(old, new),
    )
    return WorkflowDiff(
        old=read_workflow(old), new=read_workflow(new), states=states, transitions=transitions, sentences=sentences
    )


def _index_transitions(document: JsonValue) -> dict[TransitionKey, JsonObject]:
    return {
        (state, get_text(each, "name")): each
        for state, value in get_object(document, "states").items()
        for each in get_objects(value, "transitions")
    }


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


def _tell_head(old: JsonValue, new: JsonValue) -> Iterator[Sentence]:
    before, after = get_text(old, "initialState"), get_text(new, "initialState")
    if before != after:
        yield Sentence(
            change="changed",
            text=f"Entities begin in {after}, no longer in {before}." if before else f"Entities begin in {after}.",
            state=after,
        )
    for member, words in _HEAD_MEMBERS.items():
        if (change := _compare_member(old, new, member)) is not None:
            yield Sentence(change=change, text=f"{words} was {change}.")
    if _is_active(old) != _is_active(new):
        words = "chosen for new entities" if _is_active(new) else "passed over when a workflow is chosen"
        yield Sentence(change="changed", text=f"The workflow is {words} from now on.")


def _is_active(document: JsonValue) -> bool:
    return not isinstance(document, dict) or document.get("active") is not False


def _compare_member(old: JsonValue, new: JsonValue, member: str) -> Change | None:
    before = old.get(member) if isinstance(old, dict) else None
    after = new.get(member) if isinstance(new, dict) else None
    if is_json_equal(before, after):
        return None
    return "added" if before is None else "removed" if after is None else "changed"


def _tell_states(states: Mapping[str, Change], old: JsonValue, new: JsonValue) -> Iterator[Sentence]:
    before, after = get_object(old, "states"), get_object(new, "states")
    for state, change in states.items():
        if change != "changed":
            yield Sentence(
                change=change, text=f"State {state} is {'new' if change == 'added' else 'gone'}.", state=state
            )
        elif _compare_member(before[state], after[state], "annotations") is not None:
            yield Sentence(change="changed", text=f"The annotations of state {state} differ.", state=state)


def _tell_transition(key: TransitionKey, change: Change, old: JsonObject, new: JsonObject) -> Iterator[Sentence]:
    state, name = key
    if change == "added":
        text = f"{state} has a new transition {name} to {get_text(new, 'next')}."
    elif change == "removed":
        text = f"{state} loses the transition {name} to {get_text(old, 'next')}."
    else:
        text = f"{state}.{name}: {'; '.join(_tell_members(old, new)) or 'other members differ'}."
    yield Sentence(change=change, text=text, state=state)


def _tell_members(old: JsonObject, new: JsonObject) -> Iterator[str]:
    if get_text(old, "next") != get_text(new, "next"):
        yield f"leads to {get_text(new, 'next')}, no longer to {get_text(old, 'next')}"
    for flag, (on, off) in _TRANSITION_FLAGS.items():
        before, after = old.get(flag) is True, new.get(flag) is True
        if before != after:
            yield on if after else off
    delays = [get_object(each, "schedule").get("delayMs") for each in (old, new)]
    for member, words in _TRANSITION_MEMBERS.items():
        change = _compare_member(old, new, member)
        if change == "changed" and member == "schedule" and delays[0] != delays[1]:
            yield f"waits {_tell_delay(delays[1])}, no longer {_tell_delay(delays[0])}"
        elif change is not None:
            yield f"{words} was {change}"
    yield from _tell_processors(old, new)


def _tell_delay(value: JsonValue) -> str:
    return format_delay(value) if isinstance(value, int) else "for a computed time"


def _tell_processors(old: JsonObject, new: JsonObject) -> Iterator[str]:
    before, after = ({get_text(each, "name"): each for each in get_objects(side, "processors")} for side in (old, new))
    for name, change in _compare_keys(before, after).items():
        yield f"processor {name} {_PROCESSOR_WORDS[change]}"
    if before.keys() == after.keys() and list(before) != list(after):
        yield "its processors run in another order"


def _tell_order(old: JsonValue, new: JsonValue) -> Iterator[Sentence]:
    before, after = get_object(old, "states"), get_object(new, "states")
    for state in before.keys() & after.keys():
        left, right = _list_names(before[state]), _list_names(after[state])
        if [name for name in left if name in right] != [name for name in right if name in left]:
            text = f"The transitions of {state} are tried in another order: {', '.join(right)}."
            yield Sentence(change="changed", text=text, state=state)


def _list_names(state: JsonValue) -> Sequence[str]:
    return [get_text(each, "name") for each in get_objects(state, "transitions")]


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
