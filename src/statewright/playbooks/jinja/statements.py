"""Nodes of text and statement blocks to functions that write pieces of text."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from jinja2 import nodes

from statewright.playbooks.jinja.expressions import Evaluate, ExpressionCompiler
from statewright.playbooks.jinja.sequences import list_values
from statewright.playbooks.jinja.values import (
    EvaluationFailed,
    Frame,
    InvalidTemplate,
    Namespace,
    Undefined,
    describe,
    is_truthy,
    to_text,
)

Write: TypeAlias = Callable[[Frame, list[str]], None]
Bind: TypeAlias = Callable[[Frame, object], None]

VARIABLES_PER_STEP: Final = 8
"""Variables that are copied in a step, for the body of a ``for`` or ``with``."""
_LOOP_STEPS: Final = 5
"""Of each round of a ``for``, beside the nodes of its body."""
_NO_BLOCKS: Final = "has a statement block ({% … %}), which only tool fields may have"


class StatementCompiler:
    """Compiles the text of one template. ``allows_blocks``: beside text and expressions also ``{% … %}``."""

    def __init__(self, expressions: ExpressionCompiler, *, allows_blocks: bool) -> None:
        self._expressions = expressions
        self._allows_blocks = allows_blocks

    def compile_body(self, body: Sequence[nodes.Node]) -> Write:
        """A sequence of nodes. Raises :class:`InvalidTemplate`."""
        parts = [self._compile(node) for node in body]

        def write(frame: Frame, pieces: list[str]) -> None:
            for part in parts:
                part(frame, pieces)

        return write

    def _compile(self, node: nodes.Node) -> Write:
        if not self._allows_blocks and not isinstance(node, nodes.Output):
            raise InvalidTemplate(_NO_BLOCKS)
        name = type(node).__name__
        if (compile_node := STATEMENTS.get(name)) is not None:
            self._expressions.cost += 1
            return compile_node(self, node)
        raise InvalidTemplate(
            f"has the block {name.lower()}; templates of playbooks have if, for, set, filter and with"
        )

    def compile_output(self, node: nodes.Output) -> Write:
        """Text and expressions."""
        parts: list[str | Evaluate] = [
            part.data if isinstance(part, nodes.TemplateData) else self._expressions.compile(part)
            for part in node.nodes
        ]
        self._expressions.cost += len(parts)

        def write(frame: Frame, pieces: list[str]) -> None:
            for part in parts:
                text = part if isinstance(part, str) else to_text(part(frame), frame)
                frame.spend_text(len(text))
                pieces.append(text)

        return write

    def compile_if(self, node: nodes.If) -> Write:
        """The body of the first branch whose test is true."""
        branches = [(self._expressions.compile(node.test), self.compile_body(node.body))]
        branches += [(self._expressions.compile(elif_.test), self.compile_body(elif_.body)) for elif_ in node.elif_]
        otherwise = self.compile_body(node.else_)

        def write(frame: Frame, pieces: list[str]) -> None:
            for test, body in branches:
                if is_truthy(test(frame)):
                    body(frame, pieces)
                    return
            otherwise(frame, pieces)

        return write

    def compile_for(self, node: nodes.For) -> Write:
        """The body for each item."""
        if node.recursive:
            raise InvalidTemplate("has a recursive for, which templates of playbooks do not have")
        items = self._expressions.compile(node.iter)
        before = self._expressions.cost
        bind = _compile_target(node.target)
        test = self._expressions.compile_optional(node.test)
        body = self.compile_body(node.body)
        cost = self._expressions.cost - before + _LOOP_STEPS
        otherwise = self.compile_body(node.else_)

        def write(frame: Frame, pieces: list[str]) -> None:
            outer, visited = frame.variables, list_values(frame, items(frame))
            try:
                if test is not None:
                    visited = [item for item in visited if _passes(frame, outer, bind, test, item, cost)]
                around = len(outer) // VARIABLES_PER_STEP
                for index, item in enumerate(visited):
                    frame.spend(cost + around)
                    frame.variables = {**outer, "loop": _describe_loop(visited, index)}
                    bind(frame, item)
                    body(frame, pieces)
            finally:
                frame.variables = outer
            if not visited:
                otherwise(frame, pieces)

        return write

    def compile_assignment(self, node: nodes.Assign) -> Write:
        """``set``: a variable, or a member of a namespace."""
        bind, value = _compile_target(node.target), self._expressions.compile(node.node)
        return lambda frame, pieces: bind(frame, value(frame))

    def compile_captured(self, node: nodes.AssignBlock | nodes.FilterBlock) -> Write:
        """``set`` with a body, and ``filter``: the text of the body, as filters make it, is a value, or is written."""
        bind = _compile_target(node.target) if isinstance(node, nodes.AssignBlock) else None
        body, apply = self.compile_body(node.body), self._expressions.compile_block_filter(node.filter)

        def write(frame: Frame, pieces: list[str]) -> None:
            made = apply(frame, _write_apart(frame, body))
            if bind is not None:
                bind(frame, made)
                return
            text = to_text(made, frame)
            frame.spend_text(len(text))
            pieces.append(text)

        return write

    def compile_with(self, node: nodes.With) -> Write:
        """Variables for a body."""
        binds = [
            (_compile_target(target), self._expressions.compile(value))
            for target, value in zip(node.targets, node.values, strict=True)
        ]
        body = self.compile_body(node.body)

        def write(frame: Frame, pieces: list[str]) -> None:
            outer = frame.variables
            frame.spend(len(outer) // VARIABLES_PER_STEP)
            values = [value(frame) for _, value in binds]
            frame.variables = dict(outer)
            try:
                for (bind, _), value in zip(binds, values, strict=True):
                    bind(frame, value)
                body(frame, pieces)
            finally:
                frame.variables = outer

        return write


STATEMENTS: Final[dict[str, Callable[..., Write]]] = {
    "Assign": StatementCompiler.compile_assignment,
    "For": StatementCompiler.compile_for,
    "If": StatementCompiler.compile_if,
    "Output": StatementCompiler.compile_output,
    "With": StatementCompiler.compile_with,
    **dict.fromkeys(("AssignBlock", "FilterBlock"), StatementCompiler.compile_captured),
}
"""By the names of Jinja2's nodes; what is not here is refused. Each costs a step, and a ``for`` all of its body for
each item.
"""


def _write_apart(frame: Frame, body: Write) -> str:
    """The text of a body by itself."""
    pieces: list[str] = []
    body(frame, pieces)
    frame.spend_text(sum(map(len, pieces)))
    return "".join(pieces)


def _passes(frame: Frame, outer: dict[str, object], bind: Bind, test: Evaluate, item: object, cost: int) -> bool:
    """Whether the ``if`` of a ``for`` takes an item."""
    frame.spend(cost + len(outer) // VARIABLES_PER_STEP)
    frame.variables = dict(outer)
    bind(frame, item)
    return is_truthy(test(frame))


def _describe_loop(items: Sequence[object], index: int) -> dict[str, object]:
    """What ``loop`` is within a body."""
    count = len(items)
    return {
        "index": index + 1,
        "index0": index,
        "revindex": count - index,
        "revindex0": count - index - 1,
        "first": index == 0,
        "last": index == count - 1,
        "length": count,
        "previtem": items[index - 1] if index else Undefined("loop.previtem"),
        "nextitem": items[index + 1] if index + 1 < count else Undefined("loop.nextitem"),
    }


def _compile_target(target: nodes.Node) -> Bind:
    """What gives a value to a name, to several, or to a member of a namespace."""
    if isinstance(target, nodes.Name):
        name = target.name
        return lambda frame, value: frame.variables.__setitem__(name, value)
    if isinstance(target, nodes.NSRef):
        return _compile_member(target.name, target.attr)
    if isinstance(target, nodes.Tuple):
        binds = [_compile_target(item) for item in target.items]

        def unpack(frame: Frame, value: object) -> None:
            if not isinstance(value, list) or len(value) != len(binds):
                raise EvaluationFailed(f"takes {describe(value)} apart into {len(binds)} values")
            for bind, item in zip(binds, value, strict=True):
                bind(frame, item)

        return unpack
    raise InvalidTemplate("assigns to something that is no name")


def _compile_member(name: str, member: str) -> Bind:
    def bind(frame: Frame, value: object) -> None:
        namespace = frame.variables.get(name)
        if not isinstance(namespace, Namespace):
            raise EvaluationFailed(f"sets a member of {name}, which is no namespace")
        namespace.members[member] = value

    return bind
