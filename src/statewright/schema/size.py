"""How large a schema may become (docs/adr/0018)."""

from typing import Final

from statewright.failures import BadRequest
from statewright.schema.node import Node

MAX_FIELDS: Final = 10_000
"""Places of a schema; whoever teaches it more has values, such as ids, for names of members."""


def require_reasonable(schema: Node, before: Node | None = None) -> None:
    """Refuse a schema that has become too large; one that was so before may stay as it is. Raises ``BadRequest``."""
    count = places(schema)
    if count > MAX_FIELDS and (before is None or count > places(before)):
        raise BadRequest(
            f"the model would have {count} fields, and {MAX_FIELDS} is the most; "
            "do values, such as ids or dates, stand for names of members?"
        )


def places(schema: Node) -> int:
    """Members and elements, at any depth."""
    count, pending = 0, [schema]
    while pending:
        node = pending.pop()
        inner = [*node.children.values(), *([] if node.element is None else [node.element])]
        count += len(inner)
        pending += inner
    return count
