"""Slices of lists and texts."""

from collections.abc import Sequence

from statewright.playbooks.jinja.failures import EvaluationFailed
from statewright.playbooks.jinja.frame import Frame
from statewright.playbooks.jinja.values import Undefined, describe


def take_slice(value: object, bounds: Sequence[object], frame: Frame) -> object:
    """The items between start and stop, in steps."""
    if isinstance(value, Undefined):
        return value
    if not isinstance(value, str | list):
        raise EvaluationFailed(f"takes a slice of {describe(value)}")
    limits = [_read_bound(bound) for bound in bounds]
    if limits[2] == 0:
        raise EvaluationFailed("takes a slice in steps of 0")
    if isinstance(value, str):
        frame.spend_text(len(value))
    else:
        frame.spend_items(len(value))
    return value[slice(*limits)]


def _read_bound(bound: object) -> int | None:
    if bound is None or isinstance(bound, Undefined):
        return None
    if isinstance(bound, int):
        return bound
    raise EvaluationFailed(f"takes a slice to {describe(bound)}")
