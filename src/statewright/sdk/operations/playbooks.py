"""Playbooks: definitions, executions and their event logs (docs/reference/executions.md#rest).

Workers, which do the tasks, are written with ``Node``.
"""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.operations.calls import (
    MAX_PAGE_SIZE,
    Call,
    Operation,
    Page,
    Pause,
    Query,
    Script,
    ask,
    build_query,
    quote_segment,
    read_object,
    to_object,
)
from statewright.sdk.operations.steps import FIRST_PAUSE_S, MAX_PAUSE_S
from statewright.sdk.outcomes import encode_json

PlaybookStatus: TypeAlias = Literal["running", "waiting", "success", "partial", "failed", "cancelled"]
ExecutionState: TypeAlias = Literal["RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"]

RESTING: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
"""States in which nothing goes on."""


class PlaybookWarning(Struct, frozen=True, kw_only=True):
    """What looks like a mistake; ``path`` is a JSON pointer into the document."""

    path: str
    message: str


class PlaybookDefinition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A playbook, in one of its versions. ``warnings`` are those of an upload."""

    path: str
    version: int
    name: str = ""
    uploaded_at: str = ""
    warnings: tuple[PlaybookWarning, ...] = ()


class PlaybookExecution(Struct, frozen=True, kw_only=True):
    """An execution. ``status`` is that of playbooks, ``state`` that of its entity. Tokens that are not admitted wait
    for ``pending_steps``. ``result``, of one that has ended, is that of the final step, or of the last one. Times are
    RFC 3339 texts.

    Lists leave out much of those behind large ones: they have ``is_abridged``, and no more than ``id``, ``path``,
    ``state``, times and business key.
    """

    id: str
    path: str
    version: int
    status: str
    state: str
    workload: JsonObject
    ctx: JsonObject
    results: JsonObject
    result: JsonValue
    started: str
    completed: str = ""
    business_key: str = ""
    parent_id: str = ""
    failure_reason: str = ""
    failures: tuple[JsonObject, ...] = ()
    active_steps: tuple[str, ...] = ()
    pending_steps: tuple[str, ...] = ()
    is_abridged: bool = False


class PlaybookRun(Struct, frozen=True, kw_only=True):
    """One run of a step; of an element of a loop ``element`` is its place."""

    id: str
    step: str
    attempt: int
    status: str
    started: str
    ended: str
    input: JsonValue
    output: JsonValue
    element: int | None = None
    failure_reason: str = ""


class PlaybookEvent(Struct, frozen=True, kw_only=True):
    """An entry of the event log. ``number`` is its place in it, from 1; ``details`` the whole entry as the service
    writes it (docs/reference/executions.md#event-log).
    """

    number: int
    type: str
    time: str
    step: str
    payload: JsonObject
    details: JsonObject
    references: Mapping[str, str] = {}
    """Of members of the payload that are null since they are large, the names of their values (``get_value``)."""


def upload(text: str) -> Operation[PlaybookDefinition]:
    """Store a playbook, YAML or JSON; the same content again is the version that has it. Raises ``Invalid`` with all
    that is wrong.
    """
    call = Call(name="upload_playbook", method="POST", path="/v1/playbooks", body=text.encode(), at_root=True)
    return Operation(call, _decode_definition)


def check(text: str) -> Operation[list[PlaybookWarning]]:
    """What looks like a mistake in a playbook, which is not stored. Raises ``Invalid`` for one that is wrong."""
    path = "/v1/playbooks/validate"
    call = Call(name="check_playbook", method="POST", path=path, body=text.encode(), at_root=True, only_asks=True)
    return Operation(call, lambda body: _decode_checked(body).warnings)


def definition(path: str, *, version: int | None = None) -> Operation[JsonObject]:
    """A playbook with its text (``source``), the latest version unless one is named."""
    place = f"/v1/playbooks/{quote_segment(path)}" + ("" if version is None else f"/versions/{version}")
    return Operation(_get("get_playbook", place, target=(path,)), read_object)


def definitions(
    *, keyword: str | None = None, size: int = MAX_PAGE_SIZE, number: int = 0
) -> Script[Page[PlaybookDefinition]]:
    """All playbooks, by path, each in its latest version; ``keyword`` is a part of the name or path."""
    query = build_query(keyword=keyword, page=number, pageSize=size)
    found = yield from ask(Operation(_get("list_playbooks", "/v1/playbooks", query=query), _decode_definitions))
    if (number + 1) * size >= found.total:
        return Page(found.items)
    return Page(found.items, partial(definitions, keyword=keyword, size=size, number=number + 1))


def start(
    path: str,
    workload: Mapping[str, JsonValue] | None = None,
    *,
    ctx: Mapping[str, JsonValue] | None = None,
    args: Mapping[str, JsonValue] | None = None,
    version: int | None = None,
    business_key: str = "",
) -> Operation[PlaybookExecution]:
    """Start an execution. ``workload`` is merged over that of the playbook, ``args`` are those of the first token.

    With a ``business_key`` only one execution of the playbook can be under way for that key (``Conflicting``).
    """
    members: dict[str, object] = {
        "path": path,
        "workload": dict(workload or {}),
        "ctx": dict(ctx or {}),
        "args": dict(args or {}),
    }
    if version is not None:
        members["version"] = version
    if business_key:
        members["businessKey"] = business_key
    call = Call(
        name="start_execution",
        target=(path,),
        method="POST",
        path=_EXECUTIONS,
        body=encode_json(members),
        at_root=True,
    )
    return Operation(call, _read_execution)


def execution(execution_id: str) -> Operation[PlaybookExecution]:
    """The execution as it is now."""
    return Operation(_get("get_execution", _locate(execution_id), target=(execution_id,)), _read_execution)


def executions(
    *,
    path: str | None = None,
    state: ExecutionState | None = None,
    business_key: str | None = None,
    size: int = MAX_PAGE_SIZE,
    number: int = 0,
) -> Script[Page[PlaybookExecution]]:
    """Executions, newest first."""
    query = build_query(path=path, state=state, businessKey=business_key, page=number, pageSize=size)
    found = yield from ask(Operation(_get("list_executions", _EXECUTIONS, query=query), _decode_executions))
    items = [_to_execution(item) for item in found.items]
    if (number + 1) * size >= found.total:
        return Page(items)
    onward = partial(executions, path=path, state=state, business_key=business_key, size=size)
    return Page(items, partial(onward, number=number + 1))


def wait(execution_id: str, *, until: Collection[ExecutionState] = ()) -> Script[PlaybookExecution]:
    """Wait until the execution has ended, or is in a state of ``until``, such as WAITING for a patch. There is no limit
    of time: ``asyncio.timeout`` around that of the ``AsyncClient`` sets one.
    """
    pause = FIRST_PAUSE_S
    while (found := (yield from ask(execution(execution_id)))).state not in RESTING and found.state not in until:
        yield Pause(pause)
        pause = min(2 * pause, MAX_PAUSE_S)
    return found


def history(execution_id: str, *, size: int = MAX_PAGE_SIZE, number: int = 0) -> Script[Page[PlaybookRun]]:
    """Every run of a step, by start."""
    query = build_query(page=number, pageSize=size)
    call = _get("execution_history", f"{_locate(execution_id)}/history", target=(execution_id,), query=query)
    found = yield from ask(Operation(call, _decode_runs))
    items = [_to_run(item) for item in found.items]
    if (number + 1) * size >= found.total:
        return Page(items)
    return Page(items, partial(history, execution_id, size=size, number=number + 1))


def events(execution_id: str, *, after: int = 0, size: int = MAX_PAGE_SIZE) -> Script[Page[PlaybookEvent]]:
    """The event log behind a number, as far as it is now."""
    found = yield from ask(_list_events(execution_id, after, size))
    if not found.items:
        return Page(())
    return Page(_to_events(found), partial(events, execution_id, after=found.next, size=size))


def get_value(execution_id: str, name: str) -> Operation[JsonValue]:
    """A large value of the event log, by its name (``PlaybookEvent.references``)."""
    path = f"{_locate(execution_id)}/values/{quote_segment(name)}"
    return Operation(_get("execution_value", path, target=(execution_id, name)), _read_value)


def follow(execution_id: str, *, after: int = 0, size: int = MAX_PAGE_SIZE) -> Script[Page[PlaybookEvent]]:
    """The event log behind a number, and what comes, until the execution has ended. There is no limit of time."""
    pause = FIRST_PAUSE_S
    while not (found := (yield from ask(_list_events(execution_id, after, size)))).items and not found.ended:
        yield Pause(pause)
        pause = min(2 * pause, MAX_PAUSE_S)
    if not found.items:
        return Page(())
    return Page(_to_events(found), partial(follow, execution_id, after=found.next, size=size))


def patch(execution_id: str, ctx: Mapping[str, JsonValue], reason: str = "") -> Operation[PlaybookExecution]:
    """Change members of ``ctx``: keys, with dots for members within members; ``None`` removes one."""
    return _change("patch", execution_id, {"ctx": dict(ctx), "reason": reason})


def inject(execution_id: str, step: str, args: Mapping[str, JsonValue] | None = None) -> Operation[PlaybookExecution]:
    """One more token for a step."""
    return _change("inject", execution_id, {"step": step, "args": dict(args or {})}, path="tokens")


def evaluate(execution_id: str) -> Operation[PlaybookExecution]:
    """Ask about all denied tokens once more."""
    return _change("evaluate", execution_id)


def cancel(execution_id: str, reason: str = "") -> Operation[PlaybookExecution]:
    """Stop the execution for good; its tasks are withdrawn."""
    return _change("cancel", execution_id, {"reason": reason})


def restart(execution_id: str) -> Operation[PlaybookExecution]:
    """Begin the runs of a failed execution again that failed."""
    return _change("restart", execution_id)


_EXECUTIONS: Final = "/v1/executions"


def _locate(execution_id: str) -> str:
    return f"{_EXECUTIONS}/{quote_segment(execution_id)}"


def _get(name: str, path: str, *, target: tuple[str, ...] = (), query: Query = ()) -> Call:
    return Call(name=name, target=target, method="GET", path=path, query=query, at_root=True)


def _change(
    verb: str, execution_id: str, members: "JsonObject | None" = None, *, path: str = ""
) -> Operation[PlaybookExecution]:
    call = Call(
        name=f"{verb}_execution",
        target=(execution_id,),
        method="POST",
        path=f"{_locate(execution_id)}/{path or verb}",
        body=None if members is None else encode_json(members),
        at_root=True,
    )
    return Operation(call, _read_execution)


def _list_events(execution_id: str, after: int, size: int) -> "Operation[_Events]":
    query = build_query(after=after, limit=size)
    call = _get("list_events", f"{_locate(execution_id)}/events", target=(execution_id,), query=query)
    return Operation(call, _decode_events)


class _Execution(Struct, frozen=True, rename="camel"):
    id: str
    path: str
    state: str
    status: str = ""
    version: int = 0
    workload: msgspec.Raw = msgspec.Raw()
    ctx: msgspec.Raw = msgspec.Raw()
    results: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    started_at: str = ""
    completed_at: str = ""
    business_key: str = ""
    parent_execution_id: str = ""
    failure_reason: str = ""
    active_steps: tuple[str, ...] = ()
    pending_steps: tuple[str, ...] = ()
    abridged: bool = False


class _Run(Struct, frozen=True, rename="camel"):
    id: str
    step: str
    attempt: int
    status: str
    started_at: str
    ended_at: str = ""
    input: msgspec.Raw = msgspec.Raw()
    output: msgspec.Raw = msgspec.Raw()
    element: int | None = None
    failure_reason: str = ""


class _Definitions(Struct, frozen=True):
    items: list[PlaybookDefinition]
    total: int


class _Executions(Struct, frozen=True):
    items: list[_Execution]
    total: int


class _Runs(Struct, frozen=True):
    items: list[_Run]
    total: int


class _Events(Struct, frozen=True):
    items: list[msgspec.Raw]
    next: int
    ended: bool


class _Reference(Struct, frozen=True):
    value: str


class _Event(Struct, frozen=True):
    seq: int
    event_type: str
    timestamp: str
    step: str = ""
    payload: msgspec.Raw = msgspec.Raw()
    references: dict[str, _Reference] = {}


class _Value(Struct, frozen=True):
    value: msgspec.Raw


class _Checked(Struct, frozen=True):
    warnings: list[PlaybookWarning]


_decode_definition = msgspec.json.Decoder(PlaybookDefinition).decode
_decode_definitions = msgspec.json.Decoder(_Definitions).decode
_decode_execution = msgspec.json.Decoder(_Execution).decode
_decode_executions = msgspec.json.Decoder(_Executions).decode
_decode_runs = msgspec.json.Decoder(_Runs).decode
_decode_events = msgspec.json.Decoder(_Events).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_value = msgspec.json.Decoder(_Value).decode
_decode_checked = msgspec.json.Decoder(_Checked).decode


def _read_execution(body: bytes) -> PlaybookExecution:
    return _to_execution(_decode_execution(body))


def _to_execution(found: _Execution) -> PlaybookExecution:
    concluded = to_object(found.result)
    failures = concluded.get("failures")
    return PlaybookExecution(
        id=found.id,
        path=found.path,
        version=found.version,
        status=found.status,
        state=found.state,
        workload=to_object(found.workload),
        ctx=to_object(found.ctx),
        results=to_object(found.results),
        result=concluded.get("result"),
        started=found.started_at,
        completed=found.completed_at,
        business_key=found.business_key,
        parent_id=found.parent_execution_id,
        failure_reason=found.failure_reason,
        failures=tuple(one for one in failures if isinstance(one, dict)) if isinstance(failures, list) else (),
        active_steps=found.active_steps,
        pending_steps=found.pending_steps,
        is_abridged=found.abridged,
    )


def _to_run(found: _Run) -> PlaybookRun:
    return PlaybookRun(
        id=found.id,
        step=found.step,
        attempt=found.attempt,
        status=found.status,
        started=found.started_at,
        ended=found.ended_at,
        input=_to_value(found.input),
        output=_to_value(found.output),
        element=found.element,
        failure_reason=found.failure_reason,
    )


def _to_events(found: _Events) -> list[PlaybookEvent]:
    return [_to_event(item) for item in found.items]


def _to_event(item: msgspec.Raw) -> PlaybookEvent:
    known = _decode_event(item)
    return PlaybookEvent(
        number=known.seq,
        type=known.event_type,
        time=known.timestamp,
        step=known.step,
        payload=to_object(known.payload),
        details=to_object(item),
        references={member: reference.value for member, reference in known.references.items()},
    )


def _read_value(body: bytes) -> JsonValue:
    return _to_value(_decode_value(body).value)


def _to_value(text: msgspec.Raw) -> JsonValue:
    """A part of an answer; None when it is absent or left out."""
    return decode(bytes(text)) if text else None
