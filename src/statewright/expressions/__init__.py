"""The expression language of DECISION, TRANSFORMATION and decision tables (docs/reference/steps.md#expressions).

The text is parsed, checked for names that are no variables, and evaluated by a tree of functions: no code is ever
generated, no attribute of an object reached, and the work of one evaluation is bounded, as is that of all evaluations
which share a :class:`ExpressionBudget`.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from statewright.expressions.compiling import compile_syntax
from statewright.expressions.frames import (
    CHARS_PER_ELEMENT,
    TOKENS_PER_ELEMENT,
    ExpressionBudget,
    Frame,
    count_elements,
    refuse_large_result,
)
from statewright.expressions.lexer import MAX_CHARS, Syntax
from statewright.expressions.parser import parse_syntax
from statewright.expressions.values import ExpressionError, Value, lower_value, type_name
from statewright.jsonval.values import JsonObject, JsonValue, quote
from statewright.loop.turns import TurnExceeded

ALWAYS_DEFINED: Final = frozenset({"contains", "len"})
"""Names that may be used without being variables (docs/reference/steps.md#undefined-variables)."""


class Program(Struct, frozen=True):
    """A compiled expression, which can be evaluated with any variables."""

    text: str
    syntax: Syntax
    elements: int
    """What its parts count as, each evaluated once."""
    names: tuple[str, ...]
    """Names of the variables it needs, in the order in which they first occur."""
    run: Callable[[Frame], Value]

    def evaluate(self, variables: JsonObject, at: int, budget: ExpressionBudget | None = None) -> Value:
        """The raw result. Raises :class:`ExpressionError`, whose text names the expression, and nothing else."""
        try:
            _require_variables(self.names, variables)
            frame = Frame(variables, at, budget)
            frame.spend(self.elements)
            value = self.run(frame)
            frame.visit(value)
            refuse_large_result(value)
        except ExpressionError as error:
            raise _wrap_error(self.text, error) from None
        except RecursionError:
            raise _wrap_error(self.text, ExpressionError("values are nested too deeply")) from None
        except TurnExceeded:
            raise
        except Exception as defect:  # of ours: the step fails, or its job would be delivered again and again
            raise _wrap_error(self.text, ExpressionError(f"cannot be evaluated: {type(defect).__name__}")) from defect
        return value


def compile_expression(text: str, budget: ExpressionBudget | None = None) -> Program:
    """The program of an expression. Raises :class:`ExpressionError`, whose text names the expression, and, if there is
    a ``budget`` with a turn, ``TurnExceeded``.
    """
    if len(text) > MAX_CHARS:
        raise ExpressionError(f"expression of {len(text)} characters: {MAX_CHARS} are the most")
    program = _programs.get(text)
    if program is None:
        if budget is not None:
            budget.spend_turn(len(text))  # a character takes about a microsecond
        program = _compile(text)
        if len(_programs) >= _MAX_PROGRAMS:
            _programs.clear()
        _programs[text] = program
    if isinstance(program, Program):
        return program
    raise ExpressionError(program)


def evaluate(text: str, variables: JsonObject, at: int, budget: ExpressionBudget | None = None) -> JsonValue:
    """The result as JSON; ``at``: the value of ``now()``, in microseconds of the epoch. Raises
    :class:`ExpressionError`.
    """
    value = compile_expression(text, budget).evaluate(variables, at, budget)
    try:
        return lower_value(value)
    except ExpressionError as error:
        raise _wrap_error(text, error) from None


def evaluate_bool(text: str, variables: JsonObject, at: int, budget: ExpressionBudget | None = None) -> bool:
    """The result of an expression that must give a boolean. Raises :class:`ExpressionError` and :class:`NotBoolean`."""
    value = compile_expression(text, budget).evaluate(variables, at, budget)
    if not isinstance(value, bool):
        raise NotBoolean(text, value)
    return value


class NotBoolean(ExpressionError):
    """The result of a condition is not a boolean."""

    def __init__(self, text: str, value: Value) -> None:
        self.finding = f"result is {type_name(value)}, not bool"
        super().__init__(f"expression {quote(text)}: {self.finding}")


def _require_variables(names: tuple[str, ...], variables: JsonObject) -> None:
    for name in names:
        if name not in variables and name not in ALWAYS_DEFINED:
            raise ExpressionError(f"undefined variable {quote(name)}")


_MAX_PROGRAMS: Final = 4096
_programs: Final[dict[str, Program | str]] = {}
"""What texts were compiled to; threads share it."""


def _compile(text: str) -> Program | str:
    """The program, or the message about what is wrong: defects are cached too, as a wrong expression may be evaluated
    as often as a right one.
    """
    try:
        syntax, names, tokens = parse_syntax(text)
        elements = max(len(text) // CHARS_PER_ELEMENT, tokens // TOKENS_PER_ELEMENT)
        return Program(text, syntax, elements, names, compile_syntax(syntax))
    except ExpressionError as error:
        return str(_wrap_error(text, error))


def _wrap_error(text: str, error: ExpressionError) -> ExpressionError:
    return ExpressionError(f"expression {quote(text)}: {error}")


__all__ = [
    "ExpressionBudget",
    "ExpressionError",
    "NotBoolean",
    "compile_expression",
    "count_elements",
    "evaluate",
    "evaluate_bool",
]
