"""A definition to a net (docs/reference/kernel.md#from-definitions-to-nets).

A compiled definition is immutable: cache it by id and version.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.expressions import Budget
from statewright.jsonval.quoting import quote
from statewright.net import (
    Arc,
    BoundaryTimer,
    BranchJoin,
    Delay,
    HumanTask,
    Language,
    Net,
    NoActivity,
    Node,
    NodeId,
    Routing,
    Task,
    Wait,
    parse_delay,
)
from statewright.steps.definition import STEP_TYPES, TIMED_TYPES, BoundaryEvent, Definition, Step, StepType
from statewright.steps.language import StepLanguage

NO_BRANCH: Final = "no conditionalNextSteps branch matched (DecisionNoBranchMatched)"
"""Why a DECISION without a true branch fails (docs/reference/steps.md#decision)."""


class Process(Struct, frozen=True, kw_only=True):
    """A definition ready to run. Steps that are not defined properly fail when they are entered
    (docs/reference/kernel.md#the-token-kernel).
    """

    definition: Definition
    version: int
    steps: Mapping[str, Step]
    typed_steps: Mapping[NodeId, tuple[Step, StepType]]
    net: Net
    turn_elements: int | None = None
    """After so many elements operations raise ``TurnExceeded``; None: never."""

    def create_language(self) -> Language:
        """The language for one operation: what it may spend is not shared with others."""
        return StepLanguage(self.typed_steps, Budget(within_turn=self.turn_elements))


def compile_definition(definition: Definition, version: int) -> Process:
    """The process of a definition that passed validation."""
    steps = {step.id: step for step in reversed(definition.steps)}
    typed: dict[NodeId, tuple[Step, StepType]] = {
        NodeId(step.id): (step, _get_step_type(step)) for step in steps.values()
    }
    nodes = {node_id: _compile_step(step, step_type, steps) for node_id, (step, step_type) in typed.items()}
    for end in map(NodeId, definition.chaining_ends):
        nodes[end] = replace(nodes[end], successor=definition.successor)
    net = Net(
        nodes=nodes,
        entries=(NodeId(definition.steps[0].id),),
        node_label="step",
    )
    return Process(definition=definition, version=version, steps=steps, typed_steps=typed, net=net)


def _get_step_type(step: Step) -> StepType:
    """An unknown type counts as END, of which nothing is expected; such a step cannot be entered."""
    return STEP_TYPES.get(step.type, "END")


def _compile_step(step: Step, step_type: StepType, steps: Mapping[str, Step]) -> Node:
    node = _NODES[step_type](step)
    if step.type not in STEP_TYPES:
        return replace(node, defect=f"step {quote(step.id)}: unsupported type {quote(step.type)}")
    if step_type not in TIMED_TYPES:
        return node
    timers, defect = _compile_timers(step, steps)
    return replace(node, timers=timers, defect=defect)


def _compile_service_task(step: Step) -> Node:
    activity = Task(kind=step.job_type or step.id, retries=max(step.retry_count, 0))
    return Node(id=NodeId(step.id), activity=activity, routing=_build_task_routing(step, stays=True))


def _compile_user_task(step: Step) -> Node:
    return Node(
        id=NodeId(step.id), activity=HumanTask(kind=step.job_type), routing=_build_task_routing(step, stays=False)
    )


def _compile_wait(step: Step) -> Node:
    return Node(id=NodeId(step.id), activity=Wait(), routing=_build_task_routing(step, stays=False))


def _compile_decision(step: Step) -> Node:
    return Node(id=NodeId(step.id), routing=_build_branch_routing(step))


def _compile_linear(step: Step) -> Node:
    return Node(id=NodeId(step.id), routing=_build_next_routing(step, stays=False))


def _compile_parallel_gateway(step: Step) -> Node:
    arcs = tuple(Arc(NodeId(target)) for target in step.parallel_next_steps)
    return Node(id=NodeId(step.id), routing=Routing(mode="ALL", arcs=arcs, join_node=NodeId(step.join_step)))


def _compile_join_gateway(step: Step) -> Node:
    unmatched = f"join step {quote(step.id)}: no matching PARALLEL_GATEWAY found"
    return Node(id=NodeId(step.id), arrival=BranchJoin(unmatched), routing=_build_next_routing(step, stays=False))


def _compile_end(step: Step) -> Node:
    return Node(id=NodeId(step.id), activity=NoActivity(), ends=True)


def _build_task_routing(step: Step, *, stays: bool) -> Routing:
    """Conditional branches of a task come before its ``nextStep`` (docs/reference/kernel.md#the-token-kernel)."""
    return _build_branch_routing(step) if step.conditional_next_steps else _build_next_routing(step, stays=stays)


def _build_branch_routing(step: Step) -> Routing:
    arcs = tuple(Arc(NodeId(target), expression) for expression, target in step.conditional_next_steps.items())
    return Routing(mode="FIRST", arcs=arcs, unmatched=NO_BRANCH)


def _build_next_routing(step: Step, *, stays: bool) -> Routing:
    return Routing(arcs=(Arc(NodeId(step.next_step)),) if step.next_step else (), stays=stays)


def _compile_timers(step: Step, steps: Mapping[str, Step]) -> tuple[tuple[BoundaryTimer, ...], str | None]:
    """The timers of a step, and why it cannot be entered if one of them is unusable."""
    timers: list[BoundaryTimer] = []
    for index, event in enumerate(step.boundary_events):
        delay = parse_delay(event.duration)
        defect = _find_timer_defect(event, delay, steps)
        if defect is not None:
            return (), f"step {quote(step.id)} boundaryEvents[{index}]: {defect}"
        timers.append(
            BoundaryTimer(
                delay=delay or Delay(0, 0),
                target=NodeId(event.target_step_id),
                interrupting=event.interrupting,
            )
        )
    return tuple(timers), None


def _find_timer_defect(event: BoundaryEvent, delay: Delay | None, steps: Mapping[str, Step]) -> str | None:
    if event.type != "TIMER":
        return f"unsupported type {quote(event.type)}"
    if delay is None:
        return f"invalid ISO-8601 duration {quote(event.duration)}"
    return None if event.target_step_id in steps else f"unknown step {quote(event.target_step_id)}"


_NODES: Final = {
    "SERVICE_TASK": _compile_service_task,
    "USER_TASK": _compile_user_task,
    "DECISION": _compile_decision,
    "DECISION_TABLE": _compile_linear,
    "TRANSFORMATION": _compile_linear,
    "WAIT": _compile_wait,
    "PARALLEL_GATEWAY": _compile_parallel_gateway,
    "JOIN_GATEWAY": _compile_join_gateway,
    "END": _compile_end,
}
