"""What an instance of a process is doing, now or at an instant (docs/console.md#pages)."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from statewright.console.calls import Reply, get_object, get_objects, get_text, pick_members
from statewright.console.diagrams.process import NodeState, ProcessGraph, mark_process
from statewright.console.pages.definitions import read_page
from statewright.console.pages.instances import build_instance_path
from statewright.console.process_languages import FLOWS, PLAYBOOKS, STEPS, ProcessLanguage, find_entity_id
from statewright.console.request import ConsoleRequest, Query, build_problem
from statewright.console.views.entities import TreeNode, build_tree
from statewright.console.views.page import Picture, Problem, build_picture
from statewright.console.views.records import HistoryEntry, InstanceRecord, StoredToken
from statewright.jsonval.codec import encode
from statewright.jsonval.patches import is_json_equal
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.explanations import AwaitedThing, ExplainedInstance
from statewright.operations.history import RunEvent
from statewright.operations.records import Record

HISTORY: Final = 200
"""Entries of the history on one page."""
MAX_TOKENS: Final = 200
MAX_VARIABLES: Final = 200
MAX_VALUE_CHARS: Final = 300
ENDED: Final[Mapping[str, str]] = {"COMPLETED": "done", "FAILED": "failed", "SKIPPED": "skipped", "BYPASSED": "skipped"}
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
    is_cut: bool


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
    def stored(self) -> JsonObject:
        """The document of its entity; empty where it cannot be read."""
        document = get_object(self.entity.document, "data")
        return document if self.entity.is_ok else {}


def view_state(
    request: ConsoleRequest, language: ProcessLanguage, answers: InstanceAnswers, graph: ProcessGraph | None
) -> InstanceState:
    """The state from the answers of the API."""
    explained, record, entries = answers.explained, answers.record, answers.entries
    instance = explained.instance_id
    rows = {row.key: (row.name, f"#{row.ref}") for row in graph.rows} if graph is not None else {}
    tokens = explained.tokens
    page, total = read_page(request), answers.history.total
    picture = Picture(id="diagram", label="", plan="{}")
    denied = _list_pending(language, answers)
    if graph is not None:
        states = find_states(language, tokens, entries, denied)
        picture = build_picture(graph.drawing, mark_process(graph, states), label="")
    failure = pick_members(explained.failure or {}, _Failure)
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
    language: ProcessLanguage,
    tokens: Sequence[AwaitedThing],
    entries: Sequence[HistoryEntry],
    pending: Sequence[StoredToken],
) -> dict[str, NodeState]:
    """What is put on the graph, by the keys of its nodes: how each ended last, and tokens."""
    ended: dict[str, str] = {}
    for entry in entries:
        ended[get_key(language, entry)] = ENDED.get(entry.status, "")
    running: dict[str, int] = {}
    for token in tokens:
        running[token.step_id] = running.get(token.step_id, 0) + 1
    waiting: dict[str, list[bool]] = {}
    for waiter in pending:
        waiting.setdefault(waiter.node, []).append(waiter.was_denied)
    return {
        key: NodeState(
            running=running.get(key, 0),
            waiting=waiting.get(key, []).count(False),
            denied=waiting.get(key, []).count(True),
            ended=_read_end(ended.get(key, "")),
        )
        for key in {*ended, *running, *waiting}
    }


def _read_end(text: str) -> Literal["", "done", "failed", "skipped"]:
    return "done" if text == "done" else "failed" if text == "failed" else "skipped" if text == "skipped" else ""


def get_key(language: ProcessLanguage, entry: HistoryEntry) -> str:
    """By which key the graph has the node of an entry of the history."""
    return str(entry.node) if language is FLOWS else entry.step if language is PLAYBOOKS else entry.step_id


def _list_pending(language: ProcessLanguage, answers: InstanceAnswers) -> list[StoredToken]:
    """Tokens of a playbook that no step has admitted yet."""
    if language is not PLAYBOOKS:
        return []
    return [token for token in list_stored_tokens(answers.stored) if token.stage == "PENDING"]


def list_stored_tokens(document: JsonObject) -> list[StoredToken]:
    """The tokens of an instance as it is stored."""
    tokens = get_objects(document, "tokens") or get_objects(get_object(document, "marking"), "tokens")
    return [pick_members(each, StoredToken) for each in tokens]


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
        _view_variable(name, value, writers.get(name, origin))
        for name, value in list(variables.items())[:MAX_VARIABLES]
    )


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


def _view_variable(name: str, value: JsonValue, step: str) -> VariableView:
    text = encode(value).decode()
    cut = len(text) > MAX_VALUE_CHARS
    return VariableView(name=name, value=f"{text[:MAX_VALUE_CHARS]}…" if cut else text, step=step, is_cut=cut)


def _list_documents(language: ProcessLanguage, record: InstanceRecord) -> tuple[tuple[str, TreeNode], ...]:
    wanted: dict[str, tuple[tuple[str, JsonValue], ...]] = {
        "steps": (("All variables", record.variables),),
        "flows": (("Input", record.input), ("Result", record.result)),
        "playbooks": (("Workload", record.workload), ("Context", record.ctx), ("Results", record.results)),
    }
    return tuple((title, build_tree(value)) for title, value in wanted[language.name] if value is not None)


def _view_entry(entry: HistoryEntry, rows: Mapping[str, tuple[str, str]]) -> HistoryRow:
    key = entry.step_id or entry.step or str(entry.node)
    name, ref = rows.get(key, (key, ""))
    output = entry.output if entry.output_snapshot is None else entry.output_snapshot
    text = "" if output is None else encode(output).decode()
    element = "" if entry.element is None else f" [{entry.element}]"
    values = text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"
    return HistoryRow(entry=entry, name=f"{name}{element}", ref=ref, values=values)


class _Failure(Record, frozen=True, kw_only=True):
    """Why an instance failed."""

    reason: str = ""
    step_id: str = ""


def _find_successor(events: Reply | None) -> str:
    """The instance that this one has started at its end."""
    for event in events.read_items(RunEvent) if events is not None else ():
        data = event.data or {}
        if get_text(data, "kind") == "chain-started":
            return get_text(data, "instanceId")
    return ""
