"""The expression language of DECISION, TRANSFORMATION and decision tables (spec/step-engine.md §10).

The text is rewritten by a preprocessor, parsed, checked for names that are no variables, and evaluated by a tree of
functions: no code is ever generated, no attribute of an object reached, and the work of one evaluation is bounded,
as is that of all evaluations which share a :class:`Budget`.
"""

from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.steps.core.expressions.compiling import compiled
from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.frames import CHARACTERS, Budget, Frame, weight
from statewright.steps.core.expressions.parser import parse
from statewright.steps.core.expressions.preprocessing import preprocess
from statewright.steps.core.expressions.syntax import Syntax
from statewright.steps.core.expressions.values import Value, lowered, type_name
from statewright.steps.core.texts import quoted

ALWAYS_DEFINED = frozenset({"contains", "len"})
"""Names that may be referred to without being variables (spec/step-engine.md §10.2)."""


class Program(Struct, frozen=True):
    """A compiled expression, good for any variables."""

    text: str
    syntax: Syntax
    names: tuple[str, ...]
    """Of the variables it needs, in the order of their first places."""
    run: Callable[[Frame], Value]

    def value(self, variables: JsonObject, at: int, budget: Budget | None = None) -> Value:
        """The raw result. Raises :class:`ExpressionError`, whose text names the expression."""
        try:
            _require(self.names, variables)
            frame = Frame(variables, at, budget)
            frame.spend(len(self.text) // CHARACTERS)
            value = self.run(frame)
            frame.visit(value)
        except ExpressionError as error:
            raise _about(self.text, error) from None
        except RecursionError:
            raise _about(self.text, ExpressionError("values are nested too deeply")) from None
        return value


def compile_expression(text: str) -> Program:
    """The program of an expression. Raises :class:`ExpressionError`, whose text names the expression."""
    program = _compile(text)
    if isinstance(program, Program):
        return program
    raise ExpressionError(program)


def evaluate(text: str, variables: JsonObject, at: int, budget: Budget | None = None) -> JsonValue:
    """The result as JSON; ``at``: what ``now()`` is, in microseconds of the epoch. Raises :class:`ExpressionError`."""
    value = compile_expression(text).value(variables, at, budget)
    try:
        return lowered(value)
    except ExpressionError as error:
        raise _about(text, error) from None


def holds(text: str, variables: JsonObject, at: int, budget: Budget | None = None) -> bool:
    """The result of an expression that must give a boolean. Raises :class:`ExpressionError` and :class:`NotBoolean`."""
    value = compile_expression(text).value(variables, at, budget)
    if not isinstance(value, bool):
        raise NotBoolean(text, value)
    return value


class NotBoolean(ExpressionError):
    """An expression that had to be true or false, and was neither."""

    def __init__(self, text: str, value: Value) -> None:
        self.finding = f"result is {type_name(value)}, not bool"
        super().__init__(f"expression {quoted(text)}: {self.finding}")


def _require(names: tuple[str, ...], variables: JsonObject) -> None:
    for name in names:
        if name not in variables and name not in ALWAYS_DEFINED:
            raise ExpressionError(f"undefined variable {quoted(name)}")


@lru_cache(maxsize=4096)
def _compile(text: str) -> Program | str:
    """Defects are remembered as well: a broken branch is evaluated as often as a sound one."""
    try:
        syntax, names = parse(preprocess(text))
        return Program(text, syntax, names, compiled(syntax))
    except ExpressionError as error:
        return str(_about(text, error))


def _about(text: str, error: ExpressionError) -> ExpressionError:
    return ExpressionError(f"expression {quoted(text)}: {error}")


__all__ = [
    "Budget",
    "ExpressionError",
    "NotBoolean",
    "Program",
    "compile_expression",
    "evaluate",
    "holds",
    "weight",
]
