"""Flows: definitions and instances (docs/reference/flows.md#rest).

Workers, which do the tasks, are written with ``Node``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from statewright.sdk.operations.calls import MAX_PAGE_SIZE, Operation, Page, Script, ask, wait_for
from statewright.sdk.operations.processes import ProcessPaths, build_process_call, read_as, rename_members

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue
else:  # Any: msgspec, which reads records, cannot resolve an alias that contains itself
    JsonValue = Any
    JsonObject = dict

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


class FlowInstance(Struct, frozen=True, kw_only=True, rename=rename_members()):
    """An instance. ``active_nodes`` are those at which something goes on; ``failed_nodes`` those that failed, with the
    reasons, ``waiting_nodes`` those of a stalled flow. Lists leave out the values of large instances.
    Times are RFC 3339 texts.
    """

    id: str
    definition_id: str
    status: str
    definition_version: int = 0
    input: JsonValue = None
    result: JsonValue = None
    started: str = ""
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
    kept: bool = False
    """Whether it waits with its instance for a task that will wait for it."""


class FlowExecution(Struct, frozen=True, kw_only=True, rename=rename_members()):
    """One entry into a node; of an element of an iteration ``element`` is its place."""

    id: str
    node: int
    name: str
    kind: str
    attempt: int
    status: str
    started: str
    ended: str = ""
    input: JsonValue = None
    output: JsonValue = None
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
    members = {"id": id, "source": text, "settings": dict(settings or {})}
    return Operation(
        build_process_call("upload_flow", "POST", "/flows/definitions", members=members), _decode_definition
    )


def check(text: str) -> Operation[list[str]]:
    """What looks like a mistake in a flow, which is not stored. Raises ``Invalid`` for one that is wrong."""
    members = {"id": "unnamed", "source": text}
    return Operation(build_process_call("check_flow", "POST", "/flows/validate", members=members), _read_warnings)


def definition(definition_id: str, *, version: int | None = None) -> "Operation[JsonObject]":
    """A definition with its text (``source``), the latest version unless one is named."""
    return _PATHS.get_definition(definition_id, version)


def definitions(
    *, keyword: str | None = None, size: int = MAX_PAGE_SIZE, number: int = 0
) -> Script[Page[FlowDefinition]]:
    """All definitions, by id, each in its latest version; ``keyword`` is a part of the name or id."""
    return _PATHS.list_definitions(keyword, size=size, number=number)


def start(
    definition_id: str, given: object = None, *, version: int | None = None, business_key: str = ""
) -> Operation[FlowInstance]:
    """Start an instance with an input, an object or an array; ``{}`` when absent.

    With a ``business_key`` only one instance of the definition can be under way for that key (``Conflicting``).
    """
    members = {
        "definitionId": definition_id,
        "input": {} if given is None else given,
        "definitionVersion": version,
        "businessKey": business_key,
    }
    return _PATHS.start(definition_id, members)


def instance(instance_id: str) -> Operation[FlowInstance]:
    """The instance as it is now."""
    return _PATHS.get_instance(instance_id)


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
    return _PATHS.list_instances(size=size, number=number, **filters)


def wait(instance_id: str) -> Script[FlowInstance]:
    """Wait until nothing goes on in the instance: it is COMPLETED, FAILED, TERMINATED or CANCELLED. There is no limit
    of time: ``asyncio.timeout`` around that of the ``AsyncClient`` sets one.
    """
    return wait_for(instance(instance_id), lambda found: found.status in RESTING)


def history(instance_id: str, *, size: int = MAX_PAGE_SIZE, number: int = 0) -> Script[Page[FlowExecution]]:
    """Every entry into a node, by start."""
    return _PATHS.list_history(instance_id, size=size, number=number)


def cancel(instance_id: str, reason: str = "") -> Operation[FlowInstance]:
    """Stop the instance for good; its tasks are withdrawn."""
    return _PATHS.change("cancel", instance_id, {"reason": reason})


def terminate(instance_id: str) -> Operation[FlowInstance]:
    """Begin nothing more: tasks that run are left to end. Once more, it stops at once. It can be restarted."""
    return _PATHS.change("terminate", instance_id)


def restart(instance_id: str) -> Operation[FlowInstance]:
    """Let a FAILED or TERMINATED instance run again, from where it stopped."""
    return _PATHS.change("restart", instance_id)


def change(
    instance_id: str, node: int, given: JsonValue, *, element: int | None = None, reason: str = ""
) -> Operation[FlowInstance]:
    """Give a node that failed or was interrupted another input, with which ``restart`` begins it again."""
    members: dict[str, JsonValue] = {"node": node, "input": given, "reason": reason}
    if element is not None:
        members["element"] = element
    return _PATHS.change("change", instance_id, members)


def send_event(
    kind: str,
    fields: Mapping[str, JsonValue] | None = None,
    output: JsonValue = None,
    *,
    instance_id: str = "",
    business_key: str = "",
    definition_id: str = "",
) -> Script[FlowDelivery]:
    """Complete the tasks that wait for an event (``wait:event``); one that nothing waits for has no effect, unless it
    is for one instance, by its id or by its business key (of a definition): then the next task that does takes it.

    ``fields`` are compared with the inputs of tasks that ask for it; ``output``, an object or an array, is what the
    tasks answer instead of their inputs.
    """
    tasks, receipts, after = 0, list[FlowReceipt](), ""
    address = {"instanceId": instance_id, "businessKey": business_key, "definitionId": definition_id}
    given: dict[str, JsonValue] = {name: value for name, value in address.items() if value}
    while True:
        members = {"event": kind, "fields": dict(fields or {}), "output": output, "after": after, **given}
        call = build_process_call("send_flow_event", "POST", "/flows/events", kind, members=members)
        found = yield from ask(Operation(call, _decode_delivery))
        tasks += found.tasks
        receipts += found.receipts
        if not found.next:
            return FlowDelivery(tasks=tasks, receipts=tuple(receipts), kept=found.kept)
        after = found.next


def counter(name: str) -> Operation[int]:
    """The value of a counter of ``wait:acquire`` and ``wait:release``; zero for one that is not known."""
    call = build_process_call("get_flow_counter", "GET", "/flows/counters/{}", name)
    return Operation(call, lambda body: _decode_counter(body).value)


_PATHS: Final = ProcessPaths(
    definition="flow",
    instance="flow_instance",
    definitions_path="/flows/definitions",
    instances_path="/flows/instances",
    read_definition=read_as(FlowDefinition),
    read_instance=read_as(FlowInstance),
    read_line=read_as(FlowExecution),
)


class _Delivery(Struct, frozen=True, rename="camel"):
    tasks: int
    receipts: tuple[FlowReceipt, ...]
    kept: bool = False
    next: str = ""


class _Counter(Struct, frozen=True):
    value: int


class _Checked(Struct, frozen=True):
    warnings: list[str]


_decode_definition = msgspec.json.Decoder(FlowDefinition).decode
_decode_delivery = msgspec.json.Decoder(_Delivery).decode
_decode_counter = msgspec.json.Decoder(_Counter).decode
_decode_checked = msgspec.json.Decoder(_Checked).decode


def _read_warnings(body: bytes) -> list[str]:
    return _decode_checked(body).warnings
