"""One request until it is answered: repeating what may be repeated, and reading the answer.

No input or output: a generator asks for a request to be sent, or for time to pass, and is told what came of it. The
clients drive it, one in a thread, the other on an event loop (``client``).

A request is sent again, after growing pauses with chance in them,

- when the service itself says that it may: ``retryable`` in a problem document, ``Retry-After`` with 429 and 503;
- when it could not even be sent;
- if it only asks, or has an idempotency key, also when the connection broke, or a proxy answered in place of the
  service.

What creates is not sent again when the refusal names a transaction: then a part of its run is durable, and another
entity would be made. A write of which it is not known whether it was carried out is not sent again either: that is
``Unreachable``, and its caller knows best how to find out; an idempotency key saves the question.

From operations to methods: a value that describes a request becomes a method that sends it, waiting in its thread or
on an event loop.

Nothing else differs between the two kinds of clients, so they cannot drift apart.
"""

import asyncio
import inspect
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from functools import wraps
from http import HTTPStatus
from types import GenericAlias, NoneType
from typing import Any, Final, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar, cast, get_args, overload

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.codec import MalformedJson
from statewright.sdk.errors import Refused, Unreachable, build_error
from statewright.sdk.operations.calls import (
    KEY_HEADER,
    Call,
    HttpResponse,
    Operation,
    Page,
    Pause,
    Script,
    ask,
    read_warnings,
)

ResultT = TypeVar("ResultT")

TX_TOKEN: Final = "X-Tx-Token"  # noqa: S105 - its name
"""The header that names the transaction to join (docs/reference/grpc.md#transaction-tokens)."""

FIRST_ERROR_STATUS: Final = 400
PROXY_STATUSES: Final = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
BUSY_STATUSES: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


class Transport(Protocol):
    """Sends requests to the server."""

    def send(self, call: Call) -> HttpResponse:
        """Wait for the answer in this thread. Raises ``Unreachable``."""
        ...

    async def send_async(self, call: Call) -> HttpResponse:
        """Wait for the answer on the event loop. Raises ``Unreachable``."""
        ...


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How long a client tries: no new attempt begins ``deadline_s`` seconds after the first one. Pauses double from
    ``first_pause_s`` to ``max_pause_s``, each shortened by up to a half at random.

    ``repeats_writes``: also what may have been carried out is sent again, for callers to whom twice is as good as once.
    ``adds_keys``: what creates is sent with an idempotency key of its own, unless it has one, and so may be sent again.
    """

    deadline_s: float = 30.0
    first_pause_s: float = 0.1
    max_pause_s: float = 5.0
    repeats_writes: bool = False
    adds_keys: bool = False


ONCE: Final = RetryPolicy(deadline_s=0.0)
"""Nothing is sent again."""

Reply: TypeAlias = HttpResponse | Unreachable | None
Exchange: TypeAlias = Generator[Call | Pause, Reply, ResultT]
Clock: TypeAlias = Callable[[], float]
"""Seconds since some instant, as ``time.monotonic``."""


def play(
    script: Script[ResultT], policy: RetryPolicy, clock: Clock, *, tx_token: str | None = None
) -> "Exchange[ResultT]":
    """The result of a script, whose requests are each repeated as they may be."""
    found: object = None
    while True:
        try:
            step = script.send(found)
        except StopIteration as done:
            return cast("ResultT", done.value)
        if isinstance(step, Pause):
            found = yield step
        else:
            found = yield from exchange(step, policy, clock, tx_token=tx_token)


def exchange(
    operation: Operation[ResultT],
    policy: RetryPolicy,
    clock: Clock,
    *,
    tx_token: str | None = None,
    chance: Callable[[], float] = random.random,
) -> "Exchange[ResultT]":
    """The result of an operation. Raises what its request came to, as an exception of ``errors``."""
    call, started, pause = _add_token(operation.call, tx_token), clock(), policy.first_pause_s
    if policy.adds_keys and call.creates and not call.has_key:
        call = replace(call, headers={**call.headers, KEY_HEADER: str(uuid.uuid4())})
    while True:
        failure, wanted_pause = yield from _attempt(call)
        if isinstance(failure, HttpResponse):
            return _read_result(operation, failure)
        left = policy.deadline_s - (clock() - started)
        delay = max(pause * (1 - chance() / 2), wanted_pause)
        if delay >= left or not _may_repeat(call, failure, policy):
            raise failure
        yield Pause(delay)
        pause = min(2 * pause, policy.max_pause_s)


def _attempt(call: Call) -> "Exchange[tuple[HttpResponse | Refused | Unreachable, float]]":
    """The answer or the failure, and the seconds that the service wants to be left alone."""
    reply = yield call
    if isinstance(reply, Unreachable):
        return reply, 0.0
    if reply is None:
        raise RuntimeError("a request was not answered by its driver")
    if reply.status < FIRST_ERROR_STATUS:
        return reply, 0.0
    wanted_pause = _read_retry_after(reply)
    is_busy = wanted_pause is not None and reply.status in BUSY_STATUSES
    error = build_error(reply.status, reply.body, is_busy=is_busy, warnings=read_warnings(reply))
    return error, wanted_pause or 0.0


def _may_repeat(call: Call, failure: Refused | Unreachable, policy: RetryPolicy) -> bool:
    repeats = call.is_repeatable or policy.repeats_writes
    if isinstance(failure, Unreachable):
        return failure.retryable and (repeats or not failure.was_sent)
    if call.has_key:  # the service knows it again
        return failure.retryable or failure.status in PROXY_STATUSES
    if call.creates and "transactionId" in failure.properties:  # part of the run is durable: the entity may be there
        return False
    return failure.retryable or (repeats and failure.status in PROXY_STATUSES and not failure.code)


def _read_retry_after(response: HttpResponse) -> float | None:
    """Seconds; a date counts as none, since clocks differ."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


def _read_result(operation: Operation[ResultT], response: HttpResponse) -> ResultT:
    try:
        return operation.interpret(response)
    except (msgspec.DecodeError, MalformedJson) as error:
        raise Unreachable(f"{operation.call.path} was not answered by Statewright: {error}") from error


def _add_token(call: Call, tx_token: str | None) -> Call:
    """The request with the transaction token; the step engine, below the host, joins no transactions."""
    if tx_token is None or call.at_root:
        return call
    return replace(call, headers={**call.headers, TX_TOKEN: tx_token})


ParametersP = ParamSpec("ParametersP")
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
                return cast("ResultT", done.value)
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
                return cast("ResultT", done.value)
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

    @classmethod
    def share(cls, client: "ClientPart") -> Self:
        """The part of a client."""
        part = cls.__new__(cls)
        part._session = client._session
        return part

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session.transport!r})"


class Answer(Generic[ParametersP, ResultT]):
    """A method that carries out a script: a client that blocks returns its result, the other one has it awaited."""

    def __init__(self, operation: Callable[..., object], play: Callable[ParametersP, Script[ResultT]]) -> None:
        self._operation = operation
        self._play = play

    @overload
    def __get__(self, part: None, owner: object = None) -> Callable[..., Any]: ...
    @overload
    def __get__(self, part: "Blocking", owner: object = None) -> Callable[ParametersP, ResultT]: ...
    @overload
    def __get__(self, part: "Awaited", owner: object = None) -> Callable[ParametersP, Coroutine[Any, Any, ResultT]]: ...
    def __get__(self, part: object, owner: object = None) -> object:
        raise AttributeError("only clients send requests")

    def build_blocking(self) -> object:
        """The method of a client that waits in its thread."""

        @wraps(self._operation)
        def run(part: ClientPart, /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> ResultT:
            return part._session.run(self._play(*args, **kwargs))

        return _add_self(run)

    def build_awaited(self) -> object:
        """The method of a client on an event loop."""

        @wraps(self._operation)
        async def run(part: ClientPart, /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> ResultT:
            return await part._session.run_async(self._play(*args, **kwargs))

        return _add_self(run)


class Items(Generic[ParametersP, ItemT]):
    """A method that iterates over the items of all pages."""

    def __init__(self, make: Callable[ParametersP, Script[Page[ItemT]]]) -> None:
        self._make = make

    @overload
    def __get__(self, part: None, owner: object = None) -> Callable[..., Any]: ...
    @overload
    def __get__(self, part: "Blocking", owner: object = None) -> Callable[ParametersP, Iterator[ItemT]]: ...
    @overload
    def __get__(self, part: "Awaited", owner: object = None) -> Callable[ParametersP, AsyncIterator[ItemT]]: ...
    def __get__(self, part: object, owner: object = None) -> object:
        raise AttributeError("only clients send requests")

    def build_blocking(self) -> object:
        """The method of a client that waits in its thread."""

        @wraps(self._make)
        def run(part: ClientPart, /, *args: ParametersP.args, **kwargs: ParametersP.kwargs) -> Iterator[ItemT]:
            script: Script[Page[ItemT]] | None = self._make(*args, **kwargs)
            while script is not None:
                page = part._session.run(script)
                yield from page.items
                script = page.next() if page.next else None

        return _add_self(run, Iterator)

    def build_awaited(self) -> object:
        """The method of a client on an event loop."""

        @wraps(self._make)
        async def run(
            part: ClientPart, /, *args: ParametersP.args, **kwargs: ParametersP.kwargs
        ) -> AsyncIterator[ItemT]:
            script: Script[Page[ItemT]] | None = self._make(*args, **kwargs)
            while script is not None:
                page = await part._session.run_async(script)
                for item in page.items:
                    yield item
                script = page.next() if page.next else None

        return _add_self(run, AsyncIterator)


BlockingT = TypeVar("BlockingT", bound="Blocking")
AwaitedT = TypeVar("AwaitedT", bound="Awaited")


class Part(Generic[BlockingT, AwaitedT]):
    """A property with the operations of one subject, of the kind of its client."""

    def __init__(self, blocking: type[BlockingT], awaited: type[AwaitedT]) -> None:
        self._blocking = blocking
        self._awaited = awaited

    @overload
    def __get__(self, part: "Blocking", owner: object = None) -> BlockingT: ...
    @overload
    def __get__(self, part: "Awaited", owner: object = None) -> AwaitedT: ...
    def __get__(self, part: object, owner: object = None) -> object:
        raise AttributeError("only clients have parts")

    def build_blocking(self) -> object:
        """The property of a client that waits in its thread."""
        return property(lambda client: self._blocking.share(client), doc=self._blocking.__doc__)

    def build_awaited(self) -> object:
        """The property of a client on an event loop."""
        return property(lambda client: self._awaited.share(client), doc=self._awaited.__doc__)


Declared: TypeAlias = Answer[..., Any] | Items[..., Any] | Part[Any, Any]


def _list_declared(kind: type) -> Iterator[tuple[str, Declared]]:
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        if isinstance(value, Answer | Items | Part):
            yield name, value


class Blocking(ClientPart):
    """What waits in its thread. What its classes declare becomes methods and properties that do."""

    def __init_subclass__(cls) -> None:
        for name, declared in _list_declared(cls):
            setattr(cls, name, declared.build_blocking())


class Awaited(ClientPart):
    """What is awaited on one event loop. What its classes declare becomes methods and properties for that."""

    def __init_subclass__(cls) -> None:
        for name, declared in _list_declared(cls):
            setattr(cls, name, declared.build_awaited())


def make_method(make: Callable[ParametersP, Operation[ResultT]]) -> Answer[ParametersP, ResultT]:
    """The method of an operation of one request."""

    def play_operation(*args: ParametersP.args, **kwargs: ParametersP.kwargs) -> Script[ResultT]:
        return ask(make(*args, **kwargs))

    return Answer(make, play_operation)


def make_script_method(make: Callable[ParametersP, Script[ResultT]]) -> Answer[ParametersP, ResultT]:
    """The method of an operation of several requests."""
    return Answer(make, make)


FunctionT = TypeVar("FunctionT", bound=Callable[..., object])


def _add_self(run: FunctionT, give: type | None = None) -> FunctionT:
    """The signature of an operation, as that of a method: tools would take its first argument for ``self``, and its
    request, or script, for what the method gives. That is what they come to; ``give`` gives the items of pages.
    """
    made = inspect.signature(run, eval_str=True)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    result = get_args(made.return_annotation)[-1]
    result = getattr(result, "__forward_arg__", result)  # of a recursive type of JSON
    if give is not None:
        result = GenericAlias(give, get_args(result))
    run.__signature__ = made.replace(  # type: ignore[attr-defined]
        parameters=[first, *made.parameters.values()], return_annotation=None if result is NoneType else result
    )
    return run
