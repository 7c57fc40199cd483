"""What declarations say of tasks: their parameters, aliases and subflows (docs/reference/flows.md#declarations)."""

from collections.abc import Sequence

from msgspec import Struct

from statewright.flows.errors import FlowError, FlowWarning, Position
from statewright.flows.syntax import Body, Declaration, Statement, Subflow, TaskList, TaskUse
from statewright.jsonval.values import JsonValue


class ResolvedTask(Struct, frozen=True):
    """A use of a task, with what was declared of it."""

    base: str
    parameters: JsonValue
    doc: str | None
    subflow: Subflow | None


class Declarations:
    """The declarations of one text. Raises :class:`FlowError` when they contradict each other."""

    def __init__(self, declared: Sequence[Declaration]) -> None:
        self.flow: Declaration | None = None
        self.warnings: list[FlowWarning] = []
        self._tasks: dict[str, Declaration] = {}
        for declaration in declared:
            self._add(declaration)
        for declaration in self._tasks.values():
            self._list_aliases(declaration.name)
        self._refuse_recursion()

    def resolve(self, use: TaskUse) -> ResolvedTask:
        """What a use of a task invokes. Raises :class:`FlowError`."""
        chain = self._list_aliases(use.name)
        declared = [self._tasks[name] for name in chain if name in self._tasks]
        subflow = declared[-1].subflow if declared else None
        doc = next((one.doc for one in declared if one.doc is not None), None)
        if subflow is not None:
            if use.parameters is not None:
                raise FlowError("PARAMETERS", use.position, f"{use.name} is a subflow, which takes no parameters")
            return ResolvedTask(chain[-1], {}, doc, subflow)
        parameters: JsonValue = None
        for one in (*(declaration.parameters for declaration in reversed(declared)), use.parameters):
            parameters = _merge_parameters(parameters, one, use)
        return ResolvedTask(chain[-1], {} if parameters is None else parameters, doc, None)

    def _add(self, declaration: Declaration) -> None:
        if declaration.kind == "flow":
            if self.flow is not None:
                raise _contradict(declaration.position, "a flow is declared once")
            if declaration.alias is not None or declaration.subflow is not None:
                raise _contradict(declaration.position, "a flow has neither an alias nor a subflow of its own")
            self.flow = declaration
            return
        if declaration.kind != "task":
            raise _contradict(declaration.position, f"@{declaration.kind} is not known: there are @flow and @task")
        if declaration.alias is not None and declaration.subflow is not None:
            raise _contradict(declaration.position, f"task {declaration.name} has both an alias and a subflow")
        if declaration.name in self._tasks:
            text = f"task {declaration.name} is declared more than once; the last declaration counts"
            self.warnings.append(FlowWarning("DUPLICATE_DECLARATION", declaration.position, text))
        self._tasks[declaration.name] = declaration

    def _list_aliases(self, name: str) -> list[str]:
        """The names from the written one to that of the task itself."""
        chain = [name]
        while (declaration := self._tasks.get(chain[-1])) is not None and declaration.alias is not None:
            if declaration.alias in chain:
                raise _contradict(declaration.position, f"the alias {name} leads back to itself")
            chain.append(declaration.alias)
        return chain

    def _refuse_recursion(self) -> None:
        """A subflow must not contain itself."""
        subflows = {name: one.subflow for name, one in self._tasks.items() if one.subflow is not None}
        inner = {
            name: {self._list_aliases(use)[-1] for use in _list_uses(subflow.statements)} & subflows.keys()
            for name, subflow in subflows.items()
        }
        while finished := [name for name, names in inner.items() if not names]:
            for name in finished:
                del inner[name]
            for names in inner.values():
                names.difference_update(finished)
        if inner:
            name = min(inner, key=lambda one: (self._tasks[one].position.line, self._tasks[one].position.column))
            raise _contradict(self._tasks[name].position, f"the subflow of {name} leads back to itself")


def _list_uses(statements: Sequence[Statement]) -> set[str]:
    return {use for statement in statements for step in statement.steps for use in _list_uses_in(step.body)}


def _list_uses_in(body: Body) -> set[str]:
    if isinstance(body, TaskUse):
        return {body.name}
    return {task.name for task in body.tasks} if isinstance(body, TaskList) else _list_uses(body.statements)


def _merge_parameters(weaker: JsonValue, stronger: JsonValue, use: TaskUse) -> JsonValue:
    if not weaker or stronger is None:
        return weaker if stronger is None else stronger
    if isinstance(weaker, dict) and isinstance(stronger, dict):
        return {**weaker, **stronger}
    if isinstance(weaker, list) and isinstance(stronger, list):
        return stronger
    raise FlowError("PARAMETERS", use.position, f"parameters of {use.name}: an object and an array cannot be merged")


def _contradict(position: Position, reason: str) -> FlowError:
    return FlowError("DECLARATION", position, reason)
