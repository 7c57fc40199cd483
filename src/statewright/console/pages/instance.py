"""The page of an instance of a process, as it is now or was at an instant (docs/console.md#pages).

What an instance of a process was doing at an instant, from what is stored of it (docs/console.md#pages).
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import (
    Reply,
    build_entity_call,
    build_ops_call,
    get_object,
    get_text,
    pick_members,
)
from statewright.console.pages.definitions import call_definition, read_page
from statewright.console.pages.instance_state import (
    HISTORY,
    InstanceAnswers,
    InstanceState,
    list_stored_tokens,
    view_state,
)
from statewright.console.pages.instances import InstanceRow
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
from statewright.console.views.records import Envelope, EnvelopeMeta, HistoryEntry, InstanceRecord
from statewright.instants import from_rfc3339
from statewright.operations.explanations import AwaitedThing, ExplainedInstance


def build_past(
    explained: ExplainedInstance, entity: Reply, history: Reply, entries: tuple[HistoryEntry, ...], at: str
) -> InstanceAnswers:
    """The answers as they would have been at an instant: what was stored then, and what had begun by then. Nobody knows
    any more what its tokens waited for.
    """
    stored = entity.read(Envelope)
    document = stored.data if isinstance(stored.data, dict) else {}
    tokens = [token for token in list_stored_tokens(document) if token.stage != "PENDING"]
    told = ExplainedInstance(
        instance_id=explained.instance_id,
        language=explained.language,
        definition_id=explained.definition_id,
        status=stored.meta.state,
        verdict="",
        summary="",
        suspensions=(),
        incidents=(),
        tokens=tuple(AwaitedThing(step_id=token.node, waits_for="") for token in tokens),
        timers=(),
    )
    return InstanceAnswers(
        explained=told,
        record=pick_members(document, InstanceRecord),
        history=history,
        entries=tuple(limit_history(entries, at)),
        entity=entity,
        events=None,
    )


def limit_history(entries: Iterable[HistoryEntry], at: str) -> Iterator[HistoryEntry]:
    """What had begun by an instant. What ended after it was under way."""
    until = from_rfc3339(at) or 0
    for entry in entries:
        if (from_rfc3339(entry.started_at) or 0) > until:
            continue
        if (from_rfc3339(entry.ended_at) or 0) <= until:
            yield entry
        else:
            yield replace(
                entry,
                status="RUNNING",
                ended_at="",
                output_snapshot=None,
                output=None,
                failure_reason="",
                reason="",
            )


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
    record = InstanceRow(language, answers.record)
    calls = [call_definition(language, record.definition, record.version)]
    definition, *diagram = await request.call(*calls, *call_graph(language, record.definition, record.version))
    graph = await asyncio.to_thread(read_graph, language, definition, diagram[0] if diagram else None)
    state = view_state(request, language, answers, graph)
    entity = answers.entity.read_if_ok(Envelope)
    stored = entity.meta if entity is not None else EnvelopeMeta()
    data = InstanceView(
        id=state.id,
        definition=record.definition,
        version=record.version,
        business_key=record.record.business_key,
        started=record.record.started_at,
        graph=view_graph(language, definition, graph, request.query) if definition.is_ok else None,
        graph_problem=None if definition.is_ok else build_problem(definition),
        steps=tuple(row.key for row in graph.rows) if graph is not None and language is PLAYBOOKS else (),
        parent=_find_parent(answers),
        changed=stored.last_update_time,
        state=state,
    )
    live = (f"entity-{state.entity}@{stored.transaction_id}",) if stored.transaction_id else ()
    crumbs = (Crumb("Instances", "/console/instances"),)
    return View(title=state.id, data=data, crumbs=crumbs, live=live, at=state.at)


async def show_instance_state(request: ConsoleRequest) -> View:
    """The part that asks for itself again."""
    language, answers = await _ask(request)
    record = InstanceRow(language, answers.record)
    calls = [call_definition(language, record.definition, record.version)]
    definition, *diagram = await request.call(*calls, *call_graph(language, record.definition, record.version))
    graph = await asyncio.to_thread(read_graph, language, definition, diagram[0] if diagram else None)
    return View(data=view_state(request, language, answers, graph))


async def _ask(request: ConsoleRequest) -> tuple[ProcessLanguage, InstanceAnswers]:
    """The language of the instance, and what the API says of it. Raises ``CallFailed``."""
    instance = request.params["instance"]
    explained = (await request.call_one(build_ops_call("instances", instance, "explain"))).read(ExplainedInstance)
    language = find_language_of(explained.language) or LANGUAGES[0]
    known = explained.instance_id
    entity = find_entity_id(known) or known
    at = request.query.get("at") or None
    history_call = language.call_instances(
        known, "history", query={"page": read_page(request) or None, "pageSize": HISTORY}
    )
    if at is not None:
        past, history = await request.call(build_entity_call("entity", entity, query={"pointInTime": at}), history_call)
        return language, build_past(explained, past, history, history.pick_items(HistoryEntry), at)
    record, history, stored, events = await request.call(
        language.call_instances(known),
        history_call,
        build_entity_call("entity", entity),
        build_ops_call("entities", entity, "events", query={"limit": EVENTS}),
    )
    answers = InstanceAnswers(
        explained=explained,
        record=record.require().pick(InstanceRecord),
        history=history,
        entries=history.pick_items(HistoryEntry),
        entity=stored,
        events=events,
    )
    return language, answers


def _find_parent(answers: InstanceAnswers) -> str:
    stored = answers.stored
    execution = get_object(get_object(stored, "data"), "execution")
    return get_text(stored, "parentInstanceId") or get_text(execution, "parent")


ROUTES: Final[Routes] = (
    Page(name="instance", path="/console/instances/{instance}", show=show_instance),
    build_part("instance_state", "/instances/{instance}", show_instance_state),
)
