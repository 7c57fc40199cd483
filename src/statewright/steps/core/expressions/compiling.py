"""Syntax trees to functions from a frame to a value.

A run of binary operators is evaluated in a loop rather than by recursion, so only true nesting, which the parser
bounds, deepens the stack.
"""

from collections.abc import Callable
from typing import TypeAlias, assert_never

from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.frames import Frame
from statewright.steps.core.expressions.functions import FUNCTIONS
from statewright.steps.core.expressions.functions.times import METHODS
from statewright.steps.core.expressions.operators import OPERATORS
from statewright.steps.core.expressions.predicates import Evaluate, with_predicate
from statewright.steps.core.expressions.signatures import SIGNATURES
from statewright.steps.core.expressions.syntax import (
    ArrayLiteral,
    Binary,
    Builtin,
    Call,
    Chain,
    Conditional,
    Constant,
    Element,
    Let,
    MapLiteral,
    Member,
    Name,
    Series,
    Slice,
    Syntax,
    Unary,
)
from statewright.steps.core.expressions.values import (
    Map,
    Value,
    as_int,
    fetched,
    items,
    lifted,
    type_name,
    wrapped,
)

Step: TypeAlias = Callable[[Value, Frame], Value]
"""What an operator and its right operand make of the left one."""


class _Absent(Exception):
    """An optional member of nil was asked for."""


def compiled(syntax: Syntax) -> Evaluate:  # noqa: C901 - the list of all nodes
    """The function that evaluates ``syntax``. It raises :class:`ExpressionError`."""
    match syntax:
        case Constant(value=value):
            return lambda _: value
        case Name(name=name):
            return _name(name)
        case Element():
            return lambda frame: frame.element
        case Unary():
            return _unary(syntax)
        case Binary():
            return _binary(syntax)
        case Conditional():
            return _conditional(syntax)
        case Member():
            return _member(syntax)
        case Chain(inner=inner):
            return _chain(compiled(inner))
        case Slice():
            return _slice(syntax)
        case Call():
            return _call(syntax)
        case Builtin():
            return _builtin(syntax)
        case ArrayLiteral(items=elements):
            return _array(tuple(map(compiled, elements)))
        case MapLiteral(pairs=pairs):
            return _map(tuple((compiled(key), compiled(value)) for key, value in pairs))
        case Let():
            return _let(syntax)
        case Series(items=expressions):
            return _series(tuple(map(compiled, expressions)))
        case unknown:
            assert_never(unknown)


def as_bool(value: Value, what: str) -> bool:
    """An operand of logic. Raises :class:`ExpressionError` when it is no boolean."""
    if not isinstance(value, bool):
        raise ExpressionError(f"invalid operation: {what} {type_name(value)}")
    return value


def _name(name: str) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        if name in frame.bound:
            return frame.bound[name]
        if name not in frame.variables:
            raise ExpressionError(f"{name} is a function, not a value")
        return lifted(frame.variables[name])

    return evaluate


def _unary(syntax: Unary) -> Evaluate:
    operand = compiled(syntax.operand)
    match syntax.operator:
        case "!":
            return lambda frame: not as_bool(operand(frame), "!")
        case "-":
            return lambda frame: _negated(operand(frame))
        case _:
            return operand


def _negated(value: Value) -> Value:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return wrapped(-value) if isinstance(value, int) else -value
    raise ExpressionError(f"invalid operation: - {type_name(value)}")


def _binary(syntax: Binary) -> Evaluate:
    steps: list[Step] = []
    left: Syntax = syntax
    while isinstance(left, Binary):
        steps.append(_step(left.operator, compiled(left.right)))
        left = left.left
    first = compiled(left)
    if len(steps) == 1:
        only = steps[0]
        return lambda frame: only(first(frame), frame)
    steps.reverse()

    def evaluate(frame: Frame) -> Value:
        value = first(frame)
        for step in steps:
            value = step(value, frame)
        return value

    return evaluate


def _step(operator: str, right: Evaluate) -> Step:
    match operator:
        case "&&":
            return lambda left, frame: as_bool(left, "&&") and as_bool(right(frame), "&&")
        case "||":
            return lambda left, frame: as_bool(left, "||") or as_bool(right(frame), "||")
        case "??":
            return lambda left, frame: right(frame) if left is None else left
        case "in":
            return lambda left, frame: _membership(left, right(frame), frame)
        case "..":
            return lambda left, frame: _range(left, right(frame), frame)
        case "+":
            return lambda left, frame: _sum(left, right(frame), frame)
        case "==" | "!=":
            return lambda left, frame: _equality(operator, left, right(frame), frame)
        case _:
            apply = OPERATORS[operator]
            return lambda left, frame: apply(left, right(frame))


def _sum(left: Value, right: Value, frame: Frame) -> Value:
    total = OPERATORS["+"](left, right)
    return frame.written(total) if isinstance(total, str) else total


def _equality(operator: str, left: Value, right: Value, frame: Frame) -> Value:
    frame.visit(left)
    return OPERATORS[operator](left, right)


def _membership(element: Value, collection: Value, frame: Frame) -> Value:
    if isinstance(collection, list | tuple):
        frame.spend(len(collection))
    return OPERATORS["in"](element, collection)


def _range(first: Value, last: Value, frame: Frame) -> Value:
    span = OPERATORS[".."](first, last)
    frame.spend(len(items(span) or ()))
    return span


def _conditional(syntax: Conditional) -> Evaluate:
    condition, then, otherwise = compiled(syntax.condition), compiled(syntax.then), compiled(syntax.otherwise)
    return lambda frame: then(frame) if as_bool(condition(frame), "?:") else otherwise(frame)


def _member(syntax: Member) -> Evaluate:
    base, key = compiled(syntax.base), compiled(syntax.key)
    if not syntax.optional:
        return lambda frame: fetched(base(frame), key(frame))

    def evaluate(frame: Frame) -> Value:
        value = base(frame)
        if value is None:
            raise _Absent
        return fetched(value, key(frame))

    return evaluate


def _chain(inner: Evaluate) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        try:
            return inner(frame)
        except _Absent:
            return None

    return evaluate


def _slice(syntax: Slice) -> Evaluate:
    base = compiled(syntax.base)
    start = None if syntax.start is None else compiled(syntax.start)
    end = None if syntax.end is None else compiled(syntax.end)

    def evaluate(frame: Frame) -> Value:
        whole = base(frame)
        part = slice(
            None if start is None else as_int(start(frame)),
            None if end is None else as_int(end(frame)),
        )
        if isinstance(whole, str):
            return whole[part]
        elements = items(whole)
        if elements is None:
            raise ExpressionError(f"cannot slice {type_name(whole)}")
        return elements[part]

    return evaluate


def _call(syntax: Call) -> Evaluate:
    arguments = tuple(map(compiled, syntax.arguments))
    if not isinstance(syntax.callee, Member) or not isinstance(syntax.callee.key, Constant):
        return _uncallable(compiled(syntax.callee))
    base, method, optional = compiled(syntax.callee.base), str(syntax.callee.key.value), syntax.callee.optional

    def evaluate(frame: Frame) -> Value:
        value = base(frame)
        if value is None and optional:
            raise _Absent
        apply = METHODS.get((type(value), method))
        if apply is None:
            raise ExpressionError(f"type {type_name(value)} has no method {method}")
        return apply(value, tuple(argument(frame) for argument in arguments))

    return evaluate


def _uncallable(callee: Evaluate) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        raise ExpressionError(f"{type_name(callee(frame))} is not callable")

    return evaluate


def _builtin(syntax: Builtin) -> Evaluate:
    arguments = tuple(map(compiled, syntax.arguments))
    if SIGNATURES[syntax.name].predicate:
        return with_predicate(syntax.name, arguments)
    function = FUNCTIONS[syntax.name]
    return lambda frame: function(frame, tuple(argument(frame) for argument in arguments))


def _array(elements: tuple[Evaluate, ...]) -> Evaluate:
    return lambda frame: tuple(element(frame) for element in elements)


def _map(pairs: tuple[tuple[Evaluate, Evaluate], ...]) -> Evaluate:
    return lambda frame: Map({_text_key(key(frame)): value(frame) for key, value in pairs})


def _text_key(key: Value) -> Value:
    if not isinstance(key, str):
        raise ExpressionError(f"cannot use {type_name(key)} as a key")
    return key


def _let(syntax: Let) -> Evaluate:
    name, value, body = syntax.name, compiled(syntax.value), compiled(syntax.body)

    def evaluate(frame: Frame) -> Value:
        outer = frame.bound
        frame.bound = {**outer, name: value(frame)}
        try:
            return body(frame)
        finally:
            frame.bound = outer

    return evaluate


def _series(expressions: tuple[Evaluate, ...]) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        value: Value = None
        for expression in expressions:
            value = expression(frame)
        return value

    return evaluate
