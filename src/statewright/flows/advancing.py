"""The kernel and the built-in tasks: what the kernel would have a worker do becomes a timer, or is done at once
(docs/reference/flows.md#built-in-tasks).

Events that tasks of flows wait for (docs/reference/flows.md#events).
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from statewright.evaluation.costs import Turn
from statewright.flows.builtin_tasks import (
    Ask,
    CounterChange,
    Delay,
    EventWait,
    UnfilledTemplate,
    fill_name,
    fill_texts,
)
from statewright.flows.definition import FlowProcess
from statewright.jsonval.values import JsonObject, JsonValue, tidy_numbers
from statewright.net import KernelResult, Marking, Moment, NodeId, Problem, TimerId, Token, WorkId, advance, start
from statewright.net.effects import (
    NEVER,
    AdjustCounter,
    ArmTimer,
    CloseTask,
    DisarmTimer,
    Effect,
    EnqueueTask,
    Event,
    TaskCompleted,
    TaskFailed,
)
from statewright.processes.user_tasks import TaskAnswer, ask_question, close_question

NO_NAME: Final = "TEMPLATE"


def start_marking(process: FlowProcess, data: JsonObject, moment: Moment) -> KernelResult:
    """A new instance, as far as it comes without workers, events and time."""
    return _Operation(process, None, moment).start(data)


class FlowEvent(Struct, frozen=True, kw_only=True):
    """Something that happened, of a kind, with fields that may be compared, and maybe an output for what waits."""

    kind: str
    fields: JsonObject = {}
    output: JsonValue = None
    """An object or an array; ``None``: the tasks go on with their inputs."""


class Advanced(Struct, frozen=True, kw_only=True):
    """An instance after an event of the kernel."""

    result: KernelResult
    kept: tuple[FlowEvent, ...]
    """Of the events that were addressed to it before, those that no task has taken yet."""


def advance_marking(
    process: FlowProcess, marking: Marking, event: Event, moment: Moment, kept: tuple[FlowEvent, ...] = ()
) -> Advanced:
    """An instance after an event: the same marking and no effects when the event does not apply. Tasks that begin to
    wait for a kind of which an event is ``kept`` take the oldest that matches.
    """
    operation = _Operation(process, marking, moment, kept)
    return Advanced(result=operation.play(event), kept=tuple(operation.kept))


def is_user_task(process: FlowProcess, marking: Marking, work: str) -> bool:
    """Whether something that is under way is done by a person, not by a worker."""
    asked = {node for node, task in process.builtin_tasks.items() if isinstance(task, Ask)}
    return bool(asked) and any(token.work == work and token.node in asked for token in marking.tokens)


def take_answer(
    process: FlowProcess, marking: Marking, answer: TaskAnswer, moment: Moment, kept: tuple[FlowEvent, ...] = ()
) -> Advanced:
    """An instance after an answer to one of its user tasks; without effects where that is not open any more."""
    operation = _Operation(process, marking, moment, kept)
    return Advanced(result=operation.take_answer(answer), kept=tuple(operation.kept))


class _Operation:
    """One event, and those that follow from it at once."""

    def __init__(
        self, process: FlowProcess, before: Marking | None, moment: Moment, kept: Sequence[FlowEvent] = ()
    ) -> None:
        self.kept = list(kept)
        self._process = process
        self._turn = None if process.turn_elements is None else Turn(process.turn_elements)
        self._language = process.create_language()
        self._marking = Marking(data={}) if before is None else before
        self._moment = moment
        self._pending: list[Effect] = []
        self._effects: list[Effect] = []
        tokens = () if before is None or not process.builtin_tasks else before.tokens
        self._builtin: dict[WorkId | None, NodeId] = {
            token.work: token.node for token in tokens if token.node in process.builtin_tasks
        }
        """The nodes of tasks that are timers or user tasks."""
        self._answer: TaskAnswer | None = None

    def start(self, data: JsonObject) -> KernelResult:
        return self._follow(start(self._process.flow.net, self._language, data, self._moment))

    def play(self, event: Event) -> KernelResult:
        return self._follow(self._advance(event))

    def take_answer(self, answer: TaskAnswer) -> KernelResult:
        """Have a user task end."""
        self._answer = answer
        return self.play(TaskCompleted(answer.task, answer.result))

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
        elif isinstance(effect, CloseTask) and effect.task in self._builtin:
            self._effects.append(self._close_task(effect))
        else:
            self._effects.append(effect)

    def _close_task(self, effect: CloseTask) -> Effect:
        if isinstance(self._process.builtin_tasks[self._builtin[effect.task]], Ask):
            return close_question(effect, self._answer)
        return DisarmTimer(TimerId(effect.task))

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
                topic = fill_name(wait.event, effect.input, wait.parameters)
                place = self._find_kept(wait, topic, effect.input)
                if place is None:
                    self._arm(effect, topic=topic, matched=_hash_input(effect.input) if wait.matches_input else None)
                else:
                    self._effects.append(effect)
                    done = self._advance(TaskCompleted(effect.task, _build_output(wait, self.kept[place])))
                    if done.effects:  # else it was withdrawn by what came after it
                        del self.kept[place]
                    self._take(done)
            case Ask() as ask:
                asked = ask_question(effect, fill_texts(ask, effect.input))
                self._builtin[effect.task] = effect.node
                self._effects.append(asked)
            case countdown:
                self._arm(effect, counter=fill_name(countdown.name, effect.input, countdown.parameters))

    def _find_kept(self, wait: EventWait, topic: str, given: JsonValue) -> int | None:
        """The place of the oldest event that the task takes. Raises ``TurnExceeded``."""
        for place, event in enumerate(self.kept):
            if self._turn is not None:
                self._turn.spend(1)
            if event.kind == topic and _is_awaited(wait, event, given):
                return place
        return None

    def _arm(
        self,
        task: EnqueueTask,
        *,
        at: int = NEVER,
        topic: str | None = None,
        matched: tuple[int, ...] | None = None,
        counter: str | None = None,
    ) -> None:
        """A timer in place of a task, whose id it has."""
        self._builtin[task.task] = task.node
        self._effects.append(
            ArmTimer(
                timer=TimerId(task.task),
                execution=task.execution,
                node=task.node,
                at=at,
                target=task.node,
                interrupting=False,
                topic=topic,
                matched=matched,
                counter=counter,
            )
        )

    def _advance(self, event: Event) -> KernelResult:
        return advance(self._process.flow.net, self._language, self._marking, event, self._moment)

    def _take(self, result: KernelResult) -> None:
        self._marking = result.marking
        self._moment = Moment(at=self._moment.at, first_id=result.next_id)
        self._pending += result.effects


class Arrival(Struct, frozen=True, kw_only=True):
    """What an event did to an instance."""

    result: KernelResult
    kept: tuple[FlowEvent, ...]
    tasks: int
    """How many it completed."""
    receipts: tuple[Token, ...]
    """Those of them whose flow wants the sender to know."""


def list_waits(process: FlowProcess, marking: Marking, kind: str) -> list[str]:
    """The tasks of an instance that wait for a kind of events, by their ids."""
    return [
        token.work
        for token in marking.tokens
        if token.stage == "WORKING" and token.work is not None and _find_topic(process, marking, token) == kind
    ]


def _find_topic(process: FlowProcess, marking: Marking, token: Token) -> str | None:
    wait = process.builtin_tasks.get(token.node)
    if not isinstance(wait, EventWait):
        return None
    try:
        return fill_name(wait.event, _find_input(process, marking, token), wait.parameters)
    except UnfilledTemplate:
        return None


def deliver_event(
    process: FlowProcess,
    marking: Marking,
    waits: Sequence[str],
    event: FlowEvent,
    moment: Moment,
    kept: tuple[FlowEvent, ...] = (),
) -> Arrival:
    """Complete those of the tasks that wait for the event. Others, and those that do not wait any more, stay as they
    are.
    """
    tokens: Mapping[str | None, Token] = {token.work: token for token in marking.tokens if token.stage == "WORKING"}
    effects: list[Effect] = []
    tasks, receipts = 0, list[Token]()
    for wait in waits:
        token = tokens.get(wait)
        task = None if token is None else process.builtin_tasks.get(token.node)
        if token is None or token.work is None or not isinstance(task, EventWait):
            continue
        given = _find_input(process, marking, token)
        if not _is_awaited(task, event, given):
            continue
        output = _build_output(task, event)
        advanced = advance_marking(process, marking, TaskCompleted(token.work, output), moment, kept)
        done, kept = advanced.result, advanced.kept
        marking, moment = done.marking, Moment(at=moment.at, first_id=done.next_id)
        effects += done.effects
        tasks += bool(done.effects)
        receipts += [token] if done.effects and task.sends_receipt else []
    result = KernelResult(marking, tuple(effects), moment.first_id)
    return Arrival(result=result, kept=kept, tasks=tasks, receipts=tuple(receipts))


def _find_input(process: FlowProcess, marking: Marking, token: Token) -> JsonValue:
    if token.owner is not None:
        return token.payloads[0]
    node = process.flow.net.nodes[token.node]
    given = process.create_language().build_input(marking.data, node, token.payloads)
    return {} if isinstance(given, Problem) else given


def _is_awaited(wait: EventWait, event: FlowEvent, given: JsonValue) -> bool:
    return not wait.matches_input or _matches(event.fields, given)


def _matches(fields: JsonObject, given: JsonValue) -> bool:
    """Whether the input has all fields, with the same values."""
    if not isinstance(given, dict):
        return not fields
    return all(name in given and _is_same(value, given[name]) for name, value in fields.items())


def _is_same(one: JsonValue, other: JsonValue) -> bool:
    """Equal by value; a boolean never equals a number."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and one == other


MAX_HASHED: Final = 64
"""Members of an input by which events find its task; one with more is compared with every event."""
_MAX_HASHED_CHARS: Final = 1024


def hash_fields(fields: JsonObject) -> tuple[int, ...]:
    """Hashes that the members of an input must have for the fields to equal those; not of all, where there are many.

    They are stored: equal values have equal ones in every process and version, numbers by value.
    """
    names = sorted(fields)[:MAX_HASHED]
    return tuple(sorted({_hash_member(name, fields[name]) for name in names}))


def _hash_input(given: JsonValue) -> tuple[int, ...] | None:
    if not isinstance(given, dict):
        return ()  # it has no member that could equal a field
    return hash_fields(given) if len(given) <= MAX_HASHED else None


def _hash_member(name: str, value: JsonValue) -> int:
    """Arrays, objects and long texts have the hash of their kind: they are compared when the task is looked at."""
    match value:
        case None | bool():
            shown = str(value)
        case int() | Decimal():
            shown = f"#{hash(value)}"
        case str() if len(value) <= _MAX_HASHED_CHARS:
            shown = f"'{value}"
        case _:
            shown = type(value).__name__
    text = f"{len(name)}:{name}{shown}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def _build_output(task: EventWait, event: FlowEvent) -> JsonValue:
    """The output of the event, over the fields that were matched; ``None``: the input."""
    output = tidy_numbers({"output": event.output})["output"]
    if isinstance(output, dict) and task.matches_input:
        return tidy_numbers(event.fields) | output
    return output
