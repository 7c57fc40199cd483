"""One workflow of a model: as a diagram and as a table, with live counts and incidents, what a check of it finds, and
what differs between it and another one (docs/console.md#diagrams).
"""

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from statewright.console.calls import (
    ApiCall,
    CallFailed,
    Reply,
    build_entity_call,
    build_ops_call,
    build_problem_reply,
    pick_members,
)
from statewright.console.conditions import MalformedQuery, describe_condition, read_condition
from statewright.console.diagrams.diff import Sentence, compare_workflows, draw_diff
from statewright.console.diagrams.drawing import choose_tier, write_marks
from statewright.console.diagrams.workflow import (
    SIGNS,
    Asking,
    Overlay,
    Transition,
    WorkflowGraph,
    draw_workflow,
    find_state,
    index_workflows,
    mark_workflow,
    read_workflow,
)
from statewright.console.live import ModelCounts
from statewright.console.pages.listing import ROWS, Slice, slice_rows
from statewright.console.pages.model import build_model_crumbs, build_model_path, read_key
from statewright.console.request import Page, PageContext, Routes, build_part, build_problem
from statewright.console.views.entities import fits_page, write_text
from statewright.console.views.page import Picture, Problem, View, build_picture, encode_segment, format_count
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.checks import CheckFinding, WorkflowCheck
from statewright.operations.incidents import Incident
from statewright.operations.queues import MemberView
from statewright.operations.suspensions import SuspensionView

BELOW: Final = "/models/{name}/{version}/workflows/{workflow}"
ROOT: Final = f"/console{BELOW}"
MAX_MEMBERS: Final = 1000
MAX_INCIDENTS: Final = 200
MAX_CRITERION_CHARS: Final = 2_000

Key = tuple[str, int, str]
"""Name and version of the model, and the name of the workflow."""


class TagView(Struct, frozen=True):
    """Tags that a callout asks for, and how many members have all of them; ``None``: that is not known."""

    tags: tuple[str, ...]
    members: int | None


class TransitionRow(Struct, frozen=True, kw_only=True):
    """A line of the table."""

    it: Transition
    number: int
    target_number: int
    criterion: str
    tags: TagView | None

    @property
    def sign(self) -> str:
        """That of its kind."""
        return SIGNS[self.it.kind]


class StateRow(Struct, frozen=True, kw_only=True):
    """A state with the ways out of it."""

    number: int
    name: str
    is_initial: bool
    is_final: bool
    transitions: tuple[TransitionRow, ...]


class WorkflowView(Struct, frozen=True, kw_only=True):
    """The page of a workflow."""

    key: Key
    graph: WorkflowGraph
    criterion: str
    picture: Picture
    table: Slice[StateRow]
    is_large: bool
    """Whether it is too large to be drawn whole."""
    is_checked: bool
    """Whether the page asks for a check at once."""
    focus: str
    filter: str
    text: str | None
    suspension: SuspensionView | None
    members_problem: Problem | None
    others: tuple[str, ...]

    @property
    def path(self) -> str:
        """That of the page."""
        return build_workflow_path(*self.key)

    @property
    def part(self) -> str:
        """That of its parts."""
        return self.path.replace("/console/", "/console/part/", 1)


def build_workflow_path(name: str, version: int, workflow: str, *more: str) -> str:
    """The path of a page of a workflow."""
    return build_model_path(name, version, "workflows", workflow, *more)


def call_export(name: str, version: int) -> ApiCall:
    """The call that reads the workflows of a model."""
    return build_entity_call("model", name, version, "workflow", "export")


def call_members() -> ApiCall:
    """The call that reads who serves callouts."""
    return build_ops_call("members", query={"limit": MAX_MEMBERS})


async def show_workflow(request: PageContext) -> View:
    """A workflow: what it is, and who serves it."""
    name, version = read_key(request)
    replies = await request.call(
        call_export(name, version),
        call_members(),
        build_ops_call("suspensions", query={"scope": "WORKFLOW", "model": name, "active": "true", "limit": 200}),
    )
    return await asyncio.to_thread(view_workflow, request, (name, version, request.params["workflow"]), *replies)


def find_workflow(export: Reply, workflow: str) -> JsonObject:
    """The document of a workflow in an export. Raises ``CallFailed`` where there is none."""
    found = index_workflows(export.require().value).get(workflow)
    if found is None:
        detail = f"The model has no workflow {workflow}."
        raise CallFailed(build_problem_reply(export.call, HTTPStatus.NOT_FOUND, "", detail))
    return found


def view_workflow(request: PageContext, key: Key, export: Reply, members: Reply, suspensions: Reply) -> View:
    """The page from the answers of the API. Raises ``CallFailed`` where there is no such workflow."""
    query, workflow = request.query, key[2]
    focus, wanted = query.get("focus"), query.get("filter")
    document = find_workflow(export, workflow)
    graph = read_workflow(document)
    is_large = choose_tier(draw_workflow(graph)) == 3
    data = WorkflowView(
        key=key,
        graph=graph,
        criterion=describe_criterion(graph.criterion),
        picture=draw_picture(graph, key, focus),
        table=slice_rows(query, list_rows(graph, list_tags(members), wanted), "states"),
        is_large=is_large,
        is_checked=query.get("check") == "yes" or not is_large,
        focus=focus if focus in graph.states else "",
        filter=wanted,
        text=write_text(document) if fits_page(document) else None,
        suspension=_find_suspension(suspensions, key),
        members_problem=None if members.is_ok else build_problem(members),
        others=tuple(each for each in index_workflows(export.value) if each and each != workflow),
    )
    return View(title=workflow, data=data, crumbs=build_model_crumbs(*key[:2]))


def draw_picture(graph: WorkflowGraph, key: Key, focus: str = "", overlay: Overlay | None = None) -> Picture:
    """The diagram of a workflow. In one that is too large to be drawn whole, a state leads to its neighbourhood."""
    drawing = draw_workflow(graph)
    if choose_tier(drawing) == 3:
        path = build_workflow_path(*key)
        drawing = draw_workflow(graph, link=lambda state: f"{path}?focus={encode_segment(state)}")
    return build_picture(
        drawing,
        mark_workflow(graph, overlay) if overlay is not None else None,
        label=f"Diagram of the workflow {graph.name}",
        focus=find_state(graph, focus),
        is_neighbourhood=focus in graph.states,
    )


def describe_criterion(criterion: JsonValue) -> str:
    """A criterion in words, or as JSON where it has none."""
    if criterion is None:
        return ""
    asked = pick_members(criterion, Asking)
    if asked.type == "function":
        return f"asks {asked.function.name if asked.function is not None else ''}"
    text = encode(criterion).decode()
    if len(text) > MAX_CRITERION_CHARS:
        return f"{text[:MAX_CRITERION_CHARS]}…"
    try:
        return describe_condition(read_condition(text))
    except MalformedQuery:
        return text


def list_tags(members: Reply) -> list[frozenset[str]] | None:
    """The tags of each member; ``None`` where they cannot be told."""
    return [frozenset(each.tags or ()) for each in members.read_items(MemberView)] if members.is_ok else None


def count_members(tags: tuple[str, ...], members: Sequence[frozenset[str]] | None) -> TagView:
    """Tags, with the members that have all of them."""
    return TagView(tags, None if members is None else sum(set(tags) <= each for each in members))


def list_rows(graph: WorkflowGraph, members: Sequence[frozenset[str]] | None, wanted: str = "") -> list[StateRow]:
    """The table: states in their order, of them those with ``wanted`` in a name of theirs."""
    final, numbers = graph.final_states, {state: number for number, state in enumerate(graph.states)}
    by_state: dict[str, list[TransitionRow]] = {}
    for number, each in enumerate(graph.transitions):
        calls_out = bool(each.processors) or each.asks_member or bool(each.tags)
        row = TransitionRow(
            it=each,
            number=number,
            target_number=numbers[each.target],
            criterion=describe_criterion(each.criterion),
            tags=count_members(each.tags, members) if calls_out else None,
        )
        by_state.setdefault(each.state, []).append(row)
    looked = wanted.casefold()
    return [
        StateRow(
            number=number,
            name=state,
            is_initial=state == graph.initial,
            is_final=state in final,
            transitions=tuple(by_state.get(state, ())),
        )
        for state, number in numbers.items()
        if looked in state.casefold() or any(looked in each.it.name.casefold() for each in by_state.get(state, ()))
    ]


def _find_suspension(reply: Reply, key: Key) -> SuspensionView | None:
    for each in reply.read_items(SuspensionView):
        if each.model is not None and (each.model.name, each.model.version, each.workflow) == key:
            return each
    return None


# What changes while the page is open.


class StateTotal(Struct, frozen=True, kw_only=True):
    """A state with its entities and open incidents, as texts; empty: none."""

    name: str
    entities: str
    incidents: str


class MarksView(Struct, frozen=True, kw_only=True):
    """Live counts and incidents by state. ``marks`` are those of the pictures, by their ids; ``path`` is that of the
    part, which asks for itself again.
    """

    path: str
    name: str
    version: int
    counts: ModelCounts
    states: tuple[StateTotal, ...]
    left_out: int
    marks: tuple[tuple[str, str], ...]
    problem: Problem | None
    incidents_problem: Problem | None


def call_incidents(name: str, version: int) -> ApiCall:
    """The call that reads the open incidents of a model."""
    return build_ops_call("incidents", query={"model": f"{name}/{version}", "limit": MAX_INCIDENTS})


async def show_workflow_marks(request: PageContext) -> View:
    """Live counts and incidents, put on the diagram."""
    key = read_key(request)
    export, incidents = await request.call(call_export(*key), call_incidents(*key))
    counts = await request.counts.count(request.client, request.viewer.tenant, *key)
    graph = read_workflow(find_workflow(export, request.params["workflow"]))
    return await asyncio.to_thread(
        view_marks, request.path, key, {"diagram": graph}, counts, incidents, of=graph.states, most=ROWS
    )


def view_marks(
    path: str,
    key: tuple[str, int],
    pictures: Mapping[str, WorkflowGraph],
    counts: ModelCounts,
    incidents: Reply | None,
    *,
    of: Sequence[str] | None = None,
    most: int,
) -> View:
    """The marks from the answers of the API: ``of`` some states, or of all that have either."""
    counted = {each.state: format_count(each.count) for each in counts.states}
    troubled = {} if incidents is None else count_incidents(incidents)
    either = dict.fromkeys((*counted, *troubled))
    states = [*either] if of is None else [state for state in of if state in either]
    overlay = Overlay(counts=counted, incidents=troubled)
    data = MarksView(
        path=path,
        name=key[0],
        version=key[1],
        counts=counts,
        states=tuple(
            StateTotal(name=state, entities=counted.get(state, ""), incidents=troubled.get(state, ""))
            for state in states[:most]
        ),
        left_out=max(0, len(states) - most),
        marks=tuple((id_, write_marks(mark_workflow(graph, overlay))) for id_, graph in pictures.items()),
        problem=build_problem(counts.failed) if counts.failed is not None else None,
        incidents_problem=build_problem(incidents) if incidents is not None and not incidents.is_ok else None,
    )
    return View(data=data)


def count_incidents(incidents: Reply) -> dict[str, str]:
    """How many of the listed incidents are in each state; where the list was cut, each is at least that."""
    counts: dict[str, int] = {}
    for item in incidents.read_items(Incident):
        if state := item.subject.state:
            counts[state] = counts.get(state, 0) + 1
    is_cut = bool(incidents.next_cursor)
    return {state: format_count(count, is_lower_bound=is_cut) for state, count in counts.items()}


# What a check finds.


class FindingsView(Struct, frozen=True, kw_only=True):
    """The findings, the worst first."""

    findings: tuple[CheckFinding, ...]
    problem: Problem | None


async def show_workflow_findings(request: PageContext) -> View:
    """What a check of the stored workflow finds."""
    key = read_key(request)
    document = find_workflow(await request.call_one(call_export(*key)), request.params["workflow"])
    body = encode({"importMode": "MERGE", "workflows": [document]})
    check = await request.call_one(build_ops_call("models", *key, "workflow", "check", method="POST", body=body))
    told = check.read_if_ok(WorkflowCheck)
    problem = None if check.is_ok else build_problem(check)
    return View(data=FindingsView(findings=() if told is None else told.findings, problem=problem))


# Two workflows.


class DiffView(Struct, frozen=True, kw_only=True):
    """Two workflows compared."""

    left: str
    right: str
    picture: Picture
    sentences: tuple[Sentence, ...]
    counts: ModelCounts
    texts: tuple[str, str] | None
    back: str


async def show_workflow_diff(request: PageContext) -> View:
    """A workflow beside another one: of the same model, or of another version of it."""
    name, version = read_key(request)
    workflow = request.params["workflow"]
    other_workflow = request.query.get("workflow", workflow)
    other_version = request.query.get_number("version", version)
    exports = await request.call(*(call_export(name, each) for each in dict.fromkeys((version, other_version))))
    counts = await request.counts.count(request.client, request.viewer.tenant, name, other_version)
    old, new = find_workflow(exports[0], workflow), find_workflow(exports[-1], other_workflow)
    data = await asyncio.to_thread(
        view_diff,
        old,
        new,
        counts,
        sides=(f"{workflow} of {name}/{version}", f"{other_workflow} of {name}/{other_version}"),
        back=build_workflow_path(name, version, workflow),
    )
    return View(title=f"Compare {workflow}", data=data, crumbs=build_model_crumbs(name, version, workflow))


def view_diff(old: JsonObject, new: JsonObject, counts: ModelCounts, *, sides: tuple[str, str], back: str) -> DiffView:
    """What leads from one document to the other; ``sides`` says what they are."""
    diff = compare_workflows(old, new)
    return DiffView(
        left=sides[0],
        right=sides[1],
        picture=build_picture(draw_diff(diff), label="Diagram of both workflows", picture_id="difference"),
        sentences=diff.sentences,
        counts=counts,
        texts=(write_text(old), write_text(new)) if fits_page(old) and fits_page(new) else None,
        back=back,
    )


ROUTES: Final[Routes] = (
    Page(name="workflow", path=ROOT, show=show_workflow),
    Page(name="workflow_diff", path=f"{ROOT}/diff", show=show_workflow_diff),
    build_part("workflow_marks", f"{BELOW}/marks", show_workflow_marks),
    build_part("workflow_findings", f"{BELOW}/findings", show_workflow_findings),
)
