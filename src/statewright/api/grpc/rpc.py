"""The five RPCs that carry requests (spec/grpc.md §2–§4, §12, §16): one path through all of them.

The caller is authenticated, the transaction token is looked at, the event is read, the operation is run. What is wrong
with the call itself ends it with a gRPC status. What the use case refuses is an answer like any other, of the type that
success would have had and with ``success`` false.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final, NoReturn, Protocol, TypeVar

import grpc
import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from statewright.api.grpc.answers import Answer, CorrelatedAnswer, Error, Outcome
from statewright.api.grpc.authentication import authenticated, first_value
from statewright.api.grpc.envelope import UnusableEvent, data_of, new_event
from statewright.api.grpc.joining import Joining
from statewright.api.grpc.payloads import InvalidPayload, read, read_first, reader
from statewright.api.grpc.refusals import client_error, server_error
from statewright.api.grpc.streaming import Context
from statewright.auth import Authenticator
from statewright.failures import Failure
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.services.runtime import Caller, Runtime

RequestT = TypeVar("RequestT", bound=Struct)

TX_TOKEN: Final = "tx-token"  # noqa: S105 - its name
"""The metadata that names the transaction to join."""


METHODS: Final = {
    "entity": "entityManage",
    "collection": "entityManageCollection",
    "search": "entitySearch",
    "search collection": "entitySearchCollection",
}
"""The methods that look at transaction tokens, by kind."""


class CallRefused(Exception):
    """A call that ends with ``INVALID_ARGUMENT`` and this text instead of an answer."""


class Prepared(Struct, frozen=True):
    """A request that was read: what carries it out, and what its failure looks like."""

    run: Callable[[Runtime, Caller], Awaitable[Outcome]]
    blank: Answer


class Operation(Struct, frozen=True):
    """What an event type asks for. ``prepare`` raises :class:`InvalidPayload`, and with ``first_value_counts`` ignores
    what follows the payload. ``request`` is what the payload is read as, None when it is not looked at.
    """

    prepare: Callable[[str | bytes, bool], Prepared]
    request: type[Struct] | None


class Rpc(Struct, frozen=True, kw_only=True):
    """A method of the service and the event types it takes.

    ``kind`` is what it is called when it does not take one. ``unjoined`` answers a transaction token that is no good;
    None where tokens are not looked at. ``first_value_counts``: bytes after the payload do not matter.
    """

    kind: str
    operations: Mapping[str, Operation]
    unjoined: Answer | None
    first_value_counts: bool = False


def operation(
    request: type[RequestT],
    run: Callable[[Runtime, Caller, RequestT], Awaitable[Outcome]],
    *,
    failing: Callable[[RequestT], Answer],
) -> Operation:
    """An operation on a request; ``failing`` gives the answer that a failure is put into."""
    decoder = reader(request)

    def prepare(data: str | bytes, first_value_counts: bool) -> Prepared:
        decoded = read_first(decoder, data) if first_value_counts else read(decoder, data)
        return Prepared(lambda runtime, caller: run(runtime, caller, decoded), failing(decoded))

    return Operation(prepare, request)


def unread(run: Callable[[Runtime, Caller], Awaitable[Outcome]], *, failing: Answer) -> Operation:
    """An operation whose payload nobody looks at."""
    prepared = Prepared(run, failing)
    return Operation(lambda _data, _first_value_counts: prepared, None)


def always(answer: Answer) -> Callable[[object], Answer]:
    """The same answer whatever the request."""
    return lambda _request: answer


class Requests(Protocol):
    """Whoever serves requests."""

    async def one(self, rpc: Rpc, event: CloudEvent, context: Context) -> CloudEvent:
        """The one response to a request."""
        ...

    async def many(self, rpc: Rpc, event: CloudEvent, context: Context) -> Iterable[CloudEvent]:
        """The responses to a request, in order."""
        ...


class Unserved:
    """A door for calculation members alone: every request is ``UNIMPLEMENTED``."""

    async def one(self, rpc: Rpc, event: CloudEvent, context: Context) -> CloudEvent:
        """Ends the call."""
        await _unimplemented(context)

    async def many(self, rpc: Rpc, event: CloudEvent, context: Context) -> Iterable[CloudEvent]:
        """Ends the call."""
        await _unimplemented(context)


class Served:
    """The requests of a running service. ``joining`` asks the nodes that own other transactions; None: nobody does."""

    def __init__(self, runtime: Runtime, authenticator: Authenticator, joining: Joining | None = None) -> None:
        self._runtime = runtime
        self._authenticator = authenticator
        self._joining = joining

    async def one(self, rpc: Rpc, event: CloudEvent, context: Context) -> CloudEvent:
        """The one response to a request."""
        try:
            [response] = await self._responses(rpc, event, context, unjoined_id=event.id)
        except CallRefused as refused:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refused))
        return response

    async def many(self, rpc: Rpc, event: CloudEvent, context: Context) -> Iterable[CloudEvent]:
        """The responses to a request, in order. A token is judged before the request is read, so that answer has no
        id to repeat.
        """
        try:
            return await self._responses(rpc, event, context, unjoined_id="")
        except CallRefused as refused:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refused))

    async def _responses(
        self, rpc: Rpc, event: CloudEvent, context: Context, *, unjoined_id: str
    ) -> Iterable[CloudEvent]:
        """Raises :class:`CallRefused`."""
        principal = await authenticated(context, self._authenticator)
        caller, token = Caller(principal), first_value(context, TX_TOKEN)
        if rpc.unjoined is not None and token:
            try:
                if self._joining is not None and (owner := self._joining.owner(token)) is not None:
                    return await self._joining.call(owner, METHODS[rpc.kind], event, context)
                caller = Caller(principal, self._runtime.transactions.find(token, principal))
            except Failure as refused:
                return _events(unjoined_id, [_failed(rpc.unjoined, client_error(refused, event.type))])
        outcome = await self._outcome(_prepared(rpc, event), caller, event.type)
        return _events(event.id, outcome.answers, outcome.warnings)

    async def _outcome(self, prepared: Prepared, caller: Caller, event_type: str) -> Outcome:
        try:
            return await prepared.run(self._runtime, caller)
        except CallRefused:
            raise
        except Failure as failure:
            return Outcome([_failed(prepared.blank, client_error(failure, event_type))], failure.warnings)
        except Exception as error:  # the door: whatever went wrong, the client gets an answer without details
            return Outcome([_failed(prepared.blank, server_error(error, event_type))])


def _prepared(rpc: Rpc, event: CloudEvent) -> Prepared:
    try:
        data = data_of(event)
    except UnusableEvent as unusable:
        raise CallRefused(str(unusable)) from unusable
    asked = rpc.operations.get(event.type)
    if asked is None:
        raise CallRefused(f"unsupported {rpc.kind} event type: {event.type}")
    try:
        return asked.prepare(data, rpc.first_value_counts)
    except InvalidPayload as invalid:
        raise CallRefused(f"invalid payload: {invalid}") from invalid


def _failed(blank: Answer, error: Error) -> Answer:
    return replace(blank, success=False, error=error)


def _events(correlation: str, answers: Iterable[Answer], warnings: tuple[str, ...] = ()) -> Iterator[CloudEvent]:
    """Every answer as an event, made when it is asked for."""
    for answer in answers:
        known: dict[str, object] = {"id": correlation, "warnings": warnings or UNSET}
        if isinstance(answer, CorrelatedAnswer):
            known["request_id"] = correlation
        yield new_event(type(answer).__name__, msgspec.json.encode(replace(answer, **known)))


async def _unimplemented(context: Context) -> NoReturn:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not implemented")
