"""Templates to functions: what stands in a string, as an expression or as text."""

from functools import lru_cache
from typing import Final

from jinja2 import nodes

from statewright.playbooks.jinja.expressions import Evaluate, ExpressionCompiler
from statewright.playbooks.jinja.failures import EvaluationFailed, InvalidTemplate
from statewright.playbooks.jinja.frame import Frame
from statewright.playbooks.jinja.parsing import parse
from statewright.playbooks.jinja.statements import StatementCompiler

__all__ = ["Expression", "InvalidTemplate", "compile_expression", "compile_text"]

_ERRORS: Final = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a wrong argument comes to in a filter or method; anything else is a defect of ours."""

MAX_REMEMBERED: Final = 512
"""Templates that are remembered once they are compiled, each if it is short."""
MAX_REMEMBERED_CHARS: Final = 256
"""So that all of them come to some 20 MiB at most."""


class Expression:
    """A compiled string."""

    __slots__ = ("_cost", "_evaluate")

    def __init__(self, evaluate: Evaluate, cost: int) -> None:
        self._evaluate = evaluate
        self._cost = cost

    def evaluate(self, frame: Frame) -> object:
        """Its value. Raises :class:`EvaluationFailed`."""
        frame.spend(self._cost)
        try:
            return self._evaluate(frame)
        except RecursionError:
            raise EvaluationFailed("is nested too deeply") from None
        except _ERRORS as error:
            raise EvaluationFailed(f"cannot be evaluated: {error}") from error


def compile_text(source: str, *, statements: bool) -> Expression:
    """A string with expressions: a single one has the value of the expression, all others are text.

    Line breaks after a single expression do not count. Raises :class:`InvalidTemplate`.
    """
    if len(source) > MAX_REMEMBERED_CHARS:
        return _compile_text(source, statements)
    return _remember_text(source, statements)


def compile_expression(source: str) -> Expression:
    """A condition: a single ``{{ … }}``, or an expression without braces. Raises :class:`InvalidTemplate`."""
    if len(source) > MAX_REMEMBERED_CHARS:
        return _compile_expression(source)
    return _remember_expression(source)


def _compile_text(source: str, statements: bool) -> Expression:
    body = parse(source).body
    expressions = ExpressionCompiler()
    single = _find_single(parse(source.rstrip("\n")).body if source.endswith("\n") else body)
    if single is not None:
        evaluate = expressions.compile(single)
        return Expression(evaluate, expressions.cost)
    run = StatementCompiler(expressions, allows_blocks=statements).compile_body(body)

    def render(frame: Frame) -> str:
        pieces: list[str] = []
        run(frame, pieces)
        frame.spend_text(sum(map(len, pieces)))
        return "".join(pieces)

    return Expression(render, expressions.cost)


def _compile_expression(source: str) -> Expression:
    text = source.strip()
    if not text:
        raise InvalidTemplate("is empty; expected an expression")
    if "{{" in text and not text.startswith("{{"):
        raise InvalidTemplate("must be one expression: write the operators within one pair of braces")
    single = _find_single(parse(text if text.startswith("{{") else f"{{{{ {text} }}}}").body)
    if single is None:
        raise InvalidTemplate("must be one expression: write the operators within one pair of braces")
    compiler = ExpressionCompiler()
    evaluate = compiler.compile(single)
    return Expression(evaluate, compiler.cost)


# Workers are given the same few templates with every job. What is compiled never changes, so all may share it.
_remember_text = lru_cache(maxsize=MAX_REMEMBERED)(_compile_text)
_remember_expression = lru_cache(maxsize=MAX_REMEMBERED)(_compile_expression)


def _find_single(body: list[nodes.Node]) -> nodes.Expr | None:
    """The expression, if there is nothing else."""
    if len(body) != 1 or not isinstance(output := body[0], nodes.Output) or len(output.nodes) != 1:
        return None
    return None if isinstance(output.nodes[0], nodes.TemplateData) else output.nodes[0]
