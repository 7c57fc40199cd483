"""The client that a function gets with its context: requests back to the server, inside the transaction of the callout.

``Client`` is for plain functions, ``AsyncClient`` for async ones; both offer the same operations. Whatever does not
succeed raises one of ``refusals``.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.sdk import operations
from statewright.sdk.operations import Call, Operation
from statewright.sdk.refusals import Unreachable, refusal

ParametersP = ParamSpec("ParametersP")
ResultT = TypeVar("ResultT")

TX_TOKEN = "X-Tx-Token"  # noqa: S105 - its name
"""The header that names the transaction to join (spec/grpc.md §16)."""

FIRST_REFUSAL = 400


class Answer(Struct, frozen=True):
    """What came back."""

    status: int
    body: bytes


class Transport(Protocol):
    """The way to the server."""

    def send(self, call: Call) -> Answer:
        """Wait for the answer in this thread. Raises ``Unreachable``."""
        ...

    async def send_async(self, call: Call) -> Answer:
        """The same on the event loop of the node."""
        ...


def _blocking(
    make: Callable[ParametersP, Operation[ResultT]],
) -> "Callable[Concatenate[Client, ParametersP], ResultT]":
    @wraps(make)
    def run(client: "Client", /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> ResultT:
        operation = make(*args, **kwargs)
        return _result(operation, client.transport.send(client.joining(operation.call)))

    return run


def _awaitable(
    make: Callable[ParametersP, Operation[ResultT]],
) -> "Callable[Concatenate[AsyncClient, ParametersP], Awaitable[ResultT]]":
    @wraps(make)
    async def run(client: "AsyncClient", /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> ResultT:
        operation = make(*args, **kwargs)
        return _result(operation, await client.transport.send_async(client.joining(operation.call)))

    return run


class _Joining(Struct, frozen=True):
    """``tx_token`` is None outside a transaction: requests then commit on their own."""

    transport: Transport
    tx_token: str | None = None

    @property
    def joins(self) -> bool:
        """Whether requests are part of the transaction of the callout."""
        return self.tx_token is not None

    def joining(self, call: Call) -> Call:
        """The request with the token."""
        return replace(call, headers={**call.headers, TX_TOKEN: self.tx_token}) if self.tx_token else call


class Client(_Joining, frozen=True):
    """Requests that wait in their thread, for plain functions."""

    create = _blocking(operations.create)
    create_many = _blocking(operations.create_many)
    get = _blocking(operations.get)
    page = _blocking(operations.page)
    update = _blocking(operations.update)
    patch = _blocking(operations.patch)
    transition = _blocking(operations.transition)
    transitions = _blocking(operations.transitions)
    delete = _blocking(operations.delete)
    search = _blocking(operations.search)
    count = _blocking(operations.count)


class AsyncClient(_Joining, frozen=True):
    """Requests to be awaited, for async functions."""

    create = _awaitable(operations.create)
    create_many = _awaitable(operations.create_many)
    get = _awaitable(operations.get)
    page = _awaitable(operations.page)
    update = _awaitable(operations.update)
    patch = _awaitable(operations.patch)
    transition = _awaitable(operations.transition)
    transitions = _awaitable(operations.transitions)
    delete = _awaitable(operations.delete)
    search = _awaitable(operations.search)
    count = _awaitable(operations.count)


def _result(operation: Operation[ResultT], answer: Answer) -> ResultT:
    if answer.status >= FIRST_REFUSAL:
        raise refusal(answer.status, answer.body)
    try:
        return operation.read(answer.body)
    except msgspec.DecodeError as error:
        raise Unreachable(f"{operation.call.path} was not answered by Statewright: {error}") from error
