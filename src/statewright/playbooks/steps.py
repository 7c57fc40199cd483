"""Steps of a document."""

from collections.abc import Mapping, Sequence
from typing import Final

from statewright.jsonval.values import JsonObject, is_number, merge_deep
from statewright.playbooks.definition import (
    DEFAULT_MAX_IN_FLIGHT,
    Join,
    JoinMode,
    Limits,
    LoopFailureMode,
    NextArc,
    OnIncomplete,
    Router,
    RouterMode,
    Step,
    StepLoop,
)
from statewright.playbooks.place import Place
from statewright.playbooks.policies import read_admission, read_scoped_assignments
from statewright.playbooks.tasks import TaskContext, read_tasks
from statewright.playbooks.templates import Template

MAX_ARCS: Final = 100
"""Of one step."""
MAX_TIMEOUT_S: Final = 10 * 366 * 24 * 60 * 60

MEMBERS: Final = ("desc", "description", "input", "loop", "next", "set", "spec", "step", "tool")
_HINTS: Final[Mapping[str, str]] = {
    "when": "is no member of a step; expected conditions in spec.policy.admit.rules or next.arcs[].when",
    "case": "is no member of a step; expected conditions in next.arcs[].when",
    "retry": "is no member of a step; expected do: retry in spec.policy.rules of a task",
    "sink": "is no member of a step; expected a task that stores what there is to store",
    "type": "is no member of a step; expected kind in tool",
    "vars": "is no member of a step; expected set or set_ctx",
    "args": "is no member of a step; expected input here, or args of the arc that leads here",
    "expr": "is not known; expected conditions in when",
}
_ITERATOR_HINTS: Final[Mapping[str, str]] = {
    "cursor": "is not supported; expected in with the list of elements",
    "expr": "is not known; expected the list of elements in in",
}
_RESERVED: Final = ("index", "parent", "_index", "_first", "_last")


def read_step(place: Place, name: str, sources: Mapping[str, Sequence[str]], context: TaskContext) -> Step:
    """A step; ``sources``: of each step of the playbook the steps that have an arc to it."""
    place.refuse_unknown(MEMBERS, _HINTS)
    spec, description = place.get("spec"), place.get("desc")
    _check_spec(spec)
    loop = place.get("loop")
    shared = merge_deep(context.spec, strip_spec(spec, ("join", "policy")))
    shared = merge_deep(shared, strip_spec(loop.get("spec"), ("max_in_flight", "mode", "policy")))
    tasks = TaskContext(spec=shared, workbook=context.workbook, disabled_kinds=context.disabled_kinds)
    if place.get("tool").is_absent and place.get("next").is_absent:
        place.warn("has neither tool nor next: it only ends its branch")
    return Step(
        name=name,
        description=(place.get("description") if description.is_absent else description).read_text(),
        admission=read_admission(spec.get("policy").get("admit")),
        join=_read_join(spec.get("join"), name, sources),
        timeout_ms=_read_timeout(spec.get("policy").get("lifecycle")),
        input=place.get("input").read_object_template(),
        loop=None if loop.is_absent else _read_loop(loop, spec),
        tasks=read_tasks(place.get("tool"), name, tasks),
        set=read_scoped_assignments(place.get("set"), allows_iter=False),
        router=None if place.get("next").is_absent else _read_router(place.get("next"), sources),
    )


def strip_spec(spec: Place, own: Sequence[str]) -> JsonObject:
    """The configuration of tasks in a ``spec``: what is not of the place where it stands."""
    return {name: member for name, member in spec.read_mapping().items() if name not in own}


def _check_spec(spec: Place) -> None:
    if spec.has("next_mode"):
        spec.get("next_mode").refuse("is no member of spec; expected next.spec.mode")
    policy = spec.get("policy")
    policy.expect_members(("admit", "failure", "lifecycle"), {"rules": "belongs to a task; expected admit.rules here"})


def _read_join(place: Place, name: str, sources: Mapping[str, Sequence[str]]) -> Join | None:
    if place.is_absent:
        return None
    place.expect_members(("mode", "n", "on_incomplete", "steps"))
    mode: JoinMode = place.get("mode").read_choice(JoinMode, "all")
    steps = tuple(dict.fromkeys(_list_sources(place.get("steps"), sources)))
    if not steps and not place.get("steps").is_absent:
        return None
    steps = steps or tuple(sources.get(name, ()))
    if not steps:
        place.refuse("has nothing to join: no arc leads to this step")
        return None
    for missing in (step for step in steps if step not in sources.get(name, ())):
        place.get("steps").warn(f"names {missing}, which has no arc to this step")
    count = {"all": len(steps), "any": 1}.get(mode, 0) or _read_count(place.get("n"), len(steps))
    on_incomplete: OnIncomplete = place.get("on_incomplete").read_choice(OnIncomplete, "fail")
    return Join(mode=mode, steps=steps, count=count, on_incomplete=on_incomplete)


def _read_count(place: Place, sources: int) -> int:
    if place.is_absent:
        place.refuse("is missing; expected the number of tokens that mode n waits for")
    return place.read_whole(1, sources, 1)


def _list_sources(place: Place, known: Mapping[str, Sequence[str]]) -> list[str]:
    return [step for item in place.list_items("a list of steps") if (step := read_target(item, known)) is not None]


def read_target(place: Place, known: Mapping[str, Sequence[str]]) -> str | None:
    """The name of a step of the playbook."""
    name = place.read_name("the name of a step")
    if name is not None and name not in known:
        place.refuse(f"must be the name of a step of this playbook, not {name!r}")
        return None
    return name


def _read_timeout(place: Place) -> int | None:
    if place.is_absent:
        return None
    place.expect_members(("timeout_s",))
    return read_seconds(place.get("timeout_s"))


def read_seconds(seconds: Place) -> int | None:
    """A number of seconds as milliseconds, at least 1; ``None`` where it is absent."""
    value = seconds.value
    if value is None:
        return None
    if not is_number(value) or not 0 < value <= MAX_TIMEOUT_S:
        seconds.expect(f"a number of seconds above 0, of {MAX_TIMEOUT_S} at most")
        return None
    return max(1, int(value * 1000))


def _read_loop(place: Place, step_spec: Place) -> StepLoop:
    place.expect_members(("in", "iterator", "spec"), _ITERATOR_HINTS)
    spec, items = place.get("spec"), place.get("in")
    if items.is_absent and not (isinstance(place.value, dict) and "in" in place.value):
        items.refuse("is missing; expected the list of elements")
    iterator = place.get("iterator").read_name("the name of the element")
    if iterator in _RESERVED:
        place.get("iterator").refuse(f"must be another name than {iterator}")
    mode = spec.get("mode")
    if mode.value == "cursor":
        mode.refuse("must be sequential or parallel: cursors are not supported")
    elif mode.value not in (None, "sequential", "parallel"):
        mode.expect("one of sequential, parallel")
    is_parallel = mode.value == "parallel"
    failures = step_spec.get("policy").get("failure")
    own = spec.get("policy").get("failure")
    failures.refuse_unknown(("mode",))
    spec.get("policy").refuse_unknown(("exec", "failure"))
    failure_mode: LoopFailureMode = failures.get("mode").read_choice(LoopFailureMode, "fail_fast")
    return StepLoop(
        items=items.read_template(),
        iterator=iterator or "item",
        is_parallel=is_parallel,
        max_in_flight=_read_max_in_flight(spec.get("max_in_flight"), is_parallel=is_parallel),
        failure_mode=own.get("mode").read_choice(LoopFailureMode, failure_mode),
    )


def _read_max_in_flight(place: Place, *, is_parallel: bool) -> int | Template:
    if not is_parallel:
        if not place.is_absent:
            place.warn("has no effect in a sequential loop; expected mode: parallel beside it")
        return 1
    if isinstance(place.value, str) and "{{" in place.value:
        return place.read_template()
    return place.read_whole(1, Limits().max_loop_elements, DEFAULT_MAX_IN_FLIGHT)


def _read_router(place: Place, known: Mapping[str, Sequence[str]]) -> Router | None:
    if not isinstance(place.value, dict):
        place.expect("a mapping with arcs")
        return None
    place.refuse_unknown(("arcs", "spec"))
    spec, arcs = place.get("spec"), place.get("arcs")
    spec.expect_members(("mode", "on_no_match", "policy"))
    mode: RouterMode = spec.get("mode").read_choice(RouterMode, "exclusive")
    items = list(arcs.list_items("a list of arcs"))
    if not items and (arcs.is_absent or isinstance(arcs.value, list)):
        arcs.refuse("is missing or empty; expected a list of arcs, or a step without next")
    if len(items) > MAX_ARCS:
        arcs.refuse(f"has {len(items)} arcs; at most {MAX_ARCS} are allowed")
    read = tuple(arc for item in items[:MAX_ARCS] if (arc := _read_arc(item, known)) is not None)
    return Router(arcs=read, mode=mode) if read else None


def _read_arc(place: Place, known: Mapping[str, Sequence[str]]) -> NextArc | None:
    if not isinstance(place.value, dict):
        place.expect("a mapping with step")
        return None
    place.refuse_unknown(("args", "desc", "set", "step", "when"), {"expr": "is not known; expected when"})
    target = read_target(place.get("step"), known)
    if target is None:
        return None
    when = place.get("when").read_condition()
    return NextArc(
        target=target,
        when=when,
        args=place.get("args").read_object_template(),
        set=read_scoped_assignments(place.get("set"), allows_iter=False),
    )
