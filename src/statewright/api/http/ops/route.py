"""What the routes of the operations API have in common (docs/reference/operations.md#common-rules)."""

from typing import Final, Literal

from statewright.api.http.router import Route
from statewright.idempotency import Recording

OPERATOR: Final = "ROLE_OPERATOR"
ADMIN: Final = "ROLE_ADMIN"

Role = Literal["ROLE_OPERATOR", "ROLE_ADMIN"]


class OpsRoute(Route, frozen=True, kw_only=True):
    """An operation of operators and automation. ``path`` is the whole one: it is at the root of the server.

    ``role`` is the least one that may call it; None: any authenticated principal. Unknown query parameters are refused.
    """

    tag: str = "Ops"
    is_ours: bool = True
    recording: Recording = "transaction"
    role: Role | None = None

    @property
    def allowed_roles(self) -> frozenset[str]:
        return frozenset() if self.role is None else frozenset({self.role, ADMIN})
