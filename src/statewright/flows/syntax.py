"""What a text says, before names and labels are resolved."""

from typing import TypeAlias

from msgspec import Struct

from statewright.flows.failures import Position
from statewright.flows.literals import LiteralValue


class Label(Struct, frozen=True):
    """A label where it is used."""

    name: str
    position: Position


class TaskUse(Struct, frozen=True, kw_only=True):
    """A task that is invoked."""

    name: str
    position: Position
    parameters: LiteralValue | None = None


class ResourceUse(Struct, frozen=True, kw_only=True):
    """A resource that is read or written."""

    uri: str
    position: Position
    parameters: LiteralValue | None = None


class LiteralUse(Struct, frozen=True, kw_only=True):
    """A value that a statement begins with."""

    value: LiteralValue
    position: Position


class GuardUse(Struct, frozen=True):
    """An expression before a step."""

    expression: str
    position: Position


class SubflowUse(Struct, frozen=True, kw_only=True):
    """Statements in brackets."""

    statements: tuple["Statement", ...]
    position: Position


class Step(Struct, frozen=True, kw_only=True):
    """One step: a list of tasks (one: the task alone) or a subflow."""

    body: tuple[TaskUse, ...] | SubflowUse
    input: Label | None = None
    output: Label | None = None
    is_merged: bool = False
    is_iterated: bool = False
    guard: GuardUse | None = None


Source: TypeAlias = Label | ResourceUse | LiteralUse
Target: TypeAlias = Label | ResourceUse


class Statement(Struct, frozen=True, kw_only=True):
    """Steps in a row. Without a source it begins at the start of its scope, without a target it ends at the end."""

    steps: tuple[Step, ...]
    source: Source | None = None
    target: Target | None = None
    is_target_merged: bool = False


class Declaration(Struct, frozen=True, kw_only=True):
    """A declaration of the flow or of a task."""

    kind: str
    name: str
    position: Position
    alias: str | None = None
    parameters: LiteralValue | None = None
    doc: str | None = None
    subflow: SubflowUse | None = None


class Program(Struct, frozen=True):
    """A whole text."""

    declarations: tuple[Declaration, ...]
    statements: tuple[Statement, ...]
