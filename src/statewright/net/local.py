"""An instance in memory: the kernel played by hand, without a service."""

from collections.abc import Callable
from typing import Final, Self

from statewright.ids import Clock
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.advance import KernelResult, advance
from statewright.net.effects import (
    ArmTimer,
    CloseTask,
    DisarmTimer,
    Effect,
    EnqueueTask,
    Event,
    FireTimer,
    Restarted,
    StartChild,
    Started,
    TaskCompleted,
    TimerFired,
)
from statewright.net.language import Language
from statewright.net.marking import IDS_PER_MOMENT, ExecutionId, Marking, Moment, TimerId, WorkId
from statewright.net.run import Net

_US_PER_EVENT: Final = 1_000


class LocalClock:
    """Moments for one event after the other: of instants ``tick`` microseconds apart, with ids of their own."""

    def __init__(self, now: int = 0, tick: int = _US_PER_EVENT, read: Clock | None = None) -> None:
        """``read``: a clock that is gone with where it is ahead."""
        self.now = now
        """Microseconds of the epoch; may be set."""
        self._tick = tick
        self._read = read
        self._events = 0

    def next_moment(self) -> Moment:
        """The moment of the next event."""
        self._events += 1
        self.now += self._tick
        if self._read is not None:
            self.now = max(self.now, self._read())
        return Moment(at=self.now, first_id=(self.now // 1_000 << 80) + self._events * IDS_PER_MOMENT)


class LocalRun:
    """One instance of a net, and what it waits for. Events come one at a time; nothing runs by itself."""

    def __init__(
        self,
        net: Net,
        create_language: Callable[[int], Language],
        data: JsonObject,
        *,
        at: int = 0,
        clock: Clock | None = None,
    ) -> None:
        """``create_language``: for an event at an instant. ``clock``: the one by which instants are real; ``None``:
        events follow each other from ``at`` on, a millisecond apart.
        """
        self.net = net
        self._create_language = create_language
        self.clock = LocalClock(at, read=clock)
        self.tasks: dict[WorkId, EnqueueTask] = {}
        """To be done, the oldest first."""
        self.timers: dict[TimerId, int] = {}
        """Armed ones, with the instants at which they are due, in microseconds of the epoch."""
        self.children: dict[ExecutionId, JsonValue] = {}
        """Executions that have ever awaited another instance, with what it was started with."""
        self.marking = Marking(data=data)
        self.effects: tuple[Effect, ...] = ()
        """Of the last event."""

    def start(self, payloads: tuple[JsonValue, ...] = ()) -> Self:
        """Begin; ``payloads``: what the first tokens carry."""
        return self.play(Started(payloads))

    def play(self, event: Event) -> Self:
        """Any event of the kernel."""
        moment = self.clock.next_moment()
        self._take(advance(self.net, self._create_language(moment.at), self.marking, event, moment))
        return self

    @property
    def result(self) -> JsonValue:
        """What an instance came to that has ended."""
        return self.marking.result

    def complete(self, task: WorkId, output: JsonValue = None) -> None:
        """A task is done. Without effect when it was before."""
        self.play(TaskCompleted(task, output))

    def restart(self) -> bool:
        """Go on after a failure or a termination; False when there is nothing to begin again."""
        return bool(self.play(Restarted()).effects)

    def fire_timers(self, until: int) -> None:
        """Let time pass: what is due fires, the earliest first."""
        while due := sorted((at, timer) for timer, at in self.timers.items() if at <= until):
            self.clock.now = max(self.clock.now, due[0][0])
            self.play(TimerFired(due[0][1]))

    def _take(self, result: KernelResult) -> None:
        self.marking, self.effects = result.marking, result.effects
        for effect in result.effects:
            self._note(effect)

    def _note(self, effect: Effect) -> None:
        match effect:
            case EnqueueTask(task=task):
                self.tasks[task] = effect
            case CloseTask(task=task):
                self.tasks.pop(task, None)
            case ArmTimer(timer=timer, at=at):
                self.timers[timer] = at
            case FireTimer(timer=timer) | DisarmTimer(timer=timer):
                self.timers.pop(timer, None)
            case StartChild(awaited_by=execution, input=given) if execution is not None:
                self.children[execution] = given
            case _:
                pass
