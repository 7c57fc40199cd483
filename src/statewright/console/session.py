"""Who looks at the console, and the token of its forms (docs/console.md#security).

The principal of a session, what it may do, and what the API offers: asked once, and again when that changed.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Mapping
from time import monotonic
from typing import Final, Protocol

from msgspec import Struct

from statewright.console.calls import build_ops_call
from statewright.console.client import ApiClient
from statewright.operations.service import ApiDescription

MOCK_COOKIE: Final = "statewright"
ID_BYTES: Final = 32


class Session(Struct, frozen=True, kw_only=True):
    """A login. ``id`` is known to the browser and to nobody else; ``token`` goes with every call, None: in mock mode,
    where nobody is asked.
    """

    id: str
    token: str | None = None
    set_cookie: str | None = None
    """The cookie that the answer has to set, if it is new."""
    tenant: str = ""
    is_login: bool = False
    """Whether somebody logged in, and so can log out."""


class SessionsUnavailable(Exception):
    """Whether somebody is logged in cannot be found out now."""


class Sessions(Protocol):
    """Where logins are kept. Raises ``SessionsUnavailable``."""

    async def find(self, cookies: Mapping[str, str], *, is_active: bool = True) -> Session | None:
        """The login of a request, or None where there is none that still holds. ``is_active``: somebody did something;
        what a page asks for by itself keeps no login alive.
        """
        ...

    async def close(self) -> None:
        """Stop what is done in the background."""
        ...

    async def find_ended(self, ids: Collection[str]) -> frozenset[str]:
        """Those of some logins that hold no more."""
        ...


class MockSessions:
    """Nobody logs in: a random cookie is all there is, for the token of the forms."""

    async def find(self, cookies: Mapping[str, str], *, is_active: bool = True) -> Session | None:
        """The session of the cookie, or a new one."""
        del is_active
        known = cookies.get(MOCK_COOKIE, "")
        if len(known) >= ID_BYTES:
            return Session(id=known)
        made = make_session_id()
        return Session(id=made, set_cookie=f"{MOCK_COOKIE}={made}; HttpOnly; SameSite=Lax; Path=/console")

    async def close(self) -> None:
        """Nothing is done."""

    async def find_ended(self, ids: Collection[str]) -> frozenset[str]:
        """None: there is nothing that could end."""
        del ids
        return frozenset()


def make_session_id() -> str:
    """An id that nobody guesses."""
    return secrets.token_urlsafe(ID_BYTES)


def build_form_token(session: Session) -> str:
    """A token for the forms of one page: another one each time, so that compressing pages tells nothing of it."""
    mask = secrets.token_bytes(ID_BYTES)
    return urlsafe_b64encode(mask + _combine(mask, _derive(session))).decode()


def check_form_token(session: Session, token: str) -> bool:
    """Whether a token was made for this session."""
    try:
        raw = urlsafe_b64decode(token.encode("ascii"))
    except ValueError:
        return False
    if len(raw) != 2 * ID_BYTES:
        return False
    return hmac.compare_digest(_combine(raw[:ID_BYTES], raw[ID_BYTES:]), _derive(session))


def _derive(session: Session) -> bytes:
    return hashlib.sha256(b"statewright console form " + session.id.encode()).digest()


def _combine(mask: bytes, secret: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(mask, secret, strict=True))


LIFETIME_S: Final = 60.0
MAX_VIEWERS: Final = 1_000
READ_ONLY: Final = "ROLE_READ_ONLY"
ADMIN_ROLE: Final = "ROLE_ADMIN"
UNAUTHORIZED: Final = 401


class Viewer(Struct, frozen=True, kw_only=True):
    """Whom the pages are shown to. ``features`` are those of the operations API."""

    id: str = ""
    tenant: str = ""
    roles: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    is_known: bool = True
    """Whether the API took the token."""

    @property
    def is_read_only(self) -> bool:
        """Whether every change is refused."""
        return READ_ONLY in self.roles

    def has(self, role: str | None) -> bool:
        """Whether the API shows what only a role may see."""
        return role is None or role in self.roles or ADMIN_ROLE in self.roles

    def may(self, role: str | None) -> bool:
        """Whether an action that needs a role is offered."""
        return not self.is_read_only and self.has(role)


class Viewers:
    """Remembers for a minute who a session is."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, Viewer]] = {}

    async def find(self, session: Session, client: ApiClient) -> Viewer:
        """The viewer; one that is not known where the API refuses the token."""
        known = self._known.get(session.id)
        if known is not None and monotonic() - known[0] < LIFETIME_S:
            return known[1]
        reply = await client.call(build_ops_call())
        if reply.status == UNAUTHORIZED:
            return Viewer(is_known=False)
        told = reply.read_if_ok(ApiDescription)
        if told is None:
            return Viewer()
        asker = told.principal
        viewer = Viewer(
            id=asker.id, tenant=told.tenant, roles=frozenset(asker.roles), features=frozenset(told.features)
        )
        while len(self._known) >= MAX_VIEWERS:
            del self._known[next(iter(self._known))]
        self._known[session.id] = (monotonic(), viewer)
        return viewer

    def forget(self, session: Session) -> None:
        """Ask again: what it may do has changed."""
        self._known.pop(session.id, None)
