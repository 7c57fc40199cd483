"""What administrators of clients, keys and providers do, for the trail of operators
(docs/reference/operations.md#audit).
"""

from collections.abc import Mapping

from statewright.entity import Actor
from statewright.operator_acts import Act
from statewright.services.runtime import Caller
from statewright.storage.auth.acts import TenantAct


def describe_act(
    caller: Caller, action: str, target_kind: str, target_id: str, details: Mapping[str, object] | None = None
) -> TenantAct:
    """An act of the caller, in the trail of its tenant. ``details`` hold no secrets."""
    principal = caller.principal
    act = Act(action=action, target_kind=target_kind, target_id=target_id, details=details or {})
    return TenantAct(caller.tenant, Actor(principal.id, principal.kind), act)
