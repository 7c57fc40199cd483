"""What travels along edges: objects and arrays (docs/reference/flows.md#values)."""

from collections.abc import Iterator, Sequence

from statewright.jsonval.values import JsonObject, JsonValue


def to_flow_value(output: JsonValue) -> JsonValue:
    """What a task answered as a value: nothing is ``{}``, another scalar an array of it."""
    if output is None:
        return {}
    return output if isinstance(output, dict | list) else [output]


def combine(values: Sequence[JsonValue]) -> JsonValue:
    """What a node sees of the values on its edges: without the empty objects, and one alone as it is."""
    full = [value for value in values if value != {}]
    if not full:
        return {}
    return full[0] if len(full) == 1 else full


def merge(value: JsonValue) -> "JsonObject | None":
    """An array as one object, later members winning, nested arrays flattened. ``None``: that cannot be."""
    if isinstance(value, dict):
        return value
    merged: JsonObject = {}
    for part in _flatten(value):
        if not isinstance(part, dict):
            return None
        merged |= part
    return merged


def _flatten(value: JsonValue) -> Iterator[JsonValue]:
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, list):
            rest.extend(reversed(part))
        else:
            yield part
