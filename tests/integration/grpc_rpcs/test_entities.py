"""Single entities (docs/reference/grpc.md#entitymanage)."""

from uuid import UUID

import pytest

from statewright.jsonval.codec import encode
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual, when
from tests.integration.grpc_rpcs.client import NIL, UNKNOWN, Rpcs, payload_of, spec
from tests.service import Api, RunningService

LIFE = a_workflow(NEW=[manual("GO", to="DONE")], DONE=[])
DEFAULTED = "no workflows imported for model — using default workflow"


def create(data: Json = SAMPLE, **model: Json) -> Json:
    return {"dataFormat": "JSON", "payload": {"model": spec(**model), "data": data}}


def update(entity: str, data: Json = SAMPLE, **members: Json) -> Json:
    return {"dataFormat": "JSON", "payload": {"entityId": entity, "data": data, **members}}


def patch(entity: str, change: Json, if_match: str | None = "*", **members: Json) -> Json:
    payload = {"entityId": entity, "patch": change, "ifMatch": if_match, **members}
    return {"patchFormat": "MERGE_PATCH", "payload": payload}


def test_a_create_names_the_new_entity_and_its_transaction(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    answer = rpcs.done("EntityCreateRequest", **create())
    assert set(answer) == {"id", "requestId", "success", "transactionInfo"}
    [entity] = answer["transactionInfo"]["entityIds"]
    assert UUID(entity).version == 1
    assert api.read(entity)["meta"]["transactionId"] == answer["transactionInfo"]["transactionId"]
    assert api.state(entity) == "NEW"


def test_a_note_of_the_run_is_a_warning(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    assert rpcs.done("EntityCreateRequest", **create())["warnings"] == [DEFAULTED]


def test_what_a_member_warns_of_reaches_the_caller(api: Api, rpcs: Rpcs, serving: Json) -> None:
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document: Json, context: Json) -> Json:
        context.warn("rounded")
        return document | {"year": 2025}

    serving(node)
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    answer = rpcs.done("EntityCreateRequest", **create())
    assert answer["warnings"] == ["processor enrich: rounded"]
    assert rpcs.read(answer["transactionInfo"]["entityIds"][0])["data"]["year"] == 2025


def test_numbers_keep_their_digits_in_both_directions(api: Api, rpcs: Rpcs) -> None:
    digits = "0.1234567890123456789012345678901234567891"
    api.a_model(model="number/1", sample=f'{{"whole":{10**40},"fraction":{digits}}}')
    data = f'{{"whole":123456789012345678901234567890123456789,"fraction":{digits}}}'
    text = f'{{"id":"1","dataFormat":"JSON","payload":{{"model":{{"name":"number","version":1}},"data":{data}}}}}'
    [created] = rpcs.send(CloudEvent(id="ce-7", type="EntityCreateRequest", text_data=text))
    entity = payload_of(created)["transactionInfo"]["entityIds"][0]
    [read] = rpcs.events("EntityGetRequest", entityId=entity)
    assert "123456789012345678901234567890123456789" in read.text_data
    assert digits in read.text_data


@pytest.mark.parametrize(
    ("code", "data", "model"),
    [
        ("MODEL_NOT_FOUND", SAMPLE, {"name": "nothing"}),
        ("MODEL_NOT_FOUND", SAMPLE, {"version": 7}),
        ("MODEL_NOT_LOCKED", SAMPLE, {"name": "open"}),
        ("INCOMPATIBLE_TYPE", {**SAMPLE, "year": "MMXXIV"}, {}),
        ("BAD_REQUEST", {**SAMPLE, "another": 1}, {}),
        ("BAD_REQUEST", [SAMPLE], {}),
        ("BAD_REQUEST", None, {}),
    ],
)
def test_a_create_that_is_refused_creates_nothing(
    api: Api, rpcs: Rpcs, code: str, data: Json, model: dict[str, Json]
) -> None:
    api.a_model()
    api.import_model("open/1")
    answer = rpcs.refused("EntityCreateRequest", code, **create(data, **model))
    assert set(answer) == {"id", "requestId", "success", "error", "transactionInfo"}
    assert answer["transactionInfo"] == {"entityIds": []}
    assert set(answer["error"]) == {"code", "message"}
    assert api.get("/entity/prize/1").json() == []


@pytest.mark.parametrize("data", ['{"year":1,"year":2}', '{"category":"\\u0000"}'])
def test_a_document_that_could_only_be_stored_damaged_is_refused_by_name(api: Api, rpcs: Rpcs, data: str) -> None:
    api.a_model()
    text = f'{{"id":"1","dataFormat":"JSON","payload":{{"model":{{"name":"prize","version":1}},"data":{data}}}}}'
    [response] = rpcs.send(CloudEvent(id="ce-7", type="EntityCreateRequest", text_data=text))
    message = payload_of(response)["error"]["message"]
    assert message.startswith("BAD_REQUEST: invalid JSON: ")
    assert ("year" if "year" in data else "category") in message


def test_half_a_character_is_refused_by_name(rpcs: Rpcs) -> None:
    text = '{"id":"1","dataFormat":"JSON","payload":{"model":{"name":"m","version":1},"data":{"a":["\\ud800"]}}}'
    _, said = rpcs.status(CloudEvent(type="EntityCreateRequest", text_data=text))
    assert said == "invalid payload: string contains a lone surrogate at payload.data.a[0]"


def test_a_text_is_read_as_xml_when_the_format_says_so(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    xml = "<prize><category>peace</category><year>1979</year></prize>"
    created = rpcs.done("EntityCreateRequest", **(create(xml) | {"dataFormat": "XML"}))
    entity = created["transactionInfo"]["entityIds"][0]
    assert rpcs.read(entity)["data"] == {"category": "peace", "year": 1979}
    rpcs.done("EntityUpdateRequest", **(update(entity, xml.replace("1979", "1980")) | {"dataFormat": "XML"}))
    assert rpcs.read(entity)["data"]["year"] == 1980


@pytest.mark.parametrize("data", [SAMPLE, "no XML", None, 7])
def test_what_is_no_xml_is_refused_as_such(api: Api, rpcs: Rpcs, data: Json) -> None:
    api.a_model()
    answer = rpcs.refused("EntityCreateRequest", "BAD_REQUEST", **(create(data) | {"dataFormat": "XML"}))
    assert answer["error"]["message"].startswith("BAD_REQUEST: invalid XML")


def test_an_update_replaces_the_document_and_fires_what_it_names(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    entity = rpcs.create()
    for transition, state in ((None, "NEW"), ("", "NEW"), ("GO", "DONE")):
        answer = rpcs.done("EntityUpdateRequest", **update(entity, {"year": 1901}, transition=transition))
        assert answer["transactionInfo"]["entityIds"] == [entity]
        assert rpcs.read(entity)["meta"]["transactionId"] == answer["transactionInfo"]["transactionId"]
        assert api.state(entity) == state
    assert rpcs.read(entity)["data"] == {"year": 1901}


def test_an_update_that_is_refused_changes_nothing(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    entity = rpcs.create()
    before = rpcs.read(entity)
    rpcs.refused("EntityUpdateRequest", "TRANSITION_NOT_FOUND", **update(entity, transition="NOWHERE"))
    rpcs.refused("EntityUpdateRequest", "INCOMPATIBLE_TYPE", **update(entity, {"year": "x"}))
    assert rpcs.read(entity) == before


@pytest.mark.parametrize("entity", [UNKNOWN, NIL, "no-uuid", "", "f" * 32, f"{{{UNKNOWN}}}"])
def test_an_id_that_names_no_entity_is_not_found_however_it_looks(api: Api, rpcs: Rpcs, entity: str) -> None:
    api.a_model(LIFE)
    rpcs.refused("EntityUpdateRequest", "ENTITY_NOT_FOUND", **update(entity))
    rpcs.refused("EntityPatchRequest", "ENTITY_NOT_FOUND", **patch(entity, {}))
    rpcs.refused("EntityTransitionRequest", "ENTITY_NOT_FOUND", entityId=entity, transition="GO")
    rpcs.refused("EntityDeleteRequest", "ENTITY_NOT_FOUND", entityId=entity)
    answer = rpcs.refused("EntityGetRequest", "ENTITY_NOT_FOUND", entityId=entity)
    assert answer["error"]["message"] == f"ENTITY_NOT_FOUND: entity id={entity} not found"


def test_an_id_in_capitals_names_the_same_entity(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    entity = rpcs.create()
    assert rpcs.read(entity.upper())["meta"]["id"] == entity


def test_an_entity_of_another_tenant_is_not_found(service: RunningService, api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    entity = rpcs.create()
    stranger = Rpcs(service.grpc, service.api("another-tenant").token)
    stranger.refused("EntityGetRequest", "ENTITY_NOT_FOUND", entityId=entity)
    stranger.refused("EntityUpdateRequest", "ENTITY_NOT_FOUND", **update(entity))
    stranger.refused("EntityDeleteRequest", "ENTITY_NOT_FOUND", entityId=entity)


def test_a_merge_patch_changes_what_it_names(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    entity = rpcs.create({"category": "peace", "year": 1979})
    version = rpcs.read(entity)["meta"]["transactionId"]
    rpcs.done("EntityPatchRequest", **patch(entity, {"year": 1980, "category": None}, version))
    assert rpcs.read(entity)["data"] == {"year": 1980}
    rpcs.done("EntityPatchRequest", **patch(entity, {}, "*", transition="GO"))
    assert api.state(entity) == "DONE"


def test_a_json_patch_does_what_it_says_or_nothing(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    entity = rpcs.create({"category": "peace", "year": 1979})
    steps = [{"op": "remove", "path": "/category"}, {"op": "replace", "path": "/year", "value": 1980}]
    rpcs.done("EntityPatchRequest", **(patch(entity, steps) | {"patchFormat": "JSON_PATCH"}))
    assert rpcs.read(entity)["data"] == {"year": 1980}
    steps = [{"op": "replace", "path": "/year", "value": 1}, {"op": "test", "path": "/year", "value": 2}]
    for broken in (steps, {"op": "remove"}, "remove"):
        rpcs.refused("EntityPatchRequest", "BAD_REQUEST", **(patch(entity, broken) | {"patchFormat": "JSON_PATCH"}))
    assert rpcs.read(entity)["data"] == {"year": 1980}


def test_a_patch_is_for_one_version_and_says_which(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    entity = rpcs.create()
    stale = rpcs.read(entity)["meta"]["transactionId"]
    rpcs.done("EntityUpdateRequest", **update(entity))
    rpcs.refused("EntityPatchRequest", "ENTITY_MODIFIED", **patch(entity, {"year": 1}, stale))
    for missing in (None, ""):
        rpcs.refused("EntityPatchRequest", "PRECONDITION_REQUIRED", **patch(UNKNOWN, {"year": 1}, missing))
    assert rpcs.read(entity)["data"]["year"] == 2024


def test_a_patch_never_extends_the_model(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    entity = rpcs.create()
    answer = rpcs.refused("EntityPatchRequest", "BAD_REQUEST", **patch(entity, {"another": 1}))
    assert "validation failed: " in answer["error"]["message"]
    rpcs.refused("EntityPatchRequest", "INCOMPATIBLE_TYPE", **patch(entity, {"year": "x"}))


def test_a_deletion_names_what_was_deleted(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    entity = rpcs.create()
    answer = rpcs.done("EntityDeleteRequest", entityId=entity)
    assert UUID(answer.pop("transactionId")).version == 1
    assert answer == {"id": "ce-7", "requestId": "ce-7", "success": True, "entityId": entity, "model": spec()}
    rpcs.refused("EntityGetRequest", "ENTITY_NOT_FOUND", entityId=entity)


def test_a_deletion_that_is_refused_repeats_the_id_and_knows_nothing_else(rpcs: Rpcs) -> None:
    answer = rpcs.refused("EntityDeleteRequest", "ENTITY_NOT_FOUND", entityId="whatever")
    assert answer["entityId"] == "whatever"
    assert (answer["transactionId"], answer["model"]) == (NIL, {"name": "", "version": 0})


def test_a_transition_leaves_the_document_as_it_is(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    entity = rpcs.create()
    assert rpcs.done("EntityTransitionRequest", entityId=entity, transition="GO") == {"id": "ce-7", "success": True}
    assert (api.state(entity), rpcs.read(entity)["data"]) == ("DONE", SAMPLE)
    answer = rpcs.refused("EntityTransitionRequest", "TRANSITION_NOT_FOUND", entityId=entity, transition="GO")
    assert set(answer) == {"id", "success", "error"}


def test_a_transition_without_a_name_is_an_update_in_place(api: Api, rpcs: Rpcs) -> None:
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", criterion=when("$.year", "EQUALS", 2025))], DONE=[]))
    entity = rpcs.create({"year": 2025, "category": "x"})
    rpcs.done("EntityTransitionRequest", entityId=entity, transition="")
    meta = rpcs.read(entity)["meta"]
    assert (meta["state"], meta["transitionForLatestSave"]) == ("DONE", "loopback")


def test_a_document_that_a_processor_made_does_not_stop_its_entity(api: Api, rpcs: Rpcs, serving: Json) -> None:
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document: Json, _context: Json) -> Json:
        return document | {"technical_id": "x", "metadata": {}}

    serving(node)
    made = automated("MAKE", to="MADE", processors=[a_processor()])
    api.a_model(a_workflow(NEW=[made], MADE=[manual("GO", to="DONE")], DONE=[]))
    entity = rpcs.create()
    rpcs.done("EntityTransitionRequest", entityId=entity, transition="GO")
    assert (api.state(entity), rpcs.read(entity)["data"]["technical_id"]) == ("DONE", "x")


def test_a_failure_that_may_pass_is_retryable(api: Api, rpcs: Rpcs) -> None:
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor(tags="absent")])], DONE=[]))
    answer = rpcs.refused("EntityCreateRequest", "NO_COMPUTE_MEMBER_FOR_TAG", **create())
    assert answer["error"]["retryable"] is True
    assert 'no matching calculation member: tags "absent"' in answer["error"]["message"]


def test_a_refusal_says_what_rest_says(api: Api, rpcs: Rpcs) -> None:
    api.a_model(a_workflow(NEW=[manual("GO", to="DONE", criterion=when("$.year", "EQUALS", 1))], DONE=[]))
    entity = rpcs.create()
    answer = rpcs.refused("EntityUpdateRequest", "WORKFLOW_FAILED", **update(entity, transition="GO"))
    problem = api.put(f"/entity/JSON/{entity}/GO", encode(dict(SAMPLE))).json()
    assert answer["error"]["message"] == problem["detail"]


def test_an_entity_is_shown_with_its_metadata(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    entity = rpcs.create()
    rest = api.read(entity)
    answer = rpcs.done("EntityGetRequest", entityId=entity)
    assert set(answer) == {"id", "requestId", "success", "payload"}
    assert answer["payload"] == rest | {"type": "JSON"}


def test_an_entity_can_be_read_as_it_was(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    entity = rpcs.create()
    first = rpcs.read(entity)
    rpcs.done("EntityUpdateRequest", **update(entity, {"year": 1}))
    moment = first["meta"]["lastUpdateTime"]
    for instant in (moment, moment.replace("Z", "+00:00"), moment.replace("Z", " 00:00"), moment.removesuffix("Z")):
        then = rpcs.done("EntityGetRequest", entityId=entity, pointInTime=instant)["payload"]
        assert then == first
    rpcs.refused("EntityGetRequest", "ENTITY_NOT_FOUND", entityId=entity, pointInTime="2001-01-01T00:00:00Z")
    assert rpcs.done("EntityGetRequest", entityId=entity, pointInTime=None)["payload"]["data"] == {"year": 1}
