"""The pipeline of a step as a program: which task is next, and what its outcome leads to
(docs/reference/playbooks.md#pipelines).

Whoever runs one, a worker or the service, goes through the same three functions and decides nothing itself:

    state = begin(dispatch)                     # or the end of a run whose input cannot be rendered
    while True:
        prepared = prepare(dispatch, state)     # what to call; or an outcome that needs no call
        outcome = prepared if isinstance(prepared, Outcome) else await call(prepared)
        turn = settle(dispatch, state, outcome)
        state = turn.state                      # patches of the turn have been made
        if turn.end is not None: break
        await sleep(turn.wait_ms / 1000)

Each function looks at one execution of one task. States are values: one that is kept can be gone on from.

Steps, and elements of loops, that are other playbooks (docs/reference/executions.md#children).

Pipelines that the service runs at once, within the advance that begins the step: those of ``noop`` tasks alone.

Nothing in them waits, repeats or calls anybody, so that a step which only decides or sets values costs no job.
"""

from collections import ChainMap
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue, is_number, is_whole
from statewright.net import Note, Performed
from statewright.net import Problem as NetProblem
from statewright.net.effects import Effect, StartChild
from statewright.playbooks.context import EXECUTION, WORKLOAD, Patch, get_member, write_member
from statewright.playbooks.definition import Assignment, Do, PipelineTask, Playbook, Step, TaskAction
from statewright.playbooks.dispatch import KEYCHAIN, PARENT_ITER, Dispatch, build_dispatch
from statewright.playbooks.graph import to_problem
from statewright.playbooks.jinja.values import Complete
from statewright.playbooks.policies import Outcome, succeed
from statewright.playbooks.tasks import PLAYBOOK, find_child_mistake
from statewright.playbooks.templates import EvaluationContext, Problem, holds, render, render_object

NOOP: Final = "noop"
"""The kind of a task that does nothing: its outcome is ok, its result null."""
MAX_WAIT_MS: Final = 300_000
"""The longest pause before another attempt."""
DEFAULT_DELAY_S: Final = 1

_MAX_DOUBLINGS: Final = 20


class PipelineState(Struct, frozen=True, kw_only=True):
    """Where a run stands. Values of JSON and numbers only."""

    counter: int = 0
    """The task that is next."""
    attempts: int = 0
    """How often it was executed in a row, without success in the eyes of its policy."""
    executions: int = 0
    """Of all tasks."""
    previous: JsonValue = None
    """The result of the last task that ended ok."""
    outcome: "JsonObject | None" = None
    """Of the last task."""
    results: JsonObject = {}
    """The latest results of this run, by label."""
    ctx: JsonObject = {}
    """As this run sees it: with its own patches."""
    iter: JsonObject = {}
    input: JsonObject = {}


_KEPT: Final = ("counter", "attempts", "executions", "previous", "outcome", "results", "iter", "input")


def state_to_document(state: PipelineState) -> JsonObject:
    """As a run keeps it that pauses: all but ``ctx``, of which it goes on with what there is then."""
    return {name: getattr(state, name) for name in _KEPT}


def _restore_state(document: JsonObject, ctx: JsonObject) -> PipelineState:
    counter, attempts, executions = (
        count if is_whole(count := document.get(name)) else 0 for name in ("counter", "attempts", "executions")
    )
    return PipelineState(
        counter=counter,
        attempts=attempts,
        executions=executions,
        previous=document.get("previous"),
        outcome=get_member(document, "outcome") or None,
        results=get_member(document, "results"),
        ctx=ctx,
        iter=get_member(document, "iter"),
        input=get_member(document, "input"),
    )


class PipelineEnd(Struct, frozen=True, kw_only=True):
    """The boundary outcome of a run."""

    error: "JsonObject | None" = None
    """``None``: it ended well."""
    result: JsonValue = None

    @property
    def is_ok(self) -> bool:
        """Whether it ended well."""
        return self.error is None


class ToolCall(Struct, frozen=True, kw_only=True):
    """What a tool is asked to do."""

    label: str
    kind: str
    fields: JsonObject
    """All rendered; ``input`` is among them where the author wrote it. May hold secrets of the keychain."""
    spec: JsonObject
    attempt: int
    """From 1."""


Rule: TypeAlias = "int | str | None"
"""Which rule decided: its place from 0, ``else``, or ``None`` where no rule did."""


class PipelineDecision(Struct, frozen=True, kw_only=True):
    """What an outcome led to."""

    state: PipelineState
    do: Do
    rule: Rule = None
    patches: tuple[Patch, ...] = ()
    """Made by this turn, in order."""
    wait_ms: int = 0
    """Before the next attempt."""
    end: PipelineEnd | None = None
    problems: tuple[Problem, ...] = ()
    """Conditions of rules that could not be evaluated, and so did not match."""


def begin(dispatch: Dispatch) -> PipelineState | PipelineEnd:
    """A run that stands at its first task, or where it paused. It ends at once if the step's ``input`` cannot be
    rendered, and ends well if there are no tasks.
    """
    if dispatch.resume is not None:
        return _restore_state(dispatch.resume.state, dispatch.ctx)
    state = PipelineState(ctx=dispatch.ctx, iter={} if dispatch.element is None else dispatch.element.to_iter())
    rendered = render_object(dispatch.input, build_scope(dispatch, state), dispatch.context)
    if isinstance(rendered, Problem):
        return PipelineEnd(error=rendered.to_document())
    if not dispatch.tasks:
        return PipelineEnd()
    return replace(state, input=rendered)


def prepare(dispatch: Dispatch, state: PipelineState) -> ToolCall | Outcome:
    """What to call for the task that is next; or its outcome, if it does nothing or cannot be rendered."""
    task = dispatch.tasks[state.counter]
    if task.kind == NOOP:
        return succeed()
    attempt = state.attempts + 1
    scope = build_scope(dispatch, state, task, attempt).new_child({KEYCHAIN: Complete(dispatch.keychain)})
    fields = render_object(task.fields, scope, dispatch.context)
    if isinstance(fields, Problem):
        return Outcome(status="error", error={**fields.to_document(), "retryable": False})
    return ToolCall(label=task.label, kind=task.kind, fields=fields, spec=task.spec, attempt=attempt)


def prepare_first(dispatch: Dispatch) -> ToolCall | Outcome | PipelineEnd:
    """What to call for the first task of a run; else its outcome, or the end of the run."""
    state = begin(dispatch)
    return state if isinstance(state, PipelineEnd) else prepare(dispatch, state)


def get_given_outcome(dispatch: Dispatch) -> Outcome | None:
    """The outcome of the task at which a run paused; ``None``: it begins at its first task."""
    if dispatch.resume is None:
        return None
    given = dispatch.resume.outcome or {}
    if given.get("status") == "error":
        return Outcome(status="error", error=get_member(given, "error"))
    return succeed(given.get("result"))


def settle(dispatch: Dispatch, state: PipelineState, outcome: Outcome) -> PipelineDecision:
    """What an outcome of the task that is next leads to, by its policy."""
    task, attempt = dispatch.tasks[state.counter], state.attempts + 1
    document = outcome.to_document()
    results = {**state.results, task.label: outcome.result} if outcome.is_ok else state.results
    judged = replace(state, outcome=document, results=results, executions=state.executions + 1)
    action, rule, problems = _choose_action(dispatch, judged, task, attempt, outcome)
    assigned = _assign(dispatch, judged, task, attempt, action.set)
    if isinstance(assigned, Problem):
        end = PipelineEnd(error=assigned.to_document(), result=state.previous)
        return PipelineDecision(state=judged, do="fail", rule=rule, end=end, problems=problems)
    after, patches = assigned
    if outcome.is_ok:
        after = replace(after, previous=outcome.result)
    turn = PipelineDecision(
        state=replace(after, attempts=0), do=action.do, rule=rule, patches=patches, problems=problems
    )
    if action.do == "retry":
        return _retry(dispatch, turn, task, action, attempt, outcome)
    return _move_on(dispatch, turn, action, outcome)


def _move_on(dispatch: Dispatch, turn: PipelineDecision, action: TaskAction, outcome: Outcome) -> PipelineDecision:
    state = turn.state
    if action.do == "fail":
        return replace(turn, end=_fail(state, outcome))
    if action.do == "jump":
        labels = [task.label for task in dispatch.tasks]
        state = replace(state, counter=labels.index(str(action.to)))
    else:
        state = replace(state, counter=state.counter + 1)
    if action.do == "break" or state.counter >= len(dispatch.tasks):
        return replace(turn, state=state, end=PipelineEnd(result=state.previous))
    return _limit(dispatch, replace(turn, state=state))


def _retry(
    dispatch: Dispatch, turn: PipelineDecision, task: PipelineTask, action: TaskAction, attempt: int, outcome: Outcome
) -> PipelineDecision:
    if attempt >= action.attempts:
        return replace(turn, end=_fail(turn.state, outcome, f"{task.label} has had {attempt} attempts"))
    wait_ms = _compute_wait(dispatch, turn.state, task, action, attempt)
    if isinstance(wait_ms, Problem):
        return replace(turn, end=PipelineEnd(error=wait_ms.to_document(), result=turn.state.previous))
    return _limit(dispatch, replace(turn, state=replace(turn.state, attempts=attempt), wait_ms=wait_ms))


def _limit(dispatch: Dispatch, turn: PipelineDecision) -> PipelineDecision:
    """The turn, unless no further task may be executed."""
    most = dispatch.max_task_executions
    if turn.state.executions < most:
        return turn
    error: JsonObject = {"kind": "limit", "message": f"the pipeline has executed {most} tasks"}
    return replace(turn, wait_ms=0, end=PipelineEnd(error=error, result=turn.state.previous))


def _fail(state: PipelineState, outcome: Outcome, message: str = "the policy of the task says so") -> PipelineEnd:
    error = outcome.error or {"kind": "policy_fail", "message": message}
    return PipelineEnd(error=error, result=state.previous)


def _choose_action(
    dispatch: Dispatch, state: PipelineState, task: PipelineTask, attempt: int, outcome: Outcome
) -> tuple[TaskAction, Rule, tuple[Problem, ...]]:
    """The action of the first rule that matches; else that of ``else``; else the default."""
    policy = task.policy
    if policy is None:
        return (_CONTINUE if outcome.is_ok else _FAIL), None, ()
    scope = build_scope(dispatch, state, task, attempt)
    problems: list[Problem] = []
    for index, rule in enumerate(policy.rules):
        matches = True if rule.when is None else holds(rule.when, scope, dispatch.context)
        if isinstance(matches, Problem):
            problems.append(matches)
        elif matches:
            return rule.then, index, tuple(problems)
    if policy.otherwise is not None:
        return policy.otherwise, "else", tuple(problems)
    continues = outcome.is_ok or policy.on_unmatched == "continue"
    return (_CONTINUE if continues else _FAIL), None, tuple(problems)


_CONTINUE: Final = TaskAction(do="continue")
_FAIL: Final = TaskAction(do="fail")


def _assign(
    dispatch: Dispatch, state: PipelineState, task: PipelineTask, attempt: int, assignments: tuple[Assignment, ...]
) -> tuple[PipelineState, tuple[Patch, ...]] | Problem:
    """The state after assignments, each of which sees those before it; and those to ``ctx``."""
    patches: list[Patch] = []
    for assignment in assignments:
        value = render(assignment.value, build_scope(dispatch, state, task, attempt), dispatch.context)
        if isinstance(value, Problem):
            return value
        if assignment.scope == "iter":
            state = replace(state, iter=write_member(state.iter, assignment.path, value))
        else:
            state = replace(state, ctx=write_member(state.ctx, assignment.path, value))
            patches.append(Patch(path=assignment.path, value=value))
    return state, tuple(patches)


def _compute_wait(
    dispatch: Dispatch, state: PipelineState, task: PipelineTask, action: TaskAction, attempt: int
) -> int | Problem:
    """Milliseconds before execution ``attempt + 1``."""
    if action.delay is None:
        delay: JsonValue = 0 if action.backoff == "none" else DEFAULT_DELAY_S
    else:
        rendered = render(action.delay, build_scope(dispatch, state, task, attempt), dispatch.context)
        if isinstance(rendered, Problem):
            return rendered
        delay = rendered
    if not is_number(delay) or delay < 0:
        return Problem(message="delay must give a number of seconds", source=str(delay)[:120])
    factor = {"none": 1, "linear": attempt, "exponential": 2 ** min(attempt - 1, _MAX_DOUBLINGS)}[action.backoff]
    return min(int(min(delay, MAX_WAIT_MS) * factor * 1000), MAX_WAIT_MS)


def build_scope(
    dispatch: Dispatch, state: PipelineState, task: PipelineTask | None = None, attempt: int | None = None
) -> ChainMap[str, JsonValue]:
    """What templates of a pipeline see, but for the keychain, which only fields of tools do.

    What is none of these names is that of a member of ``iter``, of ``args``, of a result, or of a member of the
    workload, whichever comes first.
    """
    scopes: dict[str, JsonValue] = {
        "workload": dispatch.workload,
        "ctx": state.ctx,
        "args": dispatch.args,
        "iter": state.iter,
        "input": state.input,
        "results": {**dispatch.results, **state.results},
        "outcome": state.outcome,
        "output": state.outcome,
        "_prev": state.previous,
        "_task": None if task is None else task.label,
        "_attempt": attempt,
        "execution_id": dispatch.execution_id,
    }
    return ChainMap(scopes, state.iter, dispatch.args, state.results, dispatch.results, dispatch.workload)


MAX_INLINE_TASKS: Final = 20
TASK_ENDED: Final = "task.ended"
"""The trace of the end of a task."""


def is_inline(step: Step) -> bool:
    """Whether the pipeline of a step can be run at once."""
    return (
        step.loop is None
        and 0 < len(step.tasks) <= MAX_INLINE_TASKS
        and all(task.kind == NOOP and not _repeats(task) for task in step.tasks)
    )


def _repeats(task: PipelineTask) -> bool:
    return task.policy is not None and any(action.do in ("retry", "jump") for action in task.policy.actions)


def run_inline(
    playbook: Playbook, step: Step, data: JsonObject, args: JsonObject, context: EvaluationContext
) -> Performed:
    """Run such a pipeline: what it sets, and how it ended."""
    dispatch = build_dispatch(playbook, step, data, {"args": args}, context=context)
    notes: list[Note] = []
    state = begin(dispatch)
    while not isinstance(state, PipelineEnd):
        prepared = prepare(dispatch, state)
        assert isinstance(prepared, Outcome)  # noqa: S101 - nothing is called
        label = dispatch.tasks[state.counter].label
        settled = settle(dispatch, state, prepared)
        notes.append(_describe(label, prepared, settled))
        notes.extend(Note(changes={".".join(patch.path): patch.value}) for patch in settled.patches)
        state = settled.state if settled.end is None else settled.end
    if state.error is not None:
        return Performed(notes=tuple(notes), problem=to_problem(state.error))
    return Performed(notes=tuple(notes), output=state.result)


def _describe(label: str, outcome: Outcome, turn: PipelineDecision) -> Note:
    details: dict[str, JsonValue] = {"task": label, "status": outcome.status, "action": turn.do, "rule": turn.rule}
    return Note(kind=TASK_ENDED, details=details)


CHILD: Final = "child"
DEPTH: Final = "depth"
MAX_DEPTH: Final = 8
"""Executions within each other, the outermost not counted."""


def is_child(step: Step) -> bool:
    """Whether a step, or each element of its loop, is another playbook that is awaited, and nothing else."""
    return len(step.tasks) == 1 and step.tasks[0].kind == PLAYBOOK and step.tasks[0].policy is None


def build_child_input(
    playbook: Playbook,
    step: Step,
    data: JsonObject,
    given: JsonObject,
    *,
    context: EvaluationContext,
    element: int | None = None,
) -> "JsonValue | NetProblem":
    """``given``, with the fields of the task as a pipeline would render them, and how deep the other one will run."""
    depth = get_depth(data) + 1
    if depth > MAX_DEPTH:
        return to_problem(build_depth_error())
    dispatch = build_dispatch(playbook, step, data, given, element=element, context=context)
    prepared = prepare_first(dispatch)
    if not isinstance(prepared, ToolCall):
        return to_problem(prepared.error or {})
    if (error := build_child_error(prepared.fields)) is not None:
        return to_problem(error)
    scope: JsonObject = {} if dispatch.element is None else {PARENT_ITER: dispatch.element.to_iter()}
    return {**given, **scope, CHILD: prepared.fields, DEPTH: depth}


def build_child_error(fields: JsonObject) -> "JsonObject | None":
    """Of a playbook that cannot be started with the fields of its task."""
    mistake = find_child_mistake(fields)
    return None if mistake is None else {"kind": PLAYBOOK, "message": " ".join(mistake), "retryable": False}


def build_depth_error() -> JsonObject:
    """Of a playbook that cannot be started so deep."""
    message = f"playbooks run within each other {MAX_DEPTH} deep at most"
    return {"kind": "depth_limit", "message": message, "retryable": False}


def get_depth(data: JsonObject) -> int:
    """How many others an execution runs within."""
    depth = get_member(data, EXECUTION).get(DEPTH)
    return depth if isinstance(depth, int) else 0


def direct_children(effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """The effects, with executions of the playbooks that the steps name."""
    if not any(isinstance(effect, StartChild) for effect in effects):
        return effects
    return tuple(_direct_child(effect) if isinstance(effect, StartChild) else effect for effect in effects)


def _direct_child(effect: StartChild) -> StartChild:
    given = effect.input if isinstance(effect.input, dict) else {}
    fields = get_member(given, CHILD)
    path, version = fields.get("path"), fields.get("version")
    workload = get_member(fields, "args" if "args" in fields else "input")
    start: JsonObject = {WORKLOAD: workload, DEPTH: given.get(DEPTH), PARENT_ITER: given.get(PARENT_ITER)}
    return StartChild(
        net=path if isinstance(path, str) else "",
        version=version if is_whole(version) else 0,
        input=start,
        awaited_by=effect.awaited_by,
    )
