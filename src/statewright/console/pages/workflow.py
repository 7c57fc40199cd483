"""One workflow of a model, as a diagram and as a table (docs/console.md#diagrams)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from statewright.console.calls import (
    ApiCall,
    Reply,
    build_entity_call,
    build_ops_call,
    get_flag,
    get_object,
    get_text,
    get_texts,
)
from statewright.console.conditions import MalformedQuery, describe_condition, read_condition
from statewright.console.diagrams.plan import choose_tier
from statewright.console.diagrams.workflow import (
    SIGNS,
    Overlay,
    Transition,
    WorkflowGraph,
    draw_workflow,
    find_state,
    list_workflows,
    mark_workflow,
    read_workflow,
)
from statewright.console.pages.model import build_model_path, read_key
from statewright.console.request import ConsoleRequest, InvalidField, Page, Routes, build_problem
from statewright.console.views.entities import fits_page, write_text
from statewright.console.views.page import Crumb, Picture, Problem, View, build_picture, encode_segment
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.suspensions import SuspensionView

ROOT: Final = "/console/models/{name}/{version}/workflows/{workflow}"
ROWS: Final = 200
"""States of one page of the table."""
MAX_MEMBERS: Final = 1000
MAX_CRITERION_CHARS: Final = 2_000
NOT_FOUND: Final = 404


class TagView(Struct, frozen=True):
    """Tags that a callout asks for, and how many members have all of them; ``None``: that is not known."""

    tags: tuple[str, ...]
    members: int | None


class TransitionRow(Struct, frozen=True, kw_only=True):
    """A line of the table."""

    number: int
    name: str
    sign: str
    kind: str
    target: str
    target_number: int
    delay: str
    is_disabled: bool
    criterion: str
    processors: tuple[tuple[str, str], ...]
    tags: TagView | None


class StateRow(Struct, frozen=True, kw_only=True):
    """A state with the ways out of it."""

    number: int
    name: str
    is_initial: bool
    is_final: bool
    transitions: tuple[TransitionRow, ...]


class WorkflowView(Struct, frozen=True, kw_only=True):
    """The page of a workflow."""

    name: str
    version: int
    workflow: str
    description: str
    is_active: bool
    criterion: str
    picture: Picture
    rows: tuple[StateRow, ...]
    states: int
    transitions: int
    is_large: bool
    """Whether it is too large to be drawn whole."""
    is_checked: bool
    """Whether the page asks for a check at once."""
    focus: str
    filter: str
    next: str | None
    first: str | None
    text: str | None
    suspension: SuspensionView | None
    members_problem: Problem | None
    others: tuple[str, ...]

    @property
    def path(self) -> str:
        """That of the page."""
        return build_workflow_path(self.name, self.version, self.workflow)

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


async def show_workflow(request: ConsoleRequest) -> View:
    """A workflow: what it is, and who serves it."""
    name, version = read_key(request)
    export, members, suspensions = await request.call(
        call_export(name, version),
        build_ops_call("members", query={"limit": MAX_MEMBERS}),
        build_ops_call("suspensions", query={"scope": "WORKFLOW", "model": name, "active": "true", "limit": 200}),
    )
    workflow = request.params["workflow"]
    focus, wanted = request.query.get("focus"), request.query.get("filter")
    start = _read_start(request)
    return await asyncio.to_thread(
        view_workflow,
        (name, version, workflow),
        export,
        members,
        suspensions,
        focus=focus,
        wanted=wanted,
        start=start,
        wants_check=request.query.get("check") == "yes",
    )


def _read_start(request: ConsoleRequest) -> int:
    text = request.query.get("from", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise InvalidField("from", "is the number of a state")
    return int(text)


def find_workflow(export: Reply, workflow: str) -> JsonObject:
    """The document of a workflow in an export. Raises ``CallFailed`` where there is none."""
    export.require()
    found = next((each for each in list_workflows(export.value) if get_text(each, "name") == workflow), None)
    if found is None:
        missing: JsonValue = {"detail": f"The model has no workflow {workflow}.", "properties": {}}
        Reply(call=export.call, status=NOT_FOUND, value=missing).require()
    return found or {}


def view_workflow(
    key: tuple[str, int, str],
    export: Reply,
    members: Reply,
    suspensions: Reply,
    *,
    focus: str,
    wanted: str,
    start: int,
    wants_check: bool,
) -> View:
    """The page from the answers of the API. Raises ``CallFailed`` where there is no such workflow."""
    name, version, workflow = key
    document = find_workflow(export, workflow)
    graph = read_workflow(document)
    rows = list_rows(graph, members, wanted)
    is_large = choose_tier(draw_workflow(graph)) == 3
    shown = tuple(rows[start : start + ROWS])
    query = f"filter={encode_segment(wanted)}&" if wanted else ""
    data = WorkflowView(
        name=name,
        version=version,
        workflow=workflow,
        description=get_text(document, "desc"),
        is_active=get_flag(document, "active", default=True),
        criterion=describe_criterion(document.get("criterion")),
        picture=draw_picture(graph, key, focus),
        rows=shown,
        states=len(graph.states),
        transitions=len(graph.transitions),
        is_large=is_large,
        is_checked=wants_check or not is_large,
        focus=focus if focus in graph.states else "",
        filter=wanted,
        next=f"?{query}from={start + ROWS}#states" if start + ROWS < len(rows) else None,
        first=f"?{query}#states" if start else None,
        text=write_text(document) if fits_page(document) else None,
        suspension=_find_suspension(suspensions, key),
        members_problem=None if members.is_ok else build_problem(members),
        others=tuple(
            each for item in list_workflows(export.value) if (each := get_text(item, "name")) and each != workflow
        ),
    )
    crumbs = (Crumb("Models", "/console/models"), Crumb(f"{name}/{version}", build_model_path(name, version)))
    return View(title=workflow, data=data, crumbs=crumbs)


def draw_picture(
    graph: WorkflowGraph, key: tuple[str, int, str], focus: str = "", overlay: Overlay | None = None
) -> Picture:
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
    if isinstance(criterion, dict) and criterion.get("type") == "function":
        return f"asks {get_text(get_object(criterion, 'function'), 'name')}"
    text = encode(criterion).decode()
    if len(text) > MAX_CRITERION_CHARS:
        return f"{text[:MAX_CRITERION_CHARS]}…"
    try:
        return describe_condition(read_condition(text))
    except MalformedQuery:
        return text


def list_rows(graph: WorkflowGraph, members: Reply, wanted: str = "") -> list[StateRow]:
    """The table: states in their order, of them those with ``wanted`` in a name of theirs."""
    final, numbers = graph.final_states, {state: number for number, state in enumerate(graph.states)}
    tags = [frozenset(get_texts(each, "tags")) for each in members.items] if members.is_ok else None
    by_state: dict[str, list[TransitionRow]] = {}
    for number, each in enumerate(graph.transitions):
        by_state.setdefault(each.state, []).append(_view_transition(each, number, numbers, tags))
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
        if looked in state.casefold() or any(looked in each.name.casefold() for each in by_state.get(state, ()))
    ]


def _view_transition(
    transition: Transition,
    number: int,
    numbers: Mapping[str, int],
    members: Sequence[frozenset[str]] | None,
) -> TransitionRow:
    served = None if members is None else sum(set(transition.tags) <= tags for tags in members)
    calls_out = bool(transition.processors) or transition.asks_member or bool(transition.tags)
    return TransitionRow(
        number=number,
        name=transition.name,
        sign=SIGNS[transition.kind],
        kind=transition.kind,
        target=transition.target,
        target_number=numbers[transition.target],
        delay=transition.delay,
        is_disabled=transition.is_disabled,
        criterion=describe_criterion(transition.criterion),
        processors=tuple((each.letter, each.name) for each in transition.processors),
        tags=TagView(transition.tags, served) if calls_out else None,
    )


def _find_suspension(reply: Reply, key: tuple[str, int, str]) -> SuspensionView | None:
    for each in reply.read_items(SuspensionView):
        if each.model is not None and (each.model.name, each.model.version, each.workflow) == key:
            return each
    return None


ROUTES: Final[Routes] = (Page(name="workflow", path=ROOT, show=show_workflow),)
