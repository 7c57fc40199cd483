"""A model at a glance: its active workflows as pictures with live counts, and who serves them (docs/console.md)."""

import asyncio
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from statewright.console.calls import Reply
from statewright.console.diagrams.workflow import WorkflowGraph, draw_workflow, list_workflows, read_workflow
from statewright.console.live import ModelCounts
from statewright.console.pages.model import (
    ROOT,
    ModelHead,
    build_model_path,
    build_model_view,
    call_with_head,
    read_key,
)
from statewright.console.pages.workflow import (
    TagView,
    call_export,
    call_incidents,
    call_members,
    count_members,
    describe_criterion,
    list_tags,
    view_marks,
)
from statewright.console.request import Page, PageContext, Routes, build_part, build_problem
from statewright.console.views.page import Picture, Problem, View, build_picture, encode_segment

MAX_DRAWN: Final = 3
"""Workflows that are drawn on the page; the others have pages of their own."""
MAX_ROWS: Final = 30
"""States in the table beside a picture."""
MAX_STATES: Final = 100
"""States that are listed with their entities."""


class WorkflowSummary(Struct, frozen=True, kw_only=True):
    """A workflow of the model. ``needs``: the tags of its callouts, with the members that have all of them. With a
    ``picture`` goes a table of its first states.
    """

    graph: WorkflowGraph
    needs: tuple[TagView, ...]
    criterion: str
    picture: Picture | None

    @property
    def rows(self) -> tuple[str, ...]:
        """The states in the table."""
        return self.graph.states[:MAX_ROWS]


class ModelView(Struct, frozen=True, kw_only=True):
    """The overview."""

    head: ModelHead
    workflows: tuple[WorkflowSummary, ...]
    workflows_problem: Problem | None = None
    members_problem: Problem | None = None


async def show_model(request: PageContext) -> View:
    """The overview of a model."""
    head, replies = await call_with_head(request, call_export(*read_key(request)), call_members())
    return await asyncio.to_thread(view_model, head, *replies)


def view_model(head: ModelHead, export: Reply, members: Reply) -> View:
    """The overview from the answers of the API."""
    tags, graphs = list_tags(members), _read_graphs(export)
    pictures = {graph.name: id_ for id_, graph in _choose_drawn(graphs).items()}
    data = ModelView(
        head=head,
        workflows=tuple(_summarise(each, head, pictures.get(each.name), tags) for each in graphs),
        workflows_problem=None if export.is_ok or export.status == HTTPStatus.NOT_FOUND else build_problem(export),
        members_problem=None if members.is_ok else build_problem(members),
    )
    return build_model_view(head, data)


def _read_graphs(export: Reply) -> list[WorkflowGraph]:
    return [read_workflow(each) for each in list_workflows(export.value)] if export.is_ok else []


def _choose_drawn(graphs: Iterable[WorkflowGraph]) -> dict[str, WorkflowGraph]:
    """The workflows that are drawn, by the ids of their pictures: the first active ones."""
    active = [graph for graph in graphs if graph.is_active][:MAX_DRAWN]
    return {f"diagram-{place}": graph for place, graph in enumerate(active)}


def _summarise(
    graph: WorkflowGraph, head: ModelHead, picture_id: str | None, members: Sequence[frozenset[str]] | None
) -> WorkflowSummary:
    return WorkflowSummary(
        graph=graph,
        needs=tuple(count_members(tags, members) for tags in _list_needs(graph)),
        criterion=describe_criterion(graph.criterion) or "every entity",
        picture=None if picture_id is None else _draw(graph, head, picture_id),
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


def _draw(graph: WorkflowGraph, head: ModelHead, picture_id: str) -> Picture:
    """A state leads to its entities."""
    entities = build_model_path(head.name, head.version, "entities")
    drawing = draw_workflow(graph, link=lambda state: f"{entities}?state={encode_segment(state)}")
    return build_picture(drawing, picture_id=picture_id, label=f"Diagram of the workflow {graph.name}")


async def show_model_marks(request: PageContext) -> View:
    """Entities and open incidents by state, put on the pictures."""
    key = read_key(request)
    calls = [call_export(*key), *([call_incidents(*key)] if "incidents" in request.viewer.features else [])]
    export, *incidents = await request.call(*calls)
    counts = await request.counts.count(request.client, request.viewer.tenant, *key)
    counts.require_model()
    return await asyncio.to_thread(
        view_model_marks, request.path, key, export, counts, incidents[0] if incidents else None
    )


def view_model_marks(
    path: str, key: tuple[str, int], export: Reply, counts: ModelCounts, incidents: Reply | None
) -> View:
    """The marks from the answers of the API."""
    return view_marks(path, key, _choose_drawn(_read_graphs(export)), counts, incidents, most=MAX_STATES)


ROUTES: Final[Routes] = (
    Page(name="model", path=ROOT, show=show_model),
    build_part("model_marks", "/models/{name}/{version}/marks", show_model_marks),
)
