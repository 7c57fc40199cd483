"""Functions of a node, called with what their signatures declare: document, context; in a thread unless async.

The context of a callout, which a function may have besides the document.
"""

import asyncio
import contextvars
import inspect
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import cached_property, partial
from types import NoneType, UnionType
from typing import Final, Literal, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.client import AsyncClient, Client
from statewright.sdk.exchange import Transport
from statewright.sdk.http import get_active_trace
from statewright.sdk.outcomes import overlay
from statewright.telemetry.tracing import TraceContext, list_trace_headers


class Caller(Struct, frozen=True, kw_only=True):
    """The principal for whom the callout runs; ``kind`` is ``user``, ``service`` or ``system``
    (docs/reference/grpc.md#envelope).
    """

    id: str = ""
    kind: str = ""
    roles: tuple[str, ...] = ()


class NoWayBack(RuntimeError):
    """The context has no server to send requests to; ``statewright.sdk.testing`` makes contexts that have one."""

    def __init__(self) -> None:
        super().__init__("this context has no server behind it; in tests, use statewright.sdk.testing.FakeEngine")


class Context(Struct, frozen=True, kw_only=True):
    """What a callout says besides the document (docs/reference/grpc.md#callouts).

    ``state`` is the entity's state before the transition. ``transition`` and its two states are empty while a
    workflow is being selected. ``transaction_id`` is empty outside a transaction, and ``tx_token`` None.
    ``parameters`` is the text that the workflow configures as ``context``. ``meta`` is the entity's metadata, empty
    when the entity is not attached. ``transport`` sends requests to the server. ``trace`` is the place in a trace that
    the callout was made at, None outside all traces; requests by the clients of the context are a part of it.
    """

    name: str
    request_id: str
    entity_id: str
    workflow: str = ""
    transition: str = ""
    state_from: str = ""
    state_to: str = ""
    transaction_id: str = ""
    tx_token: str | None = None
    parameters: str = ""
    principal: Caller = Caller()
    meta: JsonObject = {}
    warnings: list[str] = []
    transport: Transport | None = None
    trace: TraceContext | None = None

    @property
    def client(self) -> Client:
        """The client for requests to the server, for plain functions; they join the transaction if there is one
        (docs/reference/grpc.md#transaction-tokens).
        """
        return Client.over(self._required_transport, self.tx_token)

    @property
    def async_client(self) -> AsyncClient:
        """The client for requests to the server, for async functions."""
        return AsyncClient.over(self._required_transport, self.tx_token)

    @property
    def _required_transport(self) -> Transport:
        if self.transport is None:
            raise NoWayBack
        return self.transport

    @property
    def state(self) -> str:
        return str(self.meta.get("state") or self.state_from)

    @property
    def model(self) -> tuple[str, int] | None:
        """Name and version of the entity's model; None when the entity is not attached."""
        key = self.meta.get("modelKey")
        if not isinstance(key, dict):
            return None
        name, version = key.get("name"), key.get("version")
        return (name, version) if isinstance(name, str) and isinstance(version, int) else None

    @property
    def callback_headers(self) -> dict[str, str]:
        """The headers with which an HTTP request to the server joins the transaction
        (docs/reference/grpc.md#transaction-tokens), and the trace.
        """
        joining = {"X-Tx-Token": self.tx_token} if self.tx_token else {}
        return joining | dict(list_trace_headers(get_active_trace() or self.trace))

    @property
    def callback_metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata with which a gRPC request to the server does the same."""
        joining = (("tx-token", self.tx_token),) if self.tx_token else ()
        return (*joining, *list_trace_headers(get_active_trace() or self.trace))

    def warn(self, text: str) -> None:
        """Adds a warning to the answer; the server adds it to its response to the client that caused the transition."""
        self.warnings.append(text)


Kind: TypeAlias = Literal["processor", "criteria", "function", "job", "task", "task_kind"]
"""The kinds of callouts, as the protocol names them, jobs of the step engine, tasks of flows, and kinds of tasks of
playbooks.
"""

WORK_KINDS: Final = ("job", "task", "task_kind")
"""What is polled for; all others are callouts."""

NOUNS: Final[dict[Kind, str]] = {
    "processor": "processor",
    "criteria": "criterion",
    "function": "schedule function",
    "job": "job",
}
"""What documents and texts call a kind."""

Handler: TypeAlias = Callable[..., object]
"""What users write: ``f()``, ``f(document)``, ``f(document, context)`` or ``f(context: Context)``, plain or async."""

MAX_ARGUMENTS: Final = 2
"""Arguments of a handler: the document and the context."""


class UnfitDocument(ValueError):
    """The document is not of the type of the function's annotation."""


class UnfitSignature(TypeError):
    """A function cannot be called with a document and a context."""


class HandlerSignature(Struct, frozen=True, kw_only=True):
    """How a handler is to be called. ``view`` is the struct its document is decoded into, None for plain values."""

    takes_document: bool
    takes_context: bool
    view: type[Struct] | None


class Function:
    """One handler under one name."""

    def __init__(self, kind: Kind, name: str, handler: Handler, *, context: type[Struct] = Context) -> None:
        """``context`` is the type of the argument that the handler may take beside the document."""
        self.kind: Kind = kind
        self.name = name
        self._context = context
        self._handler = handler
        self._is_async = inspect.iscoroutinefunction(handler)

    @cached_property
    def signature(self) -> HandlerSignature:
        """Read from the signature at the start of a node, when all annotations can be resolved. Raises
        ``TypeError``."""
        return inspect_handler(self._handler, name=self.name, context=self._context)

    async def call(self, document: bytes | None, context: Struct, threads: Executor) -> object:
        """What the handler returns for a document, None when it is not attached; plain functions run in a thread.

        A struct of the annotated type comes back as the whole document. Raises :class:`UnfitDocument`, or what the
        handler raises.
        """
        value = self._decode(document) if self.signature.takes_document else None
        outcome = await self._run(self._build_arguments(value, context), threads)
        if self.kind in WORK_KINDS:  # a job answers with changes only, a task with a value of its own
            return outcome
        if document is not None and self.signature.view is not None and type(outcome) is self.signature.view:
            return overlay(decode(document), outcome)
        return outcome

    async def _run(self, arguments: list[object], threads: Executor) -> object:
        if self._is_async:
            return await cast("Awaitable[object]", self._handler(*arguments))  # which is what being async means
        # Context variables go along, as with asyncio.to_thread, whose threads are not limited by the node.
        in_context = partial(contextvars.copy_context().run, _call_plain, self._handler, *arguments)
        outcome = await asyncio.get_running_loop().run_in_executor(threads, in_context)
        return await outcome if inspect.isawaitable(outcome) else outcome  # a plain function that returned an awaitable

    def _build_arguments(self, document: object, context: Struct) -> list[object]:
        arguments: list[object] = [document] if self.signature.takes_document else []
        return [*arguments, context] if self.signature.takes_context else arguments

    def _decode(self, document: bytes | None) -> "Struct | JsonValue":
        if document is None:
            return None
        try:
            return self._decoder.decode(document) if self._decoder else decode(document)
        except (msgspec.DecodeError, MalformedJson) as error:
            raise UnfitDocument(f"the document does not fit {self.kind} {self.name}: {error}") from error

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Struct] | None:
        view = self.signature.view
        return msgspec.json.Decoder(view) if view else None


def _call_plain(handler: Handler, *arguments: object) -> object:
    try:
        return handler(*arguments)
    except StopIteration as error:  # no future accepts it: the wait for the result would never end
        raise RuntimeError("the function raised StopIteration") from error


def inspect_handler(handler: Handler, *, name: str, context: type[Struct] = Context) -> HandlerSignature:
    """How to call a handler, by its parameters and their annotations. Raises :class:`UnfitSignature`."""
    parameters = _list_positional(handler, name=name)
    required = [p for p in parameters if p.default is inspect.Parameter.empty]
    if len(required) > MAX_ARGUMENTS:
        raise UnfitSignature(f"{name}: a function takes a document and a context, not {len(required)} arguments")
    hints = _resolve_hints(handler, name=name)
    types = [_strip_optional(hints.get(parameter.name)) for parameter in parameters[:MAX_ARGUMENTS]]
    if types[:1] == [context]:
        return HandlerSignature(takes_document=False, takes_context=True, view=None)
    return HandlerSignature(
        takes_document=len(types) > 0, takes_context=len(types) > 1, view=_as_struct(types[0]) if types else None
    )


def _list_positional(handler: Handler, *, name: str) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(handler).parameters.values()
    except ValueError as error:  # some functions written in C
        raise UnfitSignature(f"{name}: {error}") from error
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter for parameter in parameters if parameter.kind in kinds]


def _resolve_hints(handler: Handler, *, name: str) -> dict[str, object]:
    function = handler if inspect.isroutine(handler) else type(handler).__call__
    try:
        return get_type_hints(function)
    except NameError as error:
        raise UnfitSignature(f"{name}: an annotation cannot be resolved: {error}") from error


def _strip_optional(hint: object) -> object:
    """The annotation without ``None``: a document may always be missing."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    alternatives = [alternative for alternative in get_args(hint) if alternative is not NoneType]
    return alternatives[0] if len(alternatives) == 1 else hint


def _as_struct(hint: object) -> type[Struct] | None:
    return hint if inspect.isclass(hint) and issubclass(hint, Struct) else None


SLIPS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    NameError,
    TypeError,
)
"""What Python raises for a slip of the code. The text alone says too little: that of a ``KeyError`` is a mere key."""


_MIXES_FLOATS: Final = re.compile(r"decimal\.Decimal' and 'float'|float' and 'decimal\.Decimal'")
_ON_FLOATS: Final = '. Numbers of documents are int and Decimal: write Decimal("1.5"), not 1.5'


def quote_error(error: Exception) -> str:
    """Type and text of an exception for one line of a log, whatever the text has in it."""
    return ascii(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def describe_error(error: Exception) -> str:
    """What the server is told of an exception: its text, with the type before it where it is one of :data:`SLIPS`."""
    name = type(error).__name__
    if not str(error):
        return name
    advice = _ON_FLOATS if isinstance(error, TypeError) and _MIXES_FLOATS.search(str(error)) else ""
    return f"{name}: {error}{advice}" if isinstance(error, SLIPS) else str(error)
