"""Text to the nodes of Jinja2, within bounds."""

from typing import Final

import jinja2
from jinja2 import nodes

from statewright.playbooks.jinja.failures import InvalidTemplate

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
