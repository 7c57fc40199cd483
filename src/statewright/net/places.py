"""Where tokens are, and which of them do nothing there."""

from typing import Final, TypeAlias

from statewright.net.identifiers import NodeId, ScopeId
from statewright.net.marking import Stage

Place: TypeAlias = tuple[NodeId, ScopeId | None]
"""A node, in one pass over the body of a loop it may be part of."""

RESTING: Final[frozenset[Stage]] = frozenset({"READY", "PENDING", "WAITING", "QUEUED", "PARKED", "WITHDRAWN"})
"""No activity was begun, or it has left the node for good."""
QUIET: Final[frozenset[Stage]] = frozenset({"WAITING", "PARKED"})
"""The token does not go on by itself, nor by what it does."""
