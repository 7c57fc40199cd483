"""Tasks that the service does itself, since all they do is wait or count (docs/reference/flows.md#built-in-tasks).

Texts with places that a value of the input or of the parameters fills: ``order-{input[id]}``
(docs/reference/flows.md#templates).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.flows.graph import FlowGraph, FlowNode
from statewright.flows.lexer import InvalidFlow, Position
from statewright.jsonval.values import JsonObject, JsonValue, guess_name, is_whole, read_index
from statewright.net import NodeId
from statewright.processes.user_tasks import ASK, Question, fill_question, read_question

_PLACE: Final = re.compile(r"\{(input|parameters)((?:\[[^\[\]{}]+\])+)\}")
_KEY: Final = re.compile(r"\[([^\[\]]+)\]")


class UnfilledTemplate(ValueError):
    """A place of a template for which there is no value, or none that can stand in a text."""


def fill_template(
    text: str, given: JsonValue, parameters: JsonValue, escape: Callable[[str, int], str] | None = None
) -> str:
    """The text with its places filled from the input and the parameters of a task.

    ``escape`` makes of a value, and of the place at which it is going to stand, what stands there. Raises
    :class:`UnfilledTemplate`.
    """
    values = {"input": given, "parameters": parameters}
    parts: list[str] = []
    length = end = 0
    for place in _PLACE.finditer(text):
        parts.append(text[end : place.start()])
        length += len(parts[-1])
        filled = _find_text(values[place.group(1)], place)
        parts.append(filled if escape is None else escape(filled, length))
        length += len(parts[-1])
        end = place.end()
    return "".join((*parts, text[end:]))


def _find_text(value: JsonValue, place: re.Match[str]) -> str:
    for key in _KEY.findall(place.group(2)):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and (index := read_index(key, len(value))) is not None:
            value = value[index]
        else:
            raise UnfilledTemplate(f"there is nothing for {place.group()}")
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case _:
            raise UnfilledTemplate(f"the value for {place.group()} is no text, number or boolean")


MAX_DELAY_S: Final = 10 * 366 * 24 * 60 * 60
MAX_NAME_CHARS: Final = 255
"""Characters of the name of an event or of a counter."""
_US_PER_S: Final = 1_000_000


class Delay(Struct, frozen=True):
    """Done by a timer, after so many microseconds."""

    duration_us: int


class EventWait(Struct, frozen=True, kw_only=True):
    """Done when an event of a kind arrives. The kind is a template."""

    event: str
    parameters: JsonObject
    matches_input: bool
    """Whether the fields of the event must equal the members of the input that have their names."""
    sends_receipt: bool
    """Whether the sender of the event is told of this task."""


class CounterChange(Struct, frozen=True, kw_only=True):
    """Done at once: changes a counter that all flows of a tenant share. The name is a template."""

    name: str
    parameters: JsonObject
    by: int


class Countdown(Struct, frozen=True, kw_only=True):
    """Done as soon as a counter is zero or less."""

    name: str
    parameters: JsonObject


class Ask(Struct, frozen=True, kw_only=True):
    """Done by a person, who finds it in the inbox. The texts of the question are templates."""

    question: Question
    parameters: JsonObject


BuiltinTask: TypeAlias = Delay | EventWait | CounterChange | Countdown | Ask


def find_builtin_tasks(graph: FlowGraph, *, asks_people: bool = True) -> dict[NodeId, BuiltinTask]:
    """The nodes whose tasks no worker does. ``asks_people``: whether ``ask`` is one of them. Raises
    :class:`InvalidFlow` for one whose parameters are wrong.
    """
    readers = {**_READERS, ASK: _read_ask} if asks_people else _READERS
    return {
        NodeId(str(node.index)): readers[node.base](node)
        for node in graph.nodes
        if node.kind == "task" and node.base in readers
    }


def is_name(name: str) -> bool:
    """Whether it can be the name of an event or of a counter."""
    return 0 < len(name) <= MAX_NAME_CHARS and "\0" not in name


def fill_name(template: str, given: JsonValue, parameters: JsonValue) -> str:
    """The name of an event or of a counter. Raises :class:`UnfilledTemplate`."""
    name = fill_template(template, given, parameters)
    if not is_name(name):
        raise UnfilledTemplate(f"a name has 1 to {MAX_NAME_CHARS} characters, and none of them is U+0000")
    return name


def fill_texts(ask: Ask, given: JsonValue) -> Question:
    """What is asked of a task with this input. Raises :class:`UnfilledTemplate`."""
    try:
        return fill_question(ask.question, lambda text: fill_template(text, given, ask.parameters))
    except ValueError as defect:
        raise UnfilledTemplate(str(defect)) from None


def _read_ask(node: FlowNode) -> Ask:
    parameters = _get_parameters(node)
    try:
        return Ask(question=read_question(parameters), parameters=parameters)
    except ValueError as defect:
        raise _refuse(node, f"parameters of {node.name}: {defect}") from None


def _read_delay(node: FlowNode) -> Delay:
    given = _get_parameters(node).get("duration")
    if is_whole(given) and 0 <= given <= MAX_DELAY_S:
        return Delay(given * _US_PER_S)
    raise _refuse(node, f"the parameter duration of {node.base} must be a number of seconds from 0 to {MAX_DELAY_S}")


def _read_event_wait(node: FlowNode) -> EventWait:
    parameters = _get_parameters(node)
    match = parameters.get("match")
    if match not in (None, "input"):
        raise _refuse(node, f"the parameter match of {node.base} can only be input")
    receipt = parameters.get("receipt", True)
    if not isinstance(receipt, bool):
        raise _refuse(node, f"the parameter receipt of {node.base} must be true or false")
    return EventWait(
        event=_read_name(node, "event"),
        parameters=parameters,
        matches_input=match == "input",
        sends_receipt=receipt,
    )


def _read_change(by: int) -> Callable[[FlowNode], BuiltinTask]:
    return lambda node: CounterChange(name=_read_name(node, "name"), parameters=_get_parameters(node), by=by)


def _read_countdown(node: FlowNode) -> Countdown:
    return Countdown(name=_read_name(node, "name"), parameters=_get_parameters(node))


_READERS: Final[Mapping[object, Callable[[FlowNode], BuiltinTask]]] = {
    "wait:delay": _read_delay,
    "wait:event": _read_event_wait,
    "wait:acquire": _read_change(1),
    "wait:release": _read_change(-1),
    "wait:countdown": _read_countdown,
}
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "wait:delay": ("duration",),
    "wait:event": ("event", "match", "receipt"),
    **dict.fromkeys(("wait:acquire", "wait:release", "wait:countdown"), ("name",)),
}
"""By base name; templates may name others."""
BUILTIN_TASKS: Final = frozenset(_READERS)
"""The base names of those that wait or count. Their output is their input, unless an event brings another one."""


def _read_name(node: FlowNode, parameter: str) -> str:
    name = _get_parameters(node).get(parameter)
    if isinstance(name, str) and is_name(name):
        return name
    raise _refuse(node, f"the parameter {parameter} of {node.base} must be a text of 1 to {MAX_NAME_CHARS} characters")


def _get_parameters(node: FlowNode) -> JsonObject:
    return node.parameters if isinstance(node.parameters, dict) else {}


_MAX_CHECKED: Final = 20
"""Parameters, more than any task of the service has."""


def find_misspelt(node: FlowNode, known: Sequence[str]) -> str:
    """The first parameter that is near to one of those ``known``, with that; nothing where there is none. Of many the
    first are looked at.
    """
    for name in islice(_get_parameters(node), _MAX_CHECKED):
        if name not in known and (guess := guess_name(name, known)):
            return f"{name} is no parameter of {node.base}{guess}"
    return ""


def _refuse(node: FlowNode, reason: str) -> InvalidFlow:
    misspelt = find_misspelt(node, PARAMETERS.get(str(node.base), ()))
    text = f"{reason}; {misspelt}" if misspelt else reason
    return InvalidFlow("PARAMETERS", Position(*node.place), text, piece=str(node.name))
