"""Playbooks: definitions, executions and their event logs (docs/reference/executions.md#rest).

Workers, which do the tasks, are written with ``Node``.
"""

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.sdk.operations.calls import (
    MAX_PAGE_SIZE,
    Operation,
    Page,
    Script,
    ask,
    build_call,
    build_query,
    to_object,
    wait_for,
)
from statewright.sdk.operations.processes import (
    ProcessPaths,
    Reading,
    build_process_call,
    read_as,
    rename_members,
    to_record,
)

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue
else:  # Any: msgspec, which reads records, cannot resolve an alias that contains itself
    JsonValue = Any
    JsonObject = dict

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


class PlaybookExecution(
    Struct,
    frozen=True,
    kw_only=True,
    rename=rename_members(parent_id="parentExecutionId", is_abridged="abridged"),
):
    """An execution. ``status`` is that of playbooks, ``state`` that of its entity. Tokens that are not admitted wait
    for ``pending_steps``. ``result``, of one that has ended, is that of the final step, or of the last one. Times are
    RFC 3339 texts.

    Lists leave out much of those behind large ones: they have ``is_abridged``, and no more than ``id``, ``path``,
    ``state``, times and business key.
    """

    id: str
    path: str
    state: str
    version: int = 0
    status: str = ""
    workload: JsonObject = {}
    ctx: JsonObject = {}
    results: JsonObject = {}
    result: JsonValue = None
    started: str = ""
    completed: str = ""
    business_key: str = ""
    parent_id: str = ""
    failure_reason: str = ""
    failures: tuple[JsonObject, ...] = ()
    active_steps: tuple[str, ...] = ()
    pending_steps: tuple[str, ...] = ()
    is_abridged: bool = False


class PlaybookRun(Struct, frozen=True, kw_only=True, rename=rename_members()):
    """One run of a step; of an element of a loop ``element`` is its place."""

    id: str
    step: str
    attempt: int
    status: str
    started: str
    ended: str = ""
    input: JsonValue = None
    output: JsonValue = None
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
    call = build_call("upload_playbook", "POST", "/v1/playbooks", body=text.encode(), at_root=True)
    return Operation(call, _decode_definition)


def check(text: str) -> Operation[list[PlaybookWarning]]:
    """What looks like a mistake in a playbook, which is not stored. Raises ``Invalid`` for one that is wrong."""
    path, body = "/v1/playbooks/validate", text.encode()
    call = build_call("check_playbook", "POST", path, body=body, at_root=True, only_asks=True)
    return Operation(call, lambda body: _decode_checked(body).warnings)


def definition(path: str, *, version: int | None = None) -> "Operation[JsonObject]":
    """A playbook with its text (``source``), the latest version unless one is named."""
    return _PATHS.get_definition(path, version)


def definitions(
    *, keyword: str | None = None, size: int = MAX_PAGE_SIZE, number: int = 0
) -> Script[Page[PlaybookDefinition]]:
    """All playbooks, by path, each in its latest version; ``keyword`` is a part of the name or path."""
    return _PATHS.list_definitions(keyword, size=size, number=number)


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
    members = {
        "path": path,
        "workload": dict(workload or {}),
        "ctx": dict(ctx or {}),
        "args": dict(args or {}),
        "version": version,
        "businessKey": business_key,
    }
    return _PATHS.start(path, members)


def execution(execution_id: str) -> Operation[PlaybookExecution]:
    """The execution as it is now."""
    return _PATHS.get_instance(execution_id)


def executions(
    *,
    path: str | None = None,
    state: ExecutionState | None = None,
    business_key: str | None = None,
    size: int = MAX_PAGE_SIZE,
    number: int = 0,
) -> Script[Page[PlaybookExecution]]:
    """Executions, newest first."""
    return _PATHS.list_instances(size=size, number=number, path=path, state=state, businessKey=business_key)


def wait(execution_id: str, *, until: Collection[ExecutionState] = ()) -> Script[PlaybookExecution]:
    """Wait until the execution has ended, or is in a state of ``until``, such as WAITING for a patch. There is no limit
    of time: ``asyncio.timeout`` around that of the ``AsyncClient`` sets one.
    """
    return wait_for(execution(execution_id), lambda found: found.state in RESTING or found.state in until)


def history(execution_id: str, *, size: int = MAX_PAGE_SIZE, number: int = 0) -> Script[Page[PlaybookRun]]:
    """Every run of a step, by start."""
    return _PATHS.list_history(execution_id, size=size, number=number)


def events(execution_id: str, *, after: int = 0, size: int = MAX_PAGE_SIZE) -> Script[Page[PlaybookEvent]]:
    """The event log behind a number, as far as it is now."""
    found = yield from ask(_list_events(execution_id, after, size))
    if not found.items:
        return Page(())
    return Page(_to_events(found), partial(events, execution_id, after=found.next, size=size))


def get_value(execution_id: str, name: str) -> "Operation[JsonValue]":
    """A large value of the event log, by its name (``PlaybookEvent.references``)."""
    return Operation(
        build_process_call("execution_value", "GET", "/executions/{}/values/{}", execution_id, name), _read_value
    )


def follow(execution_id: str, *, after: int = 0, size: int = MAX_PAGE_SIZE) -> Script[Page[PlaybookEvent]]:
    """The event log behind a number, and what comes, until the execution has ended. There is no limit of time."""
    look = _list_events(execution_id, after, size)
    found = yield from wait_for(look, lambda events: bool(events.items) or events.ended)
    if not found.items:
        return Page(())
    return Page(_to_events(found), partial(follow, execution_id, after=found.next, size=size))


def patch(execution_id: str, ctx: Mapping[str, JsonValue], reason: str = "") -> Operation[PlaybookExecution]:
    """Change members of ``ctx``: keys, with dots for members within members; ``None`` removes one."""
    return _PATHS.change("patch", execution_id, {"ctx": dict(ctx), "reason": reason})


def inject(execution_id: str, step: str, args: Mapping[str, JsonValue] | None = None) -> Operation[PlaybookExecution]:
    """One more token for a step."""
    return _PATHS.change("inject", execution_id, {"step": step, "args": dict(args or {})}, path="tokens")


def evaluate(execution_id: str) -> Operation[PlaybookExecution]:
    """Ask about all denied tokens once more."""
    return _PATHS.change("evaluate", execution_id)


def cancel(execution_id: str, reason: str = "") -> Operation[PlaybookExecution]:
    """Stop the execution for good; its tasks are withdrawn."""
    return _PATHS.change("cancel", execution_id, {"reason": reason})


def restart(execution_id: str) -> Operation[PlaybookExecution]:
    """Begin the runs of a failed execution again that failed."""
    return _PATHS.change("restart", execution_id)


def _list_events(execution_id: str, after: int, size: int) -> "Operation[_Events]":
    query = build_query(after=after, limit=size)
    call = build_process_call("list_events", "GET", "/executions/{}/events", execution_id, query=query)
    return Operation(call, _decode_events)


def _to_execution(value: JsonValue) -> PlaybookExecution:
    """Members of the result of the whole are members of the record."""
    members: JsonObject = dict(value) if isinstance(value, dict) else {}
    concluded = members.pop("result", None)
    if isinstance(concluded, dict):
        failures = concluded.get("failures")
        members["result"] = concluded.get("result")
        members["failures"] = [one for one in failures if isinstance(one, dict)] if isinstance(failures, list) else []
    return to_record(members, PlaybookExecution)


_PATHS: Final = ProcessPaths(
    definition="playbook",
    instance="execution",
    definitions_path="/playbooks",
    instances_path="/executions",
    read_definition=read_as(PlaybookDefinition),
    read_instance=Reading(_to_execution),
    read_line=read_as(PlaybookRun),
)


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
_decode_events = msgspec.json.Decoder(_Events).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_value = msgspec.json.Decoder(_Value).decode
_decode_checked = msgspec.json.Decoder(_Checked).decode


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
