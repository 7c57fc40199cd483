"""What the step engine plugs into the kernel: one map of variables for all tokens
(docs/reference/steps.md#steps-at-run-time, docs/reference/steps.md#variables).

A definition to a net (docs/reference/kernel.md#from-definitions-to-nets).

A compiled definition is immutable: cache it by id and version.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.expressions import ExpressionBudget, ExpressionError, NotBoolean, count_elements, evaluate_bool
from statewright.jsonval.values import JsonObject, JsonValue, merge_deep, merge_shallow, quote
from statewright.net import (
    HOLD,
    Arc,
    BoundaryTimer,
    BranchJoin,
    Completed,
    Delay,
    HumanTask,
    Language,
    Net,
    NoActivity,
    Node,
    NodeId,
    Problem,
    Routing,
    Task,
    Visit,
    Wait,
    parse_delay,
)
from statewright.processes.changes import JobPolicy
from statewright.steps.definition import (
    STEP_TYPES,
    TIMED_TYPES,
    BoundaryEvent,
    Definition,
    Step,
    StepType,
    find_policy,
)
from statewright.steps.tables import apply_transformations, evaluate_table

StepOutcome: TypeAlias = Callable[[Step, JsonObject, JsonObject, int, ExpressionBudget], Completed | Problem]
"""From the step, the variables, what came from outside, the instant, and what may be spent."""


ELEMENTS_PER_STEP: Final = 20
"""Elements that every step counts as, in addition to what the history keeps of it."""


class StepLanguage(Language):
    """The language of one definition's steps, for one operation on an instance."""

    def __init__(self, steps: Mapping[NodeId, tuple[Step, StepType]], budget: ExpressionBudget) -> None:
        self._steps = steps
        self._budget = budget
        self._last_count: tuple[JsonValue, int] = (None, 0)

    def build_input(self, data: JsonObject, node: Node, payloads: Sequence[JsonValue]) -> JsonValue:
        """Every step sees all variables."""
        return data

    def complete(self, data: JsonObject, visit: Visit) -> Completed | Problem:
        """Merge what the step came to: deep for workers and people, shallow for everything else (decision J1)."""
        step, step_type = self._steps[visit.node.id]
        delta = visit.output if isinstance(visit.output, dict) else {}
        outcome = _OUTCOMES[step_type](step, data, delta, visit.at, self._budget)
        if isinstance(outcome, Problem):
            return outcome
        try:
            kept = self._count_elements(data) + self._count_elements(outcome.output)  # by the history
            self._budget.spend(ELEMENTS_PER_STEP + kept)
        except ExpressionError as error:
            return Problem(f"history of step {quote(step.id)}: {error}")
        return outcome

    def evaluate_guard(self, guard: str, data: JsonObject, visit: Visit) -> bool | Problem:
        """Whether the expression is true; anything but a boolean is a problem (docs/reference/steps.md#decision)."""
        try:
            return evaluate_bool(guard, data, visit.at, self._budget)
        except NotBoolean as error:
            return Problem(str(error))
        except ExpressionError as error:
            return Problem(f"expression eval error: {error}")

    def patch(self, data: JsonObject, changes: JsonObject) -> JsonObject:
        """Changes from the outside are merged shallow (docs/reference/steps.md#retrying-a-failed-instance)."""
        return merge_shallow(data, changes)

    def _count_elements(self, value: JsonValue) -> int:
        if self._last_count[0] is not value:
            self._last_count = (value, count_elements(value))
        return self._last_count[1]


def _keep_variables(_: Step, variables: JsonObject, *__: object) -> Completed | Problem:
    return Completed(data=variables)


def _merge_worker_result(_: Step, variables: JsonObject, delta: JsonObject, *__: object) -> Completed | Problem:
    return Completed(data=merge_deep(variables, delta), output=delta)


def _merge_human_result(_: Step, variables: JsonObject, delta: JsonObject, *__: object) -> Completed | Problem:
    merged = merge_deep(variables, delta)
    return Completed(data=merged, output=merged)


def _merge_signal(_: Step, variables: JsonObject, delta: JsonObject, *__: object) -> Completed | Problem:
    merged = merge_shallow(variables, delta)
    return Completed(data=merged, output=merged)


def _run_transformations(
    step: Step, variables: JsonObject, _: JsonObject, at: int, budget: ExpressionBudget
) -> Completed | Problem:
    result = apply_transformations(dict(step.transformations), variables, at, budget)
    return result if isinstance(result, Problem) else Completed(data=result, output=result)


def _run_decision_table(
    step: Step, variables: JsonObject, _: JsonObject, at: int, budget: ExpressionBudget
) -> Completed | Problem:
    if step.decision_table is None:
        return Problem(f'step "{step.id}" has no decisionTable')
    result = evaluate_table(step.decision_table, step.hit_policy, variables, at, budget)
    if isinstance(result, Problem):
        return result
    merged = merge_shallow(variables, result)
    return Completed(data=merged, output=merged)


_OUTCOMES: Final[Mapping[StepType, StepOutcome]] = {
    "SERVICE_TASK": _merge_worker_result,
    "USER_TASK": _merge_human_result,
    "DECISION": _keep_variables,
    "DECISION_TABLE": _run_decision_table,
    "TRANSFORMATION": _run_transformations,
    "WAIT": _merge_signal,
    "PARALLEL_GATEWAY": _keep_variables,
    "JOIN_GATEWAY": _keep_variables,
    "END": _keep_variables,
}


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
    policies: Mapping[NodeId, JobPolicy]
    """Of the steps that have jobs."""
    turn_elements: int | None = None
    """After so many elements operations raise ``TurnExceeded``; None: never."""

    def create_language(self) -> Language:
        """The language for one operation: what it may spend is not shared with others."""
        return StepLanguage(self.typed_steps, ExpressionBudget(within_turn=self.turn_elements))


def compile_definition(definition: Definition, version: int) -> Process:
    """The process of a definition that passed validation."""
    steps = {step.id: step for step in reversed(definition.steps)}
    typed: dict[NodeId, tuple[Step, StepType]] = {
        NodeId(step.id): (step, _get_step_type(step)) for step in steps.values()
    }
    policies = {
        node_id: find_policy(definition, step) for node_id, (step, kind) in typed.items() if kind == "SERVICE_TASK"
    }
    nodes = {
        node_id: _compile_step(step, step_type, steps, policies.get(node_id))
        for node_id, (step, step_type) in typed.items()
    }
    for end in map(NodeId, definition.chaining_ends):
        nodes[end] = replace(nodes[end], successor=definition.successor)
    net = Net(
        nodes=nodes,
        entries=(NodeId(definition.steps[0].id),),
        on_failure=HOLD,
        node_label="step",
    )
    return Process(definition=definition, version=version, steps=steps, typed_steps=typed, net=net, policies=policies)


def _get_step_type(step: Step) -> StepType:
    """An unknown type counts as END, of which nothing is expected; such a step cannot be entered."""
    return STEP_TYPES.get(step.type, "END")


def _compile_step(step: Step, step_type: StepType, steps: Mapping[str, Step], policy: JobPolicy | None) -> Node:
    node = _NODES[step_type](step) if policy is None else _compile_service_task(step, policy)
    if step.type not in STEP_TYPES:
        return replace(node, defect=f"step {quote(step.id)}: unsupported type {quote(step.type)}")
    if step_type not in TIMED_TYPES:
        return node
    timers, defect = _compile_timers(step, steps)
    return replace(node, timers=timers, defect=defect)


def _compile_service_task(step: Step, policy: JobPolicy) -> Node:
    activity = Task(kind=step.job_type or step.id, retries=policy.retries)
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
    "USER_TASK": _compile_user_task,
    "DECISION": _compile_decision,
    "DECISION_TABLE": _compile_linear,
    "TRANSFORMATION": _compile_linear,
    "WAIT": _compile_wait,
    "PARALLEL_GATEWAY": _compile_parallel_gateway,
    "JOIN_GATEWAY": _compile_join_gateway,
    "END": _compile_end,
}
