"""One workflow of a model, as a diagram and as a table, and what differs between two (docs/console.md#diagrams)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply, build_entity_call, build_ops_call
from statewright.console.conditions import MalformedQuery, describe_condition, read_condition
from statewright.console.counts import ModelCounts
from statewright.console.diagrams.diff import SIGNS as DIFF_SIGNS
from statewright.console.diagrams.diff import WorkflowDiff, compare_workflows, draw_diff
from statewright.console.diagrams.plan import choose_tier, write_marks
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
from statewright.console.problems import build_problem
from statewright.console.request import ConsoleRequest, InvalidField
from statewright.console.route import Page, Routes, build_part
from statewright.console.values import get_flag, get_int, get_object, get_text, get_texts
from statewright.console.views.documents import fits_page, write_text
from statewright.console.views.page import Crumb, Problem, View
from statewright.console.views.picture import Picture, build_picture
from statewright.console.views.text import encode_segment, format_count
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue

ROOT: Final = "/console/models/{name}/{version}/workflows/{workflow}"
PART: Final = "/models/{name}/{version}/workflows/{workflow}"
ROWS: Final = 200
"""States of one page of the table."""
MAX_MEMBERS: Final = 1000
MAX_INCIDENTS: Final = 200
MAX_FINDINGS: Final = 100
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


class SuspensionView(Struct, frozen=True, kw_only=True):
    """Why a workflow does not move."""

    id: str
    reason: str
    since: str


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


class MarksView(Struct, frozen=True, kw_only=True):
    """Live counts and incidents of a workflow; ``marks`` is JSON for the script of the page, ``path`` that of the part,
    which asks for itself again.
    """

    path: str
    marks: str
    counts: ModelCounts
    states: tuple[tuple[str, str, str], ...]
    """Of each state that has either: its name, its entities and its incidents."""
    left_out: int
    problem: Problem | None


class Finding(Struct, frozen=True, kw_only=True):
    """What the check of the stored workflow says."""

    mark: str
    severity: str
    code: str
    message: str
    hint: str
    place: str


class FindingsView(Struct, frozen=True, kw_only=True):
    """The findings, the worst first."""

    findings: tuple[Finding, ...]
    left_out: int
    problem: Problem | None


class SentenceView(Struct, frozen=True, kw_only=True):
    """A change in words, with its sign and the entities in the state that it concerns."""

    change: str
    sign: str
    text: str
    state: str
    count: str


class DiffView(Struct, frozen=True, kw_only=True):
    """Two workflows compared."""

    left: str
    right: str
    picture: Picture
    sentences: tuple[SentenceView, ...]
    counts: ModelCounts
    texts: tuple[str, str] | None
    back: str


def build_workflow_path(name: str, version: int, workflow: str, *more: str) -> str:
    """The path of a page of a workflow."""
    return build_model_path(name, version, "workflows", workflow, *more)


def _export(name: str, version: int) -> ApiCall:
    return build_entity_call("model", name, version, "workflow", "export")


async def show_workflow(request: ConsoleRequest) -> View:
    """A workflow: what it is, and who serves it."""
    name, version = read_key(request)
    export, members, suspensions = await request.call(
        _export(name, version),
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
    name, version, workflow = key
    for item in reply.items:
        model = get_object(item, "model")
        if (get_text(model, "name"), get_int(model, "version"), get_text(item, "workflow")) == (
            name,
            version,
            workflow,
        ):
            return SuspensionView(
                id=get_text(item, "id"), reason=get_text(item, "reason"), since=get_text(item, "since")
            )
    return None


# Parts.


async def show_workflow_marks(request: ConsoleRequest) -> View:
    """Live counts and incidents, put on the diagram."""
    name, version = read_key(request)
    workflow = request.params["workflow"]
    export, incidents = await request.call(
        _export(name, version),
        build_ops_call("incidents", query={"model": f"{name}/{version}", "limit": MAX_INCIDENTS}),
    )
    counts = await request.counts.count(request.client, request.viewer.tenant, name, version)
    return await asyncio.to_thread(view_marks, request.path, workflow, export, counts, incidents)


def view_marks(path: str, workflow: str, export: Reply, counts: ModelCounts, incidents: Reply) -> View:
    """The marks from the answers of the API. Raises ``CallFailed`` where there is no such workflow."""
    graph = read_workflow(find_workflow(export, workflow))
    known = frozenset(graph.states)
    counted = {each.state: format_count(each.count) for each in counts.states if each.state in known}
    troubled: dict[str, int] = {}
    for item in incidents.items:
        state = get_text(get_object(item, "subject"), "state")
        if state in known:
            troubled[state] = troubled.get(state, 0) + 1
    bounded = len(incidents.items) >= MAX_INCIDENTS
    shown = {state: format_count(count, is_lower_bound=bounded) for state, count in troubled.items()}
    listed = [state for state in graph.states if state in counted or state in shown]
    data = MarksView(
        path=path,
        marks=write_marks(mark_workflow(graph, Overlay(counts=counted, incidents=shown))),
        counts=counts,
        states=tuple((state, counted.get(state, "0"), shown.get(state, "")) for state in listed[:ROWS]),
        left_out=max(0, len(listed) - ROWS),
        problem=build_problem(counts.failed) if counts.failed is not None else None,
    )
    return View(data=data)


async def show_workflow_findings(request: ConsoleRequest) -> View:
    """What a check of the stored workflow finds."""
    name, version = read_key(request)
    export = await request.call_one(_export(name, version))
    document = find_workflow(export, request.params["workflow"])
    body = encode({"importMode": "MERGE", "workflows": [document]})
    check = await request.call_one(
        build_ops_call("models", name, version, "workflow", "check", method="POST", body=body)
    )
    return View(data=view_findings(check))


def view_findings(check: Reply) -> FindingsView:
    """The findings of a check."""
    if not check.is_ok:
        return FindingsView(findings=(), left_out=0, problem=build_problem(check))
    marks = {"ERROR": "bad", "WARNING": "warn"}
    findings = tuple(
        Finding(
            mark=marks.get(get_text(item, "severity"), "info"),
            severity=get_text(item, "severity").lower(),
            code=get_text(item, "code"),
            message=get_text(item, "message"),
            hint=get_text(item, "hint"),
            place=get_text(item, "path").removeprefix("/workflows/0"),
        )
        for item in Reply(call=check.call, status=check.status, value=check.document.get("findings")).items
    )
    return FindingsView(findings=findings[:MAX_FINDINGS], left_out=max(0, len(findings) - MAX_FINDINGS), problem=None)


# Two workflows.


async def show_workflow_diff(request: ConsoleRequest) -> View:
    """A workflow beside another one: of the same model, or of another version of it."""
    name, version = read_key(request)
    workflow = request.params["workflow"]
    other_workflow = request.query.get("workflow", workflow)
    other_version = _read_version(request, version)
    versions = dict.fromkeys((version, other_version))
    exports = await request.call(*(_export(name, each) for each in versions))
    counts = await request.counts.count(request.client, request.viewer.tenant, name, other_version)
    old, new = find_workflow(exports[0], workflow), find_workflow(exports[-1], other_workflow)
    sides = (f"{workflow} of {name}/{version}", f"{other_workflow} of {name}/{other_version}")
    back = build_workflow_path(name, version, workflow)
    data = await asyncio.to_thread(view_diff, old, new, counts, sides=sides, back=back)
    crumbs = (
        Crumb("Models", "/console/models"),
        Crumb(f"{name}/{version}", build_model_path(name, version)),
        Crumb(workflow, data.back),
    )
    return View(title=f"Compare {workflow}", data=data, crumbs=crumbs)


def _read_version(request: ConsoleRequest, default: int) -> int:
    text = request.query.get("version", str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise InvalidField("version", "is a whole number")
    return int(text)


def view_diff(old: JsonObject, new: JsonObject, counts: ModelCounts, *, sides: tuple[str, str], back: str) -> DiffView:
    """What leads from one document to the other; ``sides`` says what they are."""
    diff = compare_workflows(old, new)
    return DiffView(
        left=sides[0],
        right=sides[1],
        picture=draw_difference(diff),
        sentences=tuple(list_sentences(diff, counts)),
        counts=counts,
        texts=(write_text(old), write_text(new)) if fits_page(old) and fits_page(new) else None,
        back=back,
    )


def draw_difference(diff: WorkflowDiff) -> Picture:
    """One diagram of both."""
    return build_picture(draw_diff(diff), label="Diagram of both workflows", picture_id="difference")


def list_sentences(diff: WorkflowDiff, counts: ModelCounts | None = None) -> list[SentenceView]:
    """The changes in words; with ``counts``, the entities that are in the states concerned."""
    return [
        SentenceView(
            change=each.change,
            sign=DIFF_SIGNS[each.change],
            text=each.text,
            state=each.state,
            count=format_count(counts.get(each.state)) if counts is not None and each.state else "",
        )
        for each in diff.sentences
    ]


ROUTES: Final[Routes] = (
    Page(name="workflow", path=ROOT, show=show_workflow),
    Page(name="workflow_diff", path=f"{ROOT}/diff", show=show_workflow_diff),
    build_part("workflow_marks", f"{PART}/marks", show_workflow_marks),
    build_part("workflow_findings", f"{PART}/findings", show_workflow_findings),
)
