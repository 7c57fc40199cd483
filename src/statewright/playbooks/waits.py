"""Tasks of the kind ``wait`` (docs/reference/executions.md#task-kinds)."""

from decimal import Decimal
from typing import Final

from statewright.instants import parse_instant
from statewright.jsonval.values import JsonObject

WAIT: Final = "wait"
MAX_WAIT_S: Final = 10 * 366 * 24 * 60 * 60
_US_PER_S: Final = 1_000_000


def find_due(fields: JsonObject, since: int) -> int | str:
    """When a wait that began ``since`` is over, in epoch microseconds; a text says what is wrong with its fields."""
    seconds, until = fields.get("seconds"), fields.get("until")
    if (seconds is None) == (until is None):
        return "a wait has either seconds or until"
    if until is not None:
        if not isinstance(until, str):
            return "until must be an instant, as 2026-06-01T09:30:00Z"
        try:
            return parse_instant(until)
        except ValueError:
            return "until must be an instant, as 2026-06-01T09:30:00Z"
    if isinstance(seconds, bool) or not isinstance(seconds, int | Decimal) or not 0 <= seconds <= MAX_WAIT_S:
        return f"seconds must be a number from 0 to {MAX_WAIT_S}"
    return since + int(seconds * _US_PER_S)
