"""What declarations say about tasks: aliases, default parameters, documentation, subflows
(docs/reference/flows.md#declarations).
"""

from msgspec import Struct

from statewright.flows.failures import InvalidFlow, Position
from statewright.flows.literals import LiteralValue
from statewright.flows.syntax import Declaration, SubflowUse, TaskUse


class ResolvedTask(Struct, frozen=True, kw_only=True):
    """What a use of a task comes to: an invocation of ``base``, or a subflow in its place."""

    base: str
    parameters: LiteralValue
    doc: str | None
    subflow: SubflowUse | None = None
    chain: tuple[str, ...] = ()
    """The names on the way, the written one first."""


class Declarations:
    """The declarations of one text. Raises :class:`InvalidFlow` where they contradict each other."""

    def __init__(self, declared: tuple[Declaration, ...]) -> None:
        self.flow: Declaration | None = None
        self.warnings: list[str] = []
        self._tasks: dict[str, Declaration] = {}
        for one in declared:
            match one.kind:
                case "flow":
                    self._take_flow(one)
                case "task":
                    self._take_task(one)
                case kind:
                    raise InvalidFlow("DECLARATION", one.position, f"unknown declaration @{kind}", piece=f"@{kind}")

    def _take_flow(self, declared: Declaration) -> None:
        if self.flow is not None:
            raise InvalidFlow("DECLARATION", declared.position, "a second @flow", piece="@flow")
        if declared.alias is not None or declared.subflow is not None:
            reason = "@flow has neither an alias nor a subflow"
            raise InvalidFlow("DECLARATION", declared.position, reason, piece="@flow")
        self.flow = declared

    def _take_task(self, declared: Declaration) -> None:
        if declared.alias is not None and declared.subflow is not None:
            reason = f"task {declared.name} has both an alias and a subflow"
            raise InvalidFlow("DECLARATION", declared.position, reason, piece=declared.name)
        if declared.name in self._tasks:
            self.warnings.append(_warn(declared.position, f"task {declared.name} is declared again; this one counts"))
        self._tasks[declared.name] = declared

    def resolve(self, use: TaskUse) -> ResolvedTask:
        """What the use of a task means. Raises :class:`InvalidFlow`."""
        name, chain, found = use.name, [use.name], []
        while (declared := self._tasks.get(name)) is not None:
            found.append(declared)
            if declared.alias is None:
                break
            name = declared.alias
            if name in chain:
                reason = f"the aliases of task {use.name} lead back to {name}"
                raise InvalidFlow("DECLARATION", declared.position, reason, piece=use.name)
            chain.append(name)
        doc = next((one.doc for one in found if one.doc is not None), None)
        last = found[-1] if found else None
        if last is not None and last.subflow is not None:
            return self._resolve_subflow(use, last, tuple(chain), doc)
        parameters: LiteralValue = {}
        for stronger in [one.parameters for one in reversed(found)] + [use.parameters]:
            parameters = _merge(parameters, stronger, use)
        return ResolvedTask(base=name, parameters=parameters, doc=doc, chain=tuple(chain))

    def _resolve_subflow(
        self, use: TaskUse, declared: Declaration, chain: tuple[str, ...], doc: str | None
    ) -> ResolvedTask:
        if use.parameters is not None:
            reason = f"task {use.name} is a subflow, which takes no parameters"
            raise InvalidFlow("PARAMETERS", use.position, reason, piece=use.name)
        return ResolvedTask(base=declared.name, parameters={}, doc=doc, subflow=declared.subflow, chain=chain)


def _merge(weaker: LiteralValue, stronger: LiteralValue | None, use: TaskUse) -> LiteralValue:
    if stronger is None:
        return weaker
    if not weaker:
        return stronger
    if isinstance(weaker, dict) and isinstance(stronger, dict):
        return {**weaker, **stronger}
    if isinstance(weaker, list) and isinstance(stronger, list):
        return stronger
    reason = f"parameters of task {use.name}: an object meets an array"
    raise InvalidFlow("PARAMETERS", use.position, reason, piece=use.name)


def _warn(position: Position, text: str) -> str:
    return f"{position.line}:{position.column} {text}"
