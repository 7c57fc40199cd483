"""Functions that templates may call by name."""

from collections.abc import Callable
from typing import Final

from statewright.playbooks.jinja.failures import EvaluationFailed
from statewright.playbooks.jinja.frame import Frame
from statewright.playbooks.jinja.values import Namespace


def _list_range(frame: Frame, start: object, stop: object = None, step: object = 1) -> object:
    if stop is None:
        start, stop = 0, start
    if not isinstance(start, int) or not isinstance(stop, int) or not isinstance(step, int) or step == 0:
        raise EvaluationFailed("makes a range of something that is no whole number, or in steps of 0")
    count = max(0, -((start - stop) // step))
    frame.spend_items(count)
    return list(range(start, stop, step))


def _build_mapping(frame: Frame, **members: object) -> object:
    return members


def _build_namespace(frame: Frame, **members: object) -> object:
    return Namespace(members)


FUNCTIONS: Final[dict[str, Callable[..., object]]] = {
    "dict": _build_mapping,
    "namespace": _build_namespace,
    "range": _list_range,
}
"""By name. Each takes the frame and the arguments."""
