"""The built-in functions by name: groups of them live in the modules of this package
(docs/reference/steps.md#functions).
"""

from collections.abc import Mapping
from typing import Final

from statewright.evaluation.costs import Entry
from statewright.expressions.functions import collections, numbers, texts, times

FUNCTIONS: Final[Mapping[str, Entry]] = {
    **texts.FUNCTIONS,
    **numbers.FUNCTIONS,
    **collections.FUNCTIONS,
    **times.FUNCTIONS,
    **numbers.BIT_FUNCTIONS,
}
"""All built-in functions by name, but those that apply a predicate (``statewright.expressions.predicates``).

A function takes the frame and the arguments, its cost the arguments.
"""
