"""Marks that stand for operands while a condition is compiled, and what their places among the arguments tell."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.conditions.sql_terms import Argument
from statewright.conditions.sql_texts import successor
from statewright.conditions.syntax import Condition, Group, Simple
from statewright.jsonval.values import JsonValue

Operand: TypeAlias = str
"""As an argument: a number is its text."""

TEXT_MARK: Final = "\ue000"
_END: Final = "a"
_DIGITS: Final = 30
FIRST_NUMBER: Final = 10**_DIGITS
"""Marks of numbers begin here, beyond all operands that are taken."""
NUMBER_MARK: Final = str(FIRST_NUMBER)[:-3]


class Arguments(Struct, frozen=True, kw_only=True):
    """How arguments are put together of operands: ``pick`` from the operands, their ``successors``, the sets of
    ``texts`` and ``numbers`` among them, and what is ``fixed``, in this order.
    """

    successors: tuple[int, ...]
    texts: tuple[tuple[int, ...], ...]
    numbers: tuple[tuple[int, ...], ...]
    fixed: tuple[Argument, ...]
    pick: tuple[int, ...]

    def of(self, operands: Sequence[Operand]) -> "list[Argument] | None":
        """The arguments; None when two of them are equal, which then share a parameter."""
        values: list[Argument] = [*operands]
        for index in self.successors:
            values.append(successor(operands[index]))  # noqa: PERF401 - nearly always none
        if self.texts or self.numbers:
            sets = [tuple([operands[index] for index in members]) for members in self.texts]
            numbers = [tuple([Decimal(operands[index]) for index in members]) for members in self.numbers]
            if any(len({*members}) < len(members) for members in (*sets, *numbers)):
                return None
            values += sets
            values += numbers
        values += self.fixed
        arguments = [values[index] for index in self.pick]
        if len({*arguments}) < len(arguments):
            return None
        return arguments


def marked(condition: Condition, marks: Iterator[int]) -> Condition:
    """The condition with a mark for each operand, numbered as they are collected."""
    if isinstance(condition, Group):
        parts = tuple([marked(child, marks) for child in condition.conditions])
        return Group(operator=condition.operator, conditions=parts)
    assert isinstance(condition, Simple)  # noqa: S101 - its shape says so
    value = condition.value
    operand = [_mark(one, marks) for one in value] if isinstance(value, list) else _mark(value, marks)
    return Simple(path=condition.path, operator=condition.operator, value=operand)


def _mark(value: JsonValue, marks: Iterator[int]) -> JsonValue:
    number = next(marks)
    return f"{TEXT_MARK}{number}{_END}" if isinstance(value, str) else FIRST_NUMBER + number


def arguments_of(arguments: Sequence[Argument], operands: int) -> Arguments | None:
    """Where the marks are; None when one has been made into something that is not known here."""
    successors: list[int] = []
    texts: list[tuple[int, ...]] = []
    numbers: list[tuple[int, ...]] = []
    fixed: list[Argument] = []
    places: list[tuple[int, int]] = []  # which of these, 0 being the operands, and where in it
    for argument in arguments:
        if isinstance(argument, tuple):
            members = tuple([member for one in argument if (member := _marked_by(one)) is not None])
            if len(members) < len(argument):
                return None
            kind, sets = (2, texts) if isinstance(argument[0], str) else (3, numbers)
            places.append((kind, len(sets)))
            sets.append(members)
        elif (operand := _marked_by(argument)) is not None:
            places.append((0, operand))
        elif isinstance(argument, str) and TEXT_MARK in argument:
            before = argument[:-1] + _END
            operand = _marked_by(before)
            if operand is None or successor(before) != argument:
                return None
            places.append((1, len(successors)))
            successors.append(operand)
        else:
            places.append((4, len(fixed)))
            fixed.append(argument)
    starts = [0, *accumulate((operands, len(successors), len(texts), len(numbers)))]
    return Arguments(
        successors=tuple(successors),
        texts=tuple(texts),
        numbers=tuple(numbers),
        fixed=tuple(fixed),
        pick=tuple([starts[kind] + place for kind, place in places]),
    )


def _marked_by(argument: Argument) -> int | None:
    """The number of the operand that is marked so."""
    if isinstance(argument, tuple):
        return None
    text = str(argument)
    if text.startswith(NUMBER_MARK) and text.isdigit() and len(text) == _DIGITS + 1:
        return int(text) - FIRST_NUMBER
    number = text[1:-1]
    return int(number) if text[:1] == TEXT_MARK and text[-1:] == _END and number.isdigit() else None
