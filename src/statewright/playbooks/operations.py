"""What can be done to an execution of a playbook: one function per operation, from a state to a state and effects.

A shell loads the execution, calls one of these, and in the same transaction stores the new execution and carries out
the effects. No effects means that nothing happened: reports that come late or twice are accepted without effect.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue, tidy_numbers
from statewright.net import (
    IDS_PER_MOMENT,
    ExecutionId,
    KernelResult,
    Marking,
    Moment,
    NodeId,
    Token,
    WorkId,
    advance,
    start,
)
from statewright.net.effects import (
    Cancelled,
    ChildEnded,
    Effect,
    Event,
    Injected,
    Patched,
    Reconsidered,
    Restarted,
    TaskCompleted,
    TaskPatched,
    TaskPaused,
    TimerFired,
    Trace,
)
from statewright.net.marking import TimerId
from statewright.playbooks.asking import ask_people
from statewright.playbooks.completions import (
    Completion,
    PauseRequest,
    UnusableCompletion,
    read_completion,
    read_report,
)
from statewright.playbooks.context import CTX, WORKLOAD, build_data, describe_patch, get_member, is_key, write_member
from statewright.playbooks.dispatch import PARENT_ITER, PausedRun, build_dispatch, dispatch_to_document, narrow
from statewright.playbooks.events import REQUEST, WORKER_EVENT
from statewright.playbooks.execution import Execution, list_transitions
from statewright.playbooks.graph import fail_task, write_reason
from statewright.playbooks.pipeline import (
    CHILD,
    DEPTH,
    MAX_DEPTH,
    build_child_error,
    build_depth_error,
    direct_children,
    get_depth,
)
from statewright.playbooks.run_record import MAX_CHARS, MAX_PATCHES, Progress, add_changes, count_known, restore
from statewright.playbooks.source import PlaybookProcess
from statewright.playbooks.tasks import PAUSING, PLAYBOOK, WAIT, find_due
from statewright.playbooks.templates import EvaluationContext
from statewright.processes import language as processes
from statewright.processes.changes import JOB_FAILED, find_completion
from statewright.processes.language import ChildOutcome, InstanceOperation, JobPlace, NewInstance, Rejection
from statewright.processes.loop_results import save_loops
from statewright.processes.user_tasks import TaskAnswer

Applied: TypeAlias = processes.Applied[Execution]
"""An execution after an operation."""

ARGS: Final = "args"
RESULT: Final = "result"
MAX_PATCH_KEYS: Final = 1_000


def start_execution(process: PlaybookProcess, new: NewInstance, moment: Moment) -> Applied:
    """A new execution, as far as it comes without any task. The variables have ``workload``, ``ctx``, ``args`` and, of
    one that others wait for, ``depth`` and ``iter``.
    """
    given = tidy_numbers(new.variables)
    depth = given.get(DEPTH)
    data = build_data(
        process.playbook,
        new.id,
        get_member(given, WORKLOAD),
        get_member(given, CTX),
        depth=depth if isinstance(depth, int) else 0,
        parent_iter=given.get(PARENT_ITER),
    )
    payloads: tuple[JsonValue, ...] = ({ARGS: get_member(given, ARGS)},)
    result = start(process.compiled.net, process.create_language(moment.at), data, moment, payloads)
    if process.asking:
        result = ask_people(process, Marking(data=data), result, moment)
    execution = Execution(
        id=new.id,
        definition_id=process.playbook.path,
        definition_version=process.version,
        marking=Marking(data=data),
        started_at=moment.at,
        business_key=new.business_key or None,
        parent_instance_id=new.parent_instance_id,
        awaited_by=new.awaited_by,
    )
    return _to_applied(process, None, execution, result.marking, result.effects, moment)


def complete_job(
    process: PlaybookProcess, execution: Execution, job: str, result: JsonValue, moment: Moment
) -> Applied | Rejection:
    """What a run of a pipeline came to: the patches in their order, then how it ended."""
    try:
        completion = read_completion(result)
    except UnusableCompletion as unusable:
        return Rejection("bad-request", str(unusable))
    token = _find_token(process, execution, job)
    if token is None:
        return Applied(instance=execution, effects=(), transitions=())
    progress = execution.progress.get(job)
    known = count_known(progress, completion.patches, 0)
    events = _list_job_events(completion, WorkId(job), known)
    if completion.pause is not None:
        paused = _plan_pause(process, execution, token, WorkId(job), completion.pause, moment.at)
        if isinstance(paused, Rejection):
            return paused
        event, pause = paused
        events.append(event)
        execution = replace(execution, pauses={**execution.pauses, token.id: pause})
    logged = 0 if progress is None else min(progress.logged, completion.logged_before)
    places = [max(place - logged, 0) for place in completion.places[known:]]
    return _apply_all(process, execution, events, places, _trace_log(token, completion.log[logged:]), moment)


def report_progress(
    process: PlaybookProcess, execution: Execution, job: str, report: JsonValue, lease: int, moment: Moment
) -> Applied | Rejection:
    """What a run has done that goes on: its patches take effect, and its log is in that of the execution. ``lease``:
    the instant at which that of its worker began.

    Without effect for what is known, and for what the service takes with the completion only: a report that leaves a
    gap, patches of elements that run beside others, more than a run may change before its end.
    """
    try:
        reported = read_report(report)
    except UnusableCompletion as unusable:
        return Rejection("bad-request", str(unusable))
    token = _find_token(process, execution, job)
    if token is None:
        return Rejection("conflict", "the run is over")
    before = execution.progress.get(job) or Progress(lease=lease)
    if lease < before.lease:
        return Rejection("conflict", "another worker has the run")
    if lease > before.lease:
        before = replace(before, lease=lease, logged=0)
    nothing = Applied(instance=execution, effects=(), transitions=())
    if _holds_patches(execution, token):
        return nothing
    if reported.first_patch > len(before.patches) or reported.first_entry > before.logged:
        return nothing
    known = count_known(before, reported.patches, reported.first_patch)
    changes, first = reported.patches[known:], reported.first_patch + known
    if first + len(changes) > MAX_PATCHES:
        return nothing
    ctx = get_member(execution.marking.data, CTX)
    after = add_changes(before, ctx, changes, first) if changes else before
    if after.chars > MAX_CHARS:
        return nothing
    entries = reported.log[before.logged - reported.first_entry :]
    after = replace(after, logged=before.logged + len(entries))
    events: list[Event] = [TaskPatched(WorkId(job), {key: value}) for key, value in changes]
    places = [max(place - before.logged, 0) for place in reported.places[known:]]
    execution = replace(execution, progress={**execution.progress, job: after})
    return _apply_all(process, execution, events, places, _trace_log(token, entries), moment)


def complete_task(
    process: PlaybookProcess, execution: Execution, /, *, task: str, result: JsonValue, by: str, moment: Moment
) -> Applied | Rejection:
    """A person's answer to a user task, which is the result of its step; ``{}`` without one."""
    if execution.status in ("COMPLETED", "CANCELLED"):
        return _refuse_ended(execution)
    if not _is_user_task(process, execution, task):
        return Rejection("not-found", "user task not found")
    output = tidy_numbers({RESULT: {} if result is None else result})[RESULT]
    answer = TaskAnswer(task=WorkId(task), result=output, by=by)
    return _apply_all(process, execution, [TaskCompleted(answer.task, output)], (), (), moment, answer)


def _is_user_task(process: PlaybookProcess, execution: Execution, work: str) -> bool:
    return any(token.work == work and token.node in process.asking for token in execution.marking.tokens)


def _find_token(process: PlaybookProcess, execution: Execution, job: str) -> Token | None:
    """That of a run which a worker does."""
    work = WorkId(job)
    return next(
        (token for token in execution.marking.tokens if token.work == work and token.node not in process.asking), None
    )


def _holds_patches(execution: Execution, token: Token) -> bool:
    """Whether patches of a run have their effect with its end only, as those of elements that run beside others."""
    return any(loop.token == token.owner and loop.limit != 1 for loop in execution.marking.loops)


def _trace_log(token: Token, log: Sequence[JsonObject]) -> list[Trace]:
    return [
        Trace(kind=WORKER_EVENT, node=token.node, token=token.id, details=_place(entry, token.element)) for entry in log
    ]


def _place(entry: JsonObject, element: int | None) -> JsonObject:
    return entry if element is None else {**entry, "iteration": element}


def _list_job_events(completion: Completion, work: WorkId, known: int) -> list[Event]:
    events: list[Event] = [TaskPatched(work, {key: value}) for key, value in completion.patches[known:]]
    if completion.pause is not None:
        return events
    error = completion.error
    return [*events, TaskCompleted(work, completion.result) if error is None else fail_task(work, error)]


def _plan_pause(
    process: PlaybookProcess, execution: Execution, token: Token, job: WorkId, asked: PauseRequest, at: int
) -> tuple[TaskPaused, PausedRun] | Rejection:
    """What a run waits for that is given back, and where it goes on; at once where that is nothing."""
    step = process.playbook.by_name[token.node]
    task = step.tasks[asked.counter] if 0 <= asked.counter < len(step.tasks) else None
    if task is None or task.kind not in PAUSING:
        return Rejection("bad-request", "pause: state.counter is the place of no task that a run can pause for")
    pause = PausedRun(state=asked.state, visits=asked.visits, entries=asked.entries, since=at)
    if task.kind == WAIT:
        due = find_due(asked.fields, at)
        if isinstance(due, int):
            return TaskPaused(task=job, until=max(due, at)), pause
        error: JsonObject = {"kind": WAIT, "message": due, "retryable": False}
    else:
        depth = get_depth(execution.marking.data) + 1
        refused = build_child_error(asked.fields) or (build_depth_error() if depth > MAX_DEPTH else None)
        if refused is None:
            item = token.payloads[0] if token.element is not None else None
            given = item if isinstance(item, dict) else {}
            element = build_dispatch(
                process.playbook, step, execution.marking.data, given, element=token.element
            ).element
            scope: JsonObject = {} if element is None else {PARENT_ITER: element.to_iter()}
            return TaskPaused(task=job, net=PLAYBOOK, input={**scope, CHILD: asked.fields, DEPTH: depth}), pause
        error = refused
    return TaskPaused(task=job, until=at), replace(pause, outcome={"status": "error", "error": error})


def fail_job(process: PlaybookProcess, execution: Execution, job: str, reason: str, moment: Moment) -> Applied:
    """No worker could run the pipeline."""
    if _is_user_task(process, execution, job):
        return Applied(instance=execution, effects=(), transitions=())
    error: JsonObject = {"kind": "worker", "message": reason or JOB_FAILED}
    return _apply(process, execution, fail_task(WorkId(job), error), moment)


MAX_LOSSES: Final = 3
"""How often a pipeline begins again since the lease of its run has ended (docs/reference/executions.md#task-kinds)."""


def fail_lost_job(process: PlaybookProcess, execution: Execution, /, job: str, moment: Moment) -> Applied:
    """The lease of a run has ended once more."""
    message = f"the lease of the run ended, and its pipeline had begun again {MAX_LOSSES} times"
    error: JsonObject = {"kind": "lease_lost", "message": message, "retryable": True}
    return _apply(process, execution, fail_task(WorkId(job), error), moment)


def fire_timer(process: PlaybookProcess, execution: Execution, timer: str, moment: Moment) -> Applied:
    """The time of a token or a run is over."""
    return _apply(process, execution, TimerFired(TimerId(timer)), moment)


def end_child(
    process: PlaybookProcess, execution: Execution, run: str, outcome: ChildOutcome, moment: Moment
) -> Applied:
    """A playbook that a step waits for has ended."""
    error: JsonObject = {"kind": "child", "message": outcome.reason}
    if (pause := execution.pauses.get(run)) is not None:
        is_ok = outcome.reason is None
        told: JsonObject = {"status": "ok", "result": outcome.output} if is_ok else {"status": "error", "error": error}
        execution = replace(execution, pauses={**execution.pauses, run: replace(pause, outcome=told)})
    if outcome.reason is None:
        return _apply(process, execution, ChildEnded(ExecutionId(run), outcome.output), moment)
    return _apply(process, execution, ChildEnded(ExecutionId(run), None, write_reason(error), error), moment)


def patch_context(
    process: PlaybookProcess, execution: Execution, patch: Mapping[str, JsonValue], moment: Moment
) -> Applied | Rejection:
    """Change ``ctx`` from outside; null removes a key. Denied tokens are looked at again."""
    if execution.is_terminal:
        return _refuse_ended(execution)
    if not patch:
        return Rejection("bad-request", "ctx must have a member", "ctx")
    if len(patch) > MAX_PATCH_KEYS:
        told = f"ctx has {len(patch)} members, of {MAX_PATCH_KEYS} that one patch may have"
        return Rejection("bad-request", told, "ctx")
    for key in patch:
        if not is_key(key):
            return Rejection("bad-request", f"ctx: {key!r} is no name, or names with dots between them", "ctx")
    return _apply(process, execution, Patched(describe_patch(tidy_numbers(dict(patch)))), moment)


def inject_token(
    process: PlaybookProcess, execution: Execution, step: str, args: JsonObject, moment: Moment
) -> Applied | Rejection:
    """One more token for a step; it goes through admission."""
    if execution.is_terminal:
        return _refuse_ended(execution)
    if step not in process.playbook.by_name:
        return Rejection("bad-request", f"step: the playbook has no step {step!r}", "step")
    return _apply(process, execution, Injected(NodeId(step), ({ARGS: tidy_numbers(args)},)), moment)


def reconsider(process: PlaybookProcess, execution: Execution, moment: Moment) -> Applied | Rejection:
    """Ask about all denied tokens once more."""
    return _refuse_ended(execution) if execution.is_terminal else _apply(process, execution, Reconsidered(), moment)


def cancel_execution(
    process: PlaybookProcess, execution: Execution, reason: str, moment: Moment
) -> Applied | Rejection:
    """Stop for good: tokens are discarded, and runs under way withdrawn."""
    if execution.status in ("COMPLETED", "CANCELLED"):
        return _refuse_ended(execution)
    return _apply(process, execution, Cancelled(reason or "cancelled"), moment)


def restart_execution(process: PlaybookProcess, execution: Execution, moment: Moment) -> Applied | Rejection:
    """Begin the runs that failed again, with the same ``args``."""
    if execution.status != "FAILED":
        return Rejection("conflict", f"execution is {execution.outcome}, not failed")
    applied = _apply(process, execution, Restarted(), moment)
    return applied if applied.effects else Rejection("conflict", "there is nothing to begin again")


def build_payload(process: PlaybookProcess, execution: Execution, job: JobPlace, value: JsonValue) -> JsonObject:
    """What the worker of a run is given, as far as its templates name it; ``ctx`` and results are those of now."""
    step = process.playbook.by_name[job.node]
    given = value if isinstance(value, dict) else {}
    token = next((token for token in execution.marking.tokens if token.id == job.execution), None)
    data = execution.marking.data if token is None else {**execution.marking.data, CTX: _read_context(execution, token)}
    context = EvaluationContext(at=None if token is None else token.begun_at)
    dispatch = build_dispatch(
        process.playbook, step, data, given, run=job.execution, element=job.element, context=context
    )
    narrowed = narrow(dispatch, process.compiled.rules[job.node].needs)
    return dispatch_to_document(replace(narrowed, pauses=True, resume=execution.pauses.get(job.execution)))


def _read_context(execution: Execution, token: Token) -> JsonObject:
    """``ctx`` as a run sees it when it begins or goes on: without what it has set since, if that was before, and with
    what it had set until then, if that is held back.
    """
    ctx = get_member(execution.marking.data, CTX)
    progress = None if token.work is None else execution.progress.get(token.work)
    ctx = ctx if progress is None else restore(ctx, progress)
    for key, value in (change for changes in token.changes for change in changes.items()):
        ctx = write_member(ctx, tuple(key.split(".")), value)
    return ctx


def apply_request(
    process: PlaybookProcess,
    execution: Execution,
    *,
    operation: InstanceOperation[PlaybookProcess, Execution],
    principal: str,
    reason: str,
    moment: Moment,
) -> Applied | Rejection:
    """An operation that somebody asked for: the event log says who did, and why."""
    outcome = operation(process, execution, moment=moment)
    if isinstance(outcome, Rejection) or not outcome.effects:
        return outcome
    asked = Trace(kind=REQUEST, node=NodeId(""), details={"principal": principal, "reason": reason or None})
    return replace(outcome, effects=(asked, *outcome.effects))


def _refuse_ended(execution: Execution) -> Rejection:
    return Rejection("conflict", f"execution is {execution.outcome}")


def _apply(process: PlaybookProcess, execution: Execution, event: Event, moment: Moment) -> Applied:
    return _apply_all(process, execution, [event], (), (), moment)


def _apply_all(
    process: PlaybookProcess,
    execution: Execution,
    events: Sequence[Event],
    places: Sequence[int],
    traced: Sequence[Trace],
    moment: Moment,
    answer: TaskAnswer | None = None,
) -> Applied:
    """The execution after several events, each decided on what the one before it left. ``traced`` are for the log,
    ``places`` say of the first events how many of them stand before each; all stand before an event without a place.
    """
    net, language = process.compiled.net, process.create_language(moment.at)
    ids = IDS_PER_MOMENT // (len(events) + 1)
    marking, found = execution.marking, list[Effect]()
    done = 0
    for number, event in enumerate(events):
        upto = places[number] if number < len(places) else len(traced)
        found.extend(traced[done:upto])
        done = max(done, upto)
        part = Moment(at=moment.at, first_id=moment.first_id + number * ids)
        result: KernelResult = advance(net, language, marking, event, part)
        if process.asking:
            result = ask_people(process, marking, result, part, answer)
        marking = result.marking
        found.extend(result.effects)
    found.extend(traced[done:])
    if not found:
        return Applied(instance=execution, effects=(), transitions=())
    return _to_applied(process, execution, execution, marking, tuple(found), moment)


def _to_applied(
    process: PlaybookProcess,
    before: Execution | None,
    execution: Execution,
    marking: Marking,
    effects: tuple[Effect, ...],
    moment: Moment,
) -> Applied:
    saved, stored = save_loops(marking, execution.saved) if marking.loops else ({}, ())
    after = replace(
        execution,
        marking=marking,
        completed_at=find_completion(execution.completed_at, effects, moment.at),
        saved=saved,
    )
    if after.progress or after.pauses:
        working = [token for token in marking.tokens if token.stage == "WORKING"]
        progress = {job: one for token in working if (one := after.progress.get(job := token.work or ""))}
        pauses = {token.id: paused for token in working if (paused := after.pauses.get(token.id))}
        after = replace(after, progress=progress, pauses=pauses)
    moves = list_transitions(None if before is None else before.marking.phase, effects)
    return Applied(instance=after, effects=(*direct_children(effects), *stored), transitions=moves)
