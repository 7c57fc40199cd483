"""From JSON to definitions; the one decoder for both import contracts and for the stored form.

Nothing is checked here beyond JSON types and unknown members; docs/reference/workflows.md#order-of-checks-of-an-import
is checked on the result.

An object is read member by member, each once, under its name and type, so that the reader is the list of known
members; those that were never read are unknown. That serves both import contracts with one reader: the strict one
refuses unknown members, the other ignores them. ``null`` counts as absent, except for :meth:`WorkflowMembers.has`.

*Stored form.* The workflows of a model are one JSON array, in order. Each entry is the workflow as an export shows it,
but under the version it was imported with, and the contract it was imported under: a later server may read its version
differently, and must not check it anew.
"""

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from typing import Final, TypeVar

from statewright.failures import BadRequest
from statewright.jsonval.codec import decode, encode_large
from statewright.jsonval.values import JsonValue, MemberReader, WantedType, item_path, member_path
from statewright.loop.turns import use_once
from statewright.workflow.definition import (
    Contract,
    Criterion,
    Processor,
    ProcessorConfig,
    Schedule,
    ScheduleFunction,
    State,
    Transition,
    Workflow,
    parse_criterion,
)
from statewright.workflow.exporting import write_workflow
from statewright.workflow.structure import point_below

T = TypeVar("T")


class UnreadableMember(BadRequest):
    """A part of the document cannot be read; ``pointer`` is the JSON pointer to it."""

    def __init__(self, message: str, pointer: str) -> None:
        super().__init__(message)
        self.pointer = pointer


MAX_IGNORED: Final = 1_000
"""Unknown members that are remembered, give or take those of one object."""


class WorkflowMembers(MemberReader):
    """The members of one JSON object of a request.

    ``path`` says where it stands, ``workflows[0]``; empty for the document itself. Unknown members are refused, in the
    objects within too, unless :meth:`ignore_unknown` was called. All readers raise BadRequest for another type.
    """

    def __init__(self, value: JsonValue, path: str, pointer: str = "", ignored: list[str] | None = None) -> None:
        """``pointer`` says the same as ``path``, as a JSON pointer; ``ignored`` is the list to add to."""
        if not isinstance(value, dict):
            raise _build_type_error(path, pointer, "object", value)
        self.path = path
        self.ignored: list[str] = [] if ignored is None else ignored
        """JSON pointers to the unknown members that were ignored, :data:`MAX_IGNORED` at most."""
        self._pointer = pointer
        self._values = value
        self._asked: set[str] = set()
        self._closed = True

    def ignore_unknown(self) -> None:
        """From here on unknown members are ignored, in this object and in those read from it later."""
        self._closed = False

    def leave_out_schema(self) -> None:
        """Take no notice of a member ``$schema``, by which authors tell their editors how to check a document."""
        self._values = {name: value for name, value in self._values.items() if name != "$schema"}

    def has(self, name: str) -> bool:
        """Whether the member is there, ``null`` included."""
        self._asked.add(name)
        return name in self._values

    def get(self, name: str) -> JsonValue:
        self._asked.add(name)
        return self._values.get(name)

    def build_type_error(self, name: str, value: JsonValue, wanted: WantedType) -> BadRequest:
        pointer = point_below(self._pointer, name)
        return _build_type_error(member_path(self.path, name), pointer, wanted, value)

    def one(self, name: str, read: Callable[["WorkflowMembers"], T]) -> T | None:
        """An object, as ``read`` makes it; ``None`` when absent."""
        value = self.get(name)
        return None if value is None else self._read(value, member_path(self.path, name), (name,), read)

    def each(self, name: str, read: Callable[["WorkflowMembers"], T]) -> tuple[T, ...]:
        """An array of objects, each as ``read`` makes it; empty when absent."""
        path = member_path(self.path, name)
        return tuple(
            self._read(item, item_path(path, index), (name, index), read) for index, item in enumerate(self.array(name))
        )

    def by_key(self, name: str, read: Callable[["WorkflowMembers"], T]) -> dict[str, T]:
        """An object of objects, each as ``read`` makes it, in order of the keys; ``null`` inside is an empty object."""
        path, value = member_path(self.path, name), self.object(name) or {}
        return {
            key: self._read(_fill_null(value[key]), member_path(path, key), (name, key), read) for key in sorted(value)
        }

    def _read(
        self, value: JsonValue, path: str, steps: tuple[str | int, ...], read: Callable[["WorkflowMembers"], T]
    ) -> T:
        inner = WorkflowMembers(value, path, point_below(self._pointer, *steps), self.ignored)
        inner._closed = self._closed
        return inner.read_by(read)

    def read_by(self, read: Callable[["WorkflowMembers"], T]) -> T:
        """What ``read`` makes of this object. Raises BadRequest for a member that it did not read, unless those are
        ignored.
        """
        result = read(self)
        unknown = next((name for name in self._values if name not in self._asked), None)
        if self._closed and unknown is not None:
            known = f"known: {', '.join(sorted(self._asked))}"
            message = f'invalid JSON: unknown field "{unknown}"{_format_location(self.path)}; {known}'
            raise UnreadableMember(message, point_below(self._pointer, unknown))
        if unknown is not None and len(self.ignored) < MAX_IGNORED:
            self.ignored += (point_below(self._pointer, name) for name in self._values if name not in self._asked)
        return result


def _fill_null(value: JsonValue) -> JsonValue:
    return {} if value is None else value


_TYPES: Final[dict[WantedType, str]] = {
    "string": "a string",
    "bool": "a boolean",
    "int": "a 64-bit integer",
    "array": "an array",
    "object": "an object",
}


def _build_type_error(path: str, pointer: str, wanted: WantedType, value: JsonValue) -> BadRequest:
    message = f"invalid JSON: expected {_TYPES[wanted]}, got {_describe_kind(value)}{_format_location(path)}"
    return UnreadableMember(message, pointer)


def _format_location(path: str) -> str:
    return f" at {path}" if path else ""


def _describe_kind(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | Decimal():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def read_workflow(members: WorkflowMembers, contract: Contract) -> Workflow:
    """A workflow as written, ``active`` included, with the defaults of
    docs/reference/workflows.md#defaults-and-the-log.
    """
    if contract is Contract.SEED:
        members.ignore_unknown()
    criterion, null_criterion = _read_criterion(members)
    states = members.by_key("states", _read_state)
    return Workflow(
        version=members.text("version"),
        contract=contract,
        name=members.text("name"),
        desc=members.text("desc"),
        initial_state=members.text("initialState"),
        active=members.flag("active") is not False,
        criterion=criterion,
        null_criterion=null_criterion,
        criterion_annotations=members.get("criterionAnnotations"),
        annotations=members.get("annotations"),
        states={name: state(name=name) for name, state in states.items()},
    )


def _read_state(members: WorkflowMembers) -> partial[State]:
    return partial(
        State,
        transitions=members.each("transitions", _read_transition),
        annotations=members.get("annotations"),
    )


def _read_transition(members: WorkflowMembers) -> Transition:
    criterion, null_criterion = _read_criterion(members)
    return Transition(
        name=members.text("name"),
        next=members.text("next"),
        manual=members.flag("manual") is True,
        disabled=members.flag("disabled") is True,
        criterion=criterion,
        null_criterion=null_criterion,
        processors=members.each("processors", _read_processor),
        schedule=members.one("schedule", _read_schedule),
        annotations=members.get("annotations"),
        criterion_annotations=members.get("criterionAnnotations"),
    )


def _read_processor(members: WorkflowMembers) -> Processor:
    return Processor(
        type=members.text("type"),
        name=members.text("name"),
        execution_mode=members.text("executionMode"),
        start_new_tx_beside=members.flag("startNewTxOnDispatch"),
        config=members.one("config", _read_config) or ProcessorConfig(),
        annotations=members.get("annotations"),
    )


def _read_config(members: WorkflowMembers) -> ProcessorConfig:
    return ProcessorConfig(
        attach_entity=members.flag("attachEntity") is not False,
        calculation_nodes_tags=members.text("calculationNodesTags"),
        response_timeout_ms=members.integer("responseTimeoutMs") or 0,
        retry_policy=members.text("retryPolicy"),
        context=members.text("context"),
        start_new_tx=members.flag("startNewTxOnDispatch"),
        async_result=members.flag("asyncResult"),
        crossover_to_async_ms=members.integer("crossoverToAsyncMs"),
    )


def _read_schedule(members: WorkflowMembers) -> Schedule:
    return Schedule(
        # A negative delay beside a function is accepted and means nothing; alone it is as bad as none
        # (docs/reference/workflows.md#checks-of-the-structure).
        delay_ms=max(members.integer("delayMs") or 0, 0),
        timeout_ms=members.integer("timeoutMs"),
        function=members.one("function", _read_function),
    )


def _read_function(members: WorkflowMembers) -> ScheduleFunction:
    return ScheduleFunction(
        name=members.text("name"),
        result_kind=members.text("resultKind"),
        calculation_nodes_tags=members.text("calculationNodesTags"),
        attach_entity=members.flag("attachEntity") is not False,
        context=members.text("context"),
        response_timeout_ms=members.integer("responseTimeoutMs") or 0,
    )


def _read_criterion(members: WorkflowMembers) -> tuple[Criterion | None, bool]:
    """The criterion, and whether it was given as an explicit ``null``."""
    source = members.get("criterion")
    if source is not None:
        return parse_criterion(source), False
    return None, members.has("criterion")


def workflows_to_stored(workflows: Iterable[Workflow]) -> bytes:
    """The stored form of a model's workflows."""
    entries: list[JsonValue] = [
        {"contract": workflow.contract.value, "workflow": write_workflow(workflow, version=workflow.version)}
        for workflow in workflows
    ]
    return use_once(entries, encode_large)


def workflows_from_stored(raw: bytes) -> tuple[Workflow, ...]:
    """The workflows that :func:`workflows_to_stored` wrote. Raises ValueError for anything else, a defect of
    the store and not of a request.
    """
    try:
        return WorkflowMembers({"stored": decode(raw)}, "").each("stored", _read_entry)
    except BadRequest as unreadable:
        raise ValueError(f"stored workflows are damaged: {unreadable}") from unreadable


def _read_entry(members: WorkflowMembers) -> Workflow:
    contract = Contract(members.text("contract"))
    workflow = members.one("workflow", lambda inner: read_workflow(inner, contract))
    if workflow is None:
        raise ValueError(f"{members.path} holds no workflow")
    return workflow
