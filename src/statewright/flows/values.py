"""How inputs are formed of outputs (docs/reference/flows.md#values). Values are never changed in place."""

from collections.abc import Iterable, Sequence

from statewright.jsonval.values import JsonObject, JsonValue


class UnmergeableInput(ValueError):
    """An input that was to become one object holds something else; the message says what."""


def normalize_output(value: JsonValue) -> JsonValue:
    """What a task gave, as it travels: nothing is ``{}``, and a scalar is an array of one."""
    if value is None:
        return {}
    return value if isinstance(value, dict | list) else [value]


def combine_inputs(values: Sequence[JsonValue]) -> JsonValue:
    """The input of a node, of the values of its edges in ascending order of their sources: empty objects are dropped;
    several values become an array.
    """
    present = [value for value in values if value != {}]
    if not present:
        return {}
    return present[0] if len(present) == 1 else present


def merge_input(value: JsonValue) -> JsonValue:
    """One object of all that an array holds, later members winning. Raises :class:`UnmergeableInput`."""
    if not isinstance(value, list):
        return value
    merged: JsonObject = {}
    left: list[JsonValue] = [*reversed(value)]
    while left:
        element = left.pop()
        if isinstance(element, list):
            left.extend(reversed(element))
        elif isinstance(element, dict):
            merged |= element
        else:
            raise UnmergeableInput(f"a {_describe(element)} cannot be merged with objects")
    return merged


def list_elements(value: JsonValue) -> Sequence[JsonValue]:
    """The elements that an iterated step runs for: whatever is no array is one element."""
    return value if isinstance(value, list) else [value]


def collect_columns(rows: Iterable[Sequence[JsonValue]], width: int) -> JsonValue:
    """The output of an iterated subflow whose join has ``width`` edges: for each edge, its values in the order of the
    elements.
    """
    columns: list[JsonValue] = [[] for _ in range(width)]
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            assert isinstance(column, list)  # noqa: S101 - made above
            column.append(value)
    return columns


def _describe(value: JsonValue) -> str:
    if value is None:
        return "null"
    return "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
