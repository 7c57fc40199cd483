"""Compiling a syntax tree into a function from a frame to a value.

A run of binary operators is evaluated in a loop rather than by recursion, so only true nesting, which the parser
bounds, deepens the stack.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Final, TypeAlias, assert_never

from statewright.evaluation.costs import Entry, charge_nothing
from statewright.evaluation.values import charge_text
from statewright.expressions.frames import SHORT_BYTES, Frame, list_items
from statewright.expressions.functions import FUNCTIONS
from statewright.expressions.functions.times import METHODS
from statewright.expressions.lexer import (
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
from statewright.expressions.operators import DEEP_OPERATORS, OPERATORS
from statewright.expressions.predicates import Evaluate, compile_predicate_call
from statewright.expressions.signatures import SIGNATURES
from statewright.expressions.values import (
    ExactNumber,
    ExpressionError,
    Map,
    Value,
    as_int,
    as_items,
    fetch_member,
    is_number,
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
        value = frame.variables[name]
        if value.__class__ is Decimal and value.__sizeof__() > SHORT_BYTES:
            frame.charge_number(value)
        return lift_value(value)

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
    if is_number(value):
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
        case _ if operator in DEEP_OPERATORS:
            return _compile_deep_step(DEEP_OPERATORS[operator], right)
        case _:
            return _compile_plain_step(OPERATORS[operator], right)


def _compile_plain_step(entry: Entry, right: Evaluate) -> BinaryStep:
    apply, cost = entry.call, entry.cost
    if cost is charge_nothing:
        return lambda left, frame: apply(left, right(frame))

    def step(left: Value, frame: Frame) -> Value:
        other = right(frame)
        if left.__class__ is str:  # only texts take long
            frame.spend(cost(left, other))
        result: Value = apply(left, other)
        return result

    return step


def _compile_deep_step(entry: Entry, right: Evaluate) -> BinaryStep:
    apply, cost = entry.call, entry.cost
    if cost is charge_nothing:
        return lambda left, frame: apply(left, right(frame), frame)

    def step(left: Value, frame: Frame) -> Value:
        other = right(frame)
        frame.spend(cost(left, other))
        result: Value = apply(left, other, frame)
        return result

    return step


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
    member = fetch_member(base, key)
    if type(member) is ExactNumber:
        frame.charge_number(member.number)
    return member


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
        frame.spend(SLICE.cost(whole))
        piece: Value = SLICE.call(whole, part)
        return piece

    return evaluate


def _cut(whole: Value, part: slice) -> Value:
    if isinstance(whole, str):
        return whole[part]
    elements = as_items(whole)
    if elements is None:
        raise ExpressionError(f"cannot slice {type_name(whole)}")
    return elements[part]


def _copy(whole: Value) -> int:
    return charge_text(whole) if isinstance(whole, str) else list_items(whole)


SLICE: Final = Entry(_cut, _copy)
"""``whole[start:end]``; takes a slice of Python as second argument."""


def _compile_call(syntax: MethodCall) -> Evaluate:
    arguments = tuple(map(compile_syntax, syntax.arguments))
    if not isinstance(syntax.callee, MemberAccess) or not isinstance(syntax.callee.key, Constant):
        return _compile_uncallable(compile_syntax(syntax.callee))
    base, method, optional = compile_syntax(syntax.callee.base), str(syntax.callee.key.value), syntax.callee.optional

    def evaluate(frame: Frame) -> Value:
        value = base(frame)
        if value is None and optional:
            raise _Absent
        entry = METHODS.get((type(value), method))
        if entry is None:
            raise ExpressionError(f"type {type_name(value)} has no method {method}")
        given = tuple([argument(frame) for argument in arguments])
        frame.spend(entry.cost(value, *given))
        result: Value = entry.call(value, given)
        return result

    return evaluate


def _compile_uncallable(callee: Evaluate) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        raise ExpressionError(f"{type_name(callee(frame))} is not callable")

    return evaluate


def _compile_builtin(syntax: Builtin) -> Evaluate:
    arguments = tuple(map(compile_syntax, syntax.arguments))
    if SIGNATURES[syntax.name].predicate:
        return compile_predicate_call(syntax.name, arguments, syntax.predicate_tokens)
    function, cost = FUNCTIONS[syntax.name].call, FUNCTIONS[syntax.name].cost
    if cost is charge_nothing:
        return lambda frame: function(frame, tuple([argument(frame) for argument in arguments]))

    def call(frame: Frame) -> Value:
        given = tuple([argument(frame) for argument in arguments])
        frame.spend(cost(*given))
        result: Value = function(frame, given)
        return result

    return call


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
