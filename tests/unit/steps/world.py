"""The outside world of one instance, kept in memory: a job queue, a task list, timers, a history and a clock.

It carries out effects as a shell would, and insists on what must hold after every operation
(docs/reference/steps.md#invariants).
"""

from collections.abc import Callable

from msgspec.structs import replace

from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Moment
from statewright.net.effects import (
    ArmTimer,
    CloseHumanTask,
    CloseTask,
    DisarmTimer,
    Effect,
    EnqueueTask,
    FireTimer,
    HoldWork,
    OpenHumanTask,
    RecordExit,
    ReleaseWork,
    StartChild,
)
from statewright.net.local import LocalClock
from statewright.processes.changes import (
    ExecutionStatus,
    FailureReport,
    GivenUp,
    JobState,
    NodeExecution,
    Requeued,
    apply_end,
    compute_history_changes,
    decide_retry,
)
from statewright.processes.language import Applied, NewInstance, Rejection
from statewright.steps import (
    Instance,
    Process,
    cancel_instance,
    complete_job,
    complete_user_task,
    complete_user_task_by_id,
    fail_job,
    fire_timer,
    instance_from_document,
    instance_to_document,
    retry_step,
    signal_step,
    start_instance,
)
from statewright.steps.instance import derive_status

START = 1_717_232_400_000_000
"""2024-06-01T09:00:00Z."""

Operation = Callable[[Instance, Moment], Applied[Instance] | Rejection]


class World:
    """Everything around one instance. Operations that name a job type or step act on the oldest one there is."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._clock = LocalClock(START)
        self.jobs: dict[str, EnqueueTask] = {}
        self.retries: dict[str, int] = {}
        self.closed_jobs: dict[str, str] = {}
        self.tasks: dict[str, OpenHumanTask] = {}
        self.closed_tasks: dict[str, str] = {}
        self.timers: dict[str, ArmTimer] = {}
        self.closed_timers: dict[str, str] = {}
        self.lines: dict[str, NodeExecution] = {}
        self.children: list[StartChild] = []
        self.is_held = False
        self.moves: list[str] = []
        self.log: list[tuple[Operation, Moment]] = []
        self.last: Applied[Instance] | Rejection | None = None
        self.instance: Instance

    def start(self, business_key: str = "", **variables: JsonValue) -> "World":
        self.first = (NewInstance(id="01HZ", variables=variables, business_key=business_key), self._clock.next_moment())
        applied = start_instance(self.process, *self.first)
        self._carry_out(applied)
        return self

    def complete(self, job_type: str, **variables: JsonValue) -> "World":
        return self.report(self.job(job_type).task, variables)

    def report(self, job: str, variables: JsonObject) -> "World":
        return self.do(lambda instance, at: complete_job(self.process, instance, job, variables, at))

    def fail(self, job_type: str, message: str = "boom", *, retryable: bool = False) -> "World":
        return self.report_failure(self.job(job_type).task, message, retryable=retryable)

    def report_failure(self, job: str, message: str = "boom", *, retryable: bool = False) -> "World":
        status = "LOCKED" if job in self.jobs else "COMPLETED"
        state = JobState(status=status, worker_id="w", retries_remaining=self.retries.get(job, 0), is_held=self.is_held)
        verdict = decide_retry(state, FailureReport(worker_id="w", message=message, retryable=retryable))
        if isinstance(verdict, Requeued):
            self.retries[job] = verdict.retries_remaining
        if isinstance(verdict, GivenUp):
            self.do(lambda instance, at: fail_job(self.process, instance, job, verdict.reason, at))
        return self

    def finish_task(self, step_id: str, by: str | None = None, **variables: JsonValue) -> "World":
        return self.do(lambda instance, at: complete_user_task(self.process, instance, step_id, variables, at, by=by))

    def finish_task_by_id(self, task: str, by: str | None = None, **variables: JsonValue) -> "World":
        return self.do(
            lambda instance, at: complete_user_task_by_id(self.process, instance, task, variables, at, by=by)
        )

    def signal(self, step_id: str, **variables: JsonValue) -> "World":
        return self.do(lambda instance, at: signal_step(self.process, instance, step_id, variables, at))

    def fire(self, timer: str | None = None) -> "World":
        """Let time pass until the given timer, or the earliest one, is due."""
        timer = timer or min(self.timers, key=lambda one: (self.timers[one].at, one))
        if timer in self.timers:
            self._clock.now = max(self.clock, self.timers[timer].at)
        return self.do(lambda instance, at: fire_timer(self.process, instance, timer, at))

    def cancel(self, reason: str = "") -> "World":
        return self.do(lambda instance, at: cancel_instance(self.process, instance, reason, at))

    def retry(self, step_id: str, **variables: JsonValue) -> "World":
        return self.do(lambda instance, at: retry_step(self.process, instance, step_id, variables, at))

    def do(self, operation: Operation) -> "World":
        """Apply an operation to the instance as it was stored, and carry out what it asks for."""
        moment = self._clock.next_moment()
        before = instance_to_document(self.instance)
        stored = encode(before)
        outcome = operation(_reloaded(stored), moment)
        self.last = outcome
        assert encode(instance_to_document(self.instance)) == stored, "an operation changed its argument"
        if isinstance(outcome, Applied):
            self.log.append((operation, moment))
            if outcome.effects:
                self._carry_out(outcome)
            else:
                assert outcome.instance == self.instance, "a change without effects would never be stored"
        return self

    @property
    def clock(self) -> int:
        return self._clock.now

    @property
    def status(self) -> str:
        return self.instance.status

    @property
    def at(self) -> list[str]:
        return list(self.instance.current_step_ids)

    @property
    def variables(self) -> JsonObject:
        return self.instance.variables

    @property
    def reason(self) -> str | None:
        return self.instance.failure_reason

    @property
    def refusal(self) -> tuple[str, str] | None:
        return (self.last.kind, self.last.reason) if isinstance(self.last, Rejection) else None

    @property
    def effects(self) -> tuple[Effect, ...]:
        return self.last.effects if isinstance(self.last, Applied) else ()

    @property
    def queue(self) -> list[str]:
        """The job types that wait, oldest first; none while the instance is failed."""
        return [] if self.is_held else [job.kind for job in self.jobs.values()]

    @property
    def inbox(self) -> list[str]:
        return [task.node for task in self.tasks.values()]

    @property
    def history(self) -> list[str]:
        """One line per execution: ``step#attempt STATUS``."""
        return [f"{line.node_id}#{line.attempt_number} {line.status}" for line in self.lines.values()]

    @property
    def last_statuses(self) -> dict[str, ExecutionStatus]:
        """By step, what became of its last execution."""
        return {line.node_id: line.status for line in self.lines.values()}

    def job(self, job_type: str) -> EnqueueTask:
        return next(job for job in self.jobs.values() if job.kind == job_type)

    def line(self, step_id: str, attempt: int = 1) -> NodeExecution:
        return next(line for line in self.lines.values() if (line.node_id, line.attempt_number) == (step_id, attempt))

    def _carry_out(self, applied: Applied[Instance]) -> None:
        self.instance = applied.instance
        self.moves += applied.transitions

        def get_step_type(step_id: str) -> str:
            return self.process.steps[step_id].type

        changes = compute_history_changes(get_step_type, applied.instance.id, applied.effects, self.clock)
        for line in changes.new:
            assert line.id not in self.lines, "two executions of one id"
            self.lines[line.id] = line
        for end in changes.ended:
            assert self.lines[end.id].status == "RUNNING", "an execution ended twice"
            self.lines[end.id] = apply_end(self.lines[end.id], end)
        for effect in applied.effects:
            self._obey(effect)
        self._check_consistency()

    def _obey(self, effect: Effect) -> None:
        match effect:
            case EnqueueTask():
                assert effect.task not in {**self.jobs, **self.closed_jobs}
                self.jobs[effect.task] = effect
                self.retries[effect.task] = effect.retries
            case CloseTask(task=job, status=status):
                del self.jobs[job]
                self.closed_jobs[job] = status
            case OpenHumanTask():
                self.tasks[effect.task] = effect
            case CloseHumanTask(task=task, status=status):
                del self.tasks[task]
                self.closed_tasks[task] = status
            case ArmTimer():
                assert effect.at >= self.clock
                self.timers[effect.timer] = effect
            case FireTimer(timer=timer):
                del self.timers[timer]
                self.closed_timers[timer] = "fired"
            case DisarmTimer(timer=timer):
                del self.timers[timer]
                self.closed_timers[timer] = "disarmed"
            case HoldWork():
                self.is_held = True
            case ReleaseWork():
                self.is_held = False
            case StartChild():
                self.children.append(effect)
            case RecordExit(status="FAILED", reason=reason):
                assert reason
            case _:
                pass

    def _check_consistency(self) -> None:
        instance, tokens = self.instance, self.instance.marking.tokens
        working = [token for token in tokens if token.stage == "WORKING"]
        assert {token.id for token in working} == {
            line.id for line in self.lines.values() if line.status == "RUNNING"
        }, "what runs and what the history says runs are not the same"
        assert {token.work for token in working if token.work} == {*self.jobs, *self.tasks}
        assert {armed.id for token in working for armed in token.timers} == set(self.timers)
        assert not any(token.work or token.timers for token in tokens if token.stage != "WORKING")
        assert instance.status == derive_status(self.process, instance.marking)
        assert self.is_held == (instance.status == "FAILED")
        assert set(self.at) <= set(self.process.steps)
        assert instance.is_terminal == (instance.completed_at is not None)
        if instance.status == "COMPLETED":
            assert (tokens, instance.marking.activations) == ((), ())
        if instance.status == "FAILED":
            assert instance.failure_reason
        if instance.status in ("COMPLETED", "CANCELLED"):
            assert not self.jobs
            assert not self.tasks
            assert not self.timers
        assert _reloaded(encode(instance_to_document(instance))) == instance, "the stored document loses something"


def _reloaded(stored: bytes) -> Instance:
    document = decode(stored)
    assert isinstance(document, dict)
    return instance_from_document(document)


def replayed(world: World) -> Instance:
    """The instance that the logged operations make of the first state, once more."""
    instance = start_instance(world.process, *world.first).instance
    for operation, moment in world.log:
        outcome = operation(instance, moment)
        assert isinstance(outcome, Applied)
        instance = outcome.instance
    return instance


def with_budget(process: Process, entries: int) -> Process:
    """The same process with a smaller bound on steps without a pause."""
    return replace(process, net=replace(process.net, max_entries=entries))
