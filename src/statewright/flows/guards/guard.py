"""A guard, from its text to its verdict.

The tree of a guard to its path.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, TypeAlias

from lark import Token, Transformer, v_args
from msgspec import Struct

from statewright.flows.guards.paths import (
    AllOf,
    AnyOf,
    Brackets,
    Call,
    Chain,
    Compares,
    Constant,
    Exists,
    Filter,
    Lookup,
    Negation,
    Operand,
    Part,
    Predicate,
    Query,
    Start,
    Union,
    wrap,
)
from statewright.flows.guards.reading import GuardReader, MalformedGuard, read_index, read_number, read_string
from statewright.flows.guards.values import (
    COMPARISONS,
    FUNCTIONS,
    MAX_SELECTED,
    GuardBudget,
    cut_slice,
    get_element,
    get_member,
    iter_children,
    iter_descendants,
    limit_values,
)
from statewright.jsonval.values import JsonValue

Bound: TypeAlias = tuple[str, int]
"""``start``, ``stop`` or ``step`` of a slice."""

_DESCENT: Final = Part(iter_descendants)
_CHILDREN: Final = Part(iter_children)


_mixed: ContextVar[list[bool]] = ContextVar("where and and or were seen side by side")


@contextmanager
def notice_mixed_operators() -> Iterator[list[bool]]:
    """Inside the block guards are read; the list is not empty then when ``and`` and ``or`` stand side by side."""
    seen: list[bool] = []
    token = _mixed.set(seen)
    try:
        yield seen
    finally:
        _mixed.reset(token)


@v_args(inline=True)
class GuardBuilder(Transformer[Token, Query]):
    """Makes the paths of guards: a method for each rule of the grammar, whose parts it is given.

    It knows nothing of the guard that is read, since several threads read guards at a time.
    """

    def guard(self, *parts: Query) -> Query:
        return Chain((Start(is_root=True), *parts))

    def subpath(self, first: Token, *parts: Query) -> Query:
        return Chain((Start(is_root=first == "$"), *parts))

    def member(self, name: Token) -> Query:
        return _select_member(str(name))

    def name(self, text: Token) -> Query:
        return _select_member(read_string(text))

    def index(self, number: Token) -> Query:
        place = read_index(number)
        return Part(lambda value: get_element(value, place))

    def every(self) -> Query:
        return _CHILDREN

    def start(self, number: Token) -> Bound:
        return "start", read_index(number)

    def stop(self, number: Token) -> Bound:
        return "stop", read_index(number)

    def step(self, number: Token) -> Bound:
        if (step := read_index(number)) == 0:
            raise MalformedGuard("the step of a slice must not be 0", number.start_pos or 0, piece=str(number))
        return "step", step

    def slice(self, *bounds: Bound) -> Query:
        given = dict(bounds)
        cut = slice(given.get("start"), given.get("stop"), given.get("step"))
        return Part(lambda value: cut_slice(value, cut))

    def list(self, *items: Query) -> Query:
        return items[0] if len(items) == 1 else Union(items)

    def items(self, items: Query) -> Query:
        return items

    def filter(self, _opening: Token, test: Predicate) -> Query:
        return Filter(test)

    def lookup(self, path: Query) -> Query:
        return Lookup(path)

    def call(self, *arguments: Operand | None) -> tuple[Operand, ...]:
        return tuple(argument for argument in arguments if argument is not None)

    def function(self, name: Token, arguments: tuple[Operand, ...]) -> Query:
        known = FUNCTIONS.get(str(name))
        if known is None:
            functions = tuple(FUNCTIONS)
            reason = f"there is no function {name}; there are {', '.join(functions)}"
            raise MalformedGuard(reason, name.start_pos or 0, piece=str(name), expected=functions)
        if len(arguments) not in known.counts:
            reason = f"{name} takes {' or '.join(map(str, known.counts))} arguments"
            raise MalformedGuard(reason, name.start_pos or 0, piece=str(name))
        return Call(str(name), arguments)

    def deep_member(self, name: Token) -> Query:
        return Chain((_DESCENT, self.member(name)))

    def deep_function(self, name: Token, arguments: tuple[Operand, ...]) -> Query:
        return Chain((_DESCENT, self.function(name, arguments)))

    def deep_every(self) -> Query:
        return Chain((_DESCENT, _CHILDREN))

    def deep_items(self, items: Query) -> Query:
        return Chain((_DESCENT, items))

    def conjunction(self, *parts: Predicate | Token) -> Predicate:
        tests = [part for part in parts if not isinstance(part, Token)]
        if len(tests) == 1:
            return tests[0]
        if any(isinstance(test, AnyOf) for test in tests):
            _mixed.get().append(True)
        return AllOf(tests)

    def disjunction(self, *parts: Predicate | Token) -> Predicate:
        tests = [part for part in parts if not isinstance(part, Token)]
        return tests[0] if len(tests) == 1 else AnyOf(tests)

    def negation(self, *parts: Predicate | Token) -> Predicate:
        (test,) = [part for part in parts if not isinstance(part, Token)]
        return test if len(parts) % 2 else Negation(test)

    def brackets(self, test: Predicate) -> Predicate:
        return Brackets(test)

    def comparison(self, left: Exists, operator: Token, right: Exists) -> Predicate:
        return Compares(left.operand, COMPARISONS[str(operator)], right.operand)

    def operand(self, operand: Operand) -> Exists:
        return Exists(operand)

    def constant(self, token: Token) -> Constant:
        return Constant(read_string(token) if token.type == "STRING" else read_number(token))

    def true(self) -> Constant:
        return Constant(True)

    def false(self) -> Constant:
        return Constant(False)

    def null(self) -> Constant:
        return Constant(None)

    def array(self, *elements: Constant | None) -> Constant:
        return Constant([element.value for element in elements if element is not None])

    def pair(self, name: Token, value: Constant) -> tuple[str, JsonValue]:
        return read_string(name), value.value

    def object(self, *pairs: tuple[str, JsonValue] | None) -> Constant:
        return Constant(dict(pair for pair in pairs if pair is not None))


def _select_member(name: str) -> Query:
    return Part(lambda value: get_member(value, name))


class Guard(Struct, frozen=True):
    """A guard, ready to be asked."""

    path: Query
    mixes_operators: bool
    """Whether ``and`` and ``or`` meet without brackets, where a reader may take their order for another."""

    def holds(self, value: JsonValue, limit: int = MAX_SELECTED) -> bool:
        """Whether anything is selected. Raises as :meth:`judge`."""
        return self.judge(value, limit)[0]

    def judge(self, value: JsonValue, limit: int) -> tuple[bool, int]:
        """Whether anything is selected, and how many values were looked at. Raises
        :class:`~statewright.flows.guards.GuardTooBroad` for more than ``limit``.
        """
        budget = GuardBudget(limit, value)
        with limit_values(budget):
            return any(True for _ in self.path.iterate(wrap(value))), budget.spent


_READER: Final = GuardReader(GuardBuilder())


_MAX_PARSED: Final = 4096
_parsed: Final[set[str]] = set()
"""Texts that are parsed. There are never more of them than are cached, so each of them is."""

_STEPS_PER_CHAR: Final = 4


def count_parsing_steps(text: str) -> int:
    """What :func:`parse_guard` takes for the text, unless it knows it, in steps (``statewright.evaluation.costs``)."""
    return 0 if text in _parsed else _STEPS_PER_CHAR * len(text)


def parse_guard(text: str) -> Guard:
    """A guard from its text. Raises :class:`~statewright.flows.guards.MalformedGuard`."""
    guard = _parse(text)
    if len(_parsed) >= _MAX_PARSED:
        _parsed.clear()
    _parsed.add(text)
    return guard


@lru_cache(maxsize=_MAX_PARSED)
def _parse(text: str) -> Guard:
    with notice_mixed_operators() as seen:
        path = _READER.read(text)
    return Guard(path, bool(seen))
