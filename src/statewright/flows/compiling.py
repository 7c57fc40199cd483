"""From the syntax tree of a flow to its graph (docs/reference/flows.md#the-graph)."""

from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from statewright.flows.declarations import Declarations
from statewright.flows.errors import FlowError, FlowWarning, Position
from statewright.flows.graph import Edge, Graph, Node, find_back_edges, find_cycles
from statewright.flows.guards import MalformedGuard, parse_guard
from statewright.flows.parser import parse
from statewright.flows.roles import MAX_DEPTH
from statewright.flows.syntax import (
    Destination,
    Label,
    LiteralValue,
    Program,
    Resource,
    Statement,
    Step,
    Subflow,
    TaskList,
    TaskUse,
)

MAX_NODES: Final = 10_000
MAX_EDGES: Final = 100_000
"""Labels connect every producer with every consumer, so that edges can be far more than what is written."""

_TOP: Final = Position(1, 1)


def compile_flow(text: str) -> Graph:
    """The graph of a text. Raises :class:`FlowError`."""
    return build_graph(parse(text))


def build_graph(program: Program) -> Graph:
    """The graph of a syntax tree. Raises :class:`FlowError`."""
    return _Compiler(Declarations(program.declarations)).run(program)


class _Junction(Struct):
    """A label in its scope: whose outputs go to whose inputs."""

    producers: list[int] = field(default_factory=list)
    consumers: list[int] = field(default_factory=list)
    output: Label | None = None
    input: Label | None = None
    targets: list[Label] = field(default_factory=list)
    """Where it is the destination of a statement, and needs a consumer."""
    sources: list[Label] = field(default_factory=list)
    """Where a statement begins with it, and needs a producer."""
    merge: bool = False


class _Scope:
    """A flow or subflow: its start, what its labels connect, and what is known of its end only when that is met."""

    def __init__(self, start: int, depth: int) -> None:
        self.start = start
        self.depth = depth
        self.junctions: dict[str, _Junction] = {}
        self.ends: list[int] = []
        """The nodes from which an edge leads to the end."""
        self.merge = False

    def junction(self, label: Label) -> _Junction:
        return self.junctions.setdefault(label.name, _Junction())


class _Marks(Struct, frozen=True, kw_only=True):
    """What is written before the body of a step."""

    merge: bool
    iterate: bool
    guard: str | None


class _Compiler:
    """Walks a tree from left to right, and numbers what it meets."""

    def __init__(self, declarations: Declarations) -> None:
        self._declarations = declarations
        self._nodes: list[Node] = []
        self._edges: set[Edge] = set()
        self._warnings: list[FlowWarning] = list(declarations.warnings)

    def run(self, program: Program) -> Graph:
        """The graph of the whole text."""
        scope = _Scope(self._add(Node(index=0, kind="start"), _TOP), 0)
        for statement in program.statements:
            self._add_statement(statement, scope)
        self._close(scope, self._add(Node(index=0, kind="end"), _TOP))
        edges = tuple(sorted(self._edges))
        graph = Graph(nodes=tuple(self._nodes), edges=edges)
        flow = self._declarations.flow
        return replace(
            graph,
            back_edges=find_back_edges(graph.successors),
            warnings=(*self._warnings, *_examine(graph)),
            name=flow.name if flow is not None else None,
            doc=flow.doc if flow is not None else None,
            parameters=flow.parameters if flow is not None else None,
        )

    def _add_statement(self, statement: Statement, scope: _Scope) -> None:
        previous = self._begin(statement, scope)
        for step in statement.steps:
            if step.input_label is not None:
                _refuse_reserved(step.input_label)
            entry, leave = self._add_step(step, scope)
            for source in previous:
                self._connect(source, entry)
            if previous == () and statement.source is not None and step is statement.steps[0]:
                assert isinstance(statement.source, Label)  # noqa: S101 - any other source is a node
                self._consume(statement.source, entry, scope)
            if step.input_label is not None:
                self._label_input(step.input_label, entry, scope)
            if step.output_label is not None:
                self._label_output(step.output_label, leave, scope)
            previous = (leave,)
        self._finish(statement.destination, previous[0], scope)

    def _begin(self, statement: Statement, scope: _Scope) -> tuple[int, ...]:
        """The node from which an edge leads to the first step; none when a label says it."""
        source = statement.source
        if source is None:
            return (scope.start,)
        if isinstance(source, Label):
            if source.name == "end":
                raise _reserve(source)
            return (scope.start,) if source.name == "start" else ()
        if isinstance(source, LiteralValue):
            node = Node(index=0, kind="literal", value=source.value)
        else:
            node = _describe_resource("read", source)
        index = self._add(node, source.position)
        self._connect(scope.start, index)
        return (index,)

    def _add_step(self, step: Step, scope: _Scope) -> tuple[int, int]:
        """The entry and the exit of a step."""
        guard = self._check_guard(step)
        marks = _Marks(merge=step.mark == ">", iterate=step.mark == "*", guard=guard)
        if isinstance(step.body, TaskUse):
            task = self._declarations.resolve(step.body)
            if task.subflow is None:
                node = Node(
                    index=0,
                    kind="task",
                    name=step.body.name,
                    base=task.base,
                    parameters=task.parameters,
                    doc=task.doc,
                    merge=marks.merge,
                    iterate=marks.iterate,
                    guard=marks.guard,
                )
                index = self._add(node, step.body.position)
                return index, index
            return self._add_subflow(replace(task.subflow, position=step.body.position), marks, scope)
        if isinstance(step.body, TaskList):
            tasks = step.body.tasks
            listed = tuple(Statement(None, (Step(body=task),), None) for task in tasks)
            return self._add_subflow(Subflow(listed, tasks[0].position, tasks[-1].position), marks, scope)
        return self._add_subflow(step.body, marks, scope)

    def _add_subflow(self, subflow: Subflow, marks: _Marks, scope: _Scope) -> tuple[int, int]:
        if scope.depth >= MAX_DEPTH:
            raise FlowError("LIMIT", subflow.position, f"subflows are nested at most {MAX_DEPTH} deep")
        fork = self._add(
            Node(index=0, kind="fork", merge=marks.merge, iterate=marks.iterate, guard=marks.guard), subflow.position
        )
        inner = _Scope(fork, scope.depth + 1)
        for statement in subflow.statements:
            self._add_statement(statement, inner)
        join = self._add(Node(index=0, kind="join", partner=fork), subflow.end)
        self._nodes[fork] = replace(self._nodes[fork], partner=join)
        self._close(inner, join)
        return fork, join

    def _finish(self, destination: Destination | None, previous: int, scope: _Scope) -> None:
        if destination is None:
            scope.ends.append(previous)
            return
        target = destination.target
        if isinstance(target, Resource):
            node = replace(_describe_resource("write", target), merge=destination.merge)
            index = self._add(node, target.position)
            self._connect(previous, index)
            scope.ends.append(index)
        elif target.name == "end":
            scope.ends.append(previous)
            scope.merge = scope.merge or destination.merge
        else:
            _refuse_reserved(target)
            junction = scope.junction(target)
            junction.producers.append(previous)
            junction.targets.append(target)
            junction.merge = junction.merge or destination.merge

    def _consume(self, label: Label, entry: int, scope: _Scope) -> None:
        junction = scope.junction(label)
        junction.consumers.append(entry)
        junction.sources.append(label)

    def _label_input(self, label: Label, entry: int, scope: _Scope) -> None:
        junction = scope.junction(label)
        if junction.input is not None:
            raise FlowError("DUPLICATE_INPUT_LABEL", label.position, f"input label {label.name} already exists")
        junction.input = label
        junction.consumers.append(entry)

    def _label_output(self, label: Label, leave: int, scope: _Scope) -> None:
        _refuse_reserved(label)
        junction = scope.junction(label)
        if junction.output is not None:
            raise FlowError("DUPLICATE_OUTPUT_LABEL", label.position, f"output label {label.name} already exists")
        junction.output = label
        junction.producers.append(leave)

    def _close(self, scope: _Scope, end: int) -> None:
        """Connect what was only known to be there: labels and the end."""
        for name, junction in scope.junctions.items():
            if junction.targets and not junction.consumers:
                raise FlowError("UNKNOWN_LABEL", junction.targets[0].position, f"Unknown input label {name}")
            if junction.sources and not junction.producers:
                raise FlowError("UNKNOWN_LABEL", junction.sources[0].position, f"Unknown output label {name}")
            for consumer in junction.consumers:
                if junction.merge:
                    self._nodes[consumer] = replace(self._nodes[consumer], merge=True)
                for producer in junction.producers:
                    self._connect(producer, consumer)
        for source in scope.ends:
            self._connect(source, end)
        if scope.merge:
            self._nodes[end] = replace(self._nodes[end], merge=True)

    def _connect(self, source: int, target: int) -> None:
        self._edges.add((source, target))
        if len(self._edges) > MAX_EDGES:
            position = self._nodes[source].position or _TOP
            raise FlowError("LIMIT", position, f"a flow has at most {MAX_EDGES} edges")

    def _add(self, node: Node, position: Position) -> int:
        index = len(self._nodes)
        if index >= MAX_NODES:
            raise FlowError("LIMIT", position, f"a flow has at most {MAX_NODES} nodes")
        at = None if node.kind in {"start", "end"} else position
        self._nodes.append(replace(node, index=index, position=at))
        return index

    def _check_guard(self, step: Step) -> str | None:
        if step.guard is None:
            return None
        try:
            guard = parse_guard(step.guard.text)
        except MalformedGuard as malformed:
            reason = f"Cannot parse guard `{step.guard.text}`: {malformed}"
            raise FlowError("GUARD", step.guard.position, reason) from malformed
        if guard.mixes_operators:
            text = "and and or without brackets: or binds tighter"
            self._warnings.append(FlowWarning("MIXED_OPERATORS", step.guard.position, text))
        return step.guard.text


def _examine(graph: Graph) -> list[FlowWarning]:
    """What of a graph can never run, or never ends."""
    warnings = [
        FlowWarning("UNREACHABLE", node.position or _TOP, f"{describe_node(node)} cannot be reached from the start")
        for node in graph.nodes
        if node.index not in graph.reachable and node.kind not in {"end", "join"}
    ]
    for cycle in find_cycles(graph.reachable, graph.successors):
        if all(target in cycle for node in cycle for target in graph.successors.get(node, ())):
            first = graph.nodes[min(cycle)]
            text = f"the cycle through {describe_node(first)} has no exit"
            warnings.append(FlowWarning("ENDLESS_CYCLE", first.position or _TOP, text))
    if len(graph.nodes) - 1 not in graph.reachable:
        warnings.append(FlowWarning("END_UNREACHABLE", _TOP, "no path leads from the start to the end"))
    return warnings


def describe_node(node: Node) -> str:
    """A node in the words of messages."""
    if node.kind == "task":
        return f"task {node.name}"
    return f"<{node.uri}>" if node.uri else f"the {node.kind} of node {node.index}" if node.partner else node.kind


def _describe_resource(kind: str, resource: Resource) -> Node:
    parameters = {} if resource.parameters is None else resource.parameters
    return Node(index=0, kind="read" if kind == "read" else "write", uri=resource.uri, parameters=parameters)


def _refuse_reserved(label: Label) -> None:
    if label.name in {"start", "end"}:
        raise _reserve(label)


def _reserve(label: Label) -> FlowError:
    return FlowError("RESERVED_LABEL", label.position, f"{label.name} is a reserved label")
