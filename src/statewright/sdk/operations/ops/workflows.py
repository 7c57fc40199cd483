"""Workflows before they are imported: checks, simulations (docs/reference/operations.md#checking-workflows)."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from statewright.jsonval.values import JsonValue
from statewright.sdk.operations.calls import Instant, Operation, build_model_path, build_query
from statewright.sdk.operations.ops.answers import Members, Value, build_call, build_reader
from statewright.sdk.operations.workflows import ImportMode


class CheckFinding(Struct, frozen=True, kw_only=True):
    """Something about a workflow; ``path`` is a JSON Pointer into what was given, ``witness`` an example."""

    code: str
    severity: str
    path: str
    message: str
    hint: str | None = None
    witness: Members | None = None


class WorkflowCheck(Struct, frozen=True, kw_only=True):
    """What an import would come to. ``diff`` and ``affected`` are None where they cannot be told."""

    importable: bool
    findings: tuple[CheckFinding, ...]
    diff: Members | None = None
    affected: Members | None = None


class SimulationFinding(Struct, frozen=True, kw_only=True):
    """Something to know about a simulation, such as a stub that is missing."""

    code: str
    path: str
    message: str


class SimulatedMove(Struct, frozen=True, kw_only=True):
    """A move of the simulated entity. ``event`` is the position of the event that it follows from, -1: the start."""

    event: int
    at: str
    from_state: str | None = msgspec.field(name="from")
    transition: str
    to_state: str = msgspec.field(name="to")
    criteria: tuple[Members, ...] = ()
    processors: tuple[Members, ...] = ()
    failure: str | None = None


class Simulation(Struct, frozen=True, kw_only=True):
    """What became of the entity: ``outcome`` is SETTLED, or FAILED with the ``failure``."""

    outcome: str
    state: str | None
    document: Value
    path: tuple[SimulatedMove, ...]
    timers: tuple[Members, ...] = ()
    findings: tuple[SimulationFinding, ...] = ()
    failure: str | None = None


def check_workflows(
    model: str,
    version: int,
    workflows: Sequence[Mapping[str, JsonValue]] | Mapping[str, JsonValue],
    *,
    mode: ImportMode | None = None,
) -> Operation[WorkflowCheck]:
    """What is wrong with workflows, what an import would change, and whom that concerns; nothing is imported. They are
    given as to ``Client.workflows.import_``.
    """
    body: dict[str, object] = {"workflows": _list_workflows(workflows)}
    if isinstance(workflows, Mapping) and "workflows" in workflows:
        body = dict(workflows)
    if mode is not None:
        body["importMode"] = mode
    call = build_call(
        "check_workflows",
        "POST",
        f"/models/{build_model_path(model, version)}/workflow/check",
        target=(model, str(version)),
        body=body,
        only_asks=True,
    )
    return Operation(call, _read_check)


def simulate(
    model: str,
    version: int,
    start: Mapping[str, JsonValue],
    events: Sequence[Mapping[str, JsonValue]] = (),
    *,
    stubs: Mapping[str, Mapping[str, JsonValue]] | None = None,
    workflows: Sequence[Mapping[str, JsonValue]] | None = None,
    principal: Mapping[str, JsonValue] | None = None,
    at: Instant | None = None,
) -> Operation[Simulation]:
    """What would become of an entity, with stubs for members and a clock that jumps; nothing is written.

    ``start`` is ``{"document": {…}}`` or ``{"entityId": …}``; events are ``{"fire": NAME}``, ``{"loopback": {}}`` or
    ``{"advance": "PT2H"}`` (docs/reference/operations.md#simulating-workflows). Without ``workflows`` it is played by
    those of the model.
    """
    body: dict[str, object] = {"start": dict(start), "events": [dict(each) for each in events]}
    given = {"stubs": stubs, "workflows": workflows, "principal": principal}
    body |= {name: value for name, value in given.items() if value is not None} | dict(build_query(at=at))
    call = build_call(
        "simulate",
        "POST",
        f"/models/{build_model_path(model, version)}/workflow/simulate",
        target=(model, str(version)),
        body=body,
        only_asks=True,
    )
    return Operation(call, _read_simulation)


def _list_workflows(workflows: Sequence[Mapping[str, JsonValue]] | Mapping[str, JsonValue]) -> list[object]:
    return [workflows] if isinstance(workflows, Mapping) else list(workflows)


_read_check = build_reader(WorkflowCheck)
_read_simulation = build_reader(Simulation)
