"""The built-in functions by name: groups of them live in the modules of this package
(docs/reference/steps.md#functions).
"""

from collections.abc import Mapping
from typing import Final

from statewright.expressions.frames import BuiltinFunction
from statewright.expressions.functions import arrays, numbers, objects, texts, times

FUNCTIONS: Final[Mapping[str, BuiltinFunction]] = {
    **texts.FUNCTIONS,
    **numbers.FUNCTIONS,
    **arrays.FUNCTIONS,
    **objects.FUNCTIONS,
    **times.FUNCTIONS,
    **numbers.BIT_FUNCTIONS,
}
"""All built-in functions by name, but those that apply a predicate (``statewright.expressions.predicates``)."""

__all__ = ["FUNCTIONS", "BuiltinFunction"]
