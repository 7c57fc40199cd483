"""What a playbook says that can never work, or seldom is meant, though each part of it is well formed.

Looked for when a playbook is registered or linted, not when one that is stored is read: what is noted here as an error
keeps a playbook out, and one that was let in before goes on.

What templates name, and whether it can be there (docs/reference/playbooks.md#names-in-templates): what is seen of a
scope, and of its members, depends on where a template stands. A name that is no scope is *bare*: that of a member of
``iter`` or ``args``, of a result, or of a member of the workload.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.context import find_watched
from statewright.playbooks.definition import (
    Assignment,
    DoubtfulName,
    NextArc,
    PipelineTask,
    Playbook,
    Step,
    TaskAction,
    TaskPolicy,
)
from statewright.playbooks.jinja.methods import NOW
from statewright.playbooks.place import Place, PlacedTemplate
from statewright.playbooks.task_requests import METHODS
from statewright.playbooks.tasks import (
    COMPUTE,
    HTTP,
    PLAYBOOK,
    WAIT,
    WORKBOOK,
    find_child_mistake,
    find_due,
    is_for_members,
    list_worker_kinds,
)
from statewright.playbooks.templates import Condition
from statewright.processes.user_tasks import ASK, read_question

_SERVICE_KINDS: Final = ("noop", ASK, COMPUTE, HTTP, PLAYBOOK, WAIT, WORKBOOK)
_WORKER_KINDS: Final = (
    "agent artifact clickhouse container duckdb gcs iceberg kafka mcp mongodb mysql nats postgres python redis rhai s3 "
    "script secrets shell snowflake sqlite transfer transform"
)
_KNOWN_KINDS: Final = (*_SERVICE_KINDS, *_WORKER_KINDS.split())
"""Kinds of tasks that are in use; any other may be offered by a worker."""
_MAX_CHAIN: Final = 50
"""Steps that are followed back from a source of a join."""


class _Fields(Struct, frozen=True, kw_only=True):
    """The fields of a kind of tasks that the service does."""

    known: tuple[str, ...]
    one_of: tuple[str, ...] = ()
    """Of which one must be there."""


_FIELDS: Final[Mapping[str, _Fields]] = {
    COMPUTE: _Fields(known=("attach", "context", "input", "processor", "tags", "timeout_ms")),
    HTTP: _Fields(
        known=("auth", "body", "headers", "input", "method", "params", "payload", "timeout", "url"), one_of=("url",)
    ),
    PLAYBOOK: _Fields(known=("input", "path", "version"), one_of=("path",)),
    WAIT: _Fields(known=("input", "seconds", "until"), one_of=("seconds", "until")),
}


class _Scene(Struct, frozen=True, kw_only=True):
    """A step, where it stands, and what it belongs to."""

    playbook: Playbook
    step: Step
    place: Place
    ways_in: Mapping[str, Sequence[tuple[str, int]]]
    """Of each step the arcs that lead to it: from which step, and the first of its arcs that does."""


def review_steps(playbook: Playbook, places: Sequence[tuple[Step, Place]]) -> None:
    """Note what the checks find; ``places`` of the steps."""
    ways_in = _find_ways_in(playbook)
    for step, place in places:
        for check in CHECKS:
            check(_Scene(playbook=playbook, step=step, place=place, ways_in=ways_in))


def _find_ways_in(playbook: Playbook) -> dict[str, list[tuple[str, int]]]:
    found: dict[str, list[tuple[str, int]]] = {step.name: [] for step in playbook.steps}
    for step in playbook.steps:
        seen: set[str] = set()
        for index, arc in enumerate(_list_arcs(step)):
            if arc.target not in seen:
                seen.add(arc.target)
                found[arc.target].append((step.name, index))
    return found


def _list_arcs(step: Step) -> Sequence[NextArc]:
    return () if step.router is None else step.router.arcs


def _is_always_true(when: Condition | None) -> bool:
    return when is None or when.source is True


def _check_arcs(scene: _Scene) -> None:
    """An exclusive router goes no further than to the first arc that always matches."""
    router = scene.step.router
    if router is None or router.mode != "exclusive":
        return
    always = next((index for index, arc in enumerate(router.arcs) if _is_always_true(arc.when)), None)
    for index in range(len(router.arcs) if always is None else always + 1, len(router.arcs)):
        scene.place.get("next").get("arcs").get(str(index)).refuse(
            f"is never taken: arc {always} before it has no when, and next.spec.mode is exclusive; expected that arc "
            "last, or mode: inclusive"
        )


def _check_rules(scene: _Scene) -> None:
    """Nor does a policy, to the first rule that always matches."""
    admission = scene.step.admission
    if admission is not None:
        conditions = [rule.when for rule in admission.rules]
        rules = scene.place.get("spec").get("policy").get("admit").get("rules")
        _warn_of_rules(conditions, rules, has_else=admission.otherwise is not None)
        if admission.on_deny == "pending":
            _warn_of_time(conditions, rules)
    for task, place in _list_tasks(scene):
        if task.policy is not None:
            conditions = [rule.when for rule in task.policy.rules]
            _warn_of_rules(conditions, _find_rules(place), has_else=task.policy.otherwise is not None)


def _warn_of_rules(conditions: Sequence[Condition | None], rules: Place, *, has_else: bool) -> None:
    always = next((index for index, when in enumerate(conditions) if _is_always_true(when)), None)
    if always is not None and (always + 1 < len(conditions) or has_else):
        rules.get(str(always + 1)).warn(f"never decides: rule {always} before it always matches")


def _warn_of_time(conditions: Sequence[Condition | None], rules: Place) -> None:
    """Of a token that waits for a time, when nothing would have it asked about again."""
    known = [when for when in conditions if when is not None]
    if find_watched(known).parts:
        return
    for index, when in enumerate(conditions):
        if when is not None and any(NOW in expression.functions for _, expression in when.list_expressions()):
            rules.get(str(index)).get("when").warn(
                "looks at now() and at nothing that changes: a token that is denied waits for ever, since time alone "
                "has none looked at again; expected a wait in a step before it, or on_deny: discard"
            )


def _list_tasks(scene: _Scene) -> Iterator[tuple[PipelineTask, Place]]:
    """The tasks of the step, with their places as the document has them."""
    tool = scene.place.get("tool")
    if isinstance(tool.value, dict):
        yield from ((task, tool) for task in scene.step.tasks)
        return
    items = tool.value if isinstance(tool.value, list) else []
    for index, (task, item) in enumerate(zip(scene.step.tasks, items, strict=False)):
        place = Place(item, (tool, str(index)), tool.findings)
        is_labelled = isinstance(item, dict) and list(item) == [task.label]
        yield task, place.get(task.label) if is_labelled else place


def _find_rules(task: Place) -> Place:
    return task.get("spec").get("policy").get("rules")


def _check_kinds(scene: _Scene) -> None:
    for task, place in _list_tasks(scene):
        if task.kind not in _KNOWN_KINDS and (guess := place.guess(task.kind, _KNOWN_KINDS)):
            place.get("kind").warn(f"is {task.kind[:60]}, which only a worker of its own can do{guess}")


def _check_question(scene: _Scene) -> None:
    """Of a task that a person does."""
    for task, place in _list_tasks(scene):
        fields = task.fields.source
        if task.kind != ASK or not isinstance(fields, dict):
            continue
        if len(scene.step.tasks) > 1:
            place.get("kind").refuse("must be the only task of its step: people do no other tasks of a pipeline")
        if task.policy is not None:
            place.get("spec").get("policy").refuse("has no effect on what people do; expected arcs that look at it")
        filled = {name: value if _is_literal(value) else _FILLED.get(name, "text") for name, value in fields.items()}
        try:
            read_question(filled)
        except ValueError as defect:
            place.refuse(f"cannot be asked: {defect}")


_FILLED: Final[Mapping[str, JsonValue]] = {"groups": [], "form": {}}
"""What stands for templates of these fields; a text for all others."""


def _check_fields(scene: _Scene) -> None:
    """Those of tasks that the service does; a worker may ask for others."""
    if list_worker_kinds(scene.step.tasks):
        return
    for task, place in _list_tasks(scene):
        kind, fields = _FIELDS.get(task.kind), task.fields.source
        if kind is None or not isinstance(fields, dict) or (task.kind == COMPUTE and not is_for_members(task)):
            continue
        if kind.one_of and not any(fields.get(name) is not None for name in kind.one_of):
            place.get(kind.one_of[0]).refuse(
                f"is missing; expected {' or '.join(kind.one_of)} of a task of kind {task.kind}"
            )
        for name in fields:
            if name not in kind.known:
                place.get(name).warn(
                    f"is not known of kind {task.kind} and has no effect{place.guess(name, kind.known)}"
                )
        _FIELD_CHECKS.get(task.kind, _check_nothing)(fields, place, scene.playbook)


def _check_nothing(fields: JsonObject, place: Place, playbook: Playbook) -> None:
    """A kind whose fields may have any values."""


def _check_wait(fields: JsonObject, place: Place, playbook: Playbook) -> None:
    given = [name for name in ("until", "seconds") if fields.get(name) is not None]
    due = find_due(fields, 0) if given and all(_is_literal(fields[name]) for name in given) else 0
    if isinstance(due, str):
        place.get(given[0]).refuse(f"cannot be waited for: {due}")


def _check_http(fields: JsonObject, place: Place, playbook: Playbook) -> None:
    method, auth, url = fields.get("method"), fields.get("auth"), fields.get("url")
    if _is_literal(method) and method is not None and str(method).upper() not in METHODS:
        place.get("method").refuse(f"must be one of {', '.join(METHODS)}{place.guess(str(method).upper(), METHODS)}")
    if url is not None and not isinstance(url, str):
        place.get("url").refuse("must be text")
    if fields.get("body") is not None and fields.get("payload") is not None:
        place.get("payload").refuse("means the same as body; expected one of them")
    declared = [credential.name for credential in playbook.keychain]
    if auth is not None and _is_literal(auth) and auth not in declared:
        told = "is no credential that keychain of the playbook declares"
        place.get("auth").refuse(f"{told}{place.guess(str(auth), declared)}")


def _check_playbook(fields: JsonObject, place: Place, playbook: Playbook) -> None:
    literal = {name: value for name, value in fields.items() if value is not None and _is_literal(value)}
    if (mistake := find_child_mistake({"path": "rendered", **literal})) is not None:
        place.get(mistake[0]).refuse(mistake[1])


_FIELD_CHECKS: Final[Mapping[str, Callable[[JsonObject, Place, Playbook], None]]] = {
    HTTP: _check_http,
    PLAYBOOK: _check_playbook,
    WAIT: _check_wait,
}


def _is_literal(value: JsonValue) -> bool:
    return not isinstance(value, str) or ("{{" not in value and "{%" not in value)


def _check_endless(scene: _Scene) -> None:
    """Jumps from which no way leads to the end of the pipeline."""
    tasks = scene.step.tasks
    labels = [task.label for task in tasks]
    ways = [_find_ways(task.policy, index, labels) for index, task in enumerate(tasks)]
    ends = {len(tasks)}
    while more := {index for index, targets in enumerate(ways) if index not in ends and not ends.isdisjoint(targets)}:
        ends |= more
    for index, (task, place) in enumerate(_list_tasks(scene)):
        if index in ends or task.policy is None:
            continue
        for action, at in _list_actions(task.policy, _find_rules(place)):
            if action.do == "jump":
                at.get("to").refuse("never comes to an end: no outcome of the tasks it leads to leaves the pipeline")
                return


def _list_actions(policy: TaskPolicy, rules: Place) -> Iterator[tuple[TaskAction, Place]]:
    for index, rule in enumerate(policy.rules):
        yield rule.then, rules.get(str(index)).get("then")
    if policy.otherwise is not None:
        yield policy.otherwise, rules.get(str(len(policy.rules))).get("else").get("then")


def _find_ways(policy: TaskPolicy | None, index: int, labels: Sequence[str]) -> set[int]:
    """The tasks that may come next, by their numbers; the number after the last is the end."""
    if policy is None:
        return {index + 1, len(labels)}
    always = next((number for number, rule in enumerate(policy.rules) if _is_always_true(rule.when)), None)
    actions = policy.actions if always is None else policy.actions[: always + 1]
    ways = {_find_target(action, index, labels) for action in actions}
    return ways if always is not None or policy.otherwise is not None else {*ways, index + 1, len(labels)}


def _find_target(action: TaskAction, index: int, labels: Sequence[str]) -> int:
    if action.do == "jump" and action.to in labels:
        return labels.index(action.to)
    return index + 1 if action.do == "continue" else len(labels)


def _check_conflicts(scene: _Scene) -> None:
    """Elements that run at once and write different values to one key fail."""
    loop = scene.step.loop
    if loop is None or not loop.is_parallel or loop.max_in_flight == 1:
        return
    differs = {"iter", "outcome", "output", "ctx", "_prev", "_attempt", "input", loop.iterator}
    differs |= {task.label for task in scene.step.tasks}
    for task, place in _list_tasks(scene):
        for action, at in () if task.policy is None else _list_actions(task.policy, _find_rules(place)):
            for one in action.set:
                used = {path[0] for _, expression in one.value.list_expressions() for path in expression.paths}
                if one.scope == "ctx" and not used.isdisjoint(differs):
                    _find_written(at, one.key).warn(
                        f"writes ctx.{one.key} in each element of a parallel loop: one that writes another value than "
                        "those before it fails (ctx_conflict); expected the result of the loop, or mode: sequential"
                    )


def _find_written(then: Place, key: str) -> Place:
    """Where a key of ``ctx`` is written: in ``set_ctx``, or in ``set`` with its scope or without."""
    if then.get("set_ctx").has(key):
        return then.get("set_ctx").get(key)
    written = then.get("set")
    return next((written.get(name) for name in (f"ctx.{key}", f"step.{key}") if written.has(name)), written.get(key))


def _check_join(scene: _Scene) -> None:
    """Sources that one exclusive router leads to do not both come."""
    join = scene.step.join
    if join is None or join.count < len(join.steps) or len(join.steps) < 2 or join.on_incomplete == "fire":
        return
    taken: dict[str, int] = {}
    for source in join.steps:
        for router, arc in _follow_back(scene, source):
            known = taken.setdefault(router, arc)
            step = scene.playbook.by_name[router]
            if known != arc and step.router is not None and step.router.mode == "exclusive":
                _report_starving(scene, router, [step.router.arcs[known].target, step.router.arcs[arc].target])
                return


def _follow_back(scene: _Scene, source: str) -> Iterator[tuple[str, int]]:
    """The arcs on the only way to a join from a source, backwards."""
    arcs = [
        index for index, arc in enumerate(_list_arcs(scene.playbook.by_name[source])) if arc.target == scene.step.name
    ]
    if len(arcs) == 1:
        yield source, arcs[0]
    for _ in range(_MAX_CHAIN):
        ways = scene.ways_in[source]
        if len(ways) != 1 or source == scene.playbook.entry:
            return
        yield ways[0]
        source = ways[0][0]


def _report_starving(scene: _Scene, router: str, targets: Sequence[str]) -> None:
    place = scene.place.get("spec").get("join")
    told = (
        f"waits for steps that never all come: {router} is exclusive and goes to {' or '.join(targets)}, not to both; "
        "expected mode: any or on_incomplete: fire here, or mode: inclusive there"
    )
    if _runs_once(scene, router):
        place.refuse(told)
    else:
        place.warn(told)


def _runs_once(scene: _Scene, name: str) -> bool:
    """Whether arcs lead to a step once at most: one after the other from the entry, to which none leads back."""
    for _ in range(_MAX_CHAIN):
        ways = scene.ways_in[name]
        if name == scene.playbook.entry:
            return not ways
        if len(ways) != 1:
            return False
        name = ways[0][0]
    return False


CHECKS: Final[tuple[Callable[[_Scene], None], ...]] = (
    _check_arcs,
    _check_rules,
    _check_kinds,
    _check_question,
    _check_fields,
    _check_endless,
    _check_conflicts,
    _check_join,
)
"""Of each step, in this order."""


Kind: TypeAlias = Literal["admission", "arc", "input", "loop", "rule", "tool"]
"""Where a template stands."""

_EVERYWHERE: Final = ("args", "ctx", "execution_id", "results", "workload")
_OF_A_RUN: Final = ("input", "iter", "outcome", "output", "_attempt", "_prev", "_task")
SEEN: Final[Mapping[Kind, frozenset[str]]] = {
    "admission": frozenset((*_EVERYWHERE, "event")),
    "arc": frozenset((*_EVERYWHERE, "event", "outcome", "output")),
    "input": frozenset((*_EVERYWHERE, "iter")),
    "loop": frozenset(_EVERYWHERE),
    "rule": frozenset((*_EVERYWHERE, *_OF_A_RUN)),
    "tool": frozenset((*_EVERYWHERE, *_OF_A_RUN, "keychain")),
}
"""The scopes that templates see, by where they stand."""
_PLACES: Final[Mapping[Kind, str]] = {
    "admission": "spec.policy.admit",
    "arc": "set of a step and next.arcs",
    "input": "input of a step",
    "loop": "loop",
    "rule": "rules of tasks",
    "tool": "fields of tasks",
}
_ALL: Final = frozenset().union(*SEEN.values())
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "event": ("name", "payload", "status", "step", "timestamp"),
    "outcome": ("data", "error", "http", "meta", "result", "status"),
}
_ITERATION: Final = ("_first", "_index", "_last", "index", "parent")
_SUMMARY: Final = ("execution_id", "failed", "failures", "results", "steps", "succeeded")
"""``args`` of the final step."""
_KINDS: Final[Mapping[str, Kind]] = {"input": "input", "loop": "loop", "next": "arc", "set": "arc", "spec": "admission"}
"""By the member of the step in which a template stands that is not in ``tool``."""


class Use(Struct, frozen=True):
    """A name where it is used, with the first of the members that are taken of it."""

    place: Place
    kind: Kind
    name: str
    member: str | None


class StepNames(Struct, frozen=True, kw_only=True):
    """What templates of a step can name, as far as the playbook says."""

    step: Step
    labels: tuple[str, ...]
    iteration: frozenset[str]
    """Members of ``iter``."""
    args: frozenset[str] | None
    """Those that arcs give; ``None``: others may come, too."""


def list_uses(placed: PlacedTemplate, kind: Kind) -> Iterator[Use]:
    """What a template names that must be defined, for all that the author says; each once."""
    for path, expression in placed.template.list_expressions():
        place = Place(None, placed.place.path + path, placed.place.findings)
        for name, *members in sorted(expression.unguarded):
            yield Use(place, kind, name, members[0] if members else None)


def find_kind(placed: PlacedTemplate) -> tuple[int, Kind] | None:
    """The number of the step in which a template stands, and where there; ``None``: in none."""
    parts = placed.place.path.split("/", 4)
    if len(parts) < 4 or parts[1] != "workflow":
        return None
    if parts[3] == "tool":
        return int(parts[2]), "tool" if placed.is_of_tool else "rule"
    return int(parts[2]), _KINDS[parts[3]]


class NameCheck:
    """Compares names with what a playbook has. ``steps``: by their places in the document."""

    def __init__(self, playbook: Playbook, steps: Sequence[Step | None]) -> None:
        self._results = tuple(step.name for step in playbook.steps)
        self._workload = tuple(playbook.workload)
        self._credentials = tuple(credential.name for credential in playbook.keychain)
        self._written = tuple(dict.fromkeys(one.path[0] for one in _list_all(playbook) if one.scope == "ctx"))
        arcs = _list_args(playbook)
        self._steps = [None if step is None else _list_names(step, arcs[step.name], playbook) for step in steps]

    def check(self, templates: Sequence[PlacedTemplate]) -> tuple[DoubtfulName, ...]:
        """Note what cannot be there as an error, and what may be as a warning, which is returned if it is bare."""
        doubtful: list[DoubtfulName] = []
        for placed in templates:
            found = find_kind(placed)
            names = None if found is None else self._steps[found[0]]
            if found is None or names is None:
                continue
            doubtful.extend(
                DoubtfulName(step=names.step.name, path=use.place.path, name=use.name)
                for use in list_uses(placed, found[1])
                if not self._check_use(use, names)
            )
        return tuple(dict.fromkeys(doubtful))

    def _check_use(self, use: Use, names: StepNames) -> bool:
        """False: it is bare, and nothing of the playbook."""
        if use.name in SEEN[use.kind]:
            if use.member is not None:
                self._check_member(use, use.member, names)
            return True
        known = self._list_bare(use, names)
        if use.name in known:
            return True
        if use.name in _ALL:
            where = ", ".join(place for kind, place in _PLACES.items() if use.name in SEEN[kind])
            use.place.refuse(f"names {use.name}, which is not seen in {_PLACES[use.kind]}; it is seen in {where}")
            return True
        guess = use.place.guess(use.name, (*SEEN[use.kind], *known))
        use.place.warn(
            f"names {use.name[:60]}, which is no scope, step, task or member of workload here: it is undefined unless "
            f"the start request or the token has it{guess}"
        )
        return False

    def _list_bare(self, use: Use, names: StepNames) -> set[str]:
        is_in_run = "iter" in SEEN[use.kind]
        own = {*names.iteration, *names.labels} if is_in_run else set[str]()
        return own | {*(names.args or ()), *self._results, *self._workload}

    def _check_member(self, use: Use, member: str, names: StepNames) -> None:
        scope = "outcome" if use.name == "output" else use.name
        match scope:
            case "event" | "outcome":
                known = _MEMBERS[scope]
                self._refuse_member(use, member, known, f"{use.name} has {', '.join(known)}")
            case "results":
                known = (*names.labels, *self._results) if "iter" in SEEN[use.kind] else self._results
                self._refuse_member(use, member, known, "no step or task before it is called so")
            case "keychain":
                self._refuse_member(use, member, self._credentials, "keychain of the playbook does not declare it")
            case "iter" if member not in names.iteration:
                loop = "no task sets it" if names.step.loop is not None else "the step has no loop, and no task sets it"
                use.place.warn(f"names iter.{member[:60]}, but {loop}{use.place.guess(member, names.iteration)}")
            case "args" if names.args is not None and member not in names.args:
                told = f"names args.{member[:60]}, which no arc to this step gives"
                use.place.warn(f"{told}{use.place.guess(member, names.args)}")
            case "workload" if member not in self._workload and (guess := use.place.guess(member, self._workload)):
                use.place.warn(f"names workload.{member}, which only a start request can have{guess}")
            case "ctx" if member not in self._written and (guess := use.place.guess(member, self._written)):
                use.place.warn(f"names ctx.{member}, which nothing here writes{guess}")
            case _:
                pass

    def _refuse_member(self, use: Use, member: str, known: Sequence[str], why: str) -> None:
        if member not in known:
            use.place.refuse(f"names {use.name}.{member[:60]}: {why}{use.place.guess(member, known)}")


def _list_args(playbook: Playbook) -> dict[str, set[str] | None]:
    """The names in ``args`` of each step that arcs give; ``None`` where an arc computes them, or a request has them."""
    found: dict[str, set[str] | None] = {step.name: set() for step in playbook.steps}
    for step in playbook.steps:
        for arc in () if step.router is None else step.router.arcs:
            names, given = found[arc.target], {} if arc.args is None else arc.args.source
            if names is None or not isinstance(given, dict):
                found[arc.target] = None
            else:
                names.update(given)
    found[playbook.entry] = None
    return found


def _list_names(step: Step, args: set[str] | None, playbook: Playbook) -> StepNames:
    written = {one.path[0] for one in list_assignments(step) if one.scope == "iter"}
    iteration = {*written, *((step.loop.iterator, *_ITERATION) if step.loop is not None else ())}
    given = {*args, *_SUMMARY} if args is not None and step.name == playbook.final else args
    return StepNames(
        step=step,
        labels=tuple(task.label for task in step.tasks),
        iteration=frozenset(iteration),
        args=None if given is None else frozenset(given),
    )


def _list_all(playbook: Playbook) -> Iterator[Assignment]:
    """What steps, arcs and tasks write."""
    for step in playbook.steps:
        yield from step.set
        yield from list_assignments(step)
        for arc in _list_arcs(step):
            yield from arc.set


def list_assignments(step: Step) -> Iterator[Assignment]:
    """What the tasks of a step write, whatever they come to."""
    for task in step.tasks:
        for action in () if task.policy is None else task.policy.actions:
            yield from action.set
