"""The built-in functions by name: groups of them live in the modules of this package (spec/step-engine.md §10.5)."""

from collections.abc import Mapping
from typing import Final

from statewright.steps.core.expressions.functions import arrays, bits, numbers, objects, texts, times
from statewright.steps.core.expressions.functions.call import Function

FUNCTIONS: Final[Mapping[str, Function]] = {
    **texts.FUNCTIONS,
    **numbers.FUNCTIONS,
    **arrays.FUNCTIONS,
    **objects.FUNCTIONS,
    **times.FUNCTIONS,
    **bits.FUNCTIONS,
}
"""All but those that apply a predicate."""

__all__ = ["FUNCTIONS", "Function"]
