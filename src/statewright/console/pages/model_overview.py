"""A model at a glance: its active workflows as pictures with live counts, and who serves them (docs/console.md)."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from statewright.console.calls import (
    Reply,
    build_entity_call,
    build_ops_call,
    get_flag,
    get_text,
    get_texts,
)
from statewright.console.diagrams.plan import write_marks
from statewright.console.diagrams.workflow import (
    Overlay,
    WorkflowGraph,
    draw_workflow,
    list_workflows,
    mark_workflow,
    read_workflow,
)
from statewright.console.live import ModelCounts
from statewright.console.pages.model import (
    ROOT,
    ModelHead,
    build_model_path,
    build_model_view,
    list_head_calls,
    read_key,
    view_head,
)
from statewright.console.pages.workflow import MAX_MEMBERS, TagView, describe_criterion
from statewright.console.pages.workflow_parts import MAX_INCIDENTS
from statewright.console.request import ConsoleRequest, Page, Routes, build_part, build_problem
from statewright.console.views.page import Picture, Problem, View, build_picture, encode_segment, format_count
from statewright.jsonval.values import JsonObject
from statewright.operations.incidents import Incident

MAX_DRAWN: Final = 3
"""Workflows that are drawn on the page; the others have pages of their own."""
MAX_ROWS: Final = 30
"""States in the table beside a picture."""
MAX_STATES: Final = 100
"""States that are listed with their entities."""
NOT_FOUND: Final = 404


class StateWays(Struct, frozen=True, kw_only=True):
    """A state, and the ways out of it: transitions with where they lead."""

    name: str
    ways: tuple[tuple[str, str], ...]


class DrawnWorkflow(Struct, frozen=True, kw_only=True):
    """The picture of a workflow, and the same as a table. ``left_out``: of so many states it has no row."""

    picture: Picture
    rows: tuple[StateWays, ...]
    left_out: int


class WorkflowSummary(Struct, frozen=True, kw_only=True):
    """A workflow of the model. ``needs``: the tags of its callouts, with the members that have all of them."""

    name: str
    is_active: bool
    states: int
    transitions: int
    needs: tuple[TagView, ...]
    criterion: str
    drawn: DrawnWorkflow | None


class ModelView(Struct, frozen=True, kw_only=True):
    """The overview."""

    head: ModelHead
    workflows: tuple[WorkflowSummary, ...]
    workflows_problem: Problem | None = None
    members_problem: Problem | None = None


class StateTotal(Struct, frozen=True, kw_only=True):
    """A state with its entities and open incidents, as texts; empty: none."""

    name: str
    entities: str
    incidents: str


class ModelMarksView(Struct, frozen=True, kw_only=True):
    """What changes on the overview. ``marks`` are those of the pictures, by their ids."""

    name: str
    version: int
    counts: ModelCounts
    states: tuple[StateTotal, ...]
    left_out: int
    marks: tuple[tuple[str, str], ...]
    problem: Problem | None
    incidents_problem: Problem | None


async def show_model(request: ConsoleRequest) -> View:
    """The overview of a model."""
    name, version = read_key(request)
    export, members, *head = await request.call(
        build_entity_call("model", name, version, "workflow", "export"),
        build_ops_call("members", query={"limit": MAX_MEMBERS}),
        *list_head_calls(request, name),
    )
    return await asyncio.to_thread(view_model, view_head(name, version, tuple(head)), export, members)


def view_model(head: ModelHead, export: Reply, members: Reply) -> View:
    """The overview from the answers of the API."""
    tags = [frozenset(get_texts(each, "tags")) for each in members.items] if members.is_ok else None
    listed = list_workflows(export.value) if export.is_ok else []
    pictures = {name: f"diagram-{place}" for place, name in enumerate(_choose_drawn(listed))}
    data = ModelView(
        head=head,
        workflows=tuple(_summarise(each, head, pictures.get(get_text(each, "name")), tags) for each in listed),
        workflows_problem=None if export.is_ok or export.status == NOT_FOUND else build_problem(export),
        members_problem=None if members.is_ok else build_problem(members),
    )
    return build_model_view(head, data)


def _choose_drawn(workflows: Iterable[JsonObject]) -> list[str]:
    """The names of the workflows that are drawn: the first active ones."""
    return [get_text(each, "name") for each in workflows if get_flag(each, "active", default=True)][:MAX_DRAWN]


def _summarise(
    document: JsonObject, head: ModelHead, picture_id: str | None, members: Sequence[frozenset[str]] | None
) -> WorkflowSummary:
    graph = read_workflow(document)
    return WorkflowSummary(
        name=graph.name,
        is_active=get_flag(document, "active", default=True),
        states=len(graph.states),
        transitions=len(graph.transitions),
        needs=tuple(_count_members(tags, members) for tags in _list_needs(graph)),
        criterion=describe_criterion(document.get("criterion")) or "every entity",
        drawn=None if picture_id is None else _draw(graph, head, picture_id),
    )


def _list_needs(graph: WorkflowGraph) -> list[tuple[str, ...]]:
    """The tags of each callout, each set once: one member must have all of a set."""
    found: dict[tuple[str, ...], None] = {}
    for transition in graph.transitions:
        of_processors = {tag for processor in transition.processors for tag in processor.tags}
        others = tuple(tag for tag in transition.tags if tag not in of_processors)
        sets = [processor.tags for processor in transition.processors]
        for tags in [*sets, *([others] if others else [])]:
            found[tuple(sorted(tags))] = None
    return sorted(found)


def _count_members(tags: tuple[str, ...], members: Sequence[frozenset[str]] | None) -> TagView:
    return TagView(tags, None if members is None else sum(set(tags) <= each for each in members))


def _draw(graph: WorkflowGraph, head: ModelHead, picture_id: str) -> DrawnWorkflow:
    """A state leads to its entities."""
    entities = build_model_path(head.name, head.version, "entities")
    drawing = draw_workflow(graph, link=lambda state: f"{entities}?state={encode_segment(state)}")
    ways: dict[str, list[tuple[str, str]]] = {}
    for each in graph.transitions:
        ways.setdefault(each.state, []).append((each.name, each.target))
    return DrawnWorkflow(
        picture=build_picture(drawing, picture_id=picture_id, label=f"Diagram of the workflow {graph.name}"),
        rows=tuple(StateWays(name=state, ways=tuple(ways.get(state, ()))) for state in graph.states[:MAX_ROWS]),
        left_out=max(0, len(graph.states) - MAX_ROWS),
    )


# What changes.


async def show_model_marks(request: ConsoleRequest) -> View:
    """Entities and open incidents by state, put on the pictures."""
    name, version = read_key(request)
    calls = [build_entity_call("model", name, version, "workflow", "export")]
    if "incidents" in request.viewer.features:
        calls.append(build_ops_call("incidents", query={"model": f"{name}/{version}", "limit": MAX_INCIDENTS}))
    export, *incidents = await request.call(*calls)
    counts = await request.counts.count(request.client, request.viewer.tenant, name, version)
    counts.require_model()
    return await asyncio.to_thread(view_model_marks, name, version, export, counts, incidents[0] if incidents else None)


def view_model_marks(name: str, version: int, export: Reply, counts: ModelCounts, incidents: Reply | None) -> View:
    """The marks from the answers of the API."""
    counted = {each.state: format_count(each.count) for each in counts.states}
    troubled = count_incidents(incidents) if incidents is not None and incidents.is_ok else {}
    states = [*counted, *(state for state in troubled if state not in counted)]
    listed = list_workflows(export.value) if export.is_ok else []
    graphs = {get_text(each, "name"): each for each in listed}
    overlay = Overlay(counts=counted, incidents=troubled)
    data = ModelMarksView(
        name=name,
        version=version,
        counts=counts,
        states=tuple(
            StateTotal(name=state, entities=counted.get(state, ""), incidents=troubled.get(state, ""))
            for state in states[:MAX_STATES]
        ),
        left_out=max(0, len(states) - MAX_STATES),
        marks=tuple(
            (f"diagram-{place}", write_marks(mark_workflow(read_workflow(graphs[each]), overlay)))
            for place, each in enumerate(_choose_drawn(listed))
        ),
        problem=build_problem(counts.failed) if counts.failed is not None else None,
        incidents_problem=build_problem(incidents) if incidents is not None and not incidents.is_ok else None,
    )
    return View(data=data)


def count_incidents(incidents: Reply) -> dict[str, str]:
    """How many of the listed incidents are in each state; where the list was cut, each is at least that."""
    counts: dict[str, int] = {}
    for item in incidents.read_items(Incident):
        state = item.subject.state
        if state:
            counts[state] = counts.get(state, 0) + 1
    is_cut = bool(incidents.next_cursor)
    return {state: format_count(count, is_lower_bound=is_cut) for state, count in counts.items()}


ROUTES: Final[Routes] = (
    Page(name="model", path=ROOT, show=show_model),
    build_part("model_marks", "/models/{name}/{version}/marks", show_model_marks),
)
