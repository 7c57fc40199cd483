"""What stands between the server and every application it serves.

Granian parses HTTP and asks an ASGI application. What it leaves to applications, and every one of ours needs, is done
here: requests that RFC 9112 tells to refuse, the limit on the time a body may take, learning that the client has gone,
and the end of all connections when the service stops.

*Shares* (docs/guides/tls-and-proxies.md#slow-clients). A request under way takes a connection, for as long as its
sender likes: while its body is on the way, while it waits for something to happen, while its response is read. So no
source may have more than its share under way, and all together leave connections for probes and for those who have none
yet. A refusal costs next to nothing, since it is made before anything of the body was read.

*Names of requests* (docs/reference/service.md#request-ids). What a client calls its request, or a name of ours, is told
in ``X-Request-ID`` of every response and stands in every line that is logged for the request, so that a client, a proxy
and the log of this service can speak of the same one.
"""

import asyncio
import re
from binascii import b2a_hex
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext, suppress
from fractions import Fraction
from functools import lru_cache
from os import urandom
from time import monotonic
from types import TracebackType
from typing import Any, Final, Literal

from msgspec import Struct

from statewright.api.http.connections import Client, reset_connection
from statewright.api.http.security import NOSNIFF
from statewright.entity import Principal
from statewright.failures import BadRequest, BodyTooSlow, Failure, ServiceBusy, ShareTaken
from statewright.network.sockets import Network, find_address, name_address
from statewright.telemetry import logs

Scope = MutableMapping[str, Any]  # Any: what an ASGI scope or message holds is the server's business
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_DISCARDED_BYTES: Final = 16 * 1024 * 1024
"""Of a body that was refused: read, so that its sender comes to read why. After them the connection ends."""

MAX_SMALL_PARTS: Final = 1000
MIN_PART_BYTES: Final = 64
"""Parts of a body cost by their number: so many may be small, after that they must be so long on average."""

DISCARD_TIMEOUT_S: Final = 5.0
MAX_DISCARDING_PART: Final = 16
"""One of so many connections may be spent on bodies that nobody wants."""

CLOSE_DELAY_S: Final = 0.5
"""In which a response leaves, before the connection of a client that stopped in the middle of a body is closed."""

WATCH_INTERVAL_S: Final = 0.1
"""Requests that take longer are watched for the loss of their client. Most do not, and watching costs a task."""

_SERVER: Final = ((b"server", b"statewright"), NOSNIFF)
_CLOSING: Final = ((b"connection", b"close"),)
_BROKEN: Final = b"the body of the request is broken or incomplete"
"""To a client that is still there, though its body has come to no good end."""

_SINGLE: Final = (b"host", b"authorization", b"content-length", b"x-tx-token")
_FORWARDED: Final = b"x-forwarded-for"

REQUEST_ID: Final = b"x-request-id"
_SANE_ID: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._~:/+=@-]{0,127}")
"""What may be taken as it is: it goes into headers and logs."""

_ID_BYTES: Final = 12
_DRAWN_TOGETHER: Final = 100

log = logs.logger(__name__)


class ClientGone(Exception):
    """The client has gone away before its answer."""


class ResponseTorn(Exception):
    """A response has failed after it had begun, and that was logged: its connection must end before its body does."""


class RequestLimits(Struct, frozen=True, kw_only=True):
    """What requests of a listener may take of it. ``connections`` is how many it has; times are in seconds.

    A body must come with ``body_rate`` bytes a second on average, for which it has ``body_grace_s`` at first; 0: as
    slowly as it likes, but with a part in each ``body_timeout_s``. Only the ``proxies`` are believed whom they speak
    for.
    """

    connections: int = 1000
    body_timeout_s: float = 60.0
    body_grace_s: float = 10.0
    body_rate: int = 0
    proxies: tuple[Network, ...] = ()


Kind = Literal["listener", "address", "tenant", "principal", "anonymous"]

SHARES: Final[Mapping[Kind, Fraction]] = {
    "listener": Fraction(7, 8),
    "address": Fraction(3, 4),
    "tenant": Fraction(3, 4),
    "principal": Fraction(1, 2),
    "anonymous": Fraction(1, 4),
}
"""Of the connections of a listener, how many may have a request of the same kind of source under way. ``anonymous``
are the bodies of those who have not said who they are; ``listener`` is all there are but probes.
"""

_OF_ALL: Final = frozenset({"listener", "anonymous"})
"""Kinds that have one source."""

Source = tuple[Kind, str]

_LISTENER: Final[Source] = ("listener", "")
_ANONYMOUS: Final[Source] = ("anonymous", "")


@lru_cache(4096)
def _list_sources_of_peer(address: str) -> tuple[Source, ...]:
    return _LISTENER, ("address", name_address(address))


@lru_cache(4096)
def _list_sources_of_principal(tenant: str, principal: str) -> tuple[Source, ...]:
    return ("tenant", tenant), ("principal", f"{tenant}\0{principal}")


class Shares:
    """The requests under way on one listener, by source."""

    def __init__(self, connections: int) -> None:
        self.most = {kind: max(1, int(connections * share)) for kind, share in SHARES.items()}
        self.taken: dict[Source, int] = {}

    def __len__(self) -> int:
        return len(self.taken)


class Claim:
    """What one request takes of the shares; from a client at ``address``."""

    __slots__ = ("_address", "_shares", "_taken")

    def __init__(self, shares: Shares, address: str) -> None:
        self._shares = shares
        self._address = address
        self._taken: list[Source] = []

    def begin(self) -> None:
        """Count the request. Raises ``ServiceBusy``, ``ShareTaken``."""
        self._take(_list_sources_of_peer(self._address))

    def name(self, principal: Principal) -> None:
        """The request turned out to be one of a principal. Raises ``ShareTaken``."""
        self._take(_list_sources_of_principal(principal.tenant, principal.id))

    def stay_anonymous(self) -> None:
        """The request has a body, and goes on without credentials. Raises ``ServiceBusy``."""
        self._take((_ANONYMOUS,))

    def end(self) -> None:
        """The request is over."""
        taken = self._shares.taken
        for source in self._taken:
            count = taken[source]
            if count > 1:
                taken[source] = count - 1
            else:
                del taken[source]
        self._taken = []

    def _take(self, sources: tuple[Source, ...]) -> None:
        """Count the request as one of each source. If one has its share already, it is counted nowhere."""
        taken, most, mine = self._shares.taken, self._shares.most, self._taken
        for source in sources:
            count = taken.get(source, 0)
            if count >= most[source[0]]:
                self.end()
                raise ServiceBusy if source[0] in _OF_ALL else ShareTaken(source[0])
            taken[source] = count + 1
            mine.append(source)


class RequestStream:
    """The ASGI messages of one request: the parts of its body, then the loss of its client.

    ``length`` is the length of the body, None where only its end will tell. Knowing it saves asking the server once
    more for the end. Raises ``BadRequest`` when no part comes for a time that the server sets.
    """

    __slots__ = (
        "_ahead",
        "_end",
        "_receive",
        "_small",
        "_waited_s",
        "_watcher",
        "claim",
        "excess",
        "headers",
        "is_begun",
        "is_complete",
        "is_guarded",
        "is_stalled",
        "left",
        "received",
        "task",
        "waiting_since",
    )

    def __init__(
        self,
        receive: Receive,
        headers: dict[bytes, bytes],
        length: int | None,
        task: "asyncio.Task[object]",
        claim: Claim,
    ) -> None:
        self._receive = receive
        self.claim = claim
        self.excess: Failure | None = None
        """Why the request is not to be served, unless it is a probe: there are too many."""
        self.headers = headers
        """Of the request, the last value of each."""
        self.left = length
        """Bytes of the body that are still to come; None where only its end will tell."""
        self._small = 0
        self._ahead: asyncio.Task[Message] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._end: Exception | None = None
        self.task = task
        self.waiting_since: float | None = None
        """When the wait for the next part began."""
        self._waited_s = 0.0
        self.received = 0
        """Bytes of the body that were taken."""
        self.is_begun = False
        self.is_complete = False
        """Whether all of the body was taken."""
        self.is_guarded = False
        """Whether the request is to end with its client."""
        self.is_stalled = False
        """Whether the client has stopped in the middle of the body."""

    async def __call__(self) -> Message:
        self.is_begun = True
        if self.left == 0 and self._ahead is None:
            if self.is_complete:
                return await self._wait_for_loss()
            self.is_complete = True
            return {"type": "http.request", "body": b"", "more_body": False}
        self.waiting_since = monotonic()
        try:
            if self._ahead is None:
                message = self._count(await self._receive())
            else:
                message = await self._ahead
                self._ahead = None
        except asyncio.CancelledError:
            if self._end is not None:
                self._raise_end()
            raise
        finally:
            self._waited_s += monotonic() - self.waiting_since
            self.waiting_since = None
        self.is_complete = not message.get("more_body", False)
        size = len(message.get("body", b""))
        self.received += size
        self._small += MIN_PART_BYTES - size
        if self._small > MAX_SMALL_PARTS * MIN_PART_BYTES:
            raise BadRequest("the request body comes in too many small parts")
        return message

    def count(self, principal: Principal | None) -> Failure | None:
        """Count the request as one of the principal, or its body, if there is one, as one of a stranger; why there are
        too many of them, if so.
        """
        try:
            if self.excess is None and principal is not None:
                self.claim.name(principal)
            elif self.excess is None and self.left != 0:
                self.claim.stay_anonymous()
        except Failure as excess:
            self.excess = excess
        return self.excess

    def find_slowness(self, now: float, limits: RequestLimits) -> BadRequest | None:
        """Why the body is given up, if it comes too slowly. Only the time counts in which it was waited for."""
        if self.waiting_since is None:
            return None
        waits_s = now - self.waiting_since
        if waits_s > limits.body_timeout_s:
            return BodyTooSlow(f"no part of the request body came for {limits.body_timeout_s:g} s")
        waited_s = self._waited_s + waits_s
        if waited_s > limits.body_grace_s and self.received < limits.body_rate * waited_s:
            return BodyTooSlow(f"the request body comes with less than {limits.body_rate} bytes a second")
        return None

    def end(self, reason: Exception) -> None:
        """Cancel the request, whose task raises the reason."""
        if self._end is None:
            self._end = reason
            self.task.cancel()

    def __enter__(self) -> None:
        """The request is to end with its client (``cancel_on_disconnect``)."""
        self.is_guarded = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The request goes on without its client. Raises why it was ended, if it was."""
        self.is_guarded = False
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        if self._end is not None:
            self._raise_end(error)

    def watch(self) -> None:
        """Look out for the loss of the client from now on."""
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch())

    async def discard(self) -> None:
        """Read what was left of the body, up to a limit."""
        discarded = 0
        async with asyncio.timeout(DISCARD_TIMEOUT_S):
            while not self.is_complete and discarded < MAX_DISCARDED_BYTES:
                discarded += len((await self()).get("body", b""))

    def close(self) -> None:
        """The request is over."""
        if self._ahead is not None:
            self._ahead.cancel()

    def _count(self, message: Message) -> Message:
        """The message, which says itself whether it is the last one."""
        if message["type"] != "http.request" or not message.get("more_body"):
            self.left = 0
        elif self.left is not None:
            self.left -= len(message.get("body", b""))
            message["more_body"] = self.left > 0
        return message

    def _raise_end(self, error: BaseException | None = None) -> None:
        """Raise why the request was ended, unless it was also cancelled otherwise."""
        reason, self._end = self._end, None
        assert reason is not None  # noqa: S101 - asked for only then
        if self.task.uncancel() == 0 and (error is None or isinstance(error, asyncio.CancelledError)):
            raise reason from error

    async def _watch(self) -> None:
        """Read at most one part of the body ahead, so as to see the end behind it."""
        while self.left != 0:
            if self.waiting_since is None and self._ahead is None:
                self._ahead = asyncio.create_task(self._read_ahead())
                await asyncio.wait([self._ahead])
            else:  # the reading endpoint learns of the loss, and what is there must be taken first
                await asyncio.sleep(WATCH_INTERVAL_S)
        await self._wait_for_loss()
        self.end(ClientGone())

    async def _read_ahead(self) -> Message:
        return self._count(await self._receive())

    async def _wait_for_loss(self) -> Message:
        while (message := await self._receive())["type"] != "http.disconnect":
            pass
        return message


def cancel_on_disconnect(receive: Receive) -> AbstractContextManager[None]:
    """Cancel what runs inside the block when the client goes away. Raises ``ClientGone`` then.

    Under another server than ours nothing is watched.
    """
    return receive if isinstance(receive, RequestStream) else nullcontext()


class Requests:
    """The requests of one server, as an ASGI application around ``application``."""

    def __init__(self, application: Application, limits: RequestLimits) -> None:
        self._application = application
        self._limits = limits
        self._under_way: dict[RequestStream, Client] = {}
        self._shares = Shares(limits.connections)
        self._ids = _RequestIds()
        self._loop: asyncio.AbstractEventLoop | None = None
        """Kept: with every look for the running one, CPython 3.11 asks the system for the process."""
        self._discarding = 0
        self.is_draining = False
        """Whether every further response is the last one of its connection."""
        self.ended: dict[Client, float] = {}
        """When the last request of a connection ended. Who looks at the connections removes what has gone."""
        self.closing: dict[Client, float] = {}
        """Connections that the server would keep open, and when they are to be closed."""

    @property
    def clients(self) -> set[Client]:
        """Who has a request under way."""
        return set(self._under_way.values())

    def is_busy(self, client: Client) -> bool:
        """Whether the client has a request under way."""
        return client in self._under_way.values()

    def abandon(self, client: Client) -> None:
        """End what a client has asked for that has gone."""
        for stream, asker in self._under_way.items():
            if asker == client and stream.is_guarded:
                stream.end(ClientGone())

    def cancel(self) -> None:
        """Cut off all that is under way."""
        for stream in self._under_way:
            stream.task.cancel()

    async def watch(self) -> None:
        """Have clients watched whose requests take long, and end requests whose bodies do not come."""
        seen: set[RequestStream] = set()
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            now = monotonic()
            for stream in self._under_way:
                if (slowness := stream.find_slowness(now, self._limits)) is not None:
                    stream.is_stalled = True
                    stream.end(slowness)
                elif stream.is_guarded and stream in seen:
                    stream.watch()
            seen = set(self._under_way)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, length, fault = _examine(scope)
        if fault is not None:
            await _refuse(400, fault, send)
            return
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(self._loop)
        assert task is not None  # noqa: S101 - the server makes one for each request
        client: Client = scope["client"]
        claim = Claim(self._shares, self._find_address(scope, headers, client[0]))
        stream = RequestStream(receive, headers, length, task, claim)
        request_id = self._ids.choose(headers.get(REQUEST_ID))
        mark = logs.RequestMark(request_id.decode())
        logs.request_mark.set(mark)
        is_http2 = scope["http_version"] == "2"
        is_answered = False

        def send_marked(message: Message) -> Awaitable[None]:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                is_unread = stream.left != 0 and not self._may_discard(stream)
                is_last = not is_http2 and (self.is_draining or stream.is_stalled or is_unread)
                closing = _CLOSING if is_last else ()
                message["headers"] = [*message.get("headers", ()), *_SERVER, (REQUEST_ID, request_id), *closing]
            return send(message)

        self._under_way[stream] = client
        try:
            try:
                claim.begin()
            except Failure as excess:
                stream.excess = excess
            await self._application(scope, stream, send_marked)
            if not is_answered:
                await _refuse(400, _BROKEN, send)
            elif not stream.is_complete and stream.left != 0 and not is_http2:  # which can tell it to stop
                await self._leave_body(stream, client)
        except asyncio.CancelledError:
            log.info("request_cut_off", method=scope["method"])
            _tear_response(scope)
        except ResponseTorn:
            _tear_response(scope)
        except Exception:
            log.exception("request_failed", method=scope["method"])
            with suppress(RuntimeError):  # it may have begun to answer
                await _refuse(500, b"Internal Server Error", send)
            _tear_response(scope)
        finally:
            del self._under_way[stream]
            self.ended[client] = monotonic()
            claim.end()
            stream.close()
            mark.id = None

    def _find_address(self, scope: Scope, headers: dict[bytes, bytes], peer: str) -> str:
        """Of the client itself; ``get_address`` gives it again."""
        proxies = self._limits.proxies
        if not proxies or _FORWARDED not in headers:
            return peer
        every = (value for name, value in scope["headers"] if name == _FORWARDED)
        address: str = find_address(peer, b",".join(every), proxies)
        scope["address"] = address
        return address

    def _may_discard(self, stream: RequestStream) -> bool:
        """Whether what is to come of a body may be read, should nobody want it."""
        has_room = self._discarding < max(1, self._limits.connections // MAX_DISCARDING_PART)
        return stream.is_complete or (stream.excess is None and has_room)

    async def _leave_body(self, stream: RequestStream, client: Client) -> None:
        """Deal with what a client may go on sending of a body that was not read to its end, before it reads the answer.
        A few may; the connections of the others end.
        """
        if not stream.is_stalled and (stream.is_begun or b"expect" not in stream.headers):
            if not self._may_discard(stream):
                self.closing[client] = monotonic() + CLOSE_DELAY_S
                return
            self._discarding += 1
            try:
                await stream.discard()
            except (TimeoutError, BadRequest):
                stream.is_stalled = True
            finally:
                self._discarding -= 1
        if stream.is_stalled or not stream.is_complete:  # the server may go on waiting for the rest
            self.closing[client] = monotonic() + CLOSE_DELAY_S


class _RequestIds:
    """New names of requests, at random: a number would tell every client how many requests the others make. They are
    drawn by the hundred, since the system is asked without the interpreter's lock, which others then take.
    """

    def __init__(self) -> None:
        self._drawn: list[bytes] = []

    def choose(self, given: bytes | None) -> bytes:
        """The id that the client has given, if that is one; else a new one."""
        if given is not None and _SANE_ID.fullmatch(given):
            return given
        if not self._drawn:
            digits = b2a_hex(urandom(_ID_BYTES * _DRAWN_TOGETHER))
            self._drawn = [digits[n : n + 2 * _ID_BYTES] for n in range(0, len(digits), 2 * _ID_BYTES)]
        return self._drawn.pop()


def get_address(scope: Scope) -> str:
    """The address of the client, as far as it is known; empty for requests that another node relays."""
    client: Client | None = scope.get("client")
    return str(scope.get("address") or (client[0] if client else ""))


def get_path(scope: Scope) -> str:
    """The path as the client has sent it, with its escapes: a name may contain an escaped slash."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.decode("latin-1")
    return path.partition("?")[0] if "?" in path else path


def _examine(scope: Scope) -> tuple[dict[bytes, bytes], int | None, bytes | None]:
    """The headers, the length of the body if it is known, and why the request must be refused (RFC 9112 §3.2, §6.1)."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if len(headers) < len(scope["headers"]):
        names = [name for name, _ in scope["headers"]]
        for name in _SINGLE:
            if names.count(name) > 1:
                return headers, None, b"more than one " + name
    is_http2 = scope["http_version"] == "2"
    if not headers.get(b"host") and scope["http_version"] != "1":
        return headers, None, b"no host"
    is_chunked = b"transfer-encoding" in headers
    length = headers.get(b"content-length")
    if length is None:
        return headers, None if is_chunked or is_http2 else 0, None
    if is_chunked:
        return headers, None, b"content-length beside transfer-encoding"
    return headers, int(length), None


def _tear_response(scope: Scope) -> None:
    """The server ends the connection of a response that lacks its end in good order, which some take for the end."""
    if scope["http_version"] != "2":
        reset_connection(int(scope["server"][1]), scope["client"])


async def _refuse(status: int, reason: bytes, send: Send) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(reason)),
        *_SERVER,
        *_CLOSING,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reason})
