"""Nodes of expressions to functions of a frame.

What is wrong whatever the values are is refused here: unknown filters, tests, functions and methods, and calls with
arguments that they do not take.
"""

import inspect
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, TypeAlias

from jinja2 import nodes

from statewright.evaluation.costs import Entry
from statewright.jsonval.values import is_whole
from statewright.playbooks.jinja.filters import FILTERS
from statewright.playbooks.jinja.methods import (
    FUNCTIONS,
    GET_ITEM,
    TAKE_SLICE,
    call_method,
    describe_defect,
    get_member,
)
from statewright.playbooks.jinja.operators import BINARY, OPERATORS, TESTS
from statewright.playbooks.jinja.values import (
    EvaluationFailed,
    Frame,
    InvalidTemplate,
    Undefined,
    check_number,
    describe,
    is_truthy,
)

Evaluate: TypeAlias = Callable[[Frame], object]
Path: TypeAlias = tuple[str, ...]
"""A name, and the members within it that the text names: ``("ctx", "a")`` of ``ctx.a``."""

_MISSING: Final = object()
_MAX_PATH: Final = 3
"""Parts of a path that are noted: more are asked for by nobody."""
_ASKS_FOR_DEFAULT: Final = frozenset(("d", "default"))
_ASKS_WHETHER_DEFINED: Final = frozenset(("defined", "undefined"))


class ExpressionCompiler:
    """Compiles the expressions of one template, counts them in ``cost``, and notes what they name."""

    def __init__(self) -> None:
        self.cost = 0
        self.paths: set[Path] = set()
        """What the expressions name."""
        self.guarded: set[Path] = set()
        """What of it may be undefined, since the author asks whether it is, or says what to take then."""
        self.functions: set[str] = set()
        """Those that they call."""
        self._is_noted = False
        """Whether the node that is compiled is part of a path that was noted."""
        self._is_guarded = False

    def compile(self, node: nodes.Node) -> Evaluate:
        """The function that evaluates a node. Raises :class:`InvalidTemplate`."""
        self.cost += 1
        compile_node = NODES.get(type(node).__name__)
        if compile_node is None:
            raise InvalidTemplate(f"uses {type(node).__name__.lower()}, which templates of playbooks do not have")
        return compile_node(self, node)

    def compile_optional(self, node: nodes.Node | None) -> Evaluate | None:
        """The same for what may be left out."""
        return None if node is None else self.compile(node)

    def compile_const(self, node: nodes.Const) -> Evaluate:
        value = _read_const(node.value)
        return lambda frame: value

    def compile_name(self, node: nodes.Name) -> Evaluate:
        name, undefined = node.name, Undefined(node.name)
        if not self._is_noted:
            self._note((name,))

        def evaluate(frame: Frame) -> object:
            found = frame.variables.get(name, _MISSING)
            return found if found is not _MISSING else frame.scope.get(name, undefined)

        return evaluate

    def compile_attribute(self, node: nodes.Getattr) -> Evaluate:
        of, name = self._compile_owner(node), node.attr
        return lambda frame: get_member(of(frame), name)

    def compile_item(self, node: nodes.Getitem) -> Evaluate:
        of = self._compile_owner(node)
        if isinstance(node.arg, nodes.Slice):
            bounds = [self.compile_optional(part) for part in (node.arg.start, node.arg.stop, node.arg.step)]
            return lambda frame: frame.call(TAKE_SLICE, of(frame), *[bound and bound(frame) for bound in bounds])
        name = self.compile(node.arg)
        if isinstance(node.arg, nodes.Const):
            return lambda frame: get_member(of(frame), name(frame))
        return lambda frame: frame.call(GET_ITEM, of(frame), name(frame))

    def _note(self, path: Path) -> None:
        self.paths.add(path)
        if self._is_guarded:
            self.guarded.add(path)

    def _compile_owner(self, node: nodes.Getattr | nodes.Getitem) -> Evaluate:
        """What a member is taken of. A path from a name through members is noted as a whole, where it ends."""
        path = None if self._is_noted else _find_path(node)
        if path is None:
            return self.compile(node.node)
        self._note(path[:_MAX_PATH])
        self._is_noted = True
        try:
            return self.compile(node.node)
        finally:
            self._is_noted = False

    def _compile_guarded(self, node: nodes.Node, *, is_guarded: bool) -> Evaluate:
        outer, self._is_guarded = self._is_guarded, is_guarded or self._is_guarded
        try:
            return self.compile(node)
        finally:
            self._is_guarded = outer

    def compile_list(self, node: nodes.List | nodes.Tuple) -> Evaluate:
        items = [self.compile(item) for item in node.items]
        return lambda frame: [item(frame) for item in items]

    def compile_mapping(self, node: nodes.Dict) -> Evaluate:
        pairs: list[tuple[Evaluate, Evaluate]] = []
        for pair in node.items:
            if isinstance(pair.key, nodes.Const) and not isinstance(pair.key.value, str):
                raise InvalidTemplate("has a mapping with a name that is no text")
            pairs.append((self.compile(pair.key), self.compile(pair.value)))
        return lambda frame: dict(_build_member(frame, *pair) for pair in pairs)

    def compile_choice(self, node: nodes.CondExpr) -> Evaluate:
        test, chosen, other = self.compile(node.test), self.compile(node.expr1), self.compile_optional(node.expr2)
        nothing = Undefined("the branch of an if without else")

        def evaluate(frame: Frame) -> object:
            if is_truthy(test(frame)):
                return chosen(frame)
            return nothing if other is None else other(frame)

        return evaluate

    def compile_binary(self, node: nodes.BinExpr) -> Evaluate:
        operator = OPERATORS[type(node).__name__]
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda frame: frame.call(operator, left(frame), right(frame))

    def compile_and(self, node: nodes.And) -> Evaluate:
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda frame: right(frame) if is_truthy(value := left(frame)) else value

    def compile_or(self, node: nodes.Or) -> Evaluate:
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda frame: value if is_truthy(value := left(frame)) else right(frame)

    def compile_not(self, node: nodes.Not) -> Evaluate:
        value = self.compile(node.node)
        return lambda frame: not is_truthy(value(frame))

    def compile_sign(self, node: nodes.Neg | nodes.Pos) -> Evaluate:
        operator = OPERATORS[type(node).__name__]
        value = self.compile(node.node)
        return lambda frame: frame.call(operator, value(frame))

    def compile_concatenation(self, node: nodes.Concat) -> Evaluate:
        values = [self.compile(part) for part in node.nodes]
        operator = OPERATORS["Concat"]
        return lambda frame: frame.call(operator, *[value(frame) for value in values])

    def compile_comparison(self, node: nodes.Compare) -> Evaluate:
        first = self.compile(node.expr)
        rest = [(OPERATORS[operand.op], self.compile(operand.expr)) for operand in node.ops]
        if len(rest) == 1:
            compare, second = rest[0]
            return lambda frame: frame.call(compare, first(frame), second(frame))

        def evaluate(frame: Frame) -> object:
            left = first(frame)
            for compare, other in rest:
                right = other(frame)
                if not frame.call(compare, left, right):
                    return False
                left = right
            return True

        return evaluate

    def compile_filter(self, node: nodes.Filter) -> Evaluate:
        entry = _find("filter", FILTERS, node.name)
        if node.node is None:
            raise InvalidTemplate("uses a filter without a value")
        return self._compile_applied(node, node.node, f"the filter {node.name}", entry, _ASKS_FOR_DEFAULT)

    def compile_block_filter(self, node: nodes.Expr | None) -> Callable[[Frame, object], object]:
        """What the filters of a block make of its text; they stand within each other, the innermost first."""
        if not isinstance(node, nodes.Filter):
            return lambda frame, text: text
        inner, entry = self.compile_block_filter(node.node), _find("filter", FILTERS, node.name)
        self.cost += 1
        positional, named = self._compile_arguments(node, f"the filter {node.name}", entry, 2)
        return lambda frame, text: frame.call(entry, inner(frame, text), *positional(frame), **named(frame))

    def compile_test(self, node: nodes.Test) -> Evaluate:
        entry = _find("test", TESTS, node.name)
        return self._compile_applied(node, node.node, f"the test {node.name}", entry, _ASKS_WHETHER_DEFINED)

    def _compile_applied(
        self, node: nodes.Filter | nodes.Test, of: nodes.Node, what: str, entry: Entry, guarding: frozenset[str]
    ) -> Evaluate:
        """A filter or a test of a value; ``guarding``: those for which the value may be undefined."""
        value = self._compile_guarded(of, is_guarded=node.name in guarding)
        positional, named = self._compile_arguments(node, what, entry, 2)
        return lambda frame: frame.call(entry, value(frame), *positional(frame), **named(frame))

    def compile_call(self, node: nodes.Call) -> Evaluate:
        if isinstance(node.node, nodes.Getattr):
            return self._compile_method(node, node.node)
        if not isinstance(node.node, nodes.Name):
            raise InvalidTemplate("calls something that is neither a function nor a method")
        entry = _find("function", FUNCTIONS, node.node.name)
        self.functions.add(node.node.name)
        positional, named = self._compile_arguments(node, f"the function {node.node.name}", entry, 1)
        return lambda frame: frame.call(entry, *positional(frame), **named(frame))

    def _compile_method(self, node: nodes.Call, target: nodes.Getattr) -> Evaluate:
        if isinstance(target.node, nodes.Name) and (target.node.name, target.attr) == ("loop", "cycle"):
            return self._compile_cycle(node, target.node)
        if (defect := describe_defect(target.attr)) is not None:
            raise InvalidTemplate(defect)
        value, name = self.compile(target.node), target.attr
        positional, named = self._compile_arguments(node, f"the method {name}", None, 0)
        return lambda frame: call_method(frame, value(frame), name, positional(frame), named(frame))

    def _compile_cycle(self, node: nodes.Call, loop: nodes.Name) -> Evaluate:
        """``loop.cycle(…)``: one of the values after the other, by the round of the loop."""
        values, variable = [self.compile(argument) for argument in node.args], self.compile(loop)
        if not values or node.kwargs or node.dyn_args is not None or node.dyn_kwargs is not None:
            raise InvalidTemplate("calls loop.cycle without values to take in turn")

        def evaluate(frame: Frame) -> object:
            index = get_member(variable(frame), "index0")
            if not isinstance(index, int):
                raise EvaluationFailed("calls loop.cycle outside a loop")
            return values[index % len(values)](frame)

        return evaluate

    def _compile_arguments(
        self, node: nodes.Call | nodes.Filter | nodes.Test, what: str, entry: Entry | None, own: int
    ) -> tuple[Callable[[Frame], list[object]], Callable[[Frame], dict[str, object]]]:
        """The arguments by position and by name; ``own``: how many the function takes beside them."""
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise InvalidTemplate(f"gives {what} arguments by * or **, which templates of playbooks do not have")
        positional = [self.compile(argument) for argument in node.args]
        named = [(str(keyword.key), self.compile(keyword.value)) for keyword in node.kwargs]
        if entry is not None:
            _check_arguments(what, entry.call, own + len(positional), [name for name, _ in named])
        return (
            lambda frame: [argument(frame) for argument in positional],
            lambda frame: {name: argument(frame) for name, argument in named},
        )


def _build_member(frame: Frame, name: Evaluate, value: Evaluate) -> tuple[str, object]:
    named = name(frame)
    if not isinstance(named, str):
        raise EvaluationFailed(f"makes a mapping with a name that is {describe(named)}; names are text")
    return named, value(frame)


def _find_path(node: nodes.Node) -> Path | None:
    """The path that a node is the end of; ``None`` where it begins with no name, or goes on by what is computed."""
    parts: list[str] = []
    while not isinstance(node, nodes.Name):
        if isinstance(node, nodes.Getattr):
            parts.append(node.attr)
        elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
            parts.append(str(node.arg.value))
        else:
            return None
        node = node.node
    return (node.name, *reversed(parts))


def _check_arguments(what: str, function: Callable[..., object], count: int, names: list[str]) -> None:
    try:
        inspect.signature(function).bind(*[None] * count, **dict.fromkeys(names))
    except TypeError as error:
        raise InvalidTemplate(f"calls {what} with arguments that it does not take: {error}") from error


def _find(kind: str, known: Mapping[str, Entry], name: str) -> Entry:
    found = known.get(name)
    if found is None:
        listed = ", ".join(sorted(one for one in known if one[0].isalpha()))
        raise InvalidTemplate(f"uses the unknown {kind} {name[:60]}; there are {listed}")
    return found


def _read_const(value: object) -> object:
    """A literal as a JSON value; numbers with a fraction are exact."""
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise InvalidTemplate("has a number that is out of range")
        return check_number(Decimal(repr(value)))
    if is_whole(value):
        return check_number(value)
    return _read_text(value) if isinstance(value, str) else value


def _read_text(value: str) -> str:
    """Text that can be stored."""
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidTemplate("has text with a NUL character or half a surrogate pair")
    return value


NODES: Final[dict[str, Callable[..., Evaluate]]] = {
    "And": ExpressionCompiler.compile_and,
    "Call": ExpressionCompiler.compile_call,
    "Compare": ExpressionCompiler.compile_comparison,
    "Concat": ExpressionCompiler.compile_concatenation,
    "CondExpr": ExpressionCompiler.compile_choice,
    "Const": ExpressionCompiler.compile_const,
    "Dict": ExpressionCompiler.compile_mapping,
    "Filter": ExpressionCompiler.compile_filter,
    "Getattr": ExpressionCompiler.compile_attribute,
    "Getitem": ExpressionCompiler.compile_item,
    "List": ExpressionCompiler.compile_list,
    "Name": ExpressionCompiler.compile_name,
    "Neg": ExpressionCompiler.compile_sign,
    "Not": ExpressionCompiler.compile_not,
    "Or": ExpressionCompiler.compile_or,
    "Pos": ExpressionCompiler.compile_sign,
    "Test": ExpressionCompiler.compile_test,
    "Tuple": ExpressionCompiler.compile_list,
    **dict.fromkeys(BINARY, ExpressionCompiler.compile_binary),
}
"""By the names of Jinja2's nodes; what is not here is refused. Each costs a step, beside what the table says."""
