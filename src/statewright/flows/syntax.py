"""The syntax tree of a flow: what was written, before labels, aliases and declared subflows are resolved."""

from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.flows.errors import Position
from statewright.jsonval.values import JsonValue


class Label(Struct, frozen=True):
    """The use of a label."""

    name: str
    position: Position


class Resource(Struct, frozen=True):
    """``<uri>``, with parameters."""

    uri: str
    parameters: JsonValue
    position: Position


class LiteralValue(Struct, frozen=True):
    """A value that is written in the text."""

    value: JsonValue
    position: Position


class Guard(Struct, frozen=True):
    """The expression between back quotes."""

    text: str
    position: Position


class TaskUse(Struct, frozen=True):
    """A task by the name that was written; ``parameters`` None: none were."""

    name: str
    parameters: JsonValue
    position: Position


class Subflow(Struct, frozen=True):
    """Statements in brackets."""

    statements: "tuple[Statement, ...]"
    position: Position
    end: Position


class TaskList(Struct, frozen=True):
    """``A|B|C``: two tasks or more."""

    tasks: tuple[TaskUse, ...]


Body: TypeAlias = TaskUse | TaskList | Subflow


class Step(Struct, frozen=True, kw_only=True):
    """What stands between two arrows."""

    body: Body
    input_label: Label | None = None
    mark: Literal["*", ">"] | None = None
    guard: Guard | None = None
    output_label: Label | None = None


class Destination(Struct, frozen=True):
    """Where a statement finishes, unless at the end of its scope."""

    target: Label | Resource
    merge: bool


class Statement(Struct, frozen=True):
    """A chain of steps."""

    source: Label | Resource | LiteralValue | None
    steps: tuple[Step, ...]
    destination: Destination | None


class Declaration(Struct, frozen=True, kw_only=True):
    """What is said of the flow or of a task beside the statements."""

    kind: str
    name: str
    position: Position
    alias: str | None = None
    parameters: JsonValue = None
    doc: str | None = None
    subflow: Subflow | None = None


class Program(Struct, frozen=True):
    """A whole text."""

    declarations: tuple[Declaration, ...]
    statements: tuple[Statement, ...]
