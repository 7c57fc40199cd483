"""Templates of playbooks: values with Jinja2 expressions in their strings (docs/reference/playbooks.md#templates).

Compiled once, when a playbook is read; then rendered as often as needed. Nothing here raises for what an author or a
document did wrong at run time: it gives a :class:`Problem`.

A *scope* is a mapping from names to JSON values: all that a template can see, bare names included. Who renders builds
it; a name that it lacks is *undefined*. Values are never copied into a template and never changed by one. The name of
a boundary event goes in as :func:`name_event`, so that it equals its aliases.

An evaluation costs *steps*: nodes visited, elements and characters touched. One that costs more than
:data:`MAX_STEPS` is a problem of its own; the count is the same on every machine, so a decision can be replayed. Where
others wait for the same event loop, a :class:`Turn` is given, and the sum of what is evaluated in it raises
``TurnExceeded`` (:mod:`statewright.loop.turns`). No clock is read: ``now()`` is the instant that is given.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.evaluation.costs import Turn
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.jinja.compiling import Expression, InvalidTemplate, compile_expression, compile_text
from statewright.playbooks.jinja.values import (
    MAX_STEPS,
    MAX_TEXT_CHARS,
    EvaluationFailed,
    EventName,
    Frame,
    is_true,
    name_event,
)
from statewright.playbooks.jinja.values import to_json as _to_json

__all__ = [
    "MAX_STEPS",
    "Condition",
    "EvaluationContext",
    "EventName",
    "InvalidTemplate",
    "Problem",
    "Scope",
    "Template",
    "Turn",
    "compile_condition",
    "compile_template",
    "find_defects",
    "holds",
    "name_event",
    "render",
    "render_object",
]

Scope: TypeAlias = Mapping[str, JsonValue]
"""What a template sees, by name."""


class EvaluationContext(Struct, frozen=True, kw_only=True):
    """What an evaluation is given beside what its template sees."""

    at: int | None = None
    """The instant of what is handled, which ``now()`` tells, in microseconds of the epoch."""
    turn: Turn | None = None
    """Of the event loop, where others wait for it."""


_ALONE: Final = EvaluationContext()
MAX_NESTING: Final = 64
"""Containers within each other, in a template."""


class Problem(Struct, frozen=True, kw_only=True):
    """Why a template gave no value."""

    message: str
    source: str = ""
    """The text that could not be evaluated, shortened."""
    path: str = ""
    """Where it stands within the template, as a JSON pointer."""
    kind: Literal["template"] = "template"

    def to_document(self) -> JsonObject:
        """As errors of outcomes and events have it."""
        return {"kind": self.kind, "message": self.message, "source": self.source, "path": self.path}


class Template:
    """A JSON value, whose strings may hold expressions. Equal if their sources are."""

    __slots__ = ("compiled", "source")

    def __init__(self, source: JsonValue, compiled: "_Compiled") -> None:
        self.source = source
        self.compiled = compiled

    @property
    def is_literal(self) -> bool:
        """Whether it gives its source, whatever the scope."""
        return self.compiled is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self.source == other.source

    __hash__ = None  # type: ignore[assignment] # its source may be a container

    def list_expressions(self) -> Iterator[tuple[str, Expression]]:
        """The strings with expressions, each with its JSON pointer within the value."""
        pending: list[tuple[str, _Compiled]] = [("", self.compiled)]
        while pending:
            path, compiled = pending.pop()
            if isinstance(compiled, Expression):
                yield path, compiled
            elif isinstance(compiled, dict):
                pending.extend((f"{path}/{_escape(name)}", part) for name, part in reversed(compiled.items()))
            elif compiled is not None:
                pending.extend((f"{path}/{index}", part) for index, part in reversed(list(enumerate(compiled))))


class Condition:
    """A ``when``: true, false or an expression."""

    __slots__ = ("compiled", "source")

    def __init__(self, source: bool | str, compiled: Expression | None) -> None:
        self.source = source
        self.compiled = compiled

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)

    def list_expressions(self) -> Iterator[tuple[str, Expression]]:
        """As a template has them: the whole, unless it is a boolean."""
        if self.compiled is not None:
            yield "", self.compiled


class Defect(Struct, frozen=True, kw_only=True):
    """A string that does not compile."""

    path: str
    """A JSON pointer within the value."""
    message: str


_Compiled: TypeAlias = "None | Expression | dict[str, _Compiled] | list[_Compiled]"
"""``None``: the source as it is."""


def compile_template(source: JsonValue, *, statements: bool = False) -> Template:
    """A value whose strings may hold expressions; ``statements``: and statement blocks, as tool fields may.

    Raises :class:`InvalidTemplate` for the first string that does not compile, with its ``path``.
    """
    return Template(source, _compile(source, statements, "", 0))


def find_defects(source: JsonValue, *, statements: bool = False, limit: int = 100) -> list[Defect]:
    """What :func:`compile_template` would raise, for all strings of a value."""
    found: list[Defect] = []
    pending: list[tuple[str, JsonValue, int]] = [("", source, 0)]
    while pending and len(found) < limit:
        path, value, depth = pending.pop()
        if isinstance(value, dict) and depth < MAX_NESTING:
            pending.extend((f"{path}/{_escape(name)}", member, depth + 1) for name, member in reversed(value.items()))
        elif isinstance(value, list) and depth < MAX_NESTING:
            pending.extend((f"{path}/{i}", value[i], depth + 1) for i in range(len(value) - 1, -1, -1))
        else:
            try:
                _compile(value, statements, path, depth)
            except InvalidTemplate as refused:
                found.append(Defect(path=refused.path, message=str(refused)))
    return found


def compile_condition(source: bool | str) -> Condition:
    """A condition: a boolean, a single ``{{ … }}``, or an expression without braces. Raises
    :class:`InvalidTemplate`.
    """
    if isinstance(source, bool):
        return Condition(source, None)
    return Condition(source, compile_expression(source))


def render(template: Template, scope: Scope, context: EvaluationContext = _ALONE) -> "JsonValue | Problem":
    """The value of a template. Parts without expressions are those of its source, not copies: change nothing in it.

    The value shares with the scope what it took from there. Raises ``TurnExceeded`` if there is a turn.
    """
    compiled = template.compiled
    if compiled is None:
        return template.source
    frame = Frame(scope, context.turn, context.at)
    path: list[str] = []
    try:
        return _render(compiled, template.source, frame, path)
    except EvaluationFailed as failed:
        found = _follow(template.source, path)
        pointer = "".join(f"/{_escape(part)}" for part in path)
        return Problem(message=failed.message, source=_shorten(found), path=pointer)


def render_object(
    template: Template | None, scope: Scope, context: EvaluationContext = _ALONE
) -> "JsonObject | Problem":
    """As :func:`render`, where an object is asked for; nothing and null are an empty one."""
    if template is None:
        return {}
    value = render(template, scope, context)
    if value is None:
        return {}
    if isinstance(value, dict | Problem):
        return value
    return Problem(message="must give an object", source=_shorten(template.source))


def holds(condition: Condition, scope: Scope, context: EvaluationContext = _ALONE) -> bool | Problem:
    """Whether a condition is true. Text is false when it is empty, or one of false, 0, no, none and null in any case.

    Raises ``TurnExceeded`` if there is a turn.
    """
    compiled = condition.compiled
    if compiled is None:
        return condition.source is True
    try:
        return is_true(compiled.evaluate(Frame(scope, context.turn, context.at)))
    except EvaluationFailed as failed:
        return Problem(message=failed.message, source=_shorten(condition.source))


def _compile(source: JsonValue, statements: bool, path: str, depth: int) -> _Compiled:
    if isinstance(source, str):
        return _compile_text(source, statements, path)
    if not isinstance(source, dict | list):
        return None
    if depth >= MAX_NESTING:
        raise InvalidTemplate(f"is nested deeper than {MAX_NESTING} levels", path)
    if isinstance(source, dict):
        members = {
            name: _compile(member, statements, f"{path}/{_escape(name)}", depth + 1) for name, member in source.items()
        }
        return members if any(part is not None for part in members.values()) else None
    items = [_compile(item, statements, f"{path}/{index}", depth + 1) for index, item in enumerate(source)]
    return items if any(part is not None for part in items) else None


def _compile_text(source: str, statements: bool, path: str) -> Expression | None:
    if "{{" not in source and not (statements and "{%" in source):
        return None
    try:
        return compile_text(source, statements=statements)
    except InvalidTemplate as refused:
        raise InvalidTemplate(str(refused), path) from None


def _render(compiled: _Compiled, source: JsonValue, frame: Frame, path: list[str]) -> JsonValue:
    """``path`` is where an evaluation failed, when it raises."""
    if compiled is None:
        return source
    if isinstance(compiled, Expression):
        return _to_json(compiled.evaluate(frame), frame)
    if isinstance(compiled, dict) and isinstance(source, dict):
        rendered: JsonObject = {}
        for name, part in compiled.items():
            path.append(name)
            rendered[name] = _render(part, source[name], frame, path)
            path.pop()
        return rendered
    assert isinstance(compiled, list)  # noqa: S101 - compiled as its source
    assert isinstance(source, list)  # noqa: S101
    items: list[JsonValue] = []
    for index, part in enumerate(compiled):
        path.append(str(index))
        items.append(_render(part, source[index], frame, path))
        path.pop()
    return items


def _follow(source: JsonValue, path: list[str]) -> JsonValue:
    for part in path:
        source = source[part] if isinstance(source, dict) else source[int(part)] if isinstance(source, list) else source
    return source


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _shorten(source: JsonValue) -> str:
    text = source if isinstance(source, str) else str(source)[:MAX_TEXT_CHARS]
    return text if len(text) <= 120 else f"{text[:120]}…"
