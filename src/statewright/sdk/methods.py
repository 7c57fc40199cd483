"""From operations to methods: a value that describes a request becomes a method that sends it, waiting in its thread or
on an event loop.

Nothing else differs between the two kinds of clients, so they cannot drift apart.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from statewright.sdk.errors import Unreachable
from statewright.sdk.exchange import Reply, RetryPolicy, Transport, play
from statewright.sdk.operations.calls import Operation, Page, Pause, Script, ask

ParametersP = ParamSpec("ParametersP")
ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")


class ClientSession:
    """What the parts of a client share: where requests go, the transaction they join, and how often they are tried."""

    def __init__(self, transport: Transport, tx_token: str | None, retry: RetryPolicy) -> None:
        self.transport = transport
        self.tx_token = tx_token
        self.retry = retry

    @property
    def joins(self) -> bool:
        """Whether requests are part of the transaction of a callout."""
        return self.tx_token is not None

    def run(self, script: Script[ResultT]) -> ResultT:
        """Carry out a script in this thread."""
        steps = play(script, self.retry, time.monotonic, tx_token=self.tx_token)
        reply: Reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                result: ResultT = done.value
                return result
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                reply = None
                continue
            try:
                reply = self.transport.send(step)
            except Unreachable as unreachable:
                reply = unreachable

    async def run_async(self, script: Script[ResultT]) -> ResultT:
        """Carry out a script on the event loop."""
        steps = play(script, self.retry, time.monotonic, tx_token=self.tx_token)
        reply: Reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                result: ResultT = done.value
                return result
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                reply = None
                continue
            try:
                reply = await self.transport.send_async(step)
            except Unreachable as unreachable:
                reply = unreachable


class ClientPart:
    """A client, or a part of it; all parts of a client share its session."""

    _session: ClientSession

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session.transport!r})"


class Subject(ClientPart):
    """The operations of one subject."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session


def build_blocking(
    make: Callable[ParametersP, Operation[ResultT]],
) -> "Callable[Concatenate[ClientPart, ParametersP], ResultT]":
    @wraps(make)
    def run(part: ClientPart, /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> ResultT:
        return part._session.run(ask(make(*args, **kwargs)))

    return _add_self(run)


def build_awaited(
    make: Callable[ParametersP, Operation[ResultT]],
) -> "Callable[Concatenate[ClientPart, ParametersP], Coroutine[Any, Any, ResultT]]":
    @wraps(make)
    async def run(part: ClientPart, /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> ResultT:
        return await part._session.run_async(ask(make(*args, **kwargs)))

    return _add_self(run)


def build_blocking_script(
    make: Callable[ParametersP, Script[ResultT]],
) -> "Callable[Concatenate[ClientPart, ParametersP], ResultT]":
    @wraps(make)
    def run(part: ClientPart, /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> ResultT:
        return part._session.run(make(*args, **kwargs))

    return _add_self(run)


def build_awaited_script(
    make: Callable[ParametersP, Script[ResultT]],
) -> "Callable[Concatenate[ClientPart, ParametersP], Coroutine[Any, Any, ResultT]]":
    @wraps(make)
    async def run(part: ClientPart, /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> ResultT:
        return await part._session.run_async(make(*args, **kwargs))

    return _add_self(run)


def build_iterator(
    make: Callable[ParametersP, Script[Page[ItemT]]],
) -> "Callable[Concatenate[ClientPart, ParametersP], Iterator[ItemT]]":
    @wraps(make)
    def run(part: ClientPart, /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> Iterator[ItemT]:
        page = part._session.run(make(*args, **kwargs))
        yield from page.items
        while page.next is not None:
            page = part._session.run(page.next())
            yield from page.items

    return _add_self(run)


def build_async_iterator(
    make: Callable[ParametersP, Script[Page[ItemT]]],
) -> "Callable[Concatenate[ClientPart, ParametersP], AsyncIterator[ItemT]]":
    @wraps(make)
    async def run(part: ClientPart, /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> AsyncIterator[ItemT]:
        page = await part._session.run_async(make(*args, **kwargs))
        for item in page.items:
            yield item
        while page.next is not None:
            page = await part._session.run_async(page.next())
            for item in page.items:
                yield item

    return _add_self(run)


FunctionT = TypeVar("FunctionT", bound=Callable[..., object])


def _add_self(run: FunctionT) -> FunctionT:
    """The signature of an operation, as that of a method: tools would take its first argument for ``self``."""
    made = inspect.signature(run)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    run.__signature__ = made.replace(parameters=[first, *made.parameters.values()])  # type: ignore[attr-defined]
    return run
