"""The kernel and the built-in tasks: what the kernel would have a worker do becomes a timer, or is done at once
(docs/reference/flows.md#built-in-tasks).
"""

from typing import Final

from statewright.flows.builtin_tasks import CounterChange, Delay, EventWait, fill_name
from statewright.flows.definition import FlowProcess
from statewright.flows.templates import UnfilledTemplate
from statewright.jsonval.values import JsonObject
from statewright.net import KernelResult, Marking, Moment, TimerId, advance, start
from statewright.net.effects import NEVER, AdjustCounter, ArmTimer, CloseTask, DisarmTimer, Effect, EnqueueTask
from statewright.net.events import Event, TaskCompleted, TaskFailed

NO_NAME: Final = "TEMPLATE"


def start_marking(process: FlowProcess, data: JsonObject, moment: Moment) -> KernelResult:
    """A new instance, as far as it comes without workers, events and time."""
    return _Operation(process, None, moment).start(data)


def advance_marking(process: FlowProcess, marking: Marking, event: Event, moment: Moment) -> KernelResult:
    """An instance after an event: the same marking and no effects when the event does not apply."""
    return _Operation(process, marking, moment).play(event)


class _Operation:
    """One event, and those that follow from it at once."""

    def __init__(self, process: FlowProcess, before: Marking | None, moment: Moment) -> None:
        self._process = process
        self._language = process.create_language()
        self._marking = Marking(data={}) if before is None else before
        self._moment = moment
        self._pending: list[Effect] = []
        self._effects: list[Effect] = []
        tokens = () if before is None or not process.builtin_tasks else before.tokens
        self._waiting = {token.work for token in tokens if token.node in process.builtin_tasks}
        """Tasks that are timers."""

    def start(self, data: JsonObject) -> KernelResult:
        return self._follow(start(self._process.flow.net, self._language, data, self._moment))

    def play(self, event: Event) -> KernelResult:
        return self._follow(self._advance(event))

    def _follow(self, result: KernelResult) -> KernelResult:
        if not self._process.builtin_tasks:
            return result
        self._take(result)
        at = 0
        while at < len(self._pending):
            self._carry_out(self._pending[at])
            at += 1
        return KernelResult(self._marking, tuple(self._effects), self._moment.first_id)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, EnqueueTask) and effect.node in self._process.builtin_tasks:
            try:
                self._begin_task(effect)
            except UnfilledTemplate as defect:
                self._effects.append(effect)
                self._take(self._advance(TaskFailed(effect.task, f"{NO_NAME}: {defect}")))
        elif isinstance(effect, CloseTask) and effect.task in self._waiting:
            self._effects.append(DisarmTimer(TimerId(effect.task)))
        else:
            self._effects.append(effect)

    def _begin_task(self, effect: EnqueueTask) -> None:
        match self._process.builtin_tasks[effect.node]:
            case Delay(duration_us):
                self._arm(effect, at=self._moment.at + duration_us)
            case CounterChange() as change:
                name = fill_name(change.name, effect.input, change.parameters)
                self._effects.append(effect)
                done = self._advance(TaskCompleted(effect.task))
                if done.effects:  # else it was withdrawn by what came after it
                    self._effects.append(AdjustCounter(name=name, by=change.by))
                self._take(done)
            case EventWait() as wait:
                self._arm(effect, topic=fill_name(wait.event, effect.input, wait.parameters))
            case countdown:
                self._arm(effect, counter=fill_name(countdown.name, effect.input, countdown.parameters))

    def _arm(self, task: EnqueueTask, *, at: int = NEVER, topic: str | None = None, counter: str | None = None) -> None:
        """A timer in place of a task, whose id it has."""
        self._waiting.add(task.task)
        self._effects.append(
            ArmTimer(
                timer=TimerId(task.task),
                execution=task.execution,
                node=task.node,
                at=at,
                target=task.node,
                interrupting=False,
                topic=topic,
                counter=counter,
            )
        )

    def _advance(self, event: Event) -> KernelResult:
        return advance(self._process.flow.net, self._language, self._marking, event, self._moment)

    def _take(self, result: KernelResult) -> None:
        self._marking = result.marking
        self._moment = Moment(at=self._moment.at, first_id=result.next_id)
        self._pending += result.effects
