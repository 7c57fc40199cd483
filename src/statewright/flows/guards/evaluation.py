"""Whether a guard holds for a value (docs/reference/flows.md#guards)."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, TypeGuard, assert_never

from statewright.flows.guards.syntax import (
    All,
    Call,
    Comparison,
    Constant,
    Filter,
    Guard,
    Index,
    Item,
    Name,
    Not,
    Operand,
    Operator,
    Part,
    Path,
    Presence,
    Slice,
    Some,
    Test,
    Wildcard,
)
from statewright.jsonval.values import JsonValue

MAX_GUARD_STEPS: Final = 250_000
"""Values that the evaluation of a guard may look at: some tenth of a second."""


class GuardTooCostly(ValueError):
    """A guard looked at more values than it may."""

    def __init__(self) -> None:
        super().__init__(f"the guard looks at more than {MAX_GUARD_STEPS} values")


def selects(guard: Guard, value: JsonValue) -> bool:
    """Whether the guard is true: it selects anything. Raises :class:`GuardTooCostly`."""
    return bool(select(guard, value))


def select(guard: Guard, value: JsonValue) -> list[JsonValue]:
    """What the guard selects. Raises :class:`GuardTooCostly`."""
    return _Evaluation(value).follow(guard.path, value)


class _Evaluation:
    def __init__(self, root: JsonValue) -> None:
        self._root = root
        self._left = MAX_GUARD_STEPS

    def follow(self, path: Path, current: JsonValue) -> list[JsonValue]:
        """What a path selects."""
        values = [self._root if path.is_absolute else current]
        for part in path.parts:
            values = [found for value in values for found in self._step(part, value)]
        return values

    def _spend(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise GuardTooCostly

    def _step(self, part: Part, value: JsonValue) -> Iterator[JsonValue]:
        bases = self._descend(value) if part.descends else (value,)
        for base in bases:
            for item in part.items:
                self._spend()
                for found in self._pick(item, base):
                    self._spend()
                    yield found

    def _descend(self, value: JsonValue) -> Iterator[JsonValue]:
        """The value and all its descendants, depth first."""
        rest = [value]
        while rest:
            self._spend()
            value = rest.pop()
            yield value
            if isinstance(value, dict):
                rest.extend(reversed(value.values()))
            elif isinstance(value, list):
                rest.extend(reversed(value))

    def _pick(self, item: Item, value: JsonValue) -> Sequence[JsonValue]:
        match item:
            case Name(name=name):
                return [value[name]] if isinstance(value, dict) and name in value else []
            case Index(index=index):
                return _pick_index(value, index)
            case Slice(start=start, stop=stop, step=step):
                return value[start:stop:step] if isinstance(value, list) else []
            case Wildcard():
                return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
            case Filter(test=test):
                return [value] if self._holds(test, value) else []
            case Call():
                return self._call(item, value)
            case Path():
                return [found for key in self.follow(item, value) for found in _pick_key(value, key)]
            case unknown:
                assert_never(unknown)

    def _call(self, call: Call, value: JsonValue) -> list[JsonValue]:
        arguments = [self._evaluate(argument, value) for argument in call.arguments]
        if any(not selected for selected in arguments):
            return []
        numbers = [selected[0] for selected in arguments]
        match call.function:
            case "length":
                return [len(value)] if isinstance(value, list | str) else []
            case "keys":
                return [list(value)] if isinstance(value, dict) else []
            case "values":
                return [list(value.values())] if isinstance(value, dict) else []
            case "entries":
                return [[[name, member] for name, member in value.items()]] if isinstance(value, dict) else []
            case "charAt" | "substring":
                return _cut(call.function, value, numbers)
            case unknown:
                assert_never(unknown)

    def _evaluate(self, operand: Operand, current: JsonValue) -> list[JsonValue]:
        return [operand.value] if isinstance(operand, Constant) else self.follow(operand, current)

    def _holds(self, test: Test, current: JsonValue) -> bool:
        self._spend()
        match test:
            case Presence(operand=operand):
                found = self._evaluate(operand, current)
                return bool(found) if isinstance(operand, Path) else bool(found[0])
            case Comparison(left=left, operator=operator, right=right):
                others = self._evaluate(right, current)
                return any(
                    self._compare(operator, one, other) for one in self._evaluate(left, current) for other in others
                )
            case Not(test=inner):
                return not self._holds(inner, current)
            case All(tests=tests):
                return all(self._holds(inner, current) for inner in tests)
            case Some(tests=tests):
                return any(self._holds(inner, current) for inner in tests)
            case unknown:
                assert_never(unknown)

    def _compare(self, operator: Operator, one: JsonValue, other: JsonValue) -> bool:
        self._spend()
        if operator in ("=", "!="):
            return self._equals(one, other) == (operator == "=")
        if not _is_number(one) or not _is_number(other):
            return False
        match operator:
            case "<":
                return one < other
            case "<=":
                return one <= other
            case ">":
                return one > other
            case _:
                return one >= other

    def _equals(self, one: JsonValue, other: JsonValue) -> bool:
        """Deep equality; a boolean never equals a number."""
        self._spend()
        if isinstance(one, dict) and isinstance(other, dict):
            return len(one) == len(other) and all(
                name in other and self._equals(member, other[name]) for name, member in one.items()
            )
        if isinstance(one, list) and isinstance(other, list):
            return len(one) == len(other) and all(self._equals(a, b) for a, b in zip(one, other, strict=True))
        return isinstance(one, bool) == isinstance(other, bool) and one == other


def _is_number(value: JsonValue) -> TypeGuard[int | Decimal]:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _pick_key(value: JsonValue, key: JsonValue) -> list[JsonValue]:
    if isinstance(key, str):
        return [value[key]] if isinstance(value, dict) and key in value else []
    return _pick_index(value, key) if isinstance(key, int) and not isinstance(key, bool) else []


def _pick_index(value: JsonValue, index: int) -> list[JsonValue]:
    return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []


def _cut(function: str, value: JsonValue, numbers: list[JsonValue]) -> list[JsonValue]:
    places = [number for number in numbers if isinstance(number, int) and not isinstance(number, bool)]
    if not isinstance(value, str) or len(places) != len(numbers) or any(place < 0 for place in places):
        return []
    if function == "charAt":
        return [value[places[0]]] if len(places) == 1 and places[0] < len(value) else []
    return [value[slice(*places) if len(places) > 1 else slice(places[0], None)]] if len(places) in (1, 2) else []
