"""One entity: why it is where it is, its data and its history; what can be done to it is one call of the API each,
about the version that was on the screen (docs/console.md#pages).
"""

import asyncio
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from statewright.console.acts import MOVED, Suspendable, ask, build_acts, lead_to, read_json, send
from statewright.console.calls import (
    JSON,
    MERGE_PATCH,
    ApiCall,
    Method,
    Reply,
    build_entity_call,
    build_ops_call,
    build_path,
    pick_members,
)
from statewright.console.diagrams.workflow import (
    Overlay,
    WorkflowGraph,
    list_workflows,
    read_workflow,
)
from statewright.console.pages.listing import ListView, build_list
from statewright.console.pages.model import build_model_crumbs
from statewright.console.pages.workflow import build_workflow_path, draw_picture
from statewright.console.request import (
    NOTHING_ASKED,
    OPERATOR,
    Action,
    Form,
    InvalidField,
    Page,
    PageContext,
    Query,
    Routes,
    build_part,
    build_problem,
)
from statewright.console.views.entities import ChangedMember, Document, build_document, list_differences
from statewright.console.views.explained import Explanation, view_explanation
from statewright.console.views.page import Confirmation, Crumb, Picture, Problem, View, format_model, shorten_id
from statewright.console.views.records import Envelope, EnvelopeMeta
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue
from statewright.operations.explanations import BlockingSuspension, ExplainedEntity, OpenIncident
from statewright.operations.history import Difference as Comparison
from statewright.operations.history import RunEvent, VersionView, WholeVersion
from statewright.operations.records import Record, Value

ROOT: Final = "/console/entities/{id}"
RECENT_EVENTS: Final = 50
PAGE_EVENTS: Final = 50
RECENT_VERSIONS: Final = 50
NOT_FOUND: Final = 404
ENTITY_ID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")

_EVENT_MARKS: Final = {
    "TRANSITION_MAKE": ("info", "moved"),
    "STATE_MACHINE_START": ("off", "run began"),
    "STATE_MACHINE_FINISH": ("off", "run ended"),
    "WORKFLOW_FOUND": ("off", "workflow chosen"),
    "WORKFLOW_SKIP": ("off", "workflow passed over"),
    "TRANSITION_NOT_MATCH_CRITERION": ("off", "not taken"),
    "TRANSITION_ABORTED": ("bad", "broken off"),
    "SCHEDULED_TRANSITION_ARM": ("wait", "timer set"),
    "SCHEDULED_TRANSITION_CANCEL": ("off", "timer withdrawn"),
    "SCHEDULED_TRANSITION_FIRE": ("info", "timer came due"),
    "SCHEDULED_TRANSITION_EXPIRE": ("warn", "timer expired"),
}


class Outcome(Record, frozen=True, kw_only=True):
    """Of an event of a run: whether it went well."""

    success: bool = True
    error: Value | UnsetType = UNSET


class EventRow(Struct, frozen=True, kw_only=True):
    """An event of a run, with who is held to account for the version of the run, where it tells it."""

    event: RunEvent
    actor: str

    @property
    def what(self) -> str:
        """In a few words."""
        return _EVENT_MARKS.get(self.event.event_type, ("", self.event.event_type.replace("_", " ").lower()))[1]

    @property
    def mark(self) -> str:
        """What failed is bad, whatever it is."""
        kind, told = self.event.event_type, pick_members(self.event.data, Outcome)
        if not told.success or told.error is not UNSET or "FAIL" in kind or "ERROR" in kind:
            return "bad"
        return _EVENT_MARKS.get(kind, ("info", ""))[0]

    @property
    def data(self) -> str:
        """What else is told of it, as JSON."""
        data = self.event.data
        return "" if data in (None, {}, {"success": True}) else encode(data).decode()


class EntityPage(Struct, frozen=True, kw_only=True):
    """A page of an entity."""

    id: str

    @property
    def path(self) -> str:
        """That of the page of the entity itself."""
        return build_entity_path(self.id)


class DocumentView(EntityPage, frozen=True, kw_only=True):
    """The document, as it is now or was at an instant."""

    document: Document
    at: str | None = None
    is_deleted: bool = False


class EntityView(DocumentView, frozen=True, kw_only=True):
    """All of an entity. ``meta`` is that of the version that is shown."""

    meta: EnvelopeMeta
    deleted_at: str
    explanation: Explanation | None
    problem: Problem | None
    picture: Picture | None
    workflow_path: str
    timeline: ListView[EventRow]

    @property
    def incidents(self) -> tuple[OpenIncident, ...]:
        """Those that are open."""
        return (self.explanation.told.incidents or ()) if self.explanation is not None else ()

    @property
    def suspensions(self) -> tuple[BlockingSuspension, ...]:
        """What keeps the entity from moving."""
        return (self.explanation.told.suspensions or ()) if self.explanation is not None else ()

    @property
    def summary(self) -> str:
        """Why it is here, unless an incident on the page says the same."""
        told = self.explanation.told.summary if self.explanation is not None else ""
        return "" if any(each.message and each.message in told for each in self.incidents) else told

    @property
    def own_suspension(self) -> BlockingSuspension | None:
        """The one of this entity alone."""
        return next((each for each in self.suspensions if each.scope == "ENTITY"), None)

    @property
    def sees(self) -> tuple[tuple[str, str], ...]:
        """What forms about the entity carry: which one, and which version was on the screen."""
        return ("id", self.id), ("seen", self.meta.transaction_id), ("model", format_model(self.meta.model_key))


def build_entity_path(entity_id: str, *more: str) -> str:
    """The path of a page of an entity."""
    return build_path("console", "entities", entity_id, *more)


def read_entity_id(request: PageContext) -> str:
    """The id in the path. Raises ``CallFailed`` with 404 for what can be no id of an entity."""
    entity_id = request.params["id"]
    if ENTITY_ID.fullmatch(entity_id) is None:
        call = build_entity_call("entity", entity_id)
        detail: JsonValue = {"detail": f"{entity_id} is no id of an entity.", "properties": {}}
        Reply(call=call, status=NOT_FOUND, value=detail).require()
    return entity_id.lower()


def _at(at: str | None) -> dict[str, str | None]:
    return {"pointInTime": at}


async def show_entity(request: PageContext) -> View:
    """The page of an entity, as it is or as it was at an instant."""
    entity_id, at = read_entity_id(request), request.query.get("at") or None
    entity, explain, events, versions = await request.call(
        build_entity_call("entity", entity_id, query=_at(at)),
        build_ops_call("entities", entity_id, "explain", query=_at(at)),
        *_call_timeline(entity_id, RECENT_EVENTS),
    )
    last = await _load_last(request, entity_id, entity, versions) if at is None else None
    shown = last if last is not None else entity
    model = shown.read(Envelope).meta.model_key
    export = await request.call_one(build_entity_call("model", model.name, model.version, "workflow", "export"))
    return await asyncio.to_thread(
        view_entity, entity_id, shown, explain, versions, events, export, at=at, is_deleted=last is not None
    )


async def _load_last(request: PageContext, entity_id: str, entity: Reply, versions: Reply) -> Reply | None:
    """The last version of a deleted entity; ``None`` for one that is there, or never was."""
    if entity.status != NOT_FOUND:
        return None
    before = next((each for each in versions.read_items(VersionView) if each.change_type != "DELETE"), None)
    return (
        None if before is None else await request.call_one(build_entity_call("entity", entity_id, query=_at(before.at)))
    )


def view_entity(
    entity_id: str,
    shown: Reply,
    explain: Reply,
    versions: Reply,
    events: Reply,
    export: Reply,
    *,
    at: str | None,
    is_deleted: bool,
) -> View:
    """The page from the answers of the API."""
    entity = shown.read(Envelope)
    meta, model = entity.meta, entity.meta.model_key
    told = None if is_deleted else explain.read_if_ok(ExplainedEntity)
    explanation = None if told is None else view_explanation(told)
    graph = _find_graph(export, (told.workflow.name or "") if told is not None else "", meta.state)
    deleted = next((each.at for each in versions.read_items(VersionView) if each.change_type == "DELETE"), "")
    data = EntityView(
        id=entity_id,
        meta=meta,
        deleted_at=deleted if is_deleted else "",
        explanation=explanation,
        problem=None if explain.is_ok or is_deleted else build_problem(explain),
        picture=_draw(graph, (model.name, model.version), meta.state, explanation, events, at, is_deleted=is_deleted),
        workflow_path="" if graph is None else build_workflow_path(model.name, model.version, graph.name),
        document=build_document(entity.data),
        timeline=view_timeline(events, versions),
        at=at,
        is_deleted=is_deleted,
    )
    live = () if at is not None or is_deleted else (f"entity-{entity_id}@{meta.transaction_id}",)
    return View(title=entity_id, data=data, crumbs=build_model_crumbs(model.name, model.version), live=live, at=at)


def _find_graph(export: Reply, workflow: str, state: str) -> WorkflowGraph | None:
    """The workflow that governs the entity; of a deleted one the first that has its state."""
    graphs = [read_workflow(each) for each in list_workflows(export.value)] if export.is_ok else []
    named = next((graph for graph in graphs if graph.name == workflow), None)
    return named or next((graph for graph in graphs if not workflow and state in graph.states), None)


def _draw(
    graph: WorkflowGraph | None,
    model: tuple[str, int],
    state: str,
    explanation: Explanation | None,
    events: Reply,
    at: str | None,
    *,
    is_deleted: bool,
) -> Picture | None:
    if graph is None:
        return None
    path = () if at is not None else find_path(graph, events.read_items(RunEvent))
    blocked = [each for each in explanation.transitions if not each.is_possible] if explanation is not None else []
    overlay = Overlay(
        current=state,
        current_word="at its end" if is_deleted else "now" if at is None else "then",
        path=tuple((source, name) for source, name, _ in path),
        visited=(path[0][0], *(target for _, _, target in path)) if path else (),
        impossible=frozenset((state, each.told.name) for each in blocked),
        unserved=frozenset((state, each.told.name) for each in blocked if each.missing),
    )
    return draw_picture(graph, (*model, graph.name), overlay=overlay)


def find_path(graph: WorkflowGraph, events: Sequence[RunEvent]) -> tuple[tuple[str, str, str], ...]:
    """The transitions that were made, oldest first: state, name and target. An event tells them in a sentence, which is
    compared with those of the transitions of the workflow; so a name may have any characters.
    """
    told = {
        f'Transition "{each.name}": {each.state} → {each.target}': (each.state, each.name, each.target)
        for each in graph.transitions
    }
    made = (each.details for each in events if each.event_type == "TRANSITION_MAKE")
    return tuple(reversed([told[sentence] for sentence in made if sentence in told]))


async def show_entity_document(request: PageContext) -> View:
    """The document of an entity, to take the place of an older one."""
    entity_id = read_entity_id(request)
    entity = (await request.call_one(build_entity_call("entity", entity_id))).read(Envelope)
    return View(data=DocumentView(id=entity_id, document=await asyncio.to_thread(build_document, entity.data)))


class TimelineView(EntityPage, frozen=True, kw_only=True):
    """The events alone, newest first."""

    timeline: ListView[EventRow]


async def show_entity_events(request: PageContext) -> View:
    """The latest events of an entity."""
    entity_id = read_entity_id(request)
    events, versions = await request.call(*_call_timeline(entity_id, RECENT_EVENTS))
    if events.status == HTTPStatus.NOT_FOUND:
        events.require()
    return View(data=TimelineView(id=entity_id, timeline=view_timeline(events, versions)))


def _call_timeline(entity_id: str, limit: int, cursor: str | None = None) -> tuple[ApiCall, ApiCall]:
    return (
        build_ops_call("entities", entity_id, "events", query={"limit": limit, "cursor": cursor}),
        build_ops_call("entities", entity_id, "versions", query={"limit": RECENT_VERSIONS}),
    )


async def show_entity_timeline(request: PageContext) -> View:
    """All events of an entity, page by page."""
    entity_id, cursor = read_entity_id(request), request.query.get("cursor") or None
    events, versions = await request.call(*_call_timeline(entity_id, PAGE_EVENTS, cursor))
    data = TimelineView(id=entity_id, timeline=view_timeline(events.require(), versions, request.query))
    return View(title="Timeline", data=data, crumbs=(Crumb(entity_id, data.path),))


def view_timeline(events: Reply, versions: Reply, query: Query = NOTHING_ASKED) -> ListView[EventRow]:
    """A page of events, with who acted where the version of the run tells it."""
    actors = {each.transaction_id: describe_actor(each) for each in versions.read_items(VersionView)}
    rows = [EventRow(event=each, actor=actors.get(each.transaction_id, "")) for each in events.read_items(RunEvent)]
    return build_list(query, events, rows, cursor="cursor")


def describe_actor(version: VersionView) -> str:
    """Who is held to account for a version, and who wrote it if that is another."""
    attributed, executed = version.attributed_to.id, version.executed_by.id
    return attributed if executed in ("", attributed) else f"{attributed} via {executed}"


CHANGED: Final = 412
EMPTY_PATCH: Final = b"{}"
"""The document stays as it is."""
RUN_TIMEOUT_S: Final = 60.0
"""How long a run may take: its processors are waited for."""


class ChangedView(EntityPage, frozen=True, kw_only=True):
    """The entity is not as it was on the screen: what is different, and the form again."""

    action: str
    label: str
    states: tuple[str, str]
    differences: tuple[ChangedMember, ...]
    is_cut: bool
    fields: tuple[tuple[str, str], ...]
    document: str | None


def read_id(form: Form) -> str:
    """The entity that a form is about. Raises ``InvalidField``."""
    entity_id = form.require("id")
    if ENTITY_ID.fullmatch(entity_id) is None:
        raise InvalidField("id", "is no id of an entity")
    return entity_id.lower()


def _back(form: Form) -> str:
    return build_entity_path(read_id(form))


def _name(form: Form) -> str:
    return f"{form.get('model', 'entity')} {shorten_id(read_id(form))}"


def _build_write(form: Form, method: Method, body: bytes, transition: str = "") -> ApiCall:
    """A document or a patch of it; with a transition it is fired."""
    return build_entity_call(
        "entity",
        "JSON",
        read_id(form),
        *([transition] if transition else []),
        method=method,
        body=body,
        media_type=MERGE_PATCH if method == "PATCH" else JSON,
        headers={"If-Match": form.require("seen")},
        timeout_s=RUN_TIMEOUT_S,
    )


def _write_restore(form: Form) -> bytes:
    names = {"version": "version", "reason": "reason", "ifMatch": "seen"}
    return encode({member: form.require(name) for member, name in names.items()})


def _tell_target(form: Form) -> str:
    target = form.get("target")
    return f"Its document stays as it is. {f'It leads to {target}.' if target else ''}"


async def _confirm_restore(request: PageContext, form: Form) -> Confirmation:
    version, seen = form.require("version"), form.require("seen")
    diff = await request.call_one(
        build_ops_call("entities", read_id(form), "diff", query={"from": seen, "to": version})
    )
    told = diff.read(Comparison)
    count = len(told.patch)
    return Confirmation(
        question=f"Restore the document of version {shorten_id(version)}?",
        details=(
            f"{count} {'place changes' if count == 1 else 'places change'}.",
            f"The state stays {told.state.older} unless the workflow moves it.",
            "This writes a new version; none is removed.",
        ),
        back=build_entity_path(read_id(form), "versions"),
        needs_reason=True,
    )


async def show_changed(request: PageContext, form: Form, reply: Reply) -> View | None:
    """What to do about an entity that was changed since it was looked at; ``None`` where that is not what failed."""
    if reply.status != CHANGED:
        return None
    entity_id, seen = read_id(form), form.require("seen")
    before, now = await request.call(
        build_ops_call("entities", entity_id, "versions", seen), build_entity_call("entity", entity_id)
    )
    was, entity = before.read_if_ok(WholeVersion), now.read(Envelope)
    rows, is_cut = list_differences(None if was is None else was.document, entity.data)
    action, label = _LABELS[reply.call.method, bool(form.get("transition"))]
    fields = tuple(pair for pair in form.pairs if pair[0] not in ("seen", "document", "back"))
    data = ChangedView(
        id=entity_id,
        action=action,
        label=label,
        states=("" if was is None else was.state, entity.meta.state),
        differences=rows,
        is_cut=is_cut,
        fields=(*fields, ("seen", entity.meta.transaction_id)),
        document=form.get("document") or None,
    )
    name, _, version = form.get("model").rpartition("/")
    crumbs = build_model_crumbs(name, int(version)) if name and version.isdigit() else ()
    return View(
        title="Changed since you looked",
        data=data,
        status=CHANGED,
        crumbs=(*crumbs, Crumb(entity_id, data.path)) if crumbs else (),
        template="pages/entity_changed.html",
    )


_LABELS: Final = {
    ("PATCH", True): ("fire", "Fire it all the same"),
    ("PATCH", False): ("loopback", "Run them all the same"),
    ("PUT", False): ("save_entity", "Save over it"),
    ("PUT", True): ("save_entity", "Save over it"),
    ("POST", False): ("restore_version", "Restore all the same"),
}
"""The action that is offered again, by the call that was refused: its name and its label."""

ACTS: Final[Routes] = (
    Action(
        "fire",
        "Fire",
        lambda form: _build_write(form, "PATCH", EMPTY_PATCH, form.require("transition")),
        lead_to(_back),
        ask(lambda form: f"Fire {form.require('transition')} on {_name(form)}?", _tell_target, back=_back),
        show=show_changed,
    ),
    Action(
        "loopback",
        "Run automated transitions",
        lambda form: _build_write(form, "PATCH", EMPTY_PATCH),
        lead_to(_back),
        ask(
            lambda form: f"Run the automated transitions of {_name(form)}?",
            "Its document is saved again as it is: one version more, and the first transition that holds fires.",
            back=_back,
        ),
        show=show_changed,
    ),
    Action(
        "save_entity",
        "Save",
        lambda form: _build_write(form, "PUT", read_json(form, "document"), form.get("transition")),
        lead_to(_back),
        show=show_changed,
    ),
    Action(
        "delete_entity",
        "Delete",
        lambda form: build_entity_call("entity", read_id(form), method="DELETE"),
        lead_to(_back),
        ask(
            lambda form: f"Delete {_name(form)}?",
            "Its history stays readable. No workflow runs, and nobody else's change is looked for.",
            back=_back,
        ),
        is_dangerous=True,
    ),
    Action(
        "restore_version",
        "Restore",
        send(
            "POST",
            lambda form: build_path("ops", "v1", "entities", read_id(form), "restore"),
            _write_restore,
            timeout_s=RUN_TIMEOUT_S,
        ),
        lead_to(_back),
        _confirm_restore,
        show=show_changed,
        role=OPERATOR,
    ),
    *build_acts(
        Suspendable(
            name="entity",
            read_target=lambda form: {"scope": "ENTITY", "id": read_id(form)},
            subject=_name,
            page=_back,
            effects=("Its timers stop, and transitions answer 409 until you resume.",),
            timers=MOVED,
        )
    ),
)


ROUTES: Final[Routes] = (
    Page(name="entity", path=ROOT, show=show_entity),
    Page(name="entity_timeline", path=f"{ROOT}/timeline", show=show_entity_timeline),
    build_part("entity_now", "/entities/{id}/now", show_entity),
    build_part("entity_document", "/entities/{id}/document", show_entity_document),
    build_part("entity_events", "/entities/{id}/events", show_entity_events),
    *ACTS,
)
