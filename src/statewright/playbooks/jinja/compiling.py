"""Templates to functions: what stands in a string, as an expression or as text.

Text to the nodes of Jinja2, within bounds.
"""

from functools import lru_cache
from typing import Final

import jinja2
from jinja2 import nodes

from statewright.playbooks.jinja.expressions import Evaluate, ExpressionCompiler
from statewright.playbooks.jinja.statements import StatementCompiler
from statewright.playbooks.jinja.values import EvaluationFailed, Frame, InvalidTemplate

MAX_TEMPLATE_CHARS: Final = 64 * 1024
MAX_DEPTH: Final = 100
"""Nodes within each other."""

_ENVIRONMENT: Final = jinja2.Environment(keep_trailing_newline=True, autoescape=False)  # noqa: S701 - it only parses


def parse(source: str) -> nodes.Template:
    """The nodes of a template. Raises :class:`InvalidTemplate`."""
    if len(source) > MAX_TEMPLATE_CHARS:
        raise InvalidTemplate(f"is longer than {MAX_TEMPLATE_CHARS} characters")
    try:
        parsed = _ENVIRONMENT.parse(source)
    except jinja2.TemplateSyntaxError as error:
        place = f" (line {error.lineno})" if "\n" in source.strip() else ""
        raise InvalidTemplate(f"{error.message or 'is no template'}{place}") from error
    except (RecursionError, ValueError, ArithmeticError) as error:
        raise InvalidTemplate("is nested too deeply, or has a number that is too long") from error
    _check_depth(parsed)
    return parsed


def _check_depth(root: nodes.Node) -> None:
    pending: list[tuple[nodes.Node, int]] = [(root, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise InvalidTemplate(f"is nested deeper than {MAX_DEPTH} levels")
        pending.extend((child, depth + 1) for child in node.iter_child_nodes())


__all__ = ["Expression", "InvalidTemplate", "compile_expression", "compile_text"]

_ERRORS: Final = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a wrong argument comes to in a filter or method; anything else is a defect of ours."""

MAX_REMEMBERED: Final = 512
"""Templates that are remembered once they are compiled, each if it is short."""
MAX_REMEMBERED_CHARS: Final = 256
"""So that all of them come to some 20 MiB at most."""


class Expression:
    """A compiled string."""

    __slots__ = ("_cost", "_evaluate", "functions", "paths", "unguarded")

    def __init__(self, evaluate: Evaluate, compiler: ExpressionCompiler, variables: frozenset[str]) -> None:
        """``variables``: names to which the template itself gives values."""
        self._evaluate = evaluate
        self._cost = compiler.cost
        self.functions = frozenset(compiler.functions)
        """Those that it calls."""
        self.paths = frozenset(compiler.paths)
        """What it names, variables included: it may name what its scope has before it gives the name a value."""
        self.unguarded = frozenset(
            path
            for path in self.paths
            if path[0] not in variables and not any(path[: len(known)] == known for known in compiler.guarded)
        )
        """What of its scope must be defined, for all that the author says."""

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
        return Expression(evaluate, expressions, frozenset())
    run = StatementCompiler(expressions, allows_blocks=statements).compile_body(body)

    def render(frame: Frame) -> str:
        pieces: list[str] = []
        run(frame, pieces)
        frame.spend_text(sum(map(len, pieces)))
        return "".join(pieces)

    return Expression(render, expressions, _list_variables(body) if statements and "{%" in source else frozenset())


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
    return Expression(evaluate, compiler, frozenset())


def _list_variables(body: list[nodes.Node]) -> frozenset[str]:
    names = {name.name for node in body for name in node.find_all(nodes.Name) if name.ctx == "store"}
    return frozenset({*names, "loop"})


# Workers are given the same few templates with every job. What is compiled never changes, so all may share it.
_remember_text = lru_cache(maxsize=MAX_REMEMBERED)(_compile_text)
_remember_expression = lru_cache(maxsize=MAX_REMEMBERED)(_compile_expression)


def _find_single(body: list[nodes.Node]) -> nodes.Expr | None:
    """The expression, if there is nothing else."""
    if len(body) != 1 or not isinstance(output := body[0], nodes.Output) or len(output.nodes) != 1:
        return None
    return None if isinstance(output.nodes[0], nodes.TemplateData) else output.nodes[0]
