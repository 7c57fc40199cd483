"""The engine's values as messages of ``workflow.v1`` and back (docs/reference/steps.md#messages).

JSON values as ``google.protobuf.Struct`` and back, instants as ``Timestamp``.

The numbers of a Struct are doubles (docs/reference/steps.md#differences-from-rest): what is exact over REST is rounded
here.

Documents in messages of the step service: large ones are read and written by a thread, and none may be too large.

Answers of the step service to calls with an idempotency key: kept as text, and given again.
"""

from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import Any, Final, NoReturn, TypeVar, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import NullValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from statewright.failures import ProcessBadRequest
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.background import free_in_parts, run_by_size, run_in_thread
from statewright.loop.turns import is_large
from statewright.operations.idempotency import StoredAnswer
from statewright.processes.changes import NodeExecution
from statewright.proto.workflow.v1 import engine_pb2 as pb
from statewright.services.core import Caller
from statewright.services.idempotency.keyed import AnswerFormat
from statewright.services.processes.advancing import AdvanceResult
from statewright.services.processes.definitions import Summary
from statewright.services.processes.jobs import MAX_JOB_TYPES, ClaimedJob
from statewright.services.steps.definitions import ReadDefinition
from statewright.steps import Definition, Instance, Process, Step
from statewright.steps.definition import BoundaryEvent, DecisionTable
from statewright.steps.documents import UnreadableDefinition, definition_from_document
from statewright.steps.upload import tell_excess

_MAX_EXACT: Final = 2.0**63
"""Integral doubles below this magnitude are read as integers."""
_MICROSECONDS: Final = 1_000_000


def to_json_object(struct: Struct) -> JsonObject:
    """The object in a Struct. Raises ``ProcessBadRequest`` for numbers that JSON does not have."""
    return {name: to_json_value(value) for name, value in struct.fields.items()}


def to_json_value(value: Value) -> JsonValue:
    """The JSON value in a Value; one without a kind is ``null``. Raises ``ProcessBadRequest``."""
    match value.WhichOneof("kind"):
        case "number_value":
            return _to_number(value.number_value)
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return to_json_object(value.struct_value)
        case "list_value":
            return [to_json_value(item) for item in value.list_value.values]
        case _:
            return None


def to_proto_struct(members: Mapping[str, JsonValue]) -> Struct:
    """A Struct with these members."""
    struct = Struct()
    fill_struct(struct, members)
    return struct


def to_proto_value(value: JsonValue) -> Value:
    """A Value with this JSON value."""
    message = Value()
    _fill_value(message, value)
    return message


def fill_struct(struct: Struct, members: Mapping[str, JsonValue]) -> None:
    """Add these members to a Struct, where it is: to copy a large one is a single long call."""
    for name, member in members.items():
        _fill_value(struct.fields[name], member)


def _fill_value(message: Value, value: JsonValue) -> None:
    match value:
        case None:
            message.null_value = NullValue.NULL_VALUE
        case bool():
            message.bool_value = value
        case int() | Decimal():
            message.number_value = _to_double(value)
        case str():
            message.string_value = value
        case list():
            message.list_value.SetInParent()
            for item in value:
                _fill_value(message.list_value.values.add(), item)
        case dict():
            message.struct_value.SetInParent()
            fill_struct(message.struct_value, value)


def to_timestamp(at: int | None) -> Timestamp | None:
    """Microseconds of the epoch as a Timestamp; None for None."""
    if at is None:
        return None
    return Timestamp(seconds=at // _MICROSECONDS, nanos=at % _MICROSECONDS * 1000)


def _to_number(value: float) -> int | Decimal:
    if not isfinite(value):
        raise ProcessBadRequest(f"{value} is no JSON number")
    return int(value) if value.is_integer() and abs(value) < _MAX_EXACT else Decimal(repr(value))


def _to_double(value: int | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:  # an int that no double reaches
        return float("inf") if value > 0 else float("-inf")


STEP_TYPE: Final = "STEP_TYPE_"
INSTANCE_STATUS: Final = "INSTANCE_STATUS_"
EXECUTION_STATUS: Final = "STEP_EXECUTION_STATUS_"
UNSPECIFIED: Final = "UNSPECIFIED"


def read_status_filter(number: int) -> str:
    """The status that an enum value stands for; empty when unspecified, a name that no status has when unknown."""
    return _read_enum_name(pb.InstanceStatus.DESCRIPTOR.values_by_number, number, INSTANCE_STATUS)


async def read_upload(message: pb.WorkflowDefinition) -> ReadDefinition:
    """The definition that is uploaded; a thread reads a large one. Raises ``ProcessBadRequest``."""
    excess = tell_excess(len(message.steps))
    if excess is not None:
        raise ProcessBadRequest(excess)
    size = message.ByteSize()
    return ReadDefinition(await run_by_size(size, partial(read_definition, message)), size)


def read_definition(message: pb.WorkflowDefinition) -> Definition:
    """The definition in a message. Raises ``ProcessBadRequest``."""
    try:
        return definition_from_document(_to_document(message))
    except UnreadableDefinition as defect:  # a decision table, the only part without a shape of its own
        raise ProcessBadRequest(f"parse error: parse: {defect}") from None


def definition_message(definition: Definition, version: int) -> pb.WorkflowDefinition:
    """The whole definition."""
    return pb.WorkflowDefinition(
        id=definition.id,
        version=version,
        name=definition.name,
        description=definition.description,
        auto_start_next_workflow=definition.auto_start_next_workflow,
        next_workflow_id=definition.next_workflow_id,
        steps=[_step_message(step) for step in definition.steps],
        metadata=None if definition.metadata is None else to_proto_struct(definition.metadata),
    )


def summary_message(summary: Summary) -> pb.WorkflowDefinition:
    """A definition as lists show it."""
    return pb.WorkflowDefinition(id=summary.id, version=summary.version, name=summary.name)


def fill_instance(message: pb.WorkflowInstance, instance: Instance) -> None:
    """Put an instance into a message, which may take long when its variables are many."""
    known = pb.WorkflowInstance(
        id=instance.id,
        definition_id=instance.definition_id,
        definition_version=instance.definition_version,
        status=f"{INSTANCE_STATUS}{instance.status}",
        current_step_ids=list(instance.current_step_ids),
        started_at=to_timestamp(instance.started_at),
        completed_at=to_timestamp(instance.completed_at),
        failure_reason=instance.failure_reason or "",
        business_key=instance.business_key or "",
    )
    message.MergeFrom(known)
    message.variables.SetInParent()
    fill_struct(message.variables, instance.variables)


def execution_message(line: NodeExecution, process: Process) -> pb.StepExecution:
    """A line of the history."""
    return pb.StepExecution(
        id=line.id,
        instance_id=line.instance_id,
        step_id=line.node_id,
        step_type=f"{STEP_TYPE}{line.node_type}",
        attempt_number=line.attempt_number,
        status=f"{EXECUTION_STATUS}{line.status}",
        started_at=to_timestamp(line.started_at),
        ended_at=to_timestamp(line.ended_at),
        failure_reason=line.failure_reason or "",
        step_name=process.steps[line.node_id].name,
        definition_id=process.definition.id,
        definition_name=process.definition.name,
    )


def fill_job(message: pb.Job, job: ClaimedJob) -> None:
    """Put a job into a message, as :func:`fill_instance` does."""
    known = pb.Job(
        id=job.id,
        job_type=job.job_type,
        instance_id=job.instance_id,
        step_id=job.node_id,
        step_execution_id=job.execution_id,
        retries_remaining=job.retries_remaining,
        lock_expires_at=to_timestamp(job.lock_expires_at),
    )
    message.MergeFrom(known)
    message.variables.SetInParent()
    fill_struct(message.variables, job.variables)


def _to_document(message: Message) -> JsonObject:
    """A message of the names that JSON has, too. Maps have no order; their entries are taken in byte order of the keys
    (docs/reference/steps.md#differences-from-rest). A message or text that is not set is null.
    """
    return {
        field.json_name: _read_field(field, getattr(message, field.name))
        if field.is_repeated or field.message_type is None or message.HasField(field.name)
        else None
        for field in message.DESCRIPTOR.fields
    }


def _read_field(field: Any, value: Any) -> JsonValue:  # Any: protobuf's own types have no common one
    type_ = field.message_type
    if type_ is not None and type_.GetOptions().map_entry:
        entry = type_.fields_by_name["value"]
        return {key: _read_single(entry, value[key]) for key in _sort_by_bytes(value)}
    return [_read_single(field, each) for each in value] if field.is_repeated else _read_single(field, value)


def _read_single(field: Any, value: Any) -> JsonValue:  # Any: as above
    if field.enum_type is not None:
        known = field.enum_type.values_by_number
        return _read_enum_name(known, value, known[0].name.removesuffix(UNSPECIFIED))
    match value:
        case Value():
            return to_json_value(value)
        case Struct():
            return to_json_object(value)
        case Message():
            return _to_document(value)
        case _:
            return None if value == "" else cast("JsonValue", value)  # a number or a flag


def _step_message(step: Step) -> pb.WorkflowStep:
    return pb.WorkflowStep(
        id=step.id,
        name=step.name,
        type=f"{STEP_TYPE}{step.type}",
        description=step.description,
        next_step=step.next_step,
        parallel_next_steps=list(step.parallel_next_steps),
        join_step=step.join_step,
        conditional_next_steps=dict(step.conditional_next_steps),
        transformations={name: to_proto_value(value) for name, value in step.transformations.items()},
        job_type=step.job_type,
        delegate_class=step.delegate_class,
        retry_count=_clamp_int32(step.retry_count),
        boundary_events=[_event_message(event) for event in step.boundary_events],
        hit_policy=step.hit_policy,
        decision_table=None if step.decision_table is None else _table_message(step.decision_table),
    )


def _event_message(event: BoundaryEvent) -> pb.BoundaryEvent:
    return pb.BoundaryEvent(
        type=pb.BOUNDARY_EVENT_TYPE_TIMER,
        duration=event.duration,
        interrupting=event.interrupting,
        target_step_id=event.target_step_id,
    )


def _table_message(table: DecisionTable) -> pb.DecisionTable:
    rules = [
        pb.DecisionTableRule(
            when=dict(rule.when), outputs={name: to_proto_value(value) for name, value in rule.outputs.items()}
        )
        for rule in table.rules
    ]
    return pb.DecisionTable(rules=rules)


def _read_enum_name(known: Mapping[int, object], number: int, prefix: str) -> str:
    """The name of an enum value without its prefix; its number when it is unknown, empty when it is unspecified."""
    value = known.get(number)
    name = str(number) if value is None else str(getattr(value, "name", number)).removeprefix(prefix)
    return "" if name == UNSPECIFIED else name


def _sort_by_bytes(keys: Iterable[str]) -> list[str]:
    return sorted(keys, key=str.encode)


def _clamp_int32(value: int) -> int:
    return min(max(value, -(2**31)), 2**31 - 1)


MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a page or history: each is one message, which is held as a whole. A single instance may have more."""


class ResponseTooLarge(Exception):
    """A page or history is more than a message should be."""


def refuse_nul(request: Message) -> None:
    """Raises ``ProcessBadRequest`` for a text with a NUL character, which PostgreSQL does not take; those of documents
    are looked at where these are read. Of lists no more is read than may be in one: longer ones are refused later.
    """
    for field, value in request.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            texts = (value,) if isinstance(value, str) else value[:MAX_JOB_TYPES]
            if any("\0" in text for text in texts):
                raise ProcessBadRequest(f"{field.json_name} contains a NUL character")


async def read_object(struct: Struct) -> JsonObject:
    """The object in a Struct; a thread reads a large one."""
    size = struct.ByteSize()
    read = await run_by_size(size, partial(to_json_object, struct))
    free_in_parts(read, size)
    return read


async def write_instance(message: pb.WorkflowInstance, instance: Instance) -> None:
    """Fill in an instance; a thread does one with many variables."""
    await run_by_variables(instance.variables, partial(fill_instance, message, instance))


async def run_by_variables(variables: JsonObject, write: Callable[[], None]) -> None:
    """A thread writes what has many variables."""
    if is_large(variables):
        await run_in_thread(write)
    else:
        write()


def require_size(size: int, what: str, hint: str) -> None:
    """Raises :class:`ResponseTooLarge`."""
    if size > MAX_RESPONSE_BYTES:
        raise ResponseTooLarge(f"{what} has more than {MAX_RESPONSE_BYTES} bytes; {hint}")


ReplyT = TypeVar("ReplyT")
T = TypeVar("T")


def _refuse_durable(failure: BaseException) -> NoReturn:
    """No operation on instances fails when a part of it is durable."""
    raise AssertionError(failure)


NO_FAILURES: Final = AnswerFormat(_refuse_durable, _refuse_durable)


PROTOBUF: Final = "application/x-protobuf;base64"


def answer_with(caller: Caller, respond: Callable[[T], Message]) -> Caller:
    """The caller, for a use case whose result ``respond`` makes the response of."""

    async def compose(result: T) -> StoredAnswer:
        return encode_message(respond(result))

    caller.respond_with(compose)
    return caller


def answer_with_instance(caller: Caller, respond: Callable[[Instance], Awaitable[Message]]) -> Caller:
    """The same, for one that is about an instance."""

    async def compose(result: AdvanceResult[Instance]) -> StoredAnswer:
        return encode_message(await respond(result.instance))

    caller.respond_with(compose)
    return caller


def encode_message(message: object) -> StoredAnswer:
    """A response as it is kept."""
    assert isinstance(message, Message)  # noqa: S101 - what methods of the service answer
    return StoredAnswer(200, PROTOBUF, b64encode(message.SerializeToString()).decode())


def decode_message(answer: StoredAnswer, reply: type[ReplyT]) -> ReplyT:
    """The response of a class that was kept."""
    message = reply()
    assert isinstance(message, Message)  # noqa: S101 - what methods of the service answer
    message.ParseFromString(b64decode(answer.body))
    return cast("ReplyT", message)  # it is of this class
