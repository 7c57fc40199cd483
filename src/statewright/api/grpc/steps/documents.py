"""Documents in messages of the step service: large ones are read and written by a thread, and none may be too large."""

from collections.abc import Callable
from functools import partial
from typing import Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from statewright.api.grpc.steps.messages import fill_instance
from statewright.api.grpc.steps.values import to_json_object
from statewright.background import free_in_parts, run_by_size, run_within_turn
from statewright.failures import ProcessBadRequest
from statewright.jsonval.values import JsonObject
from statewright.proto.workflow.v1 import engine_pb2 as pb
from statewright.steps import Instance
from statewright.turns import is_large

MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a page or history: each is one message, which is held as a whole. A single instance may have more."""


class ResponseTooLarge(Exception):
    """A page or history is more than a message should be."""


def refuse_nul(request: Message) -> None:
    """Raises ``ProcessBadRequest`` for a text with a NUL character, which PostgreSQL does not take; those of documents
    are looked at where these are read.
    """
    for field, value in request.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            texts = (value,) if isinstance(value, str) else value
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
    await run_within_turn(write, write, is_large=is_large(variables))


def require_size(size: int, what: str, hint: str) -> None:
    """Raises :class:`ResponseTooLarge`."""
    if size > MAX_RESPONSE_BYTES:
        raise ResponseTooLarge(f"{what} has more than {MAX_RESPONSE_BYTES} bytes; {hint}")
