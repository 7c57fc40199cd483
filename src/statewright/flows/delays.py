"""Tasks that only wait (``wait:delay``): done by a timer, not by a worker (docs/reference/flows.md#built-in-tasks)."""

from collections.abc import Iterator, Mapping
from typing import Final

from statewright.flows.failures import InvalidFlow, Position
from statewright.flows.graph import FlowGraph, FlowNode
from statewright.flows.language import DELAY
from statewright.net import Marking, NodeId, TimerId, WorkId
from statewright.net.effects import ArmTimer, CloseTask, DisarmTimer, Effect, EnqueueTask

MAX_DELAY_S: Final = 10 * 366 * 24 * 60 * 60
_US_PER_S: Final = 1_000_000


def find_delays(graph: FlowGraph) -> dict[NodeId, int]:
    """The nodes that only wait, each with the time in microseconds. Raises :class:`InvalidFlow` for one without."""
    return {
        NodeId(str(node.index)): _read_duration_s(node) * _US_PER_S
        for node in graph.nodes
        if node.kind == "task" and node.base == DELAY
    }


def _read_duration_s(node: FlowNode) -> int:
    given = node.parameters.get("duration") if isinstance(node.parameters, dict) else None
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= MAX_DELAY_S:
        return given
    line = node.line if isinstance(node.line, int) else 1
    column = node.column if isinstance(node.column, int) else 1
    reason = f"the parameter duration of {DELAY} must be a number of seconds from 0 to {MAX_DELAY_S}"
    raise InvalidFlow("PARAMETERS", Position(line, column), reason, piece=str(node.name))


def arm_delays(
    delays: Mapping[NodeId, int], before: Marking | None, effects: tuple[Effect, ...], at: int
) -> tuple[Effect, ...]:
    """The effects of an operation, with a timer in place of each task that only waits; the timer has the task's id."""
    if not delays:
        return effects
    tokens = () if before is None else before.tokens
    waiting = {token.work for token in tokens if token.work is not None and token.node in delays}
    return tuple(_replace_tasks(delays, waiting, effects, at))


def _replace_tasks(
    delays: Mapping[NodeId, int], waiting: set[WorkId], effects: tuple[Effect, ...], at: int
) -> Iterator[Effect]:
    for effect in effects:
        if isinstance(effect, EnqueueTask) and effect.node in delays:
            waiting.add(effect.task)
            yield ArmTimer(
                timer=TimerId(effect.task),
                execution=effect.execution,
                node=effect.node,
                at=at + delays[effect.node],
                target=effect.node,
                interrupting=False,
            )
        elif isinstance(effect, CloseTask) and effect.task in waiting:
            yield DisarmTimer(TimerId(effect.task))
        else:
            yield effect
