"""Simulations: an entity is played through a workflow with stubs for members and a clock that jumps
(docs/reference/operations.md#simulating-workflows).

It is the engine itself that runs. What it needs of a transaction and of members, by protocols of its own, is played
here in memory; the pauses between attempts pass at once. Nothing is called, written or counted.
"""

from statewright.engine.simulation.simulator import (
    Advance,
    Fire,
    Loopback,
    Scenario,
    SimulatedEvent,
    SimulationLimits,
    simulate,
)
from statewright.engine.simulation.stubs import FunctionStub, ProcessorStub, SimulationResult, Stubs

__all__ = [
    "Advance",
    "Fire",
    "FunctionStub",
    "Loopback",
    "ProcessorStub",
    "Scenario",
    "SimulatedEvent",
    "SimulationLimits",
    "SimulationResult",
    "Stubs",
    "simulate",
]
