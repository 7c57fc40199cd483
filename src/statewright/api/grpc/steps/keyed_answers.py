"""Answers of the step service to calls with an idempotency key: kept as text, and given again."""

from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, TypeVar, cast

from google.protobuf.message import Message

from statewright.idempotency import StoredAnswer
from statewright.services.idempotency.keyed import AnswerFormat
from statewright.services.processes.advancing import AdvanceResult
from statewright.services.runtime import Caller
from statewright.steps import Instance

ReplyT = TypeVar("ReplyT")
T = TypeVar("T")


def _refuse_durable(failure: BaseException) -> NoReturn:
    """No operation on instances fails when a part of it is durable."""
    raise AssertionError(failure)


NO_FAILURES: Final = AnswerFormat(_refuse_durable, _refuse_durable)


PROTOBUF: Final = "application/x-protobuf;base64"


def answer_with(caller: Caller, respond: Callable[[T], Message]) -> Caller:
    """The caller, for a use case whose result ``respond`` makes the response of."""
    if caller.keyed is not None:

        async def compose(result: object) -> StoredAnswer:
            return encode_message(respond(cast("T", result)))  # what the use case commits with

        caller.keyed.respond_with(compose)
    return caller


def answer_with_instance(caller: Caller, respond: Callable[[Instance], Awaitable[Message]]) -> Caller:
    """The same, for one that is about an instance."""
    if caller.keyed is not None:

        async def compose(result: object) -> StoredAnswer:
            return encode_message(await respond(cast("AdvanceResult[Instance]", result).instance))  # as above

        caller.keyed.respond_with(compose)
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
