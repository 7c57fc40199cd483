"""The calculation node of the Nobel prize demo: approves a prize when its APPROVE transition asks for it.

statewright node examples.prizes_node:node
"""

from datetime import UTC, datetime

from statewright.sdk import Context, Node

node = Node(tags=["approval-service"])


@node.processor("notify-approval")
def approve(prize: dict[str, object], context: Context) -> dict[str, object]:
    approval = {"by": context.principal.id, "at": datetime.now(UTC), "transition": context.transition}
    return prize | {"approval": approval}


if __name__ == "__main__":
    node.run()
