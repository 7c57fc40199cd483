"""The principal of a session, what it may do, and what the API offers: asked once, and again when that changed."""

from time import monotonic
from typing import Final

from msgspec import Struct

from statewright.console.calls import build_ops_call
from statewright.console.client import ApiClient
from statewright.console.session import Session
from statewright.console.values import get_object, get_text, get_texts

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
        principal = get_object(reply.document, "principal")
        viewer = Viewer(
            id=get_text(principal, "id"),
            tenant=get_text(reply.document, "tenant"),
            roles=frozenset(get_texts(principal, "roles")),
            features=frozenset(get_texts(reply.document, "features")),
        )
        if reply.is_ok:
            while len(self._known) >= MAX_VIEWERS:
                del self._known[next(iter(self._known))]
            self._known[session.id] = (monotonic(), viewer)
        return viewer

    def forget(self, session: Session) -> None:
        """Ask again: what it may do has changed."""
        self._known.pop(session.id, None)
