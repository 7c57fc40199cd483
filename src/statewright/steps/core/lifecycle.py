"""The states of an instance as a workflow of its entity (spec/step-engine.md §4, §25.3).

The table is what an entity's history shows, and what diagrams are drawn from; an instance moves by the kernel.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from statewright.net.effects import ChangePhase, Effect
from statewright.steps.core.instance import Status

Transition: TypeAlias = Literal["advance", "park", "resume", "complete", "fail", "cancel", "retry"]

INITIAL: Final[Status] = "ACTIVE"

TRANSITIONS: Final[Mapping[tuple[Status, Status], Transition]] = {
    ("ACTIVE", "ACTIVE"): "advance",
    ("WAITING", "WAITING"): "advance",
    ("FAILED", "FAILED"): "advance",
    ("ACTIVE", "WAITING"): "park",
    ("WAITING", "ACTIVE"): "resume",
    ("ACTIVE", "COMPLETED"): "complete",
    ("WAITING", "COMPLETED"): "complete",
    ("ACTIVE", "FAILED"): "fail",
    ("WAITING", "FAILED"): "fail",
    ("ACTIVE", "CANCELLED"): "cancel",
    ("WAITING", "CANCELLED"): "cancel",
    ("FAILED", "ACTIVE"): "retry",
}
"""All moves. A failed instance advances when a job of another branch is reported; that is kept for a retry."""


def transitions(before: Status | None, after: Status, effects: tuple[Effect, ...]) -> tuple[Transition, ...]:
    """The moves that one step of the kernel amounts to; ``before`` ``None``: the instance is new.

    Creation itself is no transition. A retry first makes the instance ACTIVE, whatever it comes to then.
    """
    if not effects:
        return ()
    if before is None:
        return () if after == INITIAL else (TRANSITIONS[INITIAL, after],)
    if any(isinstance(effect, ChangePhase) and effect.phase == "RUNNING" for effect in effects):
        return ("retry",) if after == "ACTIVE" else ("retry", TRANSITIONS["ACTIVE", after])
    return (TRANSITIONS[before, after],)
