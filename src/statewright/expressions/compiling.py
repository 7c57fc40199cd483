"""Compiling a syntax tree into a function from a frame to a value.

A run of binary operators is evaluated in a loop rather than by recursion, so only true nesting, which the parser
bounds, deepens the stack.
"""

from collections.abc import Callable
from typing import TypeAlias, assert_never

from statewright.expressions.frames import Frame
from statewright.expressions.functions import FUNCTIONS
from statewright.expressions.functions.times import METHODS
from statewright.expressions.operators import OPERATORS, count_range
from statewright.expressions.predicates import Evaluate, compile_predicate_call
from statewright.expressions.signatures import SIGNATURES
from statewright.expressions.syntax import (
    ArrayLiteral,
    Binary,
    Builtin,
    Chain,
    Conditional,
    Constant,
    Element,
    Let,
    MapLiteral,
    MemberAccess,
    MethodCall,
    Name,
    Series,
    Slice,
    Syntax,
    Unary,
)
from statewright.expressions.values import (
    ExpressionError,
    Map,
    Value,
    as_int,
    as_items,
    fetch_member,
    lift_value,
    type_name,
    wrap_int64,
)

BinaryStep: TypeAlias = Callable[[Value, Frame], Value]
"""An operator with its right operand, applied to the value of the left one."""


class _Absent(Exception):
    """An optional member of nil was read: the whole chain is nil."""


def compile_syntax(syntax: Syntax) -> Evaluate:  # noqa: C901 - the list of all nodes
    """The function that evaluates ``syntax``. It raises :class:`ExpressionError`."""
    match syntax:
        case Constant(value=value):
            return lambda _: value
        case Name(name=name):
            return _compile_name(name)
        case Element():
            return lambda frame: frame.element
        case Unary():
            return _compile_unary(syntax)
        case Binary():
            return _compile_binary(syntax)
        case Conditional():
            return _compile_conditional(syntax)
        case MemberAccess():
            return _compile_member(syntax)
        case Chain(inner=inner):
            return _compile_chain(compile_syntax(inner))
        case Slice():
            return _compile_slice(syntax)
        case MethodCall():
            return _compile_call(syntax)
        case Builtin():
            return _compile_builtin(syntax)
        case ArrayLiteral(items=elements):
            return _compile_array(tuple(map(compile_syntax, elements)))
        case MapLiteral(pairs=pairs):
            return _compile_map(tuple((compile_syntax(key), compile_syntax(value)) for key, value in pairs))
        case Let():
            return _compile_let(syntax)
        case Series(items=expressions):
            return _compile_series(tuple(map(compile_syntax, expressions)))
        case unknown:
            assert_never(unknown)


def require_bool(value: Value, what: str) -> bool:
    """An operand of logic. Raises :class:`ExpressionError` when it is no boolean."""
    if not isinstance(value, bool):
        raise ExpressionError(f"invalid operation: {what} {type_name(value)}")
    return value


def _compile_name(name: str) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        if name in frame.bound:
            return frame.bound[name]
        if name not in frame.variables:
            raise ExpressionError(f"{name} is a function, not a value")
        return lift_value(frame.variables[name])

    return evaluate


def _compile_unary(syntax: Unary) -> Evaluate:
    operand = compile_syntax(syntax.operand)
    match syntax.operator:
        case "!":
            return lambda frame: not require_bool(operand(frame), "!")
        case "-":
            return lambda frame: _negate(operand(frame))
        case _:
            return operand


def _negate(value: Value) -> Value:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return wrap_int64(-value) if isinstance(value, int) else -value
    raise ExpressionError(f"invalid operation: - {type_name(value)}")


def _compile_binary(syntax: Binary) -> Evaluate:
    steps: list[BinaryStep] = []
    left: Syntax = syntax
    while isinstance(left, Binary):
        steps.append(_compile_step(left.operator, compile_syntax(left.right)))
        left = left.left
    first = compile_syntax(left)
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


def _compile_step(operator: str, right: Evaluate) -> BinaryStep:
    match operator:
        case "&&":
            return lambda left, frame: require_bool(left, "&&") and require_bool(right(frame), "&&")
        case "||":
            return lambda left, frame: require_bool(left, "||") or require_bool(right(frame), "||")
        case "??":
            return lambda left, frame: right(frame) if left is None else left
        case "in":
            return lambda left, frame: _test_membership(left, right(frame), frame)
        case "..":
            return lambda left, frame: _build_range(left, right(frame), frame)
        case "+":
            return lambda left, frame: _add_values(left, right(frame), frame)
        case "==" | "!=":
            return lambda left, frame: _compare_equality(operator, left, right(frame), frame)
        case _:
            apply = OPERATORS[operator]
            return lambda left, frame: apply(left, right(frame))


def _add_values(left: Value, right: Value, frame: Frame) -> Value:
    total = OPERATORS["+"](left, right)
    return frame.charge_text(total) if isinstance(total, str) else total


def _compare_equality(operator: str, left: Value, right: Value, frame: Frame) -> Value:
    frame.visit(left)
    return OPERATORS[operator](left, right)


def _test_membership(element: Value, collection: Value, frame: Frame) -> Value:
    if isinstance(collection, list | tuple):
        frame.spend(len(collection))
    return OPERATORS["in"](element, collection)


def _build_range(first: Value, last: Value, frame: Frame) -> Value:
    frame.spend(count_range(first, last))
    return OPERATORS[".."](first, last)


def _compile_conditional(syntax: Conditional) -> Evaluate:
    condition, then, otherwise = (
        compile_syntax(syntax.condition),
        compile_syntax(syntax.then),
        compile_syntax(syntax.otherwise),
    )
    return lambda frame: then(frame) if require_bool(condition(frame), "?:") else otherwise(frame)


def _compile_member(syntax: MemberAccess) -> Evaluate:
    base, key = compile_syntax(syntax.base), compile_syntax(syntax.key)
    if not syntax.optional:
        return lambda frame: _fetch(base(frame), key(frame), frame)

    def evaluate(frame: Frame) -> Value:
        value = base(frame)
        if value is None:
            raise _Absent
        return _fetch(value, key(frame), frame)

    return evaluate


def _fetch(base: Value, key: Value, frame: Frame) -> Value:
    if isinstance(base, str) and not base.isascii():
        frame.charge_text(base)  # its bytes are counted
    return fetch_member(base, key)


def _compile_chain(inner: Evaluate) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        try:
            return inner(frame)
        except _Absent:
            return None

    return evaluate


def _compile_slice(syntax: Slice) -> Evaluate:
    base = compile_syntax(syntax.base)
    start = None if syntax.start is None else compile_syntax(syntax.start)
    end = None if syntax.end is None else compile_syntax(syntax.end)

    def evaluate(frame: Frame) -> Value:
        whole = base(frame)
        part = slice(
            None if start is None else as_int(start(frame)),
            None if end is None else as_int(end(frame)),
        )
        if isinstance(whole, str):
            return whole[part]
        elements = as_items(whole)
        if elements is None:
            raise ExpressionError(f"cannot slice {type_name(whole)}")
        return elements[part]

    return evaluate


def _compile_call(syntax: MethodCall) -> Evaluate:
    arguments = tuple(map(compile_syntax, syntax.arguments))
    if not isinstance(syntax.callee, MemberAccess) or not isinstance(syntax.callee.key, Constant):
        return _compile_uncallable(compile_syntax(syntax.callee))
    base, method, optional = compile_syntax(syntax.callee.base), str(syntax.callee.key.value), syntax.callee.optional

    def evaluate(frame: Frame) -> Value:
        value = base(frame)
        if value is None and optional:
            raise _Absent
        apply = METHODS.get((type(value), method))
        if apply is None:
            raise ExpressionError(f"type {type_name(value)} has no method {method}")
        return apply(value, tuple(argument(frame) for argument in arguments))

    return evaluate


def _compile_uncallable(callee: Evaluate) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        raise ExpressionError(f"{type_name(callee(frame))} is not callable")

    return evaluate


def _compile_builtin(syntax: Builtin) -> Evaluate:
    arguments = tuple(map(compile_syntax, syntax.arguments))
    if SIGNATURES[syntax.name].predicate:
        return compile_predicate_call(syntax.name, arguments)
    function = FUNCTIONS[syntax.name]
    return lambda frame: function(frame, tuple(argument(frame) for argument in arguments))


def _compile_array(elements: tuple[Evaluate, ...]) -> Evaluate:
    return lambda frame: tuple(element(frame) for element in elements)


def _compile_map(pairs: tuple[tuple[Evaluate, Evaluate], ...]) -> Evaluate:
    return lambda frame: Map({_require_text_key(key(frame)): value(frame) for key, value in pairs})


def _require_text_key(key: Value) -> Value:
    if not isinstance(key, str):
        raise ExpressionError(f"cannot use {type_name(key)} as a key")
    return key


def _compile_let(syntax: Let) -> Evaluate:
    name, value, body = syntax.name, compile_syntax(syntax.value), compile_syntax(syntax.body)

    def evaluate(frame: Frame) -> Value:
        outer = frame.bound
        frame.bound = {**outer, name: value(frame)}
        try:
            return body(frame)
        finally:
            frame.bound = outer

    return evaluate


def _compile_series(expressions: tuple[Evaluate, ...]) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        value: Value = None
        for expression in expressions:
            value = expression(frame)
        return value

    return evaluate
