"""The elements of a loop: what the worker of each is given, and what they come to together."""

from collections.abc import Sequence
from typing import overload

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import ElementResult
from statewright.playbooks.boundary import describe_error


class Elements(Sequence[JsonValue]):
    """The elements of the input of a loop, made when they are asked for: there may be very many."""

    def __init__(self, loop_input: JsonValue) -> None:
        given = loop_input if isinstance(loop_input, dict) else {}
        items = given.get("items")
        self._items = items if isinstance(items, list) else []
        self._args = given.get("args")

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> JsonValue: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[JsonValue]: ...

    def __getitem__(self, index: int | slice) -> "JsonValue | Sequence[JsonValue]":
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return {
            "args": self._args,
            "item": self._items[index],
            "index": index,
            "isLast": index == len(self._items) - 1,
        }


def summarize_elements(total: int, results: Sequence[ElementResult]) -> JsonObject:
    """The payload of the end of a loop: counts, results in their order, and errors by the number of the element."""
    values: list[JsonValue] = [None] * total
    errors: JsonObject = {}
    for result in results:
        value = result.payloads[0] if result.payloads else None
        if result.outcome == "FAILED":
            errors[str(result.element)] = describe_error(value)
        else:
            values[result.element] = value
    return {
        "total": total,
        "succeeded": len(results) - len(errors),
        "failed": len(errors),
        "results": values,
        "errors": errors,
    }
