"""The syntax tree of conditions: what was written, with nothing looked up yet (docs/reference/conditions.md#form).

Operators, fields and paths are kept as they came, also unknown ones: :mod:`~statewright.conditions.checks`
decides which consumer refuses what, and a criterion is stored whatever it says.
"""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue

MAX_DEPTH: Final = 50
"""Most groups around a leaf; the root is at depth 0."""


class MalformedCondition(ValueError):
    """A JSON value that is no condition. The message names the member at fault."""


class Simple(Struct, frozen=True, kw_only=True):
    """Compares one field of the document. ``value`` is ``None`` when absent, which means the same as ``null``."""

    path: str
    operator: str
    value: JsonValue = None


class Lifecycle(Struct, frozen=True, kw_only=True):
    """Compares one metadata field of the entity."""

    field: str
    operator: str
    value: JsonValue = None


class Group(Struct, frozen=True, kw_only=True):
    """Combines conditions. ``operator`` is ``AND`` or ``OR`` in any accepted tree; other texts are kept as written."""

    operator: str
    conditions: tuple["Condition", ...]


class Array(Struct, frozen=True, kw_only=True):
    """Compares the elements of a stored array by position; ``None`` skips one."""

    path: str
    values: tuple[JsonValue, ...]


class Function(Struct, frozen=True, kw_only=True):
    """Asks a calculation member. Only the engine can do that, and only for a whole criterion.

    ``tags`` are the required ones, split from ``tags_text`` as configured: trimmed, lower-cased, none = any member
    (decision W5). ``raw`` is the condition as written.
    """

    name: str
    tags: tuple[str, ...]
    tags_text: str
    attach_entity: bool
    timeout_ms: int
    context: str
    raw: JsonObject


Condition: TypeAlias = Simple | Lifecycle | Group | Array | Function
ConditionType: TypeAlias = Literal["simple", "lifecycle", "group", "array", "function"]
