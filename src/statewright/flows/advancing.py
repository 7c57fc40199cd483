"""The kernel and the built-in tasks: what the kernel would have a worker do becomes a timer, or is done at once
(docs/reference/flows.md#built-in-tasks).

Events that tasks of flows wait for (docs/reference/flows.md#events).
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from statewright.flows.builtin_tasks import CounterChange, Delay, EventWait, UnfilledTemplate, fill_name
from statewright.flows.definition import FlowProcess
from statewright.jsonval.values import JsonObject, JsonValue, tidy_numbers
from statewright.net import KernelResult, Marking, Moment, Problem, TimerId, Token, advance, start
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
                topic = fill_name(wait.event, effect.input, wait.parameters)
                self._arm(effect, topic=topic, matched=_hash_input(effect.input) if wait.matches_input else None)
            case countdown:
                self._arm(effect, counter=fill_name(countdown.name, effect.input, countdown.parameters))

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


class FlowEvent(Struct, frozen=True, kw_only=True):
    """Something that happened, of a kind, with fields that may be compared, and maybe an output for what waits."""

    kind: str
    fields: JsonObject = {}
    output: JsonValue = None
    """An object or an array; ``None``: the tasks go on with their inputs."""


class Arrival(Struct, frozen=True, kw_only=True):
    """What an event did to an instance."""

    result: KernelResult
    tasks: int
    """How many it completed."""
    receipts: tuple[Token, ...]
    """Those of them whose flow wants the sender to know."""


def deliver_event(
    process: FlowProcess, marking: Marking, waits: Sequence[str], event: FlowEvent, moment: Moment
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
        if task.matches_input and not _matches(event.fields, given):
            continue
        output = _build_output(task, event)
        done = advance_marking(process, marking, TaskCompleted(token.work, output), moment)
        marking, moment = done.marking, Moment(at=moment.at, first_id=done.next_id)
        effects += done.effects
        tasks += bool(done.effects)
        receipts += [token] if done.effects and task.sends_receipt else []
    return Arrival(result=KernelResult(marking, tuple(effects), moment.first_id), tasks=tasks, receipts=tuple(receipts))


def _find_input(process: FlowProcess, marking: Marking, token: Token) -> JsonValue:
    if token.owner is not None:
        return token.payloads[0]
    node = process.flow.net.nodes[token.node]
    given = process.create_language().build_input(marking.data, node, token.payloads)
    return {} if isinstance(given, Problem) else given


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
