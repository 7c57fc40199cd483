"""Simulations without a service (docs/reference/operations.md#simulating-workflows): the model is known by a sample
document, and the scenario brings its workflows. What this needs is imported when it is called: few commands do.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from statewright.engine.models import Model
    from statewright.jsonval.values import JsonObject, JsonValue

Json = Any  # the same as a service answers

OPERATOR: Final = "operator"
"""For whom everything is done where the scenario does not say."""


def simulate_here(document: "JsonObject", name: str, version: int, sample: "JsonObject") -> Json:
    """What a service would answer to the scenario in a document.

    Raises ``ValueError`` for a scenario that cannot be played, or not without a service.
    """
    from statewright.api.http.ops.simulations import describe_simulation, read_scenario
    from statewright.api.http.response import encode_json
    from statewright.engine.simulation import Scenario, SimulationLimits, simulate
    from statewright.entity import Principal
    from statewright.failures import Failure
    from statewright.ids import TenantId, system_clock
    from statewright.jsonval.codec import decode, encode

    tenant = TenantId(OPERATOR)
    try:
        request = read_scenario(encode(document), tenant)
        if request.workflows is None or request.document is None:
            raise ValueError("without a service the scenario needs its workflows, and a document to start from")
        scenario = Scenario(
            start=request.document,
            events=request.events,
            stubs=request.stubs,
            principal=request.principal or Principal(id=OPERATOR, name=OPERATOR, kind="user", tenant=tenant),
            at=system_clock() if request.at is None else request.at,
        )
        found = simulate(_build_model(name, version, sample, request.workflows), scenario, SimulationLimits())
    except Failure as refused:
        raise ValueError(refused.message) from refused
    return decode(encode_json(describe_simulation(found)))


def _build_model(name: str, version: int, sample: "JsonObject", workflows: "JsonValue") -> "Model":
    from statewright.engine.models import DocumentRules, Model
    from statewright.entity import ModelKey
    from statewright.ids import model_id
    from statewright.schema import compile_validator, flatten_fields, infer
    from statewright.services.ops.simulating import read_importable

    key, id_, schema = ModelKey(name, version), model_id(name, version), infer(sample)
    return Model(
        key=key,
        id=id_,
        declared=flatten_fields(schema),
        documents=DocumentRules(model=id_, key=key, schema=schema, validate=compile_validator(schema)),
        workflows=read_importable(workflows),
        workflows_revision=1,
    )
