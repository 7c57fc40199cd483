"""One HTTP request as the endpoints see it.

Parameters bind by the rules of docs/reference/entities.md#parameters, which are those of the dialect's clients rather
than of any framework: what does not bind is a 400 that names the parameter. A write may come with the wish to wait
(``Prefer``, RFC 7240; docs/reference/operations.md#wait).
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from datetime import timedelta
from functools import cached_property, partial
from types import MappingProxyType
from typing import Final, TypeVar
from urllib.parse import parse_qs

from msgspec import Struct
from msgspec.structs import replace

from statewright.api.http.asgi import ClientGone, Message, Receive, RequestStream, Scope, get_address, get_path
from statewright.api.http.idempotency import to_stored
from statewright.api.http.response import Response
from statewright.auth.authenticators import AuthenticationFailed, Authenticator
from statewright.entity import ModelKey, Principal
from statewright.failures import BadRequest, BodyTooLarge, Failure, InvalidParameter
from statewright.ids import EntityId, TransactionId, parse_entity_id, parse_uuid
from statewright.instants import from_rfc3339, is_date
from statewright.loop.background import MAX_INLINE_BYTES, run_by_size
from statewright.operations.idempotency import StoredAnswer
from statewright.services.core import Caller
from statewright.services.ops.history import wait_after_write
from statewright.services.ops.waiting import MAX_WAIT, WaitResult
from statewright.services.runtime import Runtime
from statewright.services.writing import Saved

T = TypeVar("T")

MAX_BODY_BYTES: Final = 10 * 1024 * 1024

Excess = Callable[[str], Exception]
"""What is raised for a body that is too long."""

_INT: Final = re.compile(r"[+-]?[0-9]{1,20}")
_REVISION: Final = re.compile(r'"(\d{1,10})"|(\d{1,10})', re.ASCII)
_TRUE: Final = {"1", "t", "T", "TRUE", "true", "True"}
_FALSE: Final = {"0", "f", "F", "FALSE", "false", "False"}


NO_PARAMS: Final[Mapping[str, str]] = MappingProxyType({})


class Request:
    """A request; ``path_params`` are the decoded path parameters by name."""

    runtime: Runtime
    caller: Caller
    """Who is authenticated. At routes that need no credentials a request has neither ``caller`` nor ``runtime``."""
    _composed: Collection[tuple[object, Response]] = ()
    """The response that was stored last, and the result it is made of."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        *,
        runtime: Runtime | None = None,
        caller: Caller | None = None,
        path_params: Mapping[str, str] = NO_PARAMS,
        authenticator: Authenticator | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._scope = scope
        self._receive = receive
        if runtime is not None:
            self.runtime = runtime
        if caller is not None:
            self.caller = caller
        self.path_params = path_params
        self._is_read = False
        self.written: object = None
        """What the endpoint of a single write has written, for those who wait for what becomes of it."""
        self._kept: bytes | None = None

    def repeat(self, runtime: Runtime, caller: Caller, body: bytes) -> "Request":
        """The same request, of which the whole body was read before."""
        again = Request(
            self._scope,
            self._receive,
            runtime=runtime,
            caller=caller,
            path_params=self.path_params,
            authenticator=self._authenticator,
        )
        again._kept = body
        return again

    def watch_client(self) -> None:
        """Have the request end as soon as its client goes: a request that takes something for it waits for long."""
        if isinstance(self._receive, RequestStream):
            self._receive.watch()

    def is_still_permitted(self) -> bool:
        """Whether the credentials of the request would do by now, too: for answers that go on for long."""
        if self._authenticator is None:
            return True
        try:
            principal = self._authenticator.authenticate(self.header(b"authorization"))
        except AuthenticationFailed:
            return False
        return principal == self.caller.principal

    @property
    def scope(self) -> Scope:
        """The request as the server hands it over."""
        return self._scope

    @property
    def method(self) -> str:
        """As the client has spelt it."""
        return str(self._scope["method"])

    @property
    def path(self) -> str:
        """With its escapes."""
        return get_path(self._scope)

    @property
    def query_string(self) -> bytes:
        """As it came; empty where there is none."""
        return bytes(self._scope["query_string"])

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """The last value of each, by its lower-case name."""
        return self._receive.headers if isinstance(self._receive, RequestStream) else dict(self._scope["headers"])

    @property
    def origin(self) -> str:
        """Scheme and host that it was sent to, as browsers spell them."""
        return f"{self._scope['scheme']}://{self.headers.get(b'host', b'localhost').decode('latin-1')}"

    @property
    def address(self) -> str:
        """Of the client, or of what stands before the service; empty where nothing is known of it."""
        return get_address(self._scope)

    @property
    def peer(self) -> str:
        """Address of the other end of the connection, which may be a proxy; empty where nothing is known of it."""
        return (self._scope.get("client") or ("", 0))[0]

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies that came with it, by name."""
        pairs = (part.strip().partition("=") for part in self.headers.get(b"cookie", b"").decode("latin-1").split(";"))
        return {name: value for name, equals, value in pairs if equals}

    @property
    def principal(self) -> Principal:
        """Whom the request acts for."""
        return self.caller.principal

    def answer_with(self, respond: Callable[[T], Awaitable[Response]]) -> Caller:
        """The caller, for a use case whose result ``respond`` makes the response of: where the request has an
        idempotency key, the response is stored with the effect, and so has to be known before.
        """
        if self.caller.around:
            composed = self._composed = []  # no reference to the request, which its caller would keep alive

            async def compose(result: T) -> StoredAnswer:
                response = await respond(result)
                composed[:] = ((result, response),)
                return to_stored(response)

            self.caller.respond_with(compose)
        return self.caller

    def find_composed(self, result: object) -> Response | None:
        """The response to a result that was composed to be stored; None where none was."""
        for of, response in self._composed:
            if of is result:
                return response
        return None

    def header(self, name: bytes) -> str | None:
        """A header by its lower-case name; None when absent. Raises ``BadRequest`` when it is repeated."""
        values = [value for key, value in self._scope["headers"] if key == name]
        if len(values) > 1:
            raise BadRequest(f"header {name.decode()} is given more than once")
        return values[0].decode("latin-1") if values else None

    async def body(self, limit: int = MAX_BODY_BYTES, *, excess: Excess = BodyTooLarge) -> bytes:
        """The whole request body, which is not kept: who needs it again keeps it. Raises ``excess`` beyond ``limit``
        bytes, without reading on, and ``RuntimeError`` when it was read before.
        """
        if (kept := self._kept) is not None:
            return kept if len(kept) <= limit else _limit(kept, limit, excess)
        first = await self._next()
        if not first.get("more_body") and len(body := first.get("body", b"")) <= limit:  # nearly all there are
            return bytes(body)
        return b"".join([part async for part in self._parts(first, limit, excess)])

    async def read(self, read: Callable[[bytes], T], limit: int = MAX_BODY_BYTES) -> T:
        """What ``read`` makes of the whole body. Raises what it does, and as ``body``."""
        body = await self.body(limit)
        return read(body) if len(body) <= MAX_INLINE_BYTES else await read_by_size(body, read)

    async def parts(self, limit: int = MAX_BODY_BYTES, *, excess: Excess = BodyTooLarge) -> AsyncIterator[bytes]:
        """The request body as it arrives. Raises ``excess`` beyond ``limit`` bytes, without reading on."""
        if self._kept is not None:
            yield _limit(self._kept, limit, excess)
            return
        async for part in self._parts(await self._next(), limit, excess):
            yield part

    async def _parts(self, message: Message, limit: int, excess: Excess) -> AsyncIterator[bytes]:
        size = 0
        while True:
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise excess(f"request body exceeds {limit} bytes")
            yield part
            if not message.get("more_body"):
                return
            message = await self._next()

    async def _next(self) -> Message:
        """More of the body. Raises ``ClientGone``. The server sees to it that it does not take for ever."""
        if self._is_read:  # nothing more would come until the client goes
            raise RuntimeError("the body of a request can be read once")
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone  # what came so far is not the body
        self._is_read = not message.get("more_body")
        return message

    @property
    def has_query(self) -> bool:
        """Whether there are query parameters at all."""
        return bool(self._scope["query_string"])

    @cached_property
    def _query(self) -> dict[str, list[str]]:
        return parse_qs(self._scope["query_string"].decode("latin-1"), keep_blank_values=True)

    def query(self, name: str) -> str | None:
        """A query parameter; None when absent. Raises ``InvalidParameter`` when it is repeated or has a NUL."""
        values = self.query_all(name) if self._scope["query_string"] else ()
        if len(values) > 1:
            raise InvalidParameter(name)
        return values[0] if values else None

    def query_all(self, name: str) -> tuple[str, ...]:
        """All values of a repeatable query parameter, in order; a comma separates nothing. Raises ``InvalidParameter``
        for a NUL, which PostgreSQL does not take.
        """
        if not self._scope["query_string"]:
            return ()
        values = tuple(self._query.get(name, ()))
        if any("\0" in value for value in values):
            raise InvalidParameter(name)
        return values

    def query_int32(self, name: str, default: int) -> int:
        """An integer query parameter."""
        text = self.query(name)
        return default if text is None else int32(name, text)

    def query_int64(self, name: str) -> int | None:
        """A 64-bit integer query parameter."""
        text = self.query(name)
        return None if text is None else int64(name, text)

    def query_flag(self, name: str) -> bool:
        """A boolean query parameter, false when absent."""
        text = self.query(name)
        if text is None or text in _FALSE:
            return False
        if text in _TRUE:
            return True
        raise InvalidParameter(name)

    def query_instant(self, name: str, *, takes_dates: bool = True) -> int | None:
        """A date-time query parameter in epoch microseconds; a bare date is midnight UTC where those are taken."""
        text = self.query(name)
        if text is None:
            return None
        instant = from_rfc3339(text)
        if instant is None or (is_date(text) and not takes_dates):
            raise InvalidParameter(name)
        return instant

    def query_transaction(self, name: str) -> TransactionId | None:
        """A transaction id as a query parameter."""
        text = self.query(name)
        return None if text is None else TransactionId(uuid_text(name, text))

    def read_if_match(self, *, takes_any: bool = False) -> int | None:
        """The revision that ``If-Match`` names, in quotes or without; None when any will do, which ``*`` says where it
        is taken. Raises ``InvalidParameter``.
        """
        text = self.header(b"if-match")
        if text is None or (takes_any and text == "*"):
            return None
        found = _REVISION.fullmatch(text)
        if found is None:
            raise InvalidParameter("If-Match", "not the number of a revision")
        return int32("If-Match", found[1] or found[2])

    def path_text(self, name: str) -> str:
        """A parameter of the path. Raises ``InvalidParameter`` for a NUL, which PostgreSQL does not take."""
        text = self.path_params[name]
        if "\0" in text:
            raise InvalidParameter(name)
        return text

    def model_key(self) -> ModelKey:
        """The model named by the path."""
        key = ModelKey(self.path_params["entityName"], int32("modelVersion", self.path_params["modelVersion"]))
        if "\0" in key.name:  # PostgreSQL stores none
            raise InvalidParameter("entityName")
        return key

    def entity_id(self) -> EntityId:
        """The entity named by the path."""
        return read_entity_id("entityId", self.path_params["entityId"])


def _limit(body: bytes, limit: int, excess: Excess) -> bytes:
    if len(body) > limit:
        raise excess(f"request body exceeds {limit} bytes")
    return body


async def read_by_size(body: bytes, read: Callable[[bytes], T]) -> T:
    """What ``read`` makes of a body, in a thread if that is large."""
    return await run_by_size(len(body), partial(read, body))


def int32(name: str, text: str) -> int:
    """A decimal 32-bit integer; a sign and leading zeros are fine. Raises ``InvalidParameter``."""
    return _integer(name, text, bits=32)


def int64(name: str, text: str) -> int:
    """The same with 64 bits."""
    return _integer(name, text, bits=64)


def _integer(name: str, text: str, *, bits: int) -> int:
    limit = 1 << (bits - 1)
    if not _INT.fullmatch(text) or not -limit <= (number := int(text)) < limit:
        raise InvalidParameter(name)
    return number


def uuid_text(name: str, text: str) -> str:
    """A UUID in canonical form, from any of the four accepted spellings. Raises ``InvalidParameter``."""
    found = parse_uuid(text)
    if found is None:
        raise InvalidParameter(name, "not a UUID")
    return found


def read_entity_id(name: str, text: str) -> EntityId:
    """The entity that a UUID or a ULID names. Raises ``InvalidParameter``."""
    found = parse_entity_id(text)
    if found is None:
        raise InvalidParameter(name, "not a UUID")
    return found


HEADER: Final = b"prefer"

_PREFERENCE: Final = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*")+')
_PARAMETER: Final = re.compile(r'\s*([\w-]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s;"]*))?\s*(?:;|$)')
_MAX_STATES: Final = 100


class WaitWish(Struct, frozen=True):
    """For how many seconds a client would wait, and for which states; none: for one without transitions."""

    seconds: int
    states: tuple[str, ...]


def read_wish(scope: Scope) -> WaitWish | None:
    """The wish of a request. What cannot be read is no wish (RFC 7240 §2)."""
    text = ", ".join(value.decode("latin-1") for name, value in scope["headers"] if name == HEADER)
    for preference in _PREFERENCE.findall(text):
        parameters = {name.lower(): value for name, value in _PARAMETER.findall(preference)}
        first = preference.partition("=")[0].strip().lower()
        seconds = parameters.get("wait", "")
        if first == "wait" and seconds.isascii() and seconds.isdecimal() and len(seconds) < 7:
            states = parameters.get("state", "").strip('"')
            names = tuple(name.strip() for name in states.split(",") if name.strip())[:_MAX_STATES]
            return WaitWish(min(int(seconds), MAX_WAIT // timedelta(seconds=1)), names)
    return None


async def hold_entity(request: Request, response: Response) -> Response:
    """Hold the response to the write of one entity. Its status and body stay; headers tell how the wait ended."""
    wish, saved = read_wish(request.scope), request.written
    if wish is None or not isinstance(saved, Saved) or request.caller.transaction is not None:
        return response
    result: WaitResult | None = None
    try:
        result = await wait_after_write(
            request.runtime.operations,
            request.caller,
            saved.entity_ids[0],
            saved.transaction_id,
            states=wish.states,
            within=timedelta(seconds=wish.seconds),
        )
    except Failure:  # the write is done, whatever becomes of the wait
        return add_wait_headers(response, wish, "timeout", "")
    if result is None:
        return add_wait_headers(response, wish, "deleted", "")
    return add_wait_headers(response, wish, result.outcome, result.version.state if result.version else "")


def add_wait_headers(response: Response, wish: WaitWish, outcome: str, state: str) -> Response:
    """The response with what became of the wish."""
    told = [
        (b"preference-applied", b"wait=%d" % wish.seconds),
        (b"x-wait-result", outcome.encode()),
    ]
    if state and state.isascii() and state.isprintable():
        told.append((b"x-entity-state", state.encode()))
    return replace(response, headers=(*response.headers, *told))
