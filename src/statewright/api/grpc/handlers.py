"""The five RPCs that carry requests (docs/reference/grpc.md#envelope, docs/reference/grpc.md#event-types,
docs/reference/grpc.md#failures): one path through all of them.

The caller is authenticated, the transaction token is verified, the event is read, the operation is run. A defect of the
call itself ends it with a gRPC status. A failure of the use case is a response of the type that success would have had,
with ``success`` false.

To add a request type, add a line to the :class:`RpcMethod` of its method (``entities.py``, ``models.py``,
``search.py``); nothing changes here. What else it takes is in docs/architecture.md#where-things-go.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final, NoReturn, Protocol, TypeVar

import grpc
import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from statewright.api.grpc import idempotency
from statewright.api.grpc.calls import (
    Context,
    TransactionForwarder,
    authenticate_call,
    begin_call_span,
    get_first_value,
    to_client_error,
    to_server_error,
)
from statewright.api.grpc.envelope import UnusableEvent, get_data, new_event, read_by_size
from statewright.api.grpc.payloads import (
    CorrelatedResponse,
    Error,
    InvalidPayload,
    Outcome,
    Response,
    make_decoder,
    read,
    read_first,
)
from statewright.auth import Authenticator
from statewright.failures import Failure, ReadOnly
from statewright.operations.idempotency import Recording, StoredAnswer
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.services.core import Caller
from statewright.services.idempotency.execution import execute_for
from statewright.services.idempotency.keyed import AnswerFormat
from statewright.services.runtime import Runtime
from statewright.telemetry.tracing import Span, get_error_code

RequestT = TypeVar("RequestT", bound=Struct)

TX_TOKEN: Final = "tx-token"  # noqa: S105 - its name
"""The metadata that names the transaction to join."""


METHODS: Final = {
    "entity": "entityManage",
    "model": "entityModelManage",
    "collection": "entityManageCollection",
    "search": "entitySearch",
    "search collection": "entitySearchCollection",
}
"""The methods by kind."""


class InvalidCall(Exception):
    """A call that ends with ``INVALID_ARGUMENT`` and this text instead of an answer."""


class PreparedRequest(Struct, frozen=True):
    """A request that was read: the function that carries it out, and the response that a failure is put into.
    ``is_read``: it is for those, too, who may only read.
    """

    run: Callable[[Runtime, Caller], Awaitable[Outcome]]
    blank: Response
    recording: Recording = "nothing"
    is_read: bool = True


class EventOperation(Struct, frozen=True):
    """The operation of an event type. ``prepare`` raises :class:`InvalidPayload`, and with ``first_value_counts``
    ignores what follows the payload. ``request`` is what the payload is read as, None when it is not looked at.
    """

    prepare: Callable[[str | bytes, bool], PreparedRequest]
    request: type[Struct] | None


class RpcMethod(Struct, frozen=True, kw_only=True):
    """A method of the service and the event types it takes.

    ``kind`` names it in errors about event types. ``unjoined`` is the response to an invalid transaction token; None
    where tokens are ignored. ``first_value_counts``: bytes after the payload are ignored.
    """

    kind: str
    operations: Mapping[str, EventOperation]
    unjoined: Response | None
    first_value_counts: bool = False


def build_operation(
    request: type[RequestT],
    run: Callable[[Runtime, Caller, RequestT], Awaitable[Outcome]],
    *,
    failing: Response | Callable[[RequestT], Response],
    recording: Recording = "nothing",
    is_change: bool = False,
) -> EventOperation:
    """An operation on a request; ``failing`` is or gives the answer that a failure is put into, ``recording`` is how
    one with an idempotency key is recorded. What is recorded is a change, and so is what says it ``is_change``.
    """
    is_read = recording == "nothing" and not is_change
    decoder = make_decoder(request)

    def prepare(data: str | bytes, first_value_counts: bool) -> PreparedRequest:
        decoded = read_first(decoder, data) if first_value_counts else read(decoder, data)
        blank = failing if isinstance(failing, Response) else failing(decoded)
        return PreparedRequest(lambda runtime, caller: run(runtime, caller, decoded), blank, recording, is_read)

    return EventOperation(prepare, request)


def build_unread_operation(
    run: Callable[[Runtime, Caller], Awaitable[Outcome]], *, failing: Response
) -> EventOperation:
    """An operation whose payload is not read."""
    prepared = PreparedRequest(run, failing)
    return EventOperation(lambda _data, _first_value_counts: prepared, None)


class RpcHandler(Protocol):
    """Serves the requests of the service's methods."""

    async def handle_one(self, rpc: RpcMethod, event: CloudEvent, context: Context) -> CloudEvent:
        """The one response to a request."""
        ...

    def handle_many(self, rpc: RpcMethod, event: CloudEvent, context: Context) -> AsyncGenerator[CloudEvent]:
        """The responses to a request, in order, each made when it is asked for."""
        ...


class MembersOnly:
    """The handler of a server for calculation members only: every request is ``UNIMPLEMENTED``."""

    async def handle_one(self, rpc: RpcMethod, event: CloudEvent, context: Context) -> CloudEvent:
        """Ends the call."""
        await _abort_unimplemented(context)

    async def handle_many(self, rpc: RpcMethod, event: CloudEvent, context: Context) -> AsyncGenerator[CloudEvent]:
        """Ends the call."""
        yield await _abort_unimplemented(context)


class RequestHandler:
    """The requests of a running service. ``forwarder`` reaches the owners of other transactions; None in a service of
    one node.
    """

    def __init__(
        self, runtime: Runtime, authenticator: Authenticator, forwarder: TransactionForwarder | None = None
    ) -> None:
        self._runtime = runtime
        self._authenticator = authenticator
        self._forwarder = forwarder

    async def handle_one(self, rpc: RpcMethod, event: CloudEvent, context: Context) -> CloudEvent:
        """The one response to a request."""
        try:
            [response] = [each async for each in self._handle(rpc, event, context, unjoined_id=event.id)]
        except InvalidCall as refused:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refused))
        return response

    async def handle_many(self, rpc: RpcMethod, event: CloudEvent, context: Context) -> AsyncGenerator[CloudEvent]:
        """The responses to a request, in order, each made when it is asked for. A token is verified before the request
        is read, so the response to an invalid one repeats no id.
        """
        try:
            async with aclosing(self._handle(rpc, event, context, unjoined_id="")) as responses:
                async for response in responses:
                    yield response
        except InvalidCall as refused:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refused))

    async def _handle(
        self, rpc: RpcMethod, event: CloudEvent, context: Context, *, unjoined_id: str
    ) -> AsyncGenerator[CloudEvent]:
        """The responses to a request, once its token and event are read. Raises :class:`InvalidCall`."""
        principal = await authenticate_call(context, self._authenticator)
        caller, token, method = Caller(principal), get_first_value(context, TX_TOKEN), METHODS[rpc.kind]
        span = begin_call_span(self._runtime.core.tracer, method, principal, context, event)
        try:
            if rpc.unjoined is not None and token:
                try:
                    if self._forwarder is not None and (owner := self._forwarder.find_owner(token)) is not None:
                        async with aclosing(self._forwarder.forward(owner, method, event, context)) as responses:
                            async for response in responses:
                                yield response
                        return
                    caller = Caller(principal, self._runtime.core.transactions.find(token, principal))
                except Failure as refused:
                    error = to_client_error(refused, method, event.type)
                    yield _encode_response(unjoined_id, _mark_failed(rpc.unjoined, error))
                    return
            prepared = await _prepare(rpc, event)
            if principal.is_read_only and not prepared.is_read:
                error = to_client_error(ReadOnly(), method, event.type)
                yield _encode_response(event.id, _mark_failed(prepared.blank, error))
                return
            if idempotency.KEY_ATTRIBUTE in event.attributes and prepared.recording != "nothing":
                for response in await self._answer_keyed(prepared, caller, method, event):
                    yield response
                return
            async with aclosing(self._run(prepared, caller, method, event.type, span)) as answers:
                async for answer, warnings in answers:
                    yield _encode_response(event.id, answer, warnings)
        except InvalidCall:
            if span is not None:
                span.fail(grpc.StatusCode.INVALID_ARGUMENT.name)
            raise
        finally:
            if span is not None:
                span.end()

    async def _answer_keyed(
        self, prepared: PreparedRequest, caller: Caller, method: str, event: CloudEvent
    ) -> list[CloudEvent]:
        """The responses to a request with an idempotency key: its own, or those of the first one."""

        def fail(failure: Failure) -> Response:
            return _mark_failed(prepared.blank, to_client_error(failure, method, event.type))

        def defect(error: Exception) -> Response:
            return _mark_failed(prepared.blank, to_server_error(error, method, event.type))

        answer_format = AnswerFormat(
            lambda failure: idempotency.encode_answer([fail(failure)], failure.warnings, status=failure.status),
            lambda error: idempotency.encode_answer([defect(error)], status=500),
        )
        try:
            key = idempotency.find_key(event)
            assert key is not None  # noqa: S101 - that it has one was looked at
            request_hash = await idempotency.hash_event(method, event, get_data(event))
            executed = await execute_for(
                self._runtime.core,
                self._runtime,
                caller,
                lambda runtime, keyed: _run_to_answer(prepared, runtime, keyed),
                key=key,
                request_hash=request_hash,
                answer_format=answer_format,
                recording=prepared.recording,
                size=len(get_data(event)),
            )
        except InvalidCall:
            raise
        except Failure as failure:
            return [_encode_response(event.id, fail(failure), failure.warnings)]
        except Exception as error:  # whatever went wrong, the client gets a response without details
            return [_encode_response(event.id, defect(error))]
        return idempotency.decode_answer(executed.answer, event.id, is_replay=executed.is_replay)

    async def _run(
        self, prepared: PreparedRequest, caller: Caller, method: str, event_type: str, span: Span | None
    ) -> AsyncGenerator[tuple[Response, tuple[str, ...]]]:
        """The responses of an operation, each with what is to be noted on it."""
        try:
            outcome = await prepared.run(self._runtime, caller)
            async with aclosing(outcome.iterate()) as responses:
                async for response in responses:
                    yield response, outcome.warnings
        except InvalidCall:
            raise
        except Failure as failure:
            if span is not None:
                span.set("error.code", failure.code)
            yield _mark_failed(prepared.blank, to_client_error(failure, method, event_type)), failure.warnings
        except Exception as error:  # whatever went wrong, the client gets a response without details
            if span is not None:
                span.fail(get_error_code(error))
            yield _mark_failed(prepared.blank, to_server_error(error, method, event_type)), ()


async def _run_to_answer(prepared: PreparedRequest, runtime: Runtime, caller: Caller) -> StoredAnswer:
    return await idempotency.encode_outcome(await prepared.run(runtime, caller))


async def _prepare(rpc: RpcMethod, event: CloudEvent) -> PreparedRequest:
    """The request that an event carries, a large one read by a thread. Raises :class:`InvalidCall`."""
    try:
        data = get_data(event)
    except UnusableEvent as unusable:
        raise InvalidCall(str(unusable)) from unusable
    asked = rpc.operations.get(event.type)
    if asked is None:
        raise InvalidCall(f"unsupported {rpc.kind} event type: {event.type}")
    try:
        return await read_by_size(data, lambda text: asked.prepare(text, rpc.first_value_counts))
    except InvalidPayload as invalid:
        raise InvalidCall(f"invalid payload: {invalid}") from invalid


def _mark_failed(blank: Response, error: Error) -> Response:
    return replace(blank, success=False, error=error)


def _encode_response(correlation: str, response: Response, warnings: tuple[str, ...] = ()) -> CloudEvent:
    known: dict[str, object] = {"id": correlation, "warnings": warnings or UNSET}
    if isinstance(response, CorrelatedResponse):
        known["request_id"] = correlation
    return new_event(type(response).__name__, msgspec.json.encode(replace(response, **known)))


async def _abort_unimplemented(context: Context) -> NoReturn:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not implemented")
