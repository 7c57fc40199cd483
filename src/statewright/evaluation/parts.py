"""Deep equality of lists and mappings, whatever the language makes of what they hold."""

from collections.abc import Callable
from typing import Any


def are_alike(left: object, right: object) -> bool:
    """Whether both are lists, or both are mappings: only then they may be equal by what they hold."""
    if isinstance(left, list | tuple):
        return isinstance(right, list | tuple)
    return isinstance(left, dict) and isinstance(right, dict)


def compare_parts(left: Any, right: Any, compare: Callable[[Any, Any], bool]) -> bool:  # Any: of any language
    """Whether two lists or mappings, which are alike, are equal: ``compare`` says so of each pair of what they hold."""
    if len(left) != len(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(compare(member, right[name]) for name, member in left.items())
    return all(map(compare, left, right))
