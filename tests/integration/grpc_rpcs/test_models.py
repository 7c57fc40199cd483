"""Models (docs/reference/grpc.md#entitymodelmanage)."""

import pytest

from tests.builders import SAMPLE, Json
from tests.integration.grpc_rpcs.client import NIL, Rpcs, spec
from tests.service import Api, RunningService


def a_sample(payload: Json = SAMPLE, **members: Json) -> Json:
    usual = {"model": spec(), "converter": "SAMPLE_DATA", "dataFormat": "JSON", "payload": payload}
    return usual | members


def test_a_model_lives_from_import_to_deletion(api: Api, rpcs: Rpcs) -> None:
    imported = rpcs.done("EntityModelImportRequest", **a_sample())
    model = imported["modelId"]
    assert imported == {"id": "ce-7", "success": True, "modelId": model}
    for transition, state in (("LOCK", "LOCKED"), ("UNLOCK", "UNLOCKED")):
        answer = rpcs.done("EntityModelTransitionRequest", model=spec(), transition=transition)
        assert answer == {"id": "ce-7", "success": True, "modelId": model, "state": state}
        [listed] = rpcs.done("EntityModelGetAllRequest")["models"]
        assert listed == {"id": model, "name": "prize", "version": 1, "state": state}
    assert rpcs.done("EntityModelDeleteRequest", model=spec()) == {"id": "ce-7", "success": True}
    assert rpcs.done("EntityModelGetAllRequest")["models"] == []


def test_the_id_of_a_model_is_derived_from_its_name(rpcs: Rpcs) -> None:
    answer = rpcs.done("EntityModelImportRequest", **a_sample(model=spec("invoice", 2)))
    assert answer["modelId"] == "6b93fbd0-6a74-5a2d-a90e-971ed7a4a20c"


def test_an_export_is_that_of_rest(api: Api, rpcs: Rpcs) -> None:
    model = api.import_model()
    answer = rpcs.done("EntityModelExportRequest", model=spec(), converter="SIMPLE_VIEW")
    assert answer["payload"] == api.get("/model/export/SIMPLE_VIEW/prize/1").json()
    assert (answer["model"], answer["modelId"]) == (spec(), model)


def test_an_import_extends_a_model_that_is_open(rpcs: Rpcs) -> None:
    rpcs.done("EntityModelImportRequest", **a_sample({"a": 1}))
    rpcs.done("EntityModelImportRequest", **a_sample({"b": "x"}))
    exported = rpcs.done("EntityModelExportRequest", model=spec(), converter="SIMPLE_VIEW")
    assert set(exported["payload"]["model"]["$"]) == {".a", ".b"}


def test_a_sample_can_be_xml_in_a_text(api: Api, rpcs: Rpcs) -> None:
    rpcs.done("EntityModelImportRequest", **a_sample("<x><a>1</a></x>", dataFormat="XML"))
    rpcs.done("EntityModelTransitionRequest", model=spec(), transition="LOCK")
    assert rpcs.create({"a": 5})
    rpcs.refused("EntityModelImportRequest", "BAD_REQUEST", **a_sample({"a": 1}, dataFormat="XML", model=spec("y")))


def test_a_sample_keeps_its_digits(rpcs: Rpcs) -> None:
    sample = {"whole": 10**60}
    rpcs.done("EntityModelImportRequest", **a_sample(sample))
    exported = rpcs.done("EntityModelExportRequest", model=spec(), converter="SIMPLE_VIEW")
    assert exported["payload"]["model"]["$"] == {".whole": "UNBOUND_INTEGER"}


def test_unique_keys_are_set_and_cleared_while_the_model_is_open(api: Api, rpcs: Rpcs) -> None:
    model = api.import_model()
    keys = [{"id": "by-year", "fields": ["$.year"]}]
    answer = rpcs.done("EntityModelSetUniqueKeysRequest", model=spec(), uniqueKeys=keys)
    assert answer == {"id": "ce-7", "success": True, "modelId": model, "state": "UNLOCKED"}
    assert api.get("/model/export/SIMPLE_VIEW/prize/1").json()["uniqueKeys"] == keys
    api.lock()
    rpcs.create()
    create = {"dataFormat": "JSON", "payload": {"model": spec(), "data": SAMPLE}}
    rpcs.refused("EntityCreateRequest", "UNIQUE_VIOLATION", **create)


@pytest.mark.parametrize("members", [{}, {"uniqueKeys": None}, {"uniqueKeys": []}, {"id": None}])
def test_no_unique_keys_clear_them(api: Api, rpcs: Rpcs, members: Json) -> None:
    api.import_model()
    rpcs.done("EntityModelSetUniqueKeysRequest", model=spec(), uniqueKeys=[{"id": "k", "fields": ["$.year"]}])
    rpcs.done("EntityModelSetUniqueKeysRequest", model=spec(), **members)
    assert "uniqueKeys" not in api.get("/model/export/SIMPLE_VIEW/prize/1").json()


@pytest.mark.parametrize(
    ("code", "kind", "members"),
    [
        ("MODEL_ALREADY_LOCKED", "EntityModelImportRequest", a_sample()),
        ("BAD_REQUEST", "EntityModelImportRequest", a_sample(model=None)),
        ("MODEL_ALREADY_LOCKED", "EntityModelTransitionRequest", {"transition": "LOCK"}),
        ("MODEL_HAS_ENTITIES", "EntityModelTransitionRequest", {"transition": "UNLOCK"}),
        ("MODEL_ALREADY_LOCKED", "EntityModelDeleteRequest", {}),
        ("MODEL_ALREADY_LOCKED", "EntityModelSetUniqueKeysRequest", {}),
        ("BAD_REQUEST", "EntityModelExportRequest", {"converter": "SAMPLE_DATA"}),
        ("MODEL_NOT_FOUND", "EntityModelExportRequest", {"model": spec("no"), "converter": "SIMPLE_VIEW"}),
        ("MODEL_NOT_FOUND", "EntityModelTransitionRequest", {"model": spec("no"), "transition": "LOCK"}),
        ("MODEL_NOT_FOUND", "EntityModelDeleteRequest", {"model": spec("no")}),
        ("MODEL_NOT_FOUND", "EntityModelSetUniqueKeysRequest", {"model": None}),
        ("MODEL_ALREADY_UNLOCKED", "EntityModelTransitionRequest", {"model": spec("open"), "transition": "UNLOCK"}),
        (
            "INVALID_UNIQUE_KEY_DEFINITION",
            "EntityModelSetUniqueKeysRequest",
            {"model": spec("open"), "uniqueKeys": [{"id": "k", "fields": ["$.nowhere"]}]},
        ),
    ],
)
def test_what_a_model_refuses(api: Api, rpcs: Rpcs, code: str, kind: str, members: Json) -> None:
    api.a_model()
    api.import_model("open/1")
    api.create()
    answer = rpcs.refused(kind, code, **({"model": spec()} | members))
    blanks = {
        "EntityModelImportRequest": {"modelId": NIL},
        "EntityModelExportRequest": {"modelId": NIL, "model": {"name": "", "version": 0}, "payload": {}},
        "EntityModelTransitionRequest": {"modelId": NIL, "state": ""},
        "EntityModelSetUniqueKeysRequest": {"modelId": NIL, "state": ""},
        "EntityModelDeleteRequest": {},
    }
    assert answer == {"id": "ce-7", "success": False, "error": answer["error"], **blanks[kind]}


def test_models_of_other_tenants_are_not_seen(service: RunningService, api: Api, rpcs: Rpcs) -> None:
    api.import_model()
    stranger = Rpcs(service.grpc, service.api("another-tenant").token)
    assert stranger.done("EntityModelGetAllRequest")["models"] == []
    stranger.refused("EntityModelExportRequest", "MODEL_NOT_FOUND", model=spec(), converter="SIMPLE_VIEW")


def test_a_transaction_token_is_not_looked_at(rpcs: Rpcs) -> None:
    assert rpcs.joining("no token at all").done("EntityModelGetAllRequest")["models"] == []
