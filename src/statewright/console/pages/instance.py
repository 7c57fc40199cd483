"""The page of an instance of a process, as it is now or was at an instant (docs/console.md#pages).

What an instance of a process was doing at an instant, from what is stored of it (docs/console.md#pages).
"""

import asyncio
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import (
    Reply,
    build_entity_call,
    build_ops_call,
    get_instant,
    get_object,
    get_objects,
    get_text,
)
from statewright.console.pages.definitions import call_definition, read_page
from statewright.console.pages.instance_state import HISTORY, InstanceAnswers, InstanceState, view_state
from statewright.console.pages.instances import view_row
from statewright.console.pages.process_graph import GraphView, call_graph, read_graph, view_graph
from statewright.console.process_languages import (
    LANGUAGES,
    PLAYBOOKS,
    ProcessLanguage,
    find_entity_id,
    find_language_of,
)
from statewright.console.request import ConsoleRequest, Page, Routes, build_part, build_problem
from statewright.console.views.page import Crumb, Problem, View
from statewright.instants import from_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue

LATER: Final = frozenset({"endedAt", "outputSnapshot", "output", "failureReason", "reason"})
"""What an entry of the history has only when it has ended."""


def build_past(explained: Reply, entity: Reply, history: Reply, at: str) -> InstanceAnswers:
    """The answers as they would have been at an instant: what was stored then, and what had begun by then. Nobody knows
    any more what its tokens waited for.
    """
    document = get_object(entity.document, "data")
    tokens = get_objects(document, "tokens") or get_objects(get_object(document, "marking"), "tokens")
    told: JsonObject = {
        "instanceId": get_text(explained.document, "instanceId"),
        "status": get_text(get_object(entity.document, "meta"), "state"),
        "tokens": [{"stepId": get_text(each, "node")} for each in tokens if get_text(each, "stage") != "PENDING"],
    }
    return InstanceAnswers(
        explained=replace(explained, value=told),
        record=replace(entity, value=document),
        history=replace(history, value=_limit_history(history, at)) if history.is_ok else history,
        entity=entity,
        events=None,
    )


def _limit_history(history: Reply, at: str) -> JsonObject:
    until = from_rfc3339(at) or 0
    entries: list[JsonValue] = []
    for entry in history.items:
        if (get_instant(entry, "startedAt") or 0) > until:
            continue
        was_running = (get_instant(entry, "endedAt") or 0) > until
        kept: JsonObject = dict(entry)
        if was_running:
            kept = {"status": "RUNNING"}
            kept.update((name, value) for name, value in entry.items() if name not in {*LATER, "status"})
        entries.append(kept)
    limited: JsonObject = dict(history.document)
    limited["items"] = entries
    return limited


EVENTS: Final = 20


class InstanceView(Struct, frozen=True, kw_only=True):
    """The page of an instance."""

    id: str
    definition: str
    version: int
    business_key: str
    started: str
    graph: GraphView | None
    graph_problem: Problem | None
    steps: tuple[str, ...]
    """The names of the steps of a playbook, into which a token can be put."""
    parent: str
    changed: str
    state: InstanceState

    @property
    def language(self) -> ProcessLanguage:
        """That of its definition."""
        return self.state.language


async def show_instance(request: ConsoleRequest) -> View:
    """The page."""
    language, answers = await _ask(request)
    record = view_row(language, answers.record.document)
    calls = [call_definition(language, record.definition, record.version)]
    definition, *diagram = await request.call(*calls, *call_graph(language, record.definition, record.version))
    graph = await asyncio.to_thread(read_graph, language, definition, diagram[0] if diagram else None)
    state = view_state(request, language, answers, graph)
    data = InstanceView(
        id=state.id,
        definition=record.definition,
        version=record.version,
        business_key=record.business_key,
        started=record.started,
        graph=view_graph(language, definition, graph, request.query) if definition.is_ok else None,
        graph_problem=None if definition.is_ok else build_problem(definition),
        steps=tuple(row.key for row in graph.rows) if graph is not None and language is PLAYBOOKS else (),
        parent=_find_parent(answers),
        changed=get_text(get_object(answers.entity.document, "meta"), "lastUpdateTime"),
        state=state,
    )
    changed = get_text(get_object(answers.entity.document, "meta"), "transactionId")
    live = (f"entity-{state.entity}@{changed}",) if answers.entity.is_ok and changed else ()
    crumbs = (Crumb("Instances", "/console/instances"),)
    return View(title=state.id, data=data, crumbs=crumbs, live=live, at=state.at)


async def show_instance_state(request: ConsoleRequest) -> View:
    """The part that asks for itself again."""
    language, answers = await _ask(request)
    record = view_row(language, answers.record.document)
    calls = [call_definition(language, record.definition, record.version)]
    definition, *diagram = await request.call(*calls, *call_graph(language, record.definition, record.version))
    graph = await asyncio.to_thread(read_graph, language, definition, diagram[0] if diagram else None)
    return View(data=view_state(request, language, answers, graph))


async def _ask(request: ConsoleRequest) -> tuple[ProcessLanguage, InstanceAnswers]:
    """The language of the instance, and what the API says of it. Raises ``CallFailed``."""
    instance = request.params["instance"]
    explained = (await request.call_one(build_ops_call("instances", instance, "explain"))).require()
    language = find_language_of(get_text(explained.document, "language")) or LANGUAGES[0]
    known = get_text(explained.document, "instanceId")
    entity = find_entity_id(known) or known
    at = request.query.get("at") or None
    history_call = language.call_instances(
        known, "history", query={"page": read_page(request) or None, "pageSize": HISTORY}
    )
    if at is not None:
        past, history = await request.call(build_entity_call("entity", entity, query={"pointInTime": at}), history_call)
        return language, build_past(explained, past.require(), history, at)
    record, history, stored, events = await request.call(
        language.call_instances(known),
        history_call,
        build_entity_call("entity", entity),
        build_ops_call("entities", entity, "events", query={"limit": EVENTS}),
    )
    record.require()
    answers = InstanceAnswers(explained=explained, record=record, history=history, entity=stored, events=events)
    return language, answers


def _find_parent(answers: InstanceAnswers) -> str:
    data = get_object(answers.entity.document, "data")
    execution = get_object(get_object(data, "data"), "execution")
    return get_text(data, "parentInstanceId") or get_text(execution, "parent")


ROUTES: Final[Routes] = (
    Page(name="instance", path="/console/instances/{instance}", show=show_instance),
    build_part("instance_state", "/instances/{instance}", show_instance_state),
)
