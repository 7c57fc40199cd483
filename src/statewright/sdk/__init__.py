"""What a calculation node imports.

    from statewright.sdk import Node

    node = Node(tags=["approval-service"])

    @node.processor("notify-approval")
    def notify(prize):
        return prize | {"approved": True}

``statewright node module:node`` runs it, and so does ``node.run()``. Without a node of one's own, the module-level
``processor``, ``criterion`` and ``function`` register with ``default_node``.
"""

from statewright.sdk.context import Caller, Context
from statewright.sdk.node import Node
from statewright.sdk.outcomes import No
from statewright.sdk.tokens import ClientCredentials, TokenUnavailable

default_node = Node()
"""Where the module-level decorators register."""

processor = default_node.processor
criterion = default_node.criterion
function = default_node.function

__all__ = [
    "Caller",
    "ClientCredentials",
    "Context",
    "No",
    "Node",
    "TokenUnavailable",
    "criterion",
    "default_node",
    "function",
    "processor",
]
