"""Built-in models are refused to clients, but for the transitions that are open to them."""

import msgspec
import pytest

from statewright.entity import LOOPBACK, Actor, Entity, ModelKey
from statewright.failures import Forbidden, TransitionNotFound
from statewright.ids import EntityId, ModelId, TenantId, TransactionId, model_id
from statewright.processes.language import BuiltinModel
from statewright.schema import flatten_fields
from statewright.services.builtin import BuiltinModels, FireRequest, build_schema, build_workflow
from statewright.workflow import decode_import

LAMP = BuiltinModel(
    key=ModelKey("Lamp", 1),
    owner="the lamp keeper",
    sample={"name": "a", "settings": {}},
    states={"OFF": {"light": "ON"}, "ON": {"quench": "OFF", "burn": "GONE"}, "GONE": {}},
    client_transitions=frozenset({"light", "quench"}),
    open_paths=("$.settings",),
)
LAMP_ID = model_id("Lamp", 1)
MODELS = BuiltinModels([LAMP])


def fire(transition: str | None, state: str = "ON", model: ModelId = LAMP_ID) -> FireRequest:
    actor = Actor("alice", "user")
    entity = Entity(
        tenant=TenantId("acme"),
        id=EntityId("e"),
        model=model,
        state=state,
        transaction_id=TransactionId("t"),
        entry_transaction_id=TransactionId("t"),
        created_at=0,
        updated_at=0,
        transition=LOOPBACK,
        workflow="Lamp",
        attributed=actor,
        executor=actor,
        document="{}",
    )
    return FireRequest(entity=entity, transition=transition, document={})


def test_models_and_entities_are_refused_in_the_owners_name():
    with pytest.raises(Forbidden, match="model Lamp/1 belongs to the lamp keeper"):
        MODELS.refuse_model(ModelKey("Lamp", 1))
    with pytest.raises(Forbidden):
        MODELS.refuse_entities(LAMP_ID)


def test_other_models_are_nobodys_business():
    MODELS.refuse_model(ModelKey("Lamp", 2))
    MODELS.refuse_entities(model_id("Lamp", 2))
    assert model_id("Lamp", 2) not in MODELS.by_id


def test_only_open_transitions_of_the_state_pass():
    MODELS.check_transition(fire("quench"))
    with pytest.raises(TransitionNotFound, match='transition "light" not found in state "ON"'):
        MODELS.check_transition(fire("light"))
    with pytest.raises(Forbidden, match='transition "burn" is fired by the lamp keeper only'):
        MODELS.check_transition(fire("burn"))
    with pytest.raises(Forbidden, match="entities of Lamp/1 are written by the lamp keeper only"):
        MODELS.check_transition(fire(None))


def test_fields_are_open_below_free_paths_only():
    declared = MODELS.open_free_fields(LAMP_ID, flatten_fields(build_schema(LAMP)))
    assert "$.settings.of.any[*].depth" in declared
    assert "$.settings" in declared
    assert "$.name" in declared
    assert "$.setting" not in declared
    other = {"$.name": declared["$.name"]}
    assert MODELS.open_free_fields(model_id("Lamp", 2), other) is other


def test_the_workflow_can_be_imported():
    imported = decode_import(b'{"workflows": [' + msgspec.json.encode(build_workflow(LAMP)) + b"]}")
    [workflow] = imported.workflows
    assert workflow.initial_state == "OFF"
    assert [transition.name for transition in workflow.states["ON"].transitions] == ["quench", "burn"]
