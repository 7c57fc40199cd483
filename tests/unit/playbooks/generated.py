"""Playbooks made up at random, each as a document and as what the simulator works on."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

Env = Mapping[str, Any]
"""``ctx``, ``args``, ``event`` (its name, or None) and ``results``."""
FLAGS = ("f", "g", "h")


class Unevaluable(Exception):
    """A condition that cannot be evaluated."""


def raise_unevaluable(_: Env) -> bool:
    raise Unevaluable


@dataclass(frozen=True)
class Test:
    """A condition as text, and as a function of what it sees."""

    text: str
    holds: Callable[[Env], bool]


BROKEN = Test("{{ 1 // 0 == 1 }}", raise_unevaluable)
"""Its value cannot be computed."""


def is_set(flag: str) -> Test:
    return Test(f"{{{{ ctx.{flag} }}}}", lambda env: bool(env["ctx"].get(flag)))


def is_unset(flag: str) -> Test:
    return Test(f"not ctx.{flag}", lambda env: not env["ctx"].get(flag))


def is_event(name: str) -> Test:
    return Test(f"{{{{ event.name == '{name}' }}}}", lambda env: env["event"] == name)


def has_large_n() -> Test:
    return Test("{{ (args.n | default(0)) > 1 }}", lambda env: env["args"].get("n", 0) > 1)


def has_result(step: str) -> Test:
    return Test(f"{{{{ results.{step} is defined }}}}", lambda env: step in env["results"])


@dataclass
class SimArc:
    target: str
    when: Test | None = None
    args: dict[str, int] = field(default_factory=dict)
    flag: str | None = None
    """What it sets to its own number."""


@dataclass
class SimStep:
    name: str
    kind: str = "route"
    """``route``, ``noop``, ``job``, ``loop``, or ``children``: a loop whose elements are other playbooks."""
    rules: list[tuple[Test, bool]] = field(default_factory=list)
    otherwise: bool | None = None
    discards: bool = False
    sources: list[str] = field(default_factory=list)
    """Of its join; empty: none."""
    count: int = 0
    left_over: str = "fail"
    inclusive: bool = False
    arcs: list[SimArc] | None = None
    flag: str | None = None
    """What the noop task, or the step at its end, sets."""
    noop_fails: bool = False
    items: int = 0
    limit: int = 1
    goes_on: bool = False

    @property
    def loops(self) -> bool:
        return self.kind in ("loop", "children")


@dataclass
class SimPlaybook:
    steps: dict[str, SimStep]
    entry: str
    final: str | None
    no_next_is_error: bool
    failure_mode: str
    on_quiescence: str
    final_fails: bool
    capacity: int
    max_per_step: int
    max_runs: int

    @cached_property
    def ranks(self) -> dict[str, int]:
        """Lower for a step than for those it leads to, but for those that lead back to it, whose is equal. By the
        algorithm of Tarjan, so that it is not that of the product which says what the product has to do.
        """
        numbers: dict[str, int] = {}
        lowest: dict[str, int] = {}
        found: list[list[str]] = []
        path: list[str] = []

        def visit(name: str) -> None:
            numbers[name] = lowest[name] = len(numbers)
            path.append(name)
            for target in [arc.target for arc in self.steps[name].arcs or []]:
                if target not in numbers:
                    visit(target)
                    lowest[name] = min(lowest[name], lowest[target])
                elif target in path:
                    lowest[name] = min(lowest[name], numbers[target])
            if lowest[name] == numbers[name]:
                place = path.index(name)
                found.append(path[place:])
                del path[place:]

        for name in self.steps:
            if name not in numbers:
                visit(name)
        return {name: rank for rank, circle in enumerate(reversed(found)) for name in circle}

    def to_document(self) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "entry_step": self.entry,
            "no_next_is_error": self.no_next_is_error,
            "policy": {
                "failure": {"mode": self.failure_mode},
                "pending": {"on_quiescence": self.on_quiescence},
                "final_step_failure": "fail" if self.final_fails else "partial",
                "limits": {
                    "max_in_flight": self.capacity,
                    "max_runs_per_step": self.max_per_step,
                    "max_step_runs": self.max_runs,
                },
            },
        }
        if self.final is not None:
            spec["final_step"] = self.final
        return {
            "metadata": {"name": "generated"},
            "executor": {"spec": spec},
            "workload": {"items": [[0, 1, 2][:count] for count in range(4)]},
            "workflow": [_write_step(step) for step in self.steps.values()],
        }


_TOOLS: dict[str, dict[str, Any]] = {
    "job": {"kind": "compute"},
    "loop": {"kind": "compute"},
    "children": {"kind": "playbook", "path": "other", "args": {"x": "{{ x }}"}},
}


def _write_step(step: SimStep) -> dict[str, Any]:
    document: dict[str, Any] = {"step": step.name}
    policy: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    if step.rules or step.otherwise is not None:
        rules: list[dict[str, Any]] = [{"when": test.text, "then": {"allow": allow}} for test, allow in step.rules]
        if step.otherwise is not None:
            rules.append({"else": {"then": {"allow": step.otherwise}}})
        policy["admit"] = {"on_deny": "discard" if step.discards else "pending", "rules": rules}
    if step.sources:
        spec["join"] = {"mode": "n", "n": step.count, "steps": step.sources, "on_incomplete": step.left_over}
    if step.loops:
        document["loop"] = {
            "in": f"{{{{ workload.items[{step.items}] }}}}",
            "iterator": "x",
            "spec": {"mode": "parallel", "max_in_flight": step.limit} if step.limit > 1 else {"mode": "sequential"},
        }
        policy["failure"] = {"mode": "best_effort" if step.goes_on else "fail_fast"}
    if step.kind in _TOOLS:
        document["tool"] = _TOOLS[step.kind]
    elif step.kind == "noop":
        then: dict[str, Any] = {"do": "fail" if step.noop_fails else "continue"}
        if step.flag is not None:
            then["set_ctx"] = {step.flag: 1}
        document["tool"] = {"kind": "noop", "spec": {"policy": {"rules": [{"else": {"then": then}}]}}}
    if step.flag is not None and step.kind != "noop":
        document["set"] = {f"ctx.{step.flag}": 1}
    if step.arcs is not None:
        document["next"] = {
            "spec": {"mode": "inclusive" if step.inclusive else "exclusive"},
            "arcs": [_write_arc(arc) for arc in step.arcs],
        }
    if policy:
        spec["policy"] = policy
    if spec:
        document["spec"] = spec
    return document


def _write_arc(arc: SimArc) -> dict[str, Any]:
    document: dict[str, Any] = {"step": arc.target}
    if arc.when is not None:
        document["when"] = arc.when.text
    if arc.args:
        document["args"] = dict(arc.args)
    if arc.flag is not None:
        document["set"] = {f"ctx.{arc.flag}": 1}
    return document


def make_playbook(chance: random.Random) -> SimPlaybook:
    """Any playbook of a few steps: cycles, dead ends, joins that starve, gates that never open."""
    names = [f"s{number}" for number in range(chance.randint(2, 6))]
    steps = {name: _make_step(chance, name, names) for name in names}
    for name in names:
        sources = [other.name for other in steps.values() if any(arc.target == name for arc in other.arcs or ())]
        if len(sources) > 1 and chance.random() < 0.5:
            chance.shuffle(sources)
            steps[name].sources = sources
            steps[name].count = chance.randint(1, len(sources))
            steps[name].left_over = chance.choice(["fail", "fire", "discard"])
    return SimPlaybook(
        steps=steps,
        entry=chance.choice(names[:2]),
        final=chance.choice([None, None, names[-1]]),
        no_next_is_error=chance.random() < 0.2,
        failure_mode=chance.choice(["fail_on_any_error", "fail_fast", "best_effort"]),
        on_quiescence=chance.choice(["wait", "wait", "discard", "fail"]),
        final_fails=chance.random() < 0.5,
        capacity=chance.choice([1, 2, 100]),
        max_per_step=chance.choice([3, 5]),
        max_runs=chance.choice([8, 25]),
    )


def _make_step(chance: random.Random, name: str, names: list[str]) -> SimStep:
    step = SimStep(name, kind=chance.choice(["route", "route", "noop", "job", "job", "loop", "loop", "children"]))
    if chance.random() < 0.4:
        tests = [is_set(chance.choice(FLAGS)), is_unset(chance.choice(FLAGS)), has_large_n(), BROKEN]
        tests += [has_result(chance.choice(names)), is_set("f")]
        step.rules = [(chance.choice(tests), chance.random() < 0.7) for _ in range(chance.randint(1, 2))]
        step.otherwise = chance.choice([None, False, True])
        step.discards = chance.random() < 0.3
    if chance.random() < 0.8:
        step.inclusive = chance.random() < 0.6
        step.arcs = [_make_arc(chance, names) for _ in range(chance.randint(1, 3))]
    step.flag = chance.choice([None, None, *FLAGS])
    step.noop_fails = chance.random() < 0.2
    step.items, step.limit, step.goes_on = chance.choice([0, 1, 3, 3]), chance.choice([1, 2, 5]), chance.random() < 0.5
    return step


def _make_arc(chance: random.Random, names: list[str]) -> SimArc:
    tests = [None, None, is_event("step.done"), is_event("step.failed"), is_event("loop.done"), BROKEN]
    tests += [is_set(chance.choice(FLAGS)), has_large_n()]
    return SimArc(
        target=chance.choice(names),
        when=chance.choice(tests),
        args=chance.choice([{}, {"n": 1}, {"n": 2}, {"m": 1}]),
        flag=chance.choice([None, None, None, *FLAGS]),
    )
