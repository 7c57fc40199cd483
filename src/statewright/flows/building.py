"""Syntax to a graph: numbers, edges, labels (docs/reference/flows.md#the-graph)."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from statewright.flows.graph import (
    MAX_EDGES,
    MAX_NODES,
    Edge,
    FlowGraph,
    FlowNode,
    NodeKind,
    find_back_edges,
    find_endless_subflows,
    list_warnings,
)
from statewright.flows.guards import MalformedGuard, parse_guard
from statewright.flows.lexer import CURRENT, MAX_DEPTH, InvalidFlow, Position, Rules, shorten, warn
from statewright.flows.parsing import (
    Declarations,
    Label,
    LiteralUse,
    ResourceUse,
    Statement,
    Step,
    SubflowUse,
    TaskUse,
    parse,
)

RESERVED: Final = ("start", "end")


def compile_text(text: str, rules: Rules = CURRENT) -> FlowGraph:
    """The graph of a flow. Raises :class:`InvalidFlow` with the first defect.

    A text of 10,000 nodes takes some tenths of a second: not on an event loop.
    """
    program = parse(text, rules)
    if not program.statements:
        empty = "" if text.strip() else " The text is empty."
        raise InvalidFlow("NO_STATEMENTS", Position(), f"The workflow contains no flows.{empty}")
    declarations = Declarations(program.declarations)
    builder = _GraphBuilder(declarations)
    start = builder.add("start", Position())
    scope = _Scope(builder, start)
    for statement in program.statements:
        scope.read(statement)
    end = builder.add("end", Position(), merge=False)
    scope.close(end)
    edges = tuple(sorted(builder.edges))
    flow = declarations.flow
    graph = FlowGraph(
        name=None if flow is None else flow.name,
        doc=None if flow is None else flow.doc,
        nodes=tuple(builder.nodes),
        edges=edges,
    )
    if rules.refuses_lost_values:
        _refuse_lost_values(graph)
    graph = replace(graph, back_edges=find_back_edges(graph))
    warnings = (*program.warnings, *declarations.warnings, *builder.warnings, *list_warnings(graph))
    return replace(graph, warnings=warnings)


def _refuse_lost_values(graph: FlowGraph) -> None:
    """A subflow whose end cannot be reached would keep what it is given, and nothing after it would ever run."""
    for fork in find_endless_subflows(graph):
        reason = "the end of the subflow cannot be reached from its start: what it is given would be lost"
        raise InvalidFlow("UNREACHABLE_END", Position(*fork.place), reason, piece="{")


def _locate(quote: Position, expression: str, offset: int) -> Position:
    """The place in the text of a place in an expression, which follows its back quote."""
    *before, last = expression[:offset].split("\n")
    if before:
        return Position(quote.line + len(before), len(last) + 1)
    return Position(quote.line, quote.column + 1 + offset)


class _GraphBuilder:
    def __init__(self, declarations: Declarations) -> None:
        self.declarations = declarations
        self.nodes: list[FlowNode] = []
        self.edges: set[Edge] = set()
        self.warnings: list[str] = []
        self.expanding: list[str] = []
        """Declared subflows around the present place."""
        self.depth = 0

    def add(self, kind: NodeKind, position: Position, **members: object) -> int:
        """A node with the next number."""
        if len(self.nodes) >= MAX_NODES:
            raise InvalidFlow("LIMIT", position, f"the flow has more than {MAX_NODES} nodes")
        index = len(self.nodes)
        placed = {} if kind in ("start", "end", "join") else {"line": position.line, "column": position.column}
        self.nodes.append(FlowNode(index=index, kind=kind, **members, **placed))  # type: ignore[arg-type]
        return index

    def change(self, index: int, **members: object) -> None:
        """Other members for a node."""
        self.nodes[index] = replace(self.nodes[index], **members)

    def connect(self, source: int, target: int, position: Position | None = None) -> None:
        """An edge, kept once."""
        self.edges.add((source, target))
        if len(self.edges) > MAX_EDGES:
            raise InvalidFlow("LIMIT", position or Position(), f"the flow has more than {MAX_EDGES} edges")


class _Junction:
    """A label of one scope: every producer has an edge to every consumer."""

    def __init__(self) -> None:
        self.producers: list[int] = []
        self.consumers: list[int] = []
        self.targets: list[Position] = []
        self.sources: list[Position] = []
        self.has_input = False
        self.has_output = False
        self.is_merged = False


class _Scope:
    """The program, or one subflow."""

    def __init__(self, builder: _GraphBuilder, start: int) -> None:
        self._builder = builder
        self._start = start
        self._junctions: dict[str, _Junction] = {}
        self._ends: list[int] = []
        self._is_end_merged = False

    def read(self, statement: Statement) -> None:
        """The nodes and edges of a statement, except those to the end of the scope, which has no number yet."""
        previous = self._read_source(statement)
        for step in statement.steps:
            entry, exit_ = self._read_step(step)
            if previous is not None:
                self._builder.connect(previous, entry)
            elif isinstance(statement.source, Label):
                self._junctions[statement.source.name].consumers.append(entry)
            previous = exit_
        if previous is not None:
            self._read_target(statement, previous)

    def close(self, end: int) -> None:
        """The edges to the end of the scope, and those of its labels."""
        for source in self._ends:
            self._builder.connect(source, end)
        if self._is_end_merged:
            self._builder.change(end, merge=True)
        self._check_labels()
        for junction in self._junctions.values():
            for consumer in junction.consumers:
                for producer in junction.producers:
                    self._builder.connect(producer, consumer)
                if junction.is_merged:
                    self._builder.change(consumer, merge=True)

    def _check_labels(self) -> None:
        unknown = [
            (position, name, "output")
            for name, one in self._junctions.items()
            if not one.producers
            for position in one.sources
        ] + [
            (position, name, "input")
            for name, one in self._junctions.items()
            if not one.consumers
            for position in one.targets
        ]
        if unknown:
            position, name, role = min(unknown)
            raise InvalidFlow("UNKNOWN_LABEL", position, f"Unknown {role} label {name}", piece=f":{name}")

    def _read_source(self, statement: Statement) -> int | None:
        """What comes before the first step; ``None``: whatever a label will stand for."""
        match statement.source:
            case None:
                return self._start
            case Label(name="start"):
                return self._start
            case Label() as label:
                self._use(label, "end").sources.append(label.position)
                return None
            case LiteralUse(value=value, position=position):
                node = self._builder.add("literal", position, value=value)
            case ResourceUse() as resource:
                node = self._add_resource("read", resource)
        self._builder.connect(self._start, node)
        return node

    def _read_target(self, statement: Statement, previous: int) -> None:
        match statement.target:
            case None:
                self._ends.append(previous)
            case Label(name="end"):
                self._ends.append(previous)
                self._is_end_merged |= statement.is_target_merged
            case Label() as label:
                junction = self._use(label, "start")
                junction.targets.append(label.position)
                junction.producers.append(previous)
                junction.is_merged |= statement.is_target_merged
            case ResourceUse() as resource:
                node = self._add_resource("write", resource, merge=statement.is_target_merged)
                self._builder.connect(previous, node)
                self._ends.append(node)

    def _add_resource(self, kind: NodeKind, resource: ResourceUse, **members: object) -> int:
        parameters = {} if resource.parameters is None else resource.parameters
        return self._builder.add(kind, resource.position, uri=resource.uri, parameters=parameters, **members)

    def _use(self, label: Label, *refused: str) -> _Junction:
        if label.name in refused:
            reason = f"{label.name} is a reserved label"
            raise InvalidFlow("RESERVED_LABEL", label.position, reason, piece=f":{label.name}")
        return self._junctions.setdefault(label.name, _Junction())

    def _read_step(self, step: Step) -> tuple[int, int]:
        if step.input is not None:
            self._declare_input(step.input)
        if step.guard is not None:
            self._check_guard(step)
        entry, exit_ = self._read_body(step)
        self._builder.change(
            entry,
            merge=step.is_merged,
            iterate=step.is_iterated,
            guard=None if step.guard is None else step.guard.expression,
        )
        if step.input is not None:
            self._junctions[step.input.name].consumers.append(entry)
        if step.output is not None:
            self._declare_output(step.output).producers.append(exit_)
        return entry, exit_

    def _declare_input(self, label: Label) -> None:
        junction = self._use(label, *RESERVED)
        if junction.has_input:
            reason = f"input label {label.name} already exists"
            raise InvalidFlow("DUPLICATE_INPUT_LABEL", label.position, reason, piece=f":{label.name}")
        junction.has_input = True

    def _declare_output(self, label: Label) -> _Junction:
        junction = self._use(label, *RESERVED)
        if junction.has_output:
            reason = f"output label {label.name} already exists"
            raise InvalidFlow("DUPLICATE_OUTPUT_LABEL", label.position, reason, piece=f":{label.name}")
        junction.has_output = True
        return junction

    def _check_guard(self, step: Step) -> None:
        if step.guard is None:
            return
        position, expression = step.guard.position, step.guard.expression
        try:
            guard = parse_guard(expression)
        except MalformedGuard as defect:
            reason = f"Cannot parse guard `{shorten(expression)}`: {defect}"
            place = _locate(position, expression, defect.offset)
            raise InvalidFlow("GUARD", place, reason, piece=defect.piece, expected=defect.expected) from defect
        if guard.mixes_operators:
            text = "the guard mixes and with or, which binds tighter: write brackets"
            self._builder.warnings.append(warn(position, text))

    def _read_body(self, step: Step) -> tuple[int, int]:
        if isinstance(step.body, SubflowUse):
            return self._read_subflow(step.body.position, step.body.statements)
        if len(step.body) == 1:
            return self._read_task(step.body[0])
        listed = tuple(Statement(steps=(Step(body=(task,)),)) for task in step.body)
        return self._read_subflow(step.body[0].position, listed)

    def _read_subflow(self, position: Position, statements: Sequence[Statement]) -> tuple[int, int]:
        builder = self._builder
        builder.depth += 1
        if builder.depth > MAX_DEPTH:
            raise InvalidFlow("LIMIT", position, f"subflows are nested more than {MAX_DEPTH} deep")
        fork = builder.add("fork", position)
        scope = _Scope(builder, fork)
        for statement in statements:
            scope.read(statement)
        join = builder.add("join", position, fork=fork, merge=False)
        scope.close(join)
        builder.change(fork, end=join)
        builder.depth -= 1
        return fork, join

    def _read_task(self, use: TaskUse) -> tuple[int, int]:
        builder = self._builder
        task = builder.declarations.resolve(use)
        if task.subflow is None:
            node = builder.add(
                "task", use.position, name=use.name, base=task.base, parameters=task.parameters, doc=task.doc
            )
            return node, node
        if task.base in builder.expanding:
            reason = f"the subflow of task {task.base} reaches itself"
            raise InvalidFlow("DECLARATION", use.position, reason, piece=use.name)
        builder.expanding.append(task.base)
        ends = self._read_subflow(use.position, task.subflow.statements)
        builder.expanding.pop()
        return ends
