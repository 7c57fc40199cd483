"""A playbook to a net (docs/reference/executions.md)."""

from typing import Final, Literal

from msgspec import Struct

from statewright.net import (
    ROUTE,
    Admission,
    AnyInput,
    Arc,
    Delay,
    Inline,
    Language,
    Many,
    Net,
    NoActivity,
    Node,
    NodeId,
    RoundJoin,
    Routing,
    SubNet,
    Task,
    judge_branches,
)
from statewright.net.nodes import Activity, Arrival
from statewright.playbooks.definition import DoubtfulName, Playbook, Step
from statewright.playbooks.dispatch import choose_job_type
from statewright.playbooks.language import PlaybookLanguage, StepRules, build_rules
from statewright.playbooks.pipeline import is_child, is_inline
from statewright.playbooks.templates import EvaluationContext, Turn
from statewright.processes.changes import JobPolicy

SERVICE: Final = "playbook"
"""The type of jobs that the service does itself: pipelines without a task that runs code."""
MAX_TOKENS: Final = 20_000
"""That an execution holds at once."""
MAX_ENTRIES: Final = 1_000_000_000
"""Out of reach: runs are limited over the life of an execution, and one over the limit sends no tokens."""
NO_NEXT: Final = "NO_NEXT"
_US_PER_MS: Final = 1_000


class CompiledPlaybook(Struct, frozen=True, kw_only=True):
    """A playbook ready to run; immutable, shared by all its executions."""

    playbook: Playbook
    net: Net
    rules: dict[str, StepRules]
    doubtful: dict[str, list[DoubtfulName]] = {}
    """The names that may have no value, by step."""

    def create_language(self, at: int, turn: Turn | None = None) -> Language:
        """The language for one operation, at an instant in microseconds of the epoch; with a turn, one that computes
        more raises ``TurnExceeded``.
        """
        return PlaybookLanguage(self.playbook, self.rules, EvaluationContext(at=at, turn=turn))


def compile_net(playbook: Playbook) -> CompiledPlaybook:
    """The net of a playbook. Its nodes are the steps, by their names."""
    rules = build_rules(playbook)
    limits = playbook.limits
    net = Net(
        nodes={NodeId(step.name): _compile_step(step, rules[step.name], playbook) for step in playbook.steps},
        entries=(NodeId(playbook.entry),),
        on_failure=ROUTE,
        ending=judge_branches,
        fails_fast=playbook.failure_mode == "fail_fast",
        capacity=limits.max_in_flight,
        on_pending=_PENDING[playbook.on_quiescence],
        finalizer=None if playbook.final is None else NodeId(playbook.final),
        max_visits=limits.max_runs_per_step,
        max_runs=limits.max_step_runs,
        time_limit=_compile_delay(playbook.timeout_ms),
        max_tokens=MAX_TOKENS,
        max_entries=MAX_ENTRIES,
        node_label="step",
    )
    doubtful: dict[str, list[DoubtfulName]] = {}
    for name in playbook.doubtful:
        doubtful.setdefault(name.step, []).append(name)
    return CompiledPlaybook(playbook=playbook, net=net, rules=rules, doubtful=doubtful)


_PENDING: Final[dict[str, Literal["WAIT", "DISCARD", "FAIL"]]] = {"wait": "WAIT", "discard": "DISCARD", "fail": "FAIL"}
_INCOMPLETE: Final[dict[str, Literal["FAIL", "FIRE", "DISCARD"]]] = {
    "fail": "FAIL",
    "fire": "FIRE",
    "discard": "DISCARD",
}


def _compile_step(step: Step, rules: StepRules, playbook: Playbook) -> Node:
    router = step.router
    arcs = () if router is None else router.arcs
    routing = Routing(
        mode="EVERY" if router is not None and router.mode == "inclusive" else "FIRST",
        arcs=tuple(
            Arc(
                NodeId(arc.target),
                guard=None if arc.when is None else f"{step.name}#{index}",
                on=("DONE", "FAILED"),
                payload=f"{step.name}#{index}",
                assignment=f"{step.name}#{index}" if arc.set else None,
            )
            for index, arc in enumerate(arcs)
        ),
        unmatched=NO_NEXT if playbook.no_next_is_error else None,
    )
    return Node(
        id=NodeId(step.name),
        arrival=_compile_arrival(step),
        admission=_compile_admission(step, rules),
        activity=_compile_activity(step),
        time_limit=read_policy(step).time_limit,
        keeps_input=step.loop is not None or is_child(step),
        routing=routing,
    )


def read_policy(step: Step) -> JobPolicy:
    """How the runs of a step are done: once, and within its time; tasks are tried again within a run."""
    return JobPolicy(time_limit=_compile_delay(step.timeout_ms))


def _compile_delay(timeout_ms: int | None) -> Delay | None:
    return None if timeout_ms is None else Delay(0, timeout_ms * _US_PER_MS)


def _compile_arrival(step: Step) -> Arrival:
    if step.join is None:
        return AnyInput()
    sources = tuple(NodeId(name) for name in step.join.steps)
    return RoundJoin(sources, step.join.count, _INCOMPLETE[step.join.on_incomplete])


def _compile_admission(step: Step, rules: StepRules) -> Admission | None:
    if step.admission is None:
        return None
    on_deny: Literal["WAIT", "DISCARD"] = "DISCARD" if step.admission.on_deny == "discard" else "WAIT"
    return Admission(rule=step.name, on_deny=on_deny, watches=rules.watched.parts)


def _compile_activity(step: Step) -> Activity:
    """A pipeline is one task, or one for each element, whose worker is given what ``dispatch`` says. Another playbook
    is a net of its own.
    """
    if not step.tasks and step.loop is None:
        return NoActivity()
    if is_inline(step):
        return Inline()
    activity = SubNet(step.tasks[0].kind) if is_child(step) else Task(choose_job_type(step.tasks) or SERVICE)
    if step.loop is None:
        return activity
    limit = step.loop.max_in_flight if isinstance(step.loop.max_in_flight, int) else 1
    on_failure: Literal["GO_ON", "STOP"] = "GO_ON" if step.loop.failure_mode == "best_effort" else "STOP"
    return Many(activity, limit, on_failure)
