"""A definition to a net (spec/playbook-routing.md §19.3).

A compiled definition is immutable: cache it by id and version.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.net import (
    AllBranches,
    Arc,
    BoundaryTimer,
    Delay,
    Human,
    Language,
    Net,
    Node,
    NodeId,
    Nothing,
    Routing,
    Task,
    Wait,
    parse_delay,
)
from statewright.steps.core.definition import STEP_TYPES, TIMED_TYPES, BoundaryEvent, Definition, Step, StepType
from statewright.steps.core.language import StepLanguage
from statewright.steps.core.texts import quoted

NO_BRANCH: Final = "no conditionalNextSteps branch matched (DecisionNoBranchMatched)"
"""Why a DECISION without a true branch fails (spec/step-engine.md §5.4)."""


class Process(Struct, frozen=True, kw_only=True):
    """A definition ready to run. Steps that are not defined properly fail when they are entered (§5.7)."""

    definition: Definition
    version: int
    steps: Mapping[str, Step]
    typed: Mapping[NodeId, tuple[Step, StepType]]
    net: Net

    def language(self) -> Language:
        """The language for one operation: what it may spend is not shared with others."""
        return StepLanguage(self.typed)


def compile_definition(definition: Definition, version: int) -> Process:
    """The process of a definition that passed validation."""
    steps = {step.id: step for step in reversed(definition.steps)}
    typed: dict[NodeId, tuple[Step, StepType]] = {NodeId(step.id): (step, _type_of(step)) for step in steps.values()}
    nodes = {node_id: _node(step, step_type, steps) for node_id, (step, step_type) in typed.items()}
    if definition.main_end is not None:
        main_end = NodeId(definition.main_end)
        nodes[main_end] = replace(nodes[main_end], successor=definition.successor)
    net = Net(
        nodes=nodes,
        entries=(NodeId(definition.steps[0].id),),
        noun="step",
    )
    return Process(definition=definition, version=version, steps=steps, typed=typed, net=net)


def _type_of(step: Step) -> StepType:
    """An unknown type counts as END, of which nothing is expected; such a step cannot be entered."""
    return STEP_TYPES.get(step.type, "END")


def _node(step: Step, step_type: StepType, steps: Mapping[str, Step]) -> Node:
    node = _NODES[step_type](step)
    if step.type not in STEP_TYPES:
        return replace(node, defect=f"step {quoted(step.id)}: unsupported type {quoted(step.type)}")
    if step_type not in TIMED_TYPES:
        return node
    timers, defect = _timers(step, steps)
    return replace(node, timers=timers, defect=defect)


def _service_task(step: Step) -> Node:
    activity = Task(kind=step.job_type or step.id, retries=max(step.retry_count, 0))
    return Node(id=NodeId(step.id), activity=activity, routing=_task_routing(step, stays=True))


def _user_task(step: Step) -> Node:
    return Node(id=NodeId(step.id), activity=Human(kind=step.job_type), routing=_task_routing(step, stays=False))


def _wait(step: Step) -> Node:
    return Node(id=NodeId(step.id), activity=Wait(), routing=_task_routing(step, stays=False))


def _decision(step: Step) -> Node:
    return Node(id=NodeId(step.id), routing=_branches(step))


def _linear(step: Step) -> Node:
    return Node(id=NodeId(step.id), routing=_onward(step, stays=False))


def _parallel_gateway(step: Step) -> Node:
    arcs = tuple(Arc(NodeId(target)) for target in step.parallel_next_steps)
    return Node(id=NodeId(step.id), routing=Routing(mode="ALL", arcs=arcs, joined_at=NodeId(step.join_step)))


def _join_gateway(step: Step) -> Node:
    unmatched = f"join step {quoted(step.id)}: no matching PARALLEL_GATEWAY found"
    return Node(id=NodeId(step.id), arrival=AllBranches(unmatched), routing=_onward(step, stays=False))


def _end(step: Step) -> Node:
    return Node(id=NodeId(step.id), activity=Nothing(), ends=True)


def _task_routing(step: Step, *, stays: bool) -> Routing:
    """Conditional branches of a task come before its ``nextStep`` (§5.6)."""
    return _branches(step) if step.conditional_next_steps else _onward(step, stays=stays)


def _branches(step: Step) -> Routing:
    arcs = tuple(Arc(NodeId(target), expression) for expression, target in step.conditional_next_steps.items())
    return Routing(mode="FIRST", arcs=arcs, unmatched=NO_BRANCH)


def _onward(step: Step, *, stays: bool) -> Routing:
    return Routing(arcs=(Arc(NodeId(step.next_step)),) if step.next_step else (), stays=stays)


def _timers(step: Step, steps: Mapping[str, Step]) -> tuple[tuple[BoundaryTimer, ...], str | None]:
    """The timers of a step, and why it cannot be entered if one of them is unusable."""
    timers: list[BoundaryTimer] = []
    for index, event in enumerate(step.boundary_events):
        delay = parse_delay(event.duration)
        defect = _timer_defect(event, delay, steps)
        if defect is not None:
            return (), f"step {quoted(step.id)} boundaryEvents[{index}]: {defect}"
        timers.append(
            BoundaryTimer(
                delay=delay or Delay(0, 0),
                target=NodeId(event.target_step_id),
                interrupting=event.interrupting,
            )
        )
    return tuple(timers), None


def _timer_defect(event: BoundaryEvent, delay: Delay | None, steps: Mapping[str, Step]) -> str | None:
    if event.type != "TIMER":
        return f"unsupported type {quoted(event.type)}"
    if delay is None:
        return f"invalid ISO-8601 duration {quoted(event.duration)}"
    return None if event.target_step_id in steps else f"unknown step {quoted(event.target_step_id)}"


_NODES: Final = {
    "SERVICE_TASK": _service_task,
    "USER_TASK": _user_task,
    "DECISION": _decision,
    "DECISION_TABLE": _linear,
    "TRANSFORMATION": _linear,
    "WAIT": _wait,
    "PARALLEL_GATEWAY": _parallel_gateway,
    "JOIN_GATEWAY": _join_gateway,
    "END": _end,
}
