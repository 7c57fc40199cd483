"""Flows: definitions and instances (docs/reference/flows.md#rest).

Workers, which do the tasks, are written with ``Node``.
"""

from collections.abc import Mapping
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
)
from statewright.sdk.operations.steps import FIRST_PAUSE_S, MAX_PAUSE_S
from statewright.sdk.outcomes import encode_json

FlowStatus: TypeAlias = Literal["RUNNING", "COMPLETED", "FAILED", "TERMINATING", "TERMINATED", "CANCELLED"]

RESTING: Final = frozenset({"COMPLETED", "FAILED", "TERMINATED", "CANCELLED"})
"""Statuses in which nothing goes on."""


class FlowDefinition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A definition, in one of its versions. ``warnings`` are what looks like a mistake in an upload."""

    id: str
    version: int
    name: str = ""
    uploaded_at: str = ""
    warnings: tuple[str, ...] = ()


class FlowPlace(Struct, frozen=True, kw_only=True):
    """A node of an instance, and why it failed or waits. ``element`` is the place in an iteration."""

    node: int
    name: str
    element: int | None = None
    reason: str = ""


class FlowInstance(Struct, frozen=True, kw_only=True):
    """An instance. ``active_nodes`` are those at which something goes on; ``failed_nodes`` those that failed, with the
    reasons, ``waiting_nodes`` those of a stalled flow. Lists leave out the values of large instances.
    Times are RFC 3339 texts.
    """

    id: str
    definition_id: str
    definition_version: int
    status: str
    input: JsonValue
    result: JsonValue
    started: str
    completed: str = ""
    business_key: str = ""
    failure_reason: str = ""
    warning: str = ""
    active_nodes: tuple[int, ...] = ()
    failed_nodes: tuple[FlowPlace, ...] = ()
    waiting_nodes: tuple[FlowPlace, ...] = ()


class FlowReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """A task that an event completed."""

    instance_id: str
    node: int
    element: int | None = None


class FlowDelivery(Struct, frozen=True, kw_only=True):
    """What an event came to: how many tasks it completed, and which of them, unless they want no receipt."""

    tasks: int
    receipts: tuple[FlowReceipt, ...] = ()


class FlowExecution(Struct, frozen=True, kw_only=True):
    """One entry into a node; of an element of an iteration ``element`` is its place."""

    id: str
    node: int
    name: str
    kind: str
    attempt: int
    status: str
    started: str
    ended: str
    input: JsonValue
    output: JsonValue
    element: int | None = None
    failure_reason: str = ""


def upload(
    text: str,
    *,
    id: str = "",  # noqa: A002 - what it is called
    settings: Mapping[str, JsonValue] | None = None,
) -> Operation[FlowDefinition]:
    """Store a flow; the same content again is the version that has it. Its id is ``id``, else the name that ``@flow``
    gives it. ``settings``: docs/reference/flows.md#definitions.
    """
    body = encode_json({"id": id, "source": text, "settings": dict(settings or {})})
    return Operation(_call("upload_flow", "POST", "/definitions", body=body), _decode_definition)


def check(text: str) -> Operation[list[str]]:
    """What looks like a mistake in a flow, which is not stored. Raises ``Invalid`` for one that is wrong."""
    body = encode_json({"id": "unnamed", "source": text})
    return Operation(_call("check_flow", "POST", "/validate", body=body), _read_warnings)


def definition(definition_id: str, *, version: int | None = None) -> Operation[JsonObject]:
    """A definition with its text (``source``), the latest version unless one is named."""
    path = f"/definitions/{quote_segment(definition_id)}" + ("" if version is None else f"/versions/{version}")
    return Operation(_call("get_flow", "GET", path, target=(definition_id,)), read_object)


def definitions(
    *, keyword: str | None = None, size: int = MAX_PAGE_SIZE, number: int = 0
) -> Script[Page[FlowDefinition]]:
    """All definitions, by id, each in its latest version; ``keyword`` is a part of the name or id."""
    query = build_query(keyword=keyword, page=number, pageSize=size)
    found = yield from ask(Operation(_call("list_flows", "GET", "/definitions", query=query), _decode_definitions))
    if (number + 1) * size >= found.total:
        return Page(found.items)
    return Page(found.items, partial(definitions, keyword=keyword, size=size, number=number + 1))


def start(
    definition_id: str, given: object = None, *, version: int | None = None, business_key: str = ""
) -> Operation[FlowInstance]:
    """Start an instance with an input, an object or an array; ``{}`` when absent.

    With a ``business_key`` only one instance of the definition can be under way for that key (``Conflicting``).
    """
    members: dict[str, object] = {"definitionId": definition_id, "input": {} if given is None else given}
    if version is not None:
        members["definitionVersion"] = version
    if business_key:
        members["businessKey"] = business_key
    call = _call("start_flow", "POST", "/instances", target=(definition_id,), body=encode_json(members))
    return Operation(call, _read_instance)


def instance(instance_id: str) -> Operation[FlowInstance]:
    """The instance as it is now."""
    return Operation(_call("get_flow_instance", "GET", _path(instance_id), target=(instance_id,)), _read_instance)


def instances(
    *,
    definition_id: str | None = None,
    status: FlowStatus | None = None,
    business_key: str | None = None,
    size: int = MAX_PAGE_SIZE,
    number: int = 0,
) -> Script[Page[FlowInstance]]:
    """Instances, newest first."""
    filters = {"definitionId": definition_id, "status": status, "businessKey": business_key}
    query = build_query(**filters, page=number, pageSize=size)
    found = yield from ask(Operation(_call("list_flow_instances", "GET", "/instances", query=query), _decode_instances))
    items = [_to_instance(item) for item in found.items]
    if (number + 1) * size >= found.total:
        return Page(items)
    onward = partial(instances, definition_id=definition_id, status=status, business_key=business_key, size=size)
    return Page(items, partial(onward, number=number + 1))


def wait(instance_id: str) -> Script[FlowInstance]:
    """Wait until nothing goes on in the instance: it is COMPLETED, FAILED, TERMINATED or CANCELLED. There is no limit
    of time: ``asyncio.timeout`` around that of the ``AsyncClient`` sets one.
    """
    pause = FIRST_PAUSE_S
    while (found := (yield from ask(instance(instance_id)))).status not in RESTING:
        yield Pause(pause)
        pause = min(2 * pause, MAX_PAUSE_S)
    return found


def history(instance_id: str, *, size: int = MAX_PAGE_SIZE, number: int = 0) -> Script[Page[FlowExecution]]:
    """Every entry into a node, by start."""
    query = build_query(page=number, pageSize=size)
    call = _call("flow_history", "GET", f"{_path(instance_id)}/history", target=(instance_id,), query=query)
    found = yield from ask(Operation(call, _decode_executions))
    items = [_to_execution(item) for item in found.items]
    if (number + 1) * size >= found.total:
        return Page(items)
    return Page(items, partial(history, instance_id, size=size, number=number + 1))


def cancel(instance_id: str, reason: str = "") -> Operation[FlowInstance]:
    """Stop the instance for good; its tasks are withdrawn."""
    return _stop("cancel", instance_id, encode_json({"reason": reason}))


def terminate(instance_id: str) -> Operation[FlowInstance]:
    """Begin nothing more: tasks that run are left to end. Once more, it stops at once. It can be restarted."""
    return _stop("terminate", instance_id)


def restart(instance_id: str) -> Operation[FlowInstance]:
    """Let a FAILED or TERMINATED instance run again, from where it stopped."""
    return _stop("restart", instance_id)


def change(
    instance_id: str, node: int, given: JsonValue, *, element: int | None = None, reason: str = ""
) -> Operation[FlowInstance]:
    """Give a node that failed or was interrupted another input, with which ``restart`` begins it again."""
    members: dict[str, JsonValue] = {"node": node, "input": given, "reason": reason}
    if element is not None:
        members["element"] = element
    return _stop("change", instance_id, encode_json(members))


def send_event(
    kind: str, fields: Mapping[str, JsonValue] | None = None, output: JsonValue = None
) -> Script[FlowDelivery]:
    """Complete the tasks that wait for an event (``wait:event``); one that nothing waits for has no effect.

    ``fields`` are compared with the inputs of tasks that ask for it; ``output``, an object or an array, is what the
    tasks answer instead of their inputs.
    """
    tasks, receipts, after = 0, list[FlowReceipt](), ""
    while True:
        body = encode_json({"event": kind, "fields": dict(fields or {}), "output": output, "after": after})
        call = _call("send_flow_event", "POST", "/events", target=(kind,), body=body)
        found = yield from ask(Operation(call, _decode_delivery))
        tasks += found.tasks
        receipts += found.receipts
        if not found.next:
            return FlowDelivery(tasks=tasks, receipts=tuple(receipts))
        after = found.next


def counter(name: str) -> Operation[int]:
    """The value of a counter of ``wait:acquire`` and ``wait:release``; zero for one that is not known."""
    call = _call("get_flow_counter", "GET", f"/counters/{quote_segment(name)}", target=(name,))
    return Operation(call, lambda body: _decode_counter(body).value)


def _stop(verb: str, instance_id: str, body: bytes | None = None) -> Operation[FlowInstance]:
    call = _call(f"{verb}_flow", "POST", f"{_path(instance_id)}/{verb}", target=(instance_id,), body=body)
    return Operation(call, _read_instance)


def _call(
    name: str, method: str, path: str, *, target: tuple[str, ...] = (), query: Query = (), body: bytes | None = None
) -> Call:
    return Call(name=name, target=target, method=method, path=f"/v1/flows{path}", query=query, body=body, at_root=True)


def _path(instance_id: str) -> str:
    return f"/instances/{quote_segment(instance_id)}"


class _Instance(Struct, frozen=True, rename="camel"):
    id: str
    definition_id: str
    status: str
    definition_version: int = 0
    input: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    started_at: str = ""
    completed_at: str | None = None
    business_key: str | None = None
    failure_reason: str | None = None
    warning: str | None = None
    active_nodes: tuple[int, ...] = ()
    failed_nodes: tuple[FlowPlace, ...] = ()
    waiting_nodes: tuple[FlowPlace, ...] = ()


class _Execution(Struct, frozen=True, rename="camel"):
    id: str
    node: int
    name: str
    kind: str
    attempt: int
    status: str
    started_at: str
    ended_at: str | None = None
    input: msgspec.Raw = msgspec.Raw()
    output: msgspec.Raw = msgspec.Raw()
    element: int | None = None
    failure_reason: str | None = None


class _Definitions(Struct, frozen=True):
    items: list[FlowDefinition]
    total: int


class _Instances(Struct, frozen=True):
    items: list[_Instance]
    total: int


class _Executions(Struct, frozen=True):
    items: list[_Execution]
    total: int


class _Delivery(Struct, frozen=True, rename="camel"):
    tasks: int
    receipts: tuple[FlowReceipt, ...]
    next: str = ""


class _Counter(Struct, frozen=True):
    value: int


class _Checked(Struct, frozen=True):
    warnings: list[str]


_decode_definition = msgspec.json.Decoder(FlowDefinition).decode
_decode_definitions = msgspec.json.Decoder(_Definitions).decode
_decode_instance = msgspec.json.Decoder(_Instance).decode
_decode_instances = msgspec.json.Decoder(_Instances).decode
_decode_executions = msgspec.json.Decoder(_Executions).decode
_decode_delivery = msgspec.json.Decoder(_Delivery).decode
_decode_counter = msgspec.json.Decoder(_Counter).decode
_decode_checked = msgspec.json.Decoder(_Checked).decode


def _read_warnings(body: bytes) -> list[str]:
    return _decode_checked(body).warnings


def _read_instance(body: bytes) -> FlowInstance:
    return _to_instance(_decode_instance(body))


def _to_instance(found: _Instance) -> FlowInstance:
    return FlowInstance(
        id=found.id,
        definition_id=found.definition_id,
        definition_version=found.definition_version,
        status=found.status,
        input=_to_value(found.input),
        result=_to_value(found.result),
        started=found.started_at,
        completed=found.completed_at or "",
        business_key=found.business_key or "",
        failure_reason=found.failure_reason or "",
        warning=found.warning or "",
        active_nodes=found.active_nodes,
        failed_nodes=found.failed_nodes,
        waiting_nodes=found.waiting_nodes,
    )


def _to_execution(found: _Execution) -> FlowExecution:
    return FlowExecution(
        id=found.id,
        node=found.node,
        name=found.name,
        kind=found.kind,
        attempt=found.attempt,
        status=found.status,
        started=found.started_at,
        ended=found.ended_at or "",
        input=_to_value(found.input),
        output=_to_value(found.output),
        element=found.element,
        failure_reason=found.failure_reason or "",
    )


def _to_value(text: msgspec.Raw) -> JsonValue:
    """A part of an answer; None when it is absent or left out."""
    return decode(bytes(text)) if text else None
