"""The JSON step engine: definitions, instances, user tasks (docs/reference/steps.md#rest).

Workers, which take jobs, are written with ``Node``.
"""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
    build_key_header,
    build_query,
    quote_segment,
    read_nothing,
    read_object,
    to_object,
)
from statewright.sdk.outcomes import encode_json

InstanceStatus: TypeAlias = Literal["ACTIVE", "WAITING", "COMPLETED", "FAILED", "CANCELLED"]

FINAL_STATUSES: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
FIRST_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 2.0
"""Seconds between two looks at an instance that is not done."""


class StepDefinition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A definition as lists show it, with its latest version."""

    id: str
    version: int
    name: str = ""
    uploaded_at: str = ""
    versions: tuple[int, ...] = ()


class StepInstance(Struct, frozen=True, kw_only=True):
    """An instance. ``steps`` are those that hold a token; ``failure_reason`` is empty unless it failed or was
    cancelled. Times are RFC 3339 texts.
    """

    id: str
    definition_id: str
    definition_version: int
    status: str
    steps: tuple[str, ...]
    variables: JsonObject
    started: str
    completed: str = ""
    business_key: str = ""
    failure_reason: str = ""


class StepExecution(Struct, frozen=True, kw_only=True):
    """One entry into a step."""

    id: str
    step_id: str
    step_type: str
    attempt: int
    status: str
    started: str
    ended: str
    input: JsonObject
    output: JsonObject
    failure_reason: str = ""


class UserTask(Struct, frozen=True, kw_only=True):
    """An open task of a person. ``payload`` are the variables when it was opened."""

    id: str
    instance_id: str
    step_id: str
    definition_id: str
    definition_version: int
    status: str
    payload: JsonObject
    created: str
    job_type: str = ""
    business_key: str = ""


def upload(definition: Mapping[str, JsonValue]) -> Operation[StepDefinition]:
    """Upload a definition; the same content again is the version that has it."""
    call = _call("upload_definition", "POST", "/definitions", body=encode_json(definition))
    return Operation(call, msgspec.json.Decoder(StepDefinition).decode)


def definition(definition_id: str, *, version: int | None = None) -> Operation[JsonObject]:
    """A definition as its author wrote it, the latest version unless one is named."""
    path = f"/definitions/{quote_segment(definition_id)}" + ("" if version is None else f"/versions/{version}")
    return Operation(_call("get_definition", "GET", path, target=(definition_id,)), read_object)


def definitions(
    *, keyword: str | None = None, size: int = MAX_PAGE_SIZE, number: int = 0
) -> Script[Page[StepDefinition]]:
    """All definitions, by id; ``keyword`` is a part of the name or id."""
    query = build_query(keyword=keyword, page=number, pageSize=size)
    found = yield from ask(
        Operation(_call("list_definitions", "GET", "/definitions", query=query), _decode_definitions)
    )
    if (number + 1) * size >= found.total:
        return Page(found.items)
    return Page(found.items, partial(definitions, keyword=keyword, size=size, number=number + 1))


def start(
    definition_id: str,
    variables: Mapping[str, object] | None = None,
    *,
    version: int | None = None,
    business_key: str = "",
    idempotency_key: str | None = None,
) -> Operation[StepInstance]:
    """Start an instance; how it stands after all steps that wait for nobody.

    With a ``business_key`` only one instance of the definition can be under way for that key (``Conflicting``).
    """
    given: dict[str, object] = {"definitionId": definition_id, "variables": dict(variables or {})}
    if version is not None:
        given["definitionVersion"] = version
    if business_key:
        given["businessKey"] = business_key
    call = _call("start_instance", "POST", "/instances", target=(definition_id,), body=encode_json(given))
    return Operation(replace(call, headers={**call.headers, **build_key_header(idempotency_key)}), _read_instance)


def instance(instance_id: str) -> Operation[StepInstance]:
    """The instance as it is now."""
    return Operation(_call("get_instance", "GET", _path(instance_id), target=(instance_id,)), _read_instance)


def instances(
    *,
    definition_id: str | None = None,
    status: InstanceStatus | None = None,
    business_key: str | None = None,
    size: int = MAX_PAGE_SIZE,
    number: int = 0,
) -> Script[Page[StepInstance]]:
    """Instances, newest first."""
    filters = {"definitionId": definition_id, "status": status, "businessKey": business_key}
    query = build_query(**filters, page=number, pageSize=size)
    found = yield from ask(Operation(_call("list_instances", "GET", "/instances", query=query), _decode_instances))
    items = [_to_instance(item) for item in found.items]
    if (number + 1) * size >= found.total:
        return Page(items)
    onward = partial(instances, definition_id=definition_id, status=status, business_key=business_key, size=size)
    return Page(items, partial(onward, number=number + 1))


def wait(instance_id: str, *, until: Collection[InstanceStatus] = ()) -> Script[StepInstance]:
    """Wait until the instance is COMPLETED, FAILED or CANCELLED, or in one of the statuses ``until``: WAITING, say, for
    a person or a signal. There is no limit of time: ``asyncio.timeout`` around that of the ``AsyncClient`` sets one.
    """
    pause = FIRST_PAUSE_S
    while (found := (yield from ask(instance(instance_id)))).status not in {*until, *FINAL_STATUSES}:
        yield Pause(pause)
        pause = min(2 * pause, MAX_PAUSE_S)
    return found


def history(instance_id: str) -> Operation[list[StepExecution]]:
    """Every entry into a step, by start."""
    path = f"{_path(instance_id)}/history"
    return Operation(_call("instance_history", "GET", path, target=(instance_id,)), _read_history)


def signal(instance_id: str, step_id: str, variables: Mapping[str, object] | None = None) -> Operation[None]:
    """Wake a WAIT step; its variables are merged. Signals are not kept: nothing waiting is ``Conflicting``."""
    path = f"{_path(instance_id)}/signals/{quote_segment(step_id)}"
    body = encode_json(dict(variables or {}))
    return Operation(_call("signal", "POST", path, target=(instance_id, step_id), body=body), read_nothing)


def retry(instance_id: str, step_id: str, variables: Mapping[str, object] | None = None) -> Operation[StepInstance]:
    """Try a step of a failed instance again, with changed variables if some are given."""
    path = f"{_path(instance_id)}/steps/{quote_segment(step_id)}/retry"
    body = encode_json({"variables": dict(variables)} if variables else {})
    return Operation(_call("retry_step", "POST", path, target=(instance_id, step_id), body=body), _read_instance)


def cancel(instance_id: str, reason: str = "") -> Operation[StepInstance]:
    """End the instance."""
    path = f"{_path(instance_id)}/cancel"
    body = encode_json({"reason": reason})
    return Operation(_call("cancel_instance", "POST", path, target=(instance_id,), body=body), _read_instance)


def user_tasks(
    *,
    job_type: str | None = None,
    definition_id: str | None = None,
    older_than_s: int | None = None,
    size: int = MAX_PAGE_SIZE,
    number: int = 0,
) -> Script[Page[UserTask]]:
    """Open tasks of people, oldest first; ``older_than_s`` in seconds."""
    filters = {"jobType": job_type, "definitionId": definition_id}
    query = build_query(**filters, olderThanSeconds=older_than_s, page=number, pageSize=size)
    found = yield from ask(Operation(_call("list_user_tasks", "GET", "/user-tasks", query=query), _decode_tasks))
    items = [_to_task(item) for item in found.items]
    if (number + 1) * size >= found.total:
        return Page(items)
    onward = partial(user_tasks, job_type=job_type, definition_id=definition_id, older_than_s=older_than_s, size=size)
    return Page(items, partial(onward, number=number + 1))


def complete_task(
    task_id: str, variables: Mapping[str, object] | None = None, *, completed_by: str = ""
) -> Operation[None]:
    """Complete a task; its variables are merged into those of the instance."""
    given: dict[str, object] = {"variables": dict(variables or {})}
    if completed_by:
        given["completedBy"] = completed_by
    path = f"/user-tasks/{quote_segment(task_id)}/complete"
    return Operation(
        _call("complete_user_task", "POST", path, target=(task_id,), body=encode_json(given)), read_nothing
    )


def _call(
    name: str, method: str, path: str, *, target: tuple[str, ...] = (), query: Query = (), body: bytes | None = None
) -> Call:
    return Call(name=name, target=target, method=method, path=f"/v1{path}", query=query, body=body, at_root=True)


def _path(instance_id: str) -> str:
    return f"/instances/{quote_segment(instance_id)}"


class _Instance(Struct, frozen=True, rename="camel"):
    id: str
    definition_id: str
    definition_version: int
    status: str
    current_step_ids: tuple[str, ...] = ()
    variables: msgspec.Raw = msgspec.Raw()
    started_at: str = ""
    completed_at: str | None = None
    business_key: str | None = None
    failure_reason: str | None = None


class _Execution(Struct, frozen=True, rename="camel"):
    id: str
    step_id: str
    step_type: str
    attempt_number: int
    status: str
    started_at: str
    ended_at: str | None = None
    input_snapshot: msgspec.Raw = msgspec.Raw()
    output_snapshot: msgspec.Raw = msgspec.Raw()
    failure_reason: str | None = None


class _Task(Struct, frozen=True, rename="camel"):
    id: str
    instance_id: str
    step_id: str
    definition_id: str
    definition_version: int
    status: str
    created_at: str
    payload: msgspec.Raw = msgspec.Raw()
    job_type: str | None = None
    business_key: str | None = None


class _Definitions(Struct, frozen=True):
    items: list[StepDefinition]
    total: int


class _Instances(Struct, frozen=True):
    items: list[_Instance]
    total: int


class _Tasks(Struct, frozen=True):
    items: list[_Task]
    total: int


class _Executions(Struct, frozen=True):
    items: list[_Execution]


_decode_definitions = msgspec.json.Decoder(_Definitions).decode
_decode_instance = msgspec.json.Decoder(_Instance).decode
_decode_instances = msgspec.json.Decoder(_Instances).decode
_decode_tasks = msgspec.json.Decoder(_Tasks).decode
_decode_executions = msgspec.json.Decoder(_Executions).decode


def _read_instance(body: bytes) -> StepInstance:
    return _to_instance(_decode_instance(body))


def _read_history(body: bytes) -> list[StepExecution]:
    return [_to_execution(each) for each in _decode_executions(body).items]


def _to_instance(found: _Instance) -> StepInstance:
    return StepInstance(
        id=found.id,
        definition_id=found.definition_id,
        definition_version=found.definition_version,
        status=found.status,
        steps=found.current_step_ids,
        variables=to_object(found.variables),
        started=found.started_at,
        completed=found.completed_at or "",
        business_key=found.business_key or "",
        failure_reason=found.failure_reason or "",
    )


def _to_execution(found: _Execution) -> StepExecution:
    return StepExecution(
        id=found.id,
        step_id=found.step_id,
        step_type=found.step_type,
        attempt=found.attempt_number,
        status=found.status,
        started=found.started_at,
        ended=found.ended_at or "",
        input=to_object(found.input_snapshot),
        output=to_object(found.output_snapshot),
        failure_reason=found.failure_reason or "",
    )


def _to_task(found: _Task) -> UserTask:
    return UserTask(
        id=found.id,
        instance_id=found.instance_id,
        step_id=found.step_id,
        definition_id=found.definition_id,
        definition_version=found.definition_version,
        status=found.status,
        payload=to_object(found.payload),
        created=found.created_at,
        job_type=found.job_type or "",
        business_key=found.business_key or "",
    )
