"""What an import would change of the workflows of a model (docs/reference/operations.md#checking-workflows)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.conditions import Function
from statewright.jsonval.differences import build_json_patch
from statewright.jsonval.values import JsonObject
from statewright.workflow.definition import Schedule, Workflow
from statewright.workflow.exporting import write_workflow

ChangeKind: TypeAlias = Literal["ADDED", "REMOVED", "CHANGED"]
TimerKey: TypeAlias = tuple[str, str, str]
"""Workflow, state and transition."""


class WorkflowChange(Struct, frozen=True, kw_only=True):
    """A workflow that would not be as it is; ``patch`` is the JSON Patch of its export."""

    name: str
    change: ChangeKind
    patch: list[JsonObject]


class TimerChange(Struct, frozen=True, kw_only=True):
    """A scheduled transition that would not be as it is."""

    workflow: str
    state: str
    transition: str
    change: ChangeKind


class NameChanges(Struct, frozen=True, kw_only=True):
    """Names that come and go."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


class WorkflowChanges(Struct, frozen=True, kw_only=True):
    """All that would change; states and tags are those of all workflows together."""

    workflows: tuple[WorkflowChange, ...]
    states: NameChanges
    timers: tuple[TimerChange, ...]
    tags: NameChanges


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
            yield WorkflowChange(name=name, change=kind, patch=patch)


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
