"""Logins that are kept in the database: their limits, and the tokens within them (docs/console.md#login).

The cookies of logins, and where one may log in at all (docs/console.md#login).
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from ipaddress import ip_address
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from statewright.console.session import Session, SessionsUnavailable, make_session_id
from statewright.telemetry import logs

SECURE_COOKIE: Final = "__Host-statewright"
PLAIN_COOKIE: Final = "statewright"
VISITOR_COOKIE: Final = "statewright-visitor"
FLOW_COOKIE: Final = "statewright-login"


class CookieRules(Struct, frozen=True, kw_only=True):
    """``public_url`` is where browsers find the service, empty where that is not set; ``has_tls``: it is served by
    https.
    """

    public_url: str = ""
    has_tls: bool = False

    @property
    def is_secure(self) -> bool:
        """Whether browsers come by https."""
        return self.public_url.startswith("https://") if self.public_url else self.has_tls

    @property
    def session_cookie(self) -> str:
        """The name of the cookie of a login."""
        return SECURE_COOKIE if self.is_secure else PLAIN_COOKIE

    def find_fault(self, origin: str) -> str | None:
        """Why nobody may log in at this address."""
        if self.public_url:
            return None if urlsplit(origin).netloc == urlsplit(self.public_url).netloc else f"Use {self.public_url}"
        if self.is_secure or is_loopback(urlsplit(origin).hostname or ""):
            return None
        return (
            "A login over plain http could be read by others: serve https, or set STATEWRIGHT_PUBLIC_URL to the https"
            " address of what stands before this service"
        )

    def format_session(self, value: str) -> str:
        """The cookie of a login, for as long as the browser is open."""
        if self.is_secure:
            return f"{SECURE_COOKIE}={value}; Secure; HttpOnly; SameSite=Lax; Path=/"
        return f"{PLAIN_COOKIE}={value}; HttpOnly; SameSite=Lax; Path=/console"

    def drop_session(self) -> str:
        """The cookie that takes that of a login away."""
        return f"{self.format_session('')}; Max-Age=0"

    def format_short(self, name: str, value: str, seconds: int) -> str:
        """A cookie of the login page itself."""
        secure = "; Secure" if self.is_secure else ""
        return f"{name}={value}; HttpOnly; SameSite=Lax; Path=/console; Max-Age={seconds}{secure}"


def is_loopback(host: str) -> bool:
    """Whether only this machine goes by that name."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


SECOND_US: Final = 1_000_000
SEEN_EVERY_US: Final = 60 * SECOND_US
"""The time of the last use is written once in so long."""
RENEW_AHEAD_US: Final = 60 * SECOND_US
RENEWAL_US: Final = 20 * SECOND_US
"""Longest time that a provider takes to give a new token."""
LOOK_S: Final = 0.25
SWEEP_S: Final = 600.0
"""Pause between removals of logins that have ended."""

_ID_CHARS: Final = 43

log = logs.logger(__name__)


class SessionRow(Protocol):
    """A login as it is stored; times in microseconds since 1970."""

    @property
    def tenant(self) -> str: ...
    @property
    def digest(self) -> bytes: ...
    @property
    def sealed(self) -> bytes: ...
    @property
    def token_ends_at(self) -> int: ...
    @property
    def seen_at(self) -> int: ...
    @property
    def ends_at(self) -> int: ...


class SessionRows(Protocol):
    """Where logins are stored, for all nodes."""

    async def find(self, digest: bytes) -> SessionRow | None: ...
    async def find_all(self, digests: Collection[bytes]) -> Sequence[SessionRow]: ...
    async def sweep(self, now: int) -> bool: ...
    async def add(
        self, *, tenant: str, digest: bytes, principal: str, sealed: bytes, token_ends_at: int, now: int, ends_at: int
    ) -> None: ...
    async def touch(self, tenant: str, digest: bytes, now: int) -> None: ...
    async def remove(self, tenant: str, digest: bytes) -> None: ...
    async def claim_renewal(self, tenant: str, digest: bytes, now: int, until: int) -> bool: ...
    async def renew(self, tenant: str, digest: bytes, sealed: bytes, token_ends_at: int) -> None: ...


class SealTokens(Protocol):
    """Makes tokens unreadable where they are stored."""

    def seal(self, plain: bytes, about: bytes) -> bytes: ...
    def open(self, sealed: bytes, about: bytes) -> bytes | None: ...


class Grant(Struct, frozen=True, kw_only=True):
    """What a login got: a bearer token, when it ends, and what renews it at which provider."""

    token: str
    token_ends_at: int
    refresh_token: str | None = None
    provider: str = ""
    is_id_token: bool = False
    """Whether the bearer is the ID token of the provider, because its access token is none that the API takes."""

    def __repr__(self) -> str:
        return "Grant(…)"


class SessionLimits(Struct, frozen=True, kw_only=True):
    """How long a login holds without being used, and at all; microseconds."""

    idle: int
    longest: int


RenewGrant = Callable[[Grant], Awaitable[Grant | None]]
"""Asks the provider of a login for another token; None where it gives none."""


class StoredLogins:
    """The logins of jwt mode."""

    def __init__(
        self,
        rows: SessionRows,
        sealer: SealTokens,
        limits: SessionLimits,
        cookies: CookieRules,
        renew: RenewGrant,
        read_clock: Callable[[], int],
    ) -> None:
        self.cookies = cookies
        self._rows = rows
        self._sealer = sealer
        self._limits = limits
        self._renew = renew
        self._read_clock = read_clock
        self._sweeping: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop what is done in the background."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    async def find_ended(self, ids: Collection[str]) -> frozenset[str]:
        """Those of some logins that hold no more, asked for at once; none is kept alive by that."""
        digests = {_digest(each): each for each in ids}
        now = self._read_clock()
        found = {digests[row.digest]: row for row in await self._rows.find_all(list(digests))}
        ended = {each for each in ids if each not in found or not self._is_within_limits(found[each], now)}
        for each in found.keys() - ended:
            if found[each].token_ends_at <= now:  # it may be renewed, or not
                cookies = {self.cookies.session_cookie: each}
                if await self.find(cookies, is_active=False) is None:
                    ended.add(each)
        return frozenset(ended)

    def _is_within_limits(self, row: SessionRow, now: int) -> bool:
        return now < row.ends_at and now - row.seen_at < self._limits.idle

    def _keep_swept(self) -> None:
        """See to it that logins that have ended are removed, as long as there are any: without any it costs nothing."""
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep(), name="console-logins")

    async def _sweep(self) -> None:
        while True:
            try:
                if not await self._rows.sweep(self._read_clock()):
                    return
            except SessionsUnavailable:
                log.warning("console_logins_unswept")
            await asyncio.sleep(SWEEP_S)

    async def find(self, cookies: Mapping[str, str], *, is_active: bool = True) -> Session | None:
        """The login of a request, or None where there is none that still holds."""
        session_id = cookies.get(self.cookies.session_cookie, "")
        row = await self._find_row(session_id)
        if row is None:
            return None
        self._keep_swept()
        now = self._read_clock()
        grant = self._open(row)
        if grant is None or not self._is_within_limits(row, now):
            return None
        if row.token_ends_at - now <= RENEW_AHEAD_US and grant.refresh_token:
            grant = await self._renew_token(row, grant)
        if grant is None or now >= grant.token_ends_at:
            return None
        if is_active and now - row.seen_at >= min(SEEN_EVERY_US, self._limits.idle // 4):
            await self._rows.touch(row.tenant, row.digest, now)
        return Session(id=session_id, token=grant.token, tenant=row.tenant, is_login=True)

    async def begin(self, grant: Grant, *, tenant: str, principal: str) -> Session:
        """Keep a login under a new id, which goes to the browser in a cookie."""
        session_id = make_session_id()
        digest, now = _digest(session_id), self._read_clock()
        longest = now + self._limits.longest
        await self._rows.add(
            tenant=tenant,
            digest=digest,
            principal=principal,
            sealed=self._seal(grant, tenant, digest),
            token_ends_at=grant.token_ends_at,
            now=now,
            ends_at=longest if grant.refresh_token else min(longest, grant.token_ends_at),
        )
        self._keep_swept()
        cookie = self.cookies.format_session(session_id)
        return Session(id=session_id, token=grant.token, tenant=tenant, is_login=True, set_cookie=cookie)

    async def end(self, cookies: Mapping[str, str]) -> str:
        """Log out, on every node at once. The id of the provider that the login came from, or nothing."""
        row = await self._find_row(cookies.get(self.cookies.session_cookie, ""))
        if row is None:
            return ""
        grant = self._open(row)
        await self._rows.remove(row.tenant, row.digest)
        return "" if grant is None else grant.provider

    async def _find_row(self, session_id: str) -> SessionRow | None:
        return await self._rows.find(_digest(session_id)) if len(session_id) == _ID_CHARS else None

    async def _renew_token(self, row: SessionRow, grant: Grant) -> Grant | None:
        """Another token, which one request of all nodes asks for; others go on with the old one while it is good."""
        now = self._read_clock()
        if await self._rows.claim_renewal(row.tenant, row.digest, now, now + RENEWAL_US):
            renewed = await self._renew(grant)
            if renewed is None:
                return grant
            sealed = self._seal(renewed, row.tenant, row.digest)
            await self._rows.renew(row.tenant, row.digest, sealed, renewed.token_ends_at)
            return renewed
        return grant if grant.token_ends_at > now else await self._await_renewal(row)

    async def _await_renewal(self, row: SessionRow) -> Grant | None:
        for _ in range(int(RENEWAL_US / SECOND_US / LOOK_S)):
            await asyncio.sleep(LOOK_S)
            found = await self._rows.find(row.digest)
            if found is None or found.token_ends_at != row.token_ends_at:
                return None if found is None else self._open(found)
        return None

    def _seal(self, grant: Grant, tenant: str, digest: bytes) -> bytes:
        return self._sealer.seal(msgspec.json.encode(grant), _describe(tenant, digest))

    def _open(self, row: SessionRow) -> Grant | None:
        plain = self._sealer.open(row.sealed, _describe(row.tenant, row.digest))
        return None if plain is None else msgspec.json.decode(plain, type=Grant)


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode()).digest()


def _describe(tenant: str, digest: bytes) -> bytes:
    """What a stored token belongs to: that of one row opens in no other."""
    return digest + tenant.encode()
