"""Functions on the bits of 64-bit integers."""

from collections.abc import Callable, Mapping
from typing import Final

from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.functions.call import Function
from statewright.steps.core.expressions.values import Value, unusable, wrapped

_WIDTH: Final = 64


def _on_bits(name: str, apply: Callable[..., int]) -> Function:
    """A function of integers; ``apply`` takes as many as the signature of ``name`` says."""
    return lambda _, arguments: wrapped(apply(*(_integer(argument, name) for argument in arguments)))


def _integer(value: Value, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise unusable(value, "int", name)
    return value


def _shifted(count: int) -> int:
    if count < 0:
        raise ExpressionError(f"invalid operation: negative shift count {count} (type int)")
    return min(count, _WIDTH)


FUNCTIONS: Final[Mapping[str, Function]] = {
    "bitand": _on_bits("bitand", lambda x, y: x & y),
    "bitor": _on_bits("bitor", lambda x, y: x | y),
    "bitxor": _on_bits("bitxor", lambda x, y: x ^ y),
    "bitnand": _on_bits("bitnand", lambda x, y: x & ~y),
    "bitnot": _on_bits("bitnot", lambda x: ~x),
    "bitshl": _on_bits("bitshl", lambda x, y: x << _shifted(y)),
    "bitshr": _on_bits("bitshr", lambda x, y: x >> _shifted(y)),
    "bitushr": _on_bits("bitushr", lambda x, y: x % 2**_WIDTH >> _shifted(y)),
}
