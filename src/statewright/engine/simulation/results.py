"""What a simulation tells."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.entity import TaskKey
from statewright.jsonval.values import JsonValue

Outcome: TypeAlias = Literal["SETTLED", "FAILED"]


class JudgedCriterion(Struct, frozen=True, kw_only=True):
    """A criterion on the way, and whether it held; ``name`` is that of its transition."""

    name: str
    matches: bool
    reason: str | None = None


class CalledProcessor(Struct, frozen=True, kw_only=True):
    """A processor on the way; ``error`` None: it succeeded."""

    name: str
    mode: str
    error: str | None = None


class PathStep(Struct, frozen=True, kw_only=True):
    """A transition that was taken, or tried: then ``failure`` says why it failed. ``event`` is the index of what was
    done, -1 for the start; ``at`` in epoch microseconds. Criteria are those judged since the step before.
    """

    event: int
    at: int
    source: str
    transition: str
    target: str
    criteria: tuple[JudgedCriterion, ...] = ()
    processors: tuple[CalledProcessor, ...] = ()
    failure: str | None = None


class SimulationFinding(Struct, frozen=True, kw_only=True):
    """Something that the scenario leaves open."""

    code: str
    path: str
    message: str


class SimulationResult(Struct, frozen=True, kw_only=True):
    """How it ended. ``timers`` are armed, with when they are due in epoch milliseconds; ``failure`` is why an event
    could not be carried out, which ends a simulation.
    """

    outcome: Outcome
    state: str | None
    document: JsonValue
    path: tuple[PathStep, ...]
    timers: Mapping[TaskKey, int]
    findings: tuple[SimulationFinding, ...]
    failure: str | None = None
