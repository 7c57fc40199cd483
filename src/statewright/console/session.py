"""Who looks at the console, and the token of its forms (docs/console.md#security)."""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Mapping
from typing import Final, Protocol

from msgspec import Struct

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


def read_cookies(header: str) -> dict[str, str]:
    """The cookies of a request, by name."""
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return {name: value for name, equals, value in pairs if equals}


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
