"""The page of an instance of a process: what it is doing now, or was doing at an instant, from what is stored of it
(docs/console.md#pages).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import Reply, build_entity_call, build_ops_call, pick_members
from statewright.console.diagrams.process import Ended, NodeState, ProcessGraph, mark_process
from statewright.console.pages.definitions import EMPTY_PICTURE, GraphView, call_with_graph, view_graph
from statewright.console.pages.instances import build_instance_path
from statewright.console.process_languages import (
    PLAYBOOKS,
    STEPS,
    ProcessLanguage,
    find_entity_id,
    find_language_of,
)
from statewright.console.request import Page, PageContext, Query, Routes, build_part, build_problem
from statewright.console.views.entities import TreeNode, build_tree
from statewright.console.views.page import Crumb, Picture, Problem, View, build_picture, cut_text
from statewright.console.views.records import (
    ChainStarted,
    Envelope,
    EnvelopeMeta,
    HistoryEntry,
    InstanceFailure,
    InstanceRecord,
    StoredInstance,
    StoredToken,
)
from statewright.instants import from_rfc3339
from statewright.jsonval.codec import encode
from statewright.jsonval.patches import is_json_equal
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.explanations import AwaitedThing, ExplainedInstance
from statewright.operations.history import RunEvent

EVENTS: Final = 20
HISTORY: Final = 200
"""Entries of the history on one page."""
MAX_TOKENS: Final = 200
MAX_VARIABLES: Final = 200
MAX_VALUE_CHARS: Final = 300
ENDED: Final[Mapping[str, Ended]] = {
    "COMPLETED": "done",
    "FAILED": "failed",
    "SKIPPED": "skipped",
    "BYPASSED": "skipped",
}
_ABSENT: Final[JsonValue] = {"": "no value that a variable has"}
FINAL: Final = frozenset({"COMPLETED", "CANCELLED"})


class TokenView(Struct, frozen=True, kw_only=True):
    """A token and what it waits for. ``ref`` leads to its step, where the graph has it."""

    told: AwaitedThing
    name: str
    ref: str
    missing: tuple[str, ...] = ()


class VariableView(Struct, frozen=True, kw_only=True):
    """A variable of JSON steps. ``step`` is what wrote it last; empty: that is not on this page of the history."""

    name: str
    value: str
    step: str


class HistoryRow(Struct, frozen=True, kw_only=True):
    """An entry of the history."""

    entry: HistoryEntry
    name: str
    ref: str
    values: str

    @property
    def kind(self) -> str:
        """What it was."""
        return (self.entry.step_type or self.entry.kind).replace("_", " ").lower()


class InstanceState(Struct, frozen=True, kw_only=True):
    """What changes while the instance goes on."""

    told: ExplainedInstance
    record: InstanceRecord
    language: ProcessLanguage
    outcome: str
    failure: str
    failed_step: str
    picture: Picture
    tokens: tuple[TokenView, ...]
    left_out: int
    denied: tuple[tuple[str, str, str], ...]
    """Tokens that wait for admission: name and row of the step, and which tokens it admits."""
    variables: tuple[VariableView, ...]
    documents: tuple[tuple[str, TreeNode], ...]
    history: tuple[HistoryRow, ...]
    history_problem: Problem | None
    next: str | None
    first: str | None
    successor: str
    entity: str
    part: str
    at: str | None
    """The instant that is shown, where it is not now: nothing can be done then."""

    @property
    def is_over(self) -> bool:
        """Whether nothing can make it go on."""
        return self.told.status in FINAL

    @property
    def id(self) -> str:
        """That of the instance."""
        return self.told.instance_id


class InstanceAnswers(Struct, frozen=True, kw_only=True):
    """The answers that the state is made from."""

    explained: ExplainedInstance
    record: InstanceRecord
    history: Reply
    entries: tuple[HistoryEntry, ...]
    entity: Reply
    events: Reply | None
    """None where an instant is shown that is not now."""

    @property
    def stored(self) -> StoredInstance:
        """The document of its entity; empty where it cannot be read."""
        entity = self.entity.read_if_ok(Envelope)
        return read_stored(entity.data if entity is not None else None)


def view_state(
    request: PageContext, language: ProcessLanguage, answers: InstanceAnswers, graph: ProcessGraph | None
) -> InstanceState:
    """The state from the answers of the API."""
    explained, record, entries = answers.explained, answers.record, answers.entries
    instance = explained.instance_id
    rows = {row.key: (row.name, f"#{row.ref}") for row in graph.rows} if graph is not None else {}
    tokens = explained.tokens
    page, total = request.query.page(), answers.history.total
    picture = EMPTY_PICTURE
    denied = _list_pending(language, answers)
    if graph is not None:
        states = find_states(tokens, entries, denied)
        picture = build_picture(graph.drawing, mark_process(graph, states), label="")
    failure = pick_members(explained.failure, InstanceFailure)
    path = build_instance_path(instance)
    at = request.query.get("at") or None
    turn = Query((("at", at),) if at else ())
    return InstanceState(
        told=explained,
        record=record,
        language=language,
        outcome=record.status if language is PLAYBOOKS else "",
        failure=failure.reason or record.failure_reason,
        failed_step=failure.step_id,
        picture=picture,
        tokens=tuple(_view_token(token, rows) for token in tokens[:MAX_TOKENS]),
        left_out=max(0, len(tokens) - MAX_TOKENS),
        denied=_list_denied(denied, graph),
        variables=_list_variables(record.variables or {}, entries, is_whole=page == 0 and total <= HISTORY)
        if language is STEPS
        else (),
        documents=_list_documents(language, record),
        history=tuple(_view_entry(entry, rows) for entry in entries),
        history_problem=None if answers.history.is_ok else build_problem(answers.history),
        next=f"{path}{turn.change(page=str(page + 1))}#history" if total > (page + 1) * HISTORY else None,
        first=f"{path}{turn.change()}#history" if page else None,
        successor=_find_successor(answers.events),
        entity=find_entity_id(instance) or instance,
        part=path.replace("/console/", "/console/part/", 1) + (f"?page={page}" if page else ""),
        at=at,
    )


def find_states(
    tokens: Sequence[AwaitedThing], entries: Sequence[HistoryEntry], pending: Sequence[StoredToken]
) -> dict[str, NodeState]:
    """What is put on the graph, by the keys of its nodes: how each ended last, and tokens."""
    ended: dict[str, Ended] = {entry.key: ENDED.get(entry.status, "") for entry in entries}
    running = Counter(token.step_id for token in tokens)
    waiting = Counter(token.node for token in pending)
    denied = Counter(token.node for token in pending if token.was_denied)
    return {
        key: NodeState(
            running=running[key],
            waiting=waiting[key] - denied[key],
            denied=denied[key],
            ended=ended.get(key, ""),
        )
        for key in {*ended, *running, *waiting}
    }


def _list_pending(language: ProcessLanguage, answers: InstanceAnswers) -> list[StoredToken]:
    """Tokens of a playbook that no step has admitted yet."""
    if language is not PLAYBOOKS:
        return []
    return [token for token in answers.stored.all_tokens if token.stage == "PENDING"]


def read_stored(document: JsonValue) -> StoredInstance:
    """An instance as its entity has it."""
    return pick_members(document, StoredInstance)


def _list_denied(tokens: Sequence[StoredToken], graph: ProcessGraph | None) -> tuple[tuple[str, str, str], ...]:
    rows = {row.key: row for row in graph.rows} if graph is not None else {}
    found: list[tuple[str, str, str]] = []
    for token in tokens[:MAX_TOKENS]:
        row = rows.get(token.node)
        was_denied = "denied: " if token.was_denied else ""
        rule = row.detail if row is not None and row.detail else "waits for its turn or its join"
        found.append((token.node, f"#{row.ref}" if row is not None else "", f"{was_denied}{rule}"))
    return tuple(found)


def _view_token(token: AwaitedThing, rows: Mapping[str, tuple[str, str]]) -> TokenView:
    name, ref = rows.get(token.step_id, (token.step_id, ""))
    missing = tuple(
        f"branch {each.branch} is at {', '.join(rows.get(at, (at, ''))[0] for at in each.at)}"
        if each.at
        else f"branch {each.branch} has ended elsewhere"
        for each in token.missing or ()
    )
    return TokenView(told=token, name=name, ref=ref, missing=missing)


def _list_variables(
    variables: JsonObject, entries: Sequence[HistoryEntry], *, is_whole: bool
) -> tuple[VariableView, ...]:
    writers = find_writers(entries)
    origin = "the start or a retry" if is_whole else ""
    return tuple(
        VariableView(name=name, value=_write(value), step=writers.get(name, origin))
        for name, value in list(variables.items())[:MAX_VARIABLES]
    )


def _write(value: JsonValue) -> str:
    return cut_text(encode(value).decode(), MAX_VALUE_CHARS)


def find_writers(entries: Sequence[HistoryEntry]) -> dict[str, str]:
    """The step that last wrote each variable. Snapshots of some types of steps have all variables: only what differs
    from the input was written. Entries are in the order of their start.
    """
    return {
        name: entry.step_id
        for entry in entries
        for name, value in (entry.output_snapshot.items() if isinstance(entry.output_snapshot, dict) else ())
        if not is_json_equal((entry.input_snapshot or {}).get(name, _ABSENT), value)
    }


def _list_documents(language: ProcessLanguage, record: InstanceRecord) -> tuple[tuple[str, TreeNode], ...]:
    found: list[tuple[str, JsonValue]] = [(title, getattr(record, member)) for title, member in language.documents]
    return tuple((title, build_tree(value)) for title, value in found if value is not None)


def _view_entry(entry: HistoryEntry, rows: Mapping[str, tuple[str, str]]) -> HistoryRow:
    name, ref = rows.get(entry.key, (entry.key, ""))
    output = entry.output if entry.output_snapshot is None else entry.output_snapshot
    element = "" if entry.element is None else f" [{entry.element}]"
    values = "" if output is None else _write(output)
    return HistoryRow(entry=entry, name=f"{name}{element}", ref=ref, values=values)


def _find_successor(events: Reply | None) -> str:
    """The instance that this one has started at its end."""
    for event in events.read_items(RunEvent) if events is not None else ():
        told = pick_members(event.data, ChainStarted)
        if told.kind == "chain-started":
            return told.instance_id
    return ""


# As it was at an instant.


def build_past(
    explained: ExplainedInstance, entity: Reply, history: Reply, entries: tuple[HistoryEntry, ...], at: str
) -> InstanceAnswers:
    """The answers as they would have been at an instant: what was stored then, and what had begun by then. Nobody knows
    any more what its tokens waited for.
    """
    stored = entity.read(Envelope)
    tokens = [token for token in read_stored(stored.data).all_tokens if token.stage != "PENDING"]
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
        record=pick_members(stored.data, InstanceRecord),
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


# The page.


class InstanceView(Struct, frozen=True, kw_only=True):
    """The page of an instance."""

    record: InstanceRecord
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


async def show_instance(request: PageContext) -> View:
    """The page."""
    language, answers = await _ask(request)
    record = answers.record
    definition, graph, _ = await call_with_graph(request, language, record.definition, record.of_version)
    state = view_state(request, language, answers, graph)
    entity = answers.entity.read_if_ok(Envelope)
    stored = entity.meta if entity is not None else EnvelopeMeta()
    data = InstanceView(
        record=record,
        graph=view_graph(language, definition, graph, request.query) if definition.is_ok else None,
        graph_problem=None if definition.is_ok else build_problem(definition),
        steps=tuple(row.key for row in graph.rows) if graph is not None and language is PLAYBOOKS else (),
        parent=answers.stored.parent,
        changed=stored.last_update_time,
        state=state,
    )
    live = (f"entity-{state.entity}@{stored.transaction_id}",) if stored.transaction_id else ()
    crumbs = (Crumb("Instances", "/console/instances"),)
    return View(title=state.id, data=data, crumbs=crumbs, live=live, at=state.at)


async def show_instance_state(request: PageContext) -> View:
    """The part that asks for itself again."""
    language, answers = await _ask(request)
    record = answers.record
    _, graph, _ = await call_with_graph(request, language, record.definition, record.of_version)
    return View(data=view_state(request, language, answers, graph))


async def _ask(request: PageContext) -> tuple[ProcessLanguage, InstanceAnswers]:
    """The language of the instance, and what the API says of it. Raises ``CallFailed``."""
    instance = request.params["instance"]
    explained = (await request.call_one(build_ops_call("instances", instance, "explain"))).read(ExplainedInstance)
    language = find_language_of(explained.language) or STEPS
    known = explained.instance_id
    entity = find_entity_id(known) or known
    at = request.query.get("at") or None
    history_call = language.call_instances(
        known, "history", query={"page": request.query.page() or None, "pageSize": HISTORY}
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


ROUTES: Final[Routes] = (
    Page(name="instance", path="/console/instances/{instance}", show=show_instance),
    build_part("instance_state", "/instances/{instance}", show_instance_state),
)
