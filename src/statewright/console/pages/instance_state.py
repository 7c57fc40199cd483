"""What an instance of a process is doing, now or at an instant (docs/console.md#pages)."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from statewright.console.calls import (
    Reply,
    get_flag,
    get_int,
    get_object,
    get_objects,
    get_text,
    get_texts,
)
from statewright.console.diagrams.process import NodeState, ProcessGraph, mark_process
from statewright.console.pages.definitions import read_page
from statewright.console.pages.instances import build_instance_path
from statewright.console.process_languages import FLOWS, PLAYBOOKS, STEPS, ProcessLanguage, find_entity_id
from statewright.console.request import ConsoleRequest, Query, build_problem
from statewright.console.views.entities import TreeNode, build_tree
from statewright.console.views.page import Picture, Problem, build_picture
from statewright.jsonval.codec import encode
from statewright.jsonval.patches import is_json_equal
from statewright.jsonval.values import JsonObject, JsonValue

HISTORY: Final = 200
"""Entries of the history on one page."""
MAX_TOKENS: Final = 200
MAX_VARIABLES: Final = 200
MAX_VALUE_CHARS: Final = 300
ENDED: Final[Mapping[str, str]] = {"COMPLETED": "done", "FAILED": "failed", "SKIPPED": "skipped", "BYPASSED": "skipped"}
_ABSENT: Final[JsonValue] = {"": "no value that a variable has"}
FINAL: Final = frozenset({"COMPLETED", "CANCELLED"})


class TokenView(Struct, frozen=True, kw_only=True):
    """A token and what it waits for."""

    step: str
    name: str
    ref: str
    since: str
    waits_for: str
    job_type: str = ""
    job_id: str = ""
    phase: str = ""
    workers: int | None = None
    retries: int = 0
    worker: str = ""
    until: str = ""
    task: str = ""
    arrived: int = 0
    missing: tuple[str, ...] = ()


class VariableView(Struct, frozen=True, kw_only=True):
    """A variable of JSON steps. ``step`` is what wrote it last; empty: that is not on this page of the history."""

    name: str
    value: str
    step: str
    is_cut: bool


class HistoryRow(Struct, frozen=True, kw_only=True):
    """An entry of the history."""

    name: str
    ref: str
    kind: str
    attempt: int
    status: str
    began: str
    ended: str
    failure: str
    values: str


class NoticeView(Struct, frozen=True, kw_only=True):
    """A suspension, or an incident."""

    id: str
    scope: str
    text: str
    since: str
    is_own: bool = False
    """Whether it is of this instance alone."""


class FailedNode(Struct, frozen=True):
    """Where a flow failed."""

    node: int
    name: str
    reason: str


class InstanceState(Struct, frozen=True, kw_only=True):
    """What changes while the instance goes on."""

    id: str
    language: ProcessLanguage
    status: str
    outcome: str
    summary: str
    failure: str
    failed_step: str
    failed_nodes: tuple[FailedNode, ...]
    completed: str
    picture: Picture
    tokens: tuple[TokenView, ...]
    left_out: int
    denied: tuple[tuple[str, str, str], ...]
    """Tokens that wait for admission: name and row of the step, and which tokens it admits."""
    timers: tuple[tuple[str, str], ...]
    suspensions: tuple[NoticeView, ...]
    incidents: tuple[NoticeView, ...]
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
        return self.status in FINAL


class InstanceAnswers(Struct, frozen=True, kw_only=True):
    """The answers that the state is made from."""

    explained: Reply
    record: Reply
    history: Reply
    entity: Reply
    events: Reply | None
    """None where an instant is shown that is not now."""


def view_state(
    request: ConsoleRequest, language: ProcessLanguage, answers: InstanceAnswers, graph: ProcessGraph | None
) -> InstanceState:
    """The state from the answers of the API."""
    explained, record = answers.explained.document, answers.record.document
    instance = get_text(explained, "instanceId")
    rows = {row.key: (row.name, f"#{row.ref}") for row in graph.rows} if graph is not None else {}
    tokens = get_objects(explained, "tokens")
    entries = answers.history.items
    page, total = read_page(request), get_int(answers.history.document, "total")
    picture = Picture(id="diagram", label="", plan="{}")
    denied = _list_pending(language, answers)
    if graph is not None:
        states = find_states(language, tokens, entries, denied)
        picture = build_picture(graph.drawing, mark_process(graph, states), label="")
    failure = get_object(explained, "failure")
    path = build_instance_path(instance)
    at = request.query.get("at") or None
    turn = Query((("at", at),) if at else ())
    return InstanceState(
        id=instance,
        language=language,
        status=get_text(explained, "status"),
        outcome=get_text(record, "status") if language is PLAYBOOKS else "",
        summary=get_text(explained, "summary"),
        failure=get_text(failure, "reason") or get_text(record, "failureReason"),
        failed_step=get_text(failure, "stepId"),
        failed_nodes=tuple(
            FailedNode(get_int(each, "node"), get_text(each, "name"), get_text(each, "reason"))
            for each in get_objects(record, "failedNodes")
        ),
        completed=get_text(record, "completedAt"),
        picture=picture,
        tokens=tuple(_view_token(token, rows) for token in tokens[:MAX_TOKENS]),
        left_out=max(0, len(tokens) - MAX_TOKENS),
        denied=_list_denied(denied, graph),
        timers=tuple((get_text(each, "timerId"), get_text(each, "dueAt")) for each in get_objects(explained, "timers")),
        suspensions=tuple(_view_suspension(each) for each in get_objects(explained, "suspensions")),
        incidents=tuple(_view_incident(each) for each in get_objects(explained, "incidents")),
        variables=_list_variables(record, answers.history, is_whole=page == 0 and total <= HISTORY)
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
    tokens: Sequence[JsonObject],
    entries: Sequence[JsonObject],
    pending: Sequence[JsonObject],
) -> dict[str, NodeState]:
    """What is put on the graph, by the keys of its nodes: how each ended last, and tokens."""
    ended: dict[str, str] = {}
    for entry in entries:
        ended[get_key(language, entry)] = ENDED.get(get_text(entry, "status"), "")
    running: dict[str, int] = {}
    for token in tokens:
        key = get_text(token, "stepId")
        running[key] = running.get(key, 0) + 1
    waiting: dict[str, list[bool]] = {}
    for token in pending:
        waiting.setdefault(get_text(token, "node"), []).append(get_flag(token, "wasDenied"))
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


def get_key(language: ProcessLanguage, entry: JsonObject) -> str:
    """By which key the graph has the node of an entry of the history."""
    if language is FLOWS:
        return str(get_int(entry, "node"))
    return get_text(entry, "step" if language is PLAYBOOKS else "stepId")


def _list_pending(language: ProcessLanguage, answers: InstanceAnswers) -> list[JsonObject]:
    """Tokens of a playbook that no step has admitted yet."""
    if language is not PLAYBOOKS:
        return []
    marking = get_object(get_object(answers.entity.document, "data"), "marking")
    return [token for token in get_objects(marking, "tokens") if get_text(token, "stage") == "PENDING"]


def _list_denied(tokens: Sequence[JsonObject], graph: ProcessGraph | None) -> tuple[tuple[str, str, str], ...]:
    rows = {row.key: row for row in graph.rows} if graph is not None else {}
    found: list[tuple[str, str, str]] = []
    for token in tokens[:MAX_TOKENS]:
        row = rows.get(get_text(token, "node"))
        was_denied = "denied: " if get_flag(token, "wasDenied") else ""
        rule = row.detail if row is not None and row.detail else "waits for its turn or its join"
        found.append((get_text(token, "node"), f"#{row.ref}" if row is not None else "", f"{was_denied}{rule}"))
    return tuple(found)


def _view_token(token: JsonObject, rows: Mapping[str, tuple[str, str]]) -> TokenView:
    step = get_text(token, "stepId")
    name, ref = rows.get(step, (step, ""))
    missing = tuple(
        f"branch {get_int(each, 'branch')} is at {', '.join(rows.get(at, (at, ''))[0] for at in get_texts(each, 'at'))}"
        if get_texts(each, "at")
        else f"branch {get_int(each, 'branch')} has ended elsewhere"
        for each in get_objects(token, "missing")
    )
    return TokenView(
        step=step,
        name=name,
        ref=ref,
        since=get_text(token, "since"),
        waits_for=get_text(token, "waitsFor"),
        job_type=get_text(token, "jobType"),
        job_id=get_text(token, "jobId"),
        phase=get_text(token, "phase"),
        workers=get_int(token, "workers") if "workers" in token else None,
        retries=get_int(token, "retriesRemaining"),
        worker=get_text(token, "worker"),
        until=get_text(token, "leaseUntil") or get_text(token, "availableAt"),
        task=get_text(token, "userTaskId"),
        arrived=get_int(token, "arrived"),
        missing=missing,
    )


def _view_suspension(item: JsonObject) -> NoticeView:
    scope = get_text(item, "scope")
    return NoticeView(
        id=get_text(item, "id"),
        scope=scope.replace("_", " ").lower(),
        text=get_text(item, "reason"),
        since=get_text(item, "since"),
        is_own=scope in ("INSTANCE", "ENTITY"),
    )


def _view_incident(item: JsonObject) -> NoticeView:
    return NoticeView(
        id=get_text(item, "id"),
        scope=get_text(item, "kind").replace("_", " ").lower(),
        text=get_text(item, "message"),
        since=get_text(item, "lastAt"),
    )


def _list_variables(record: JsonObject, history: Reply, *, is_whole: bool) -> tuple[VariableView, ...]:
    writers = find_writers(history.items) if history.is_ok else {}
    variables = get_object(record, "variables")
    origin = "the start or a retry" if is_whole else ""
    return tuple(
        _view_variable(name, value, writers.get(name, origin))
        for name, value in list(variables.items())[:MAX_VARIABLES]
    )


def find_writers(entries: Sequence[JsonObject]) -> dict[str, str]:
    """The step that last wrote each variable. Snapshots of some types of steps have all variables: only what differs
    from the input was written. Entries are in the order of their start.
    """
    return {
        name: get_text(entry, "stepId")
        for entry in entries
        for name, value in get_object(entry, "outputSnapshot").items()
        if not is_json_equal(get_object(entry, "inputSnapshot").get(name, _ABSENT), value)
    }


def _view_variable(name: str, value: JsonValue, step: str) -> VariableView:
    text = encode(value).decode()
    cut = len(text) > MAX_VALUE_CHARS
    return VariableView(name=name, value=f"{text[:MAX_VALUE_CHARS]}…" if cut else text, step=step, is_cut=cut)


def _list_documents(language: ProcessLanguage, record: JsonObject) -> tuple[tuple[str, TreeNode], ...]:
    wanted = {
        "steps": (("All variables", "variables"),),
        "flows": (("Input", "input"), ("Result", "result")),
        "playbooks": (("Workload", "workload"), ("Context", "ctx"), ("Results", "results")),
    }[language.name]
    return tuple((title, build_tree(record[name])) for title, name in wanted if record.get(name) is not None)


def _view_entry(entry: JsonObject, rows: Mapping[str, tuple[str, str]]) -> HistoryRow:
    key = get_text(entry, "stepId") or get_text(entry, "step") or str(get_int(entry, "node"))
    name, ref = rows.get(key, (key, ""))
    output = entry.get("outputSnapshot", entry.get("output"))
    text = "" if output is None else encode(output).decode()
    element = f" [{get_int(entry, 'element')}]" if "element" in entry else ""
    return HistoryRow(
        name=f"{name}{element}",
        ref=ref,
        kind=(get_text(entry, "stepType") or get_text(entry, "kind")).replace("_", " ").lower(),
        attempt=get_int(entry, "attemptNumber") or get_int(entry, "attempt"),
        status=get_text(entry, "status"),
        began=get_text(entry, "startedAt"),
        ended=get_text(entry, "endedAt"),
        failure=get_text(entry, "failureReason") or get_text(entry, "reason"),
        values=text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…",
    )


def _find_successor(events: Reply | None) -> str:
    """The instance that this one has started at its end."""
    for event in events.items if events is not None else ():
        data = get_object(event, "data")
        if get_text(data, "kind") == "chain-started":
            return get_text(data, "instanceId")
    return ""
