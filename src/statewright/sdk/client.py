"""The client that a function gets with its context: requests back to the server, inside the transaction of the callout.

``Client`` is for plain functions, ``AsyncClient`` for async ones; both offer the same operations. A request that does
not succeed raises one of the exceptions of :mod:`statewright.sdk.errors`.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.sdk import operations
from statewright.sdk.errors import Unreachable, build_error
from statewright.sdk.operations import Call, Operation

ParametersP = ParamSpec("ParametersP")
ResultT = TypeVar("ResultT")

TX_TOKEN = "X-Tx-Token"  # noqa: S105 - its name
"""The header that names the transaction to join (docs/reference/grpc.md#transaction-tokens)."""

FIRST_ERROR_STATUS = 400


class HttpResponse(Struct, frozen=True):
    """Status and body of an HTTP response."""

    status: int
    body: bytes


class Transport(Protocol):
    """Sends requests to the server."""

    def send(self, call: Call) -> HttpResponse:
        """Wait for the answer in this thread. Raises ``Unreachable``."""
        ...

    async def send_async(self, call: Call) -> HttpResponse:
        """Wait for the answer on the event loop of the node. Raises ``Unreachable``."""
        ...


def _make_blocking(
    make: Callable[ParametersP, Operation[ResultT]],
) -> "Callable[Concatenate[Client, ParametersP], ResultT]":
    @wraps(make)
    def run(client: "Client", /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> ResultT:
        operation = make(*args, **kwargs)
        return _read_result(operation, client.transport.send(client.add_token(operation.call)))

    return run


def _make_async(
    make: Callable[ParametersP, Operation[ResultT]],
) -> "Callable[Concatenate[AsyncClient, ParametersP], Awaitable[ResultT]]":
    @wraps(make)
    async def run(client: "AsyncClient", /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> ResultT:
        operation = make(*args, **kwargs)
        return _read_result(operation, await client.transport.send_async(client.add_token(operation.call)))

    return run


class _BoundClient(Struct, frozen=True):
    """``tx_token`` is None outside a transaction: requests then commit on their own."""

    transport: Transport
    tx_token: str | None = None

    @property
    def joins(self) -> bool:
        """Whether requests are part of the transaction of the callout."""
        return self.tx_token is not None

    def add_token(self, call: Call) -> Call:
        """The request with the transaction token, if there is one."""
        return replace(call, headers={**call.headers, TX_TOKEN: self.tx_token}) if self.tx_token else call


class Client(_BoundClient, frozen=True):
    """Requests that wait in their thread, for plain functions."""

    create = _make_blocking(operations.create)
    create_many = _make_blocking(operations.create_many)
    get = _make_blocking(operations.get)
    page = _make_blocking(operations.page)
    update = _make_blocking(operations.update)
    patch = _make_blocking(operations.patch)
    transition = _make_blocking(operations.transition)
    transitions = _make_blocking(operations.transitions)
    delete = _make_blocking(operations.delete)
    search = _make_blocking(operations.search)
    count = _make_blocking(operations.count)


class AsyncClient(_BoundClient, frozen=True):
    """Requests to be awaited, for async functions."""

    create = _make_async(operations.create)
    create_many = _make_async(operations.create_many)
    get = _make_async(operations.get)
    page = _make_async(operations.page)
    update = _make_async(operations.update)
    patch = _make_async(operations.patch)
    transition = _make_async(operations.transition)
    transitions = _make_async(operations.transitions)
    delete = _make_async(operations.delete)
    search = _make_async(operations.search)
    count = _make_async(operations.count)


def _read_result(operation: Operation[ResultT], answer: HttpResponse) -> ResultT:
    if answer.status >= FIRST_ERROR_STATUS:
        raise build_error(answer.status, answer.body)
    try:
        return operation.read(answer.body)
    except msgspec.DecodeError as error:
        raise Unreachable(f"{operation.call.path} was not answered by Statewright: {error}") from error
