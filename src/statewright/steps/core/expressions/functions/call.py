"""The shape of a built-in function. The number of arguments has been checked when one is called."""

from collections.abc import Callable
from typing import TypeAlias

from statewright.steps.core.expressions.frames import Frame
from statewright.steps.core.expressions.values import Value

Function: TypeAlias = Callable[[Frame, tuple[Value, ...]], Value]


def of_one(apply: Callable[[Value], Value]) -> Function:
    """A function of one argument and nothing else."""
    return lambda _, arguments: apply(arguments[0])
