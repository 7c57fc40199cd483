"""Events that tasks of flows wait for (docs/reference/flows.md#events)."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from statewright.flows.advancing import advance_marking
from statewright.flows.builtin_tasks import EventWait
from statewright.flows.definition import FlowProcess
from statewright.jsonval.merging import tidy_numbers
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import KernelResult, Marking, Moment, Problem, Token
from statewright.net.effects import Effect
from statewright.net.events import TaskCompleted


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


def _build_output(task: EventWait, event: FlowEvent) -> JsonValue:
    """The output of the event, over the fields that were matched; ``None``: the input."""
    output = tidy_numbers({"output": event.output})["output"]
    if isinstance(output, dict) and task.matches_input:
        return tidy_numbers(event.fields) | output
    return output
