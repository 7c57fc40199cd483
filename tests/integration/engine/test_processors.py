"""Processors on a real calculation node (docs/reference/workflows.md#execution-modes,
docs/reference/workflows.md#callouts; docs/reference/grpc.md#callouts, docs/reference/grpc.md#dispatch; decisions W3,
W5, W7).
"""

import http.client
import json
from decimal import Decimal

import pytest

from tests.builders import SAMPLE, SEED_WORKFLOW, Json, a_processor, a_workflow, automated, manual
from tests.integration.engine.conftest import Join, Meanwhile
from tests.integration.node import Node
from tests.service import PATIENCE_S, Api, RunningService, done, eventually, names, refused

NEVER = 60_000
SOON = 50
"""Milliseconds: a time limit that passes for sure, and one that a test can wait for."""


def guarded_by(*processors: Json, name: str = "GO") -> Json:
    """A workflow whose only way on leads through processors."""
    return a_workflow(New=[manual(name, to="Done", processors=list(processors))], Done=[])


def in_flight(service: RunningService, tenant: str) -> int:
    """Callouts of the tenant that wait for an answer."""
    return sum(member.in_flight for member in service.parts.members.list_members(tenant))  # type: ignore[arg-type]


def test_the_returned_document_replaces_the_old_one_and_the_transition_is_made(
    api: Api, node: Node, meanwhile: Meanwhile
) -> None:
    api.a_model(guarded_by(a_processor()))
    entity = api.create().id
    fired = meanwhile(api.update, entity, {"year": 1}, fire="GO")
    node.return_next({"year": 2, "category": "literature"})
    saved = fired.result()
    envelope = api.read(entity)
    assert envelope["data"] == {"year": 2, "category": "literature"}
    assert (envelope["meta"]["state"], envelope["meta"]["transactionId"]) == ("Done", saved.transaction)
    assert len(done(api.get(f"/entity/{entity}/changes"))) == 2


def test_the_seed_workflow_runs_on_a_member_with_its_tag(api: Api, join: Join, meanwhile: Meanwhile) -> None:
    api.import_model()
    api.import_workflows(json.loads(SEED_WORKFLOW))
    api.lock()
    notary = join("approval-service")
    entity = api.create({"category": "physics", "year": 1921}).id
    fired = meanwhile(api.update, entity, {"category": "physics", "year": 1921}, fire="APPROVE")
    request = notary.return_next({"category": "physics", "year": 1921, "motivation": "approved"})
    fired.result()
    assert request["processorName"] == "notify-approval"
    assert (api.state(entity), api.read(entity)["data"]["motivation"]) == ("APPROVED", "approved")


def test_the_request_says_everything_a_processor_may_want_to_know(
    api: Api, node: Node, meanwhile: Meanwhile, tenant: str
) -> None:
    api.a_model(guarded_by(a_processor("enrich", context='{"not": "parsed"}')))
    created = api.create()
    fired = meanwhile(api.update, created.id, {"year": 7}, fire="GO")
    request = node.return_next({})
    saved = fired.result()
    meta = request["payload"]["meta"]
    assert request.kind == "Processor"
    assert request.members == {
        "id": request["requestId"],
        "requestId": request["requestId"],
        "success": True,
        "entityId": created.id,
        "processorId": "enrich",
        "processorName": "enrich",
        "workflow": {"id": "lifecycle", "name": "lifecycle"},
        "transition": {"id": "GO", "name": "GO", "stateFrom": "New", "stateTo": "Done"},
        "transactionId": saved.transaction,
        "parameters": '{"not": "parsed"}',
        "payload": {
            "type": "JSON",
            "data": {"year": 7},
            "meta": {
                "id": created.id,
                "modelKey": {"name": "prize", "version": 1},
                "state": "New",
                "creationDate": api.read(created.id)["meta"]["creationDate"],
                "lastUpdateTime": meta["lastUpdateTime"],
                "transactionId": saved.transaction,
            },
        },
    }
    assert {k: v for k, v in request.attributes.items() if k != "cyodatxtoken"} == {
        "authtype": "user",
        "authid": "alice",
        "authclaims": "ROLE_USER,ROLE_M2M",
    }


def test_the_document_stays_at_home_when_it_is_not_to_be_attached(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor(attachEntity=False)))
    fired = meanwhile(api.update, api.create().id, fire="GO")
    request = node.answer_next()
    fired.result()
    assert "payload" not in request.members
    assert "parameters" not in request.members


def test_each_processor_sees_what_the_one_before_left(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor("first"), a_processor("second", mode="ASYNC_SAME_TX"), a_processor("third")))
    entity = api.create().id
    fired = meanwhile(api.update, entity, {"year": 0}, fire="GO")
    seen = []
    for n in (1, 2, 3):
        request = node.return_next({"year": n})
        seen.append((request["processorName"], request.data))
    saved = fired.result()
    assert seen == [("first", {"year": 0}), ("second", {"year": 1}), ("third", {"year": 2})]
    assert api.read(entity)["data"] == {"year": 3}
    assert [
        (event["eventType"], event["details"], event["data"]) for event in api.events(entity, saved.transaction)
    ] == [
        ("STATE_MACHINE_START", "Manual transition started", None),
        ("PAUSE_FOR_PROCESSING", "Paused for processors: [first second third]", None),
        ("STATE_PROCESS_RESULT", 'Processor "first" completed', {"success": True, "mode": "SYNC"}),
        ("STATE_PROCESS_RESULT", 'Processor "second" completed', {"success": True, "mode": "ASYNC_SAME_TX"}),
        ("STATE_PROCESS_RESULT", 'Processor "third" completed', {"success": True, "mode": "SYNC"}),
        ("TRANSITION_MAKE", 'Transition "GO": New → Done', None),
        ("STATE_MACHINE_FINISH", "Manual transition finished", {"success": True}),
    ]


@pytest.mark.parametrize(
    "answer",
    [{}, {"payload": None}, {"payload": {}}, {"payload": {"data": None}}, {"payload": {"type": "JSON", "meta": {}}}],
    ids=str,
)
def test_an_answer_without_a_document_changes_nothing(
    api: Api, node: Node, meanwhile: Meanwhile, answer: dict[str, Json]
) -> None:
    api.a_model(guarded_by(a_processor()))
    entity = api.create().id
    fired = meanwhile(api.update, entity, {"year": 5}, fire="GO")
    node.answer_next(**answer)
    fired.result()
    assert (api.state(entity), api.read(entity)["data"]) == ("Done", {"year": 5})


def test_a_member_can_change_nothing_but_the_document(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor()))
    entity = api.create().id
    fired = meanwhile(api.update, entity, fire="GO")
    node.answer_next(
        payload={"type": "XML", "data": {"year": 1}, "meta": {"state": "Hacked", "id": "x", "transactionId": "y"}},
        entityId="00000000-0000-1000-8000-000000000000",
        state="Hacked",
    )
    fired.result()
    assert (api.state(entity), api.read(entity)["data"]) == ("Done", {"year": 1})


def test_the_result_is_applied_as_returned_whatever_the_model_says(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor()))
    for document in ({"not": {"in": ["the", "model"]}, "year": "text"}, {}):
        entity = api.create().id
        fired = meanwhile(api.update, entity, fire="GO")
        node.return_next(document)
        fired.result()
        assert api.read(entity)["data"] == document


@pytest.mark.parametrize("document", [[1, 2], "text", 7, True])
def test_a_result_that_is_no_object_fails_the_callout(
    api: Api, node: Node, meanwhile: Meanwhile, document: Json
) -> None:
    """Decision W13."""
    api.a_model(guarded_by(a_processor()))
    entity = api.create().id
    fired = meanwhile(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    node.return_next(document)
    problem = refused(fired.result(), 400, "WORKFLOW_FAILED")
    assert "the returned document cannot be used: expected object" in problem["detail"]
    assert api.read(entity)["data"] == SAMPLE


def test_digits_survive_the_way_to_a_member_and_back(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    digits = "12345678901234567890123456789.0987654321"
    api.import_model(sample={"n": 1})
    done(api.post("/model/import/JSON/SAMPLE_DATA/prize/1", f'{{"n": {digits}}}'))
    api.import_workflows(guarded_by(a_processor()))
    api.lock()
    entity = api.create({"n": 1}).id
    fired = meanwhile(api.update, entity, f'{{"n": {digits}}}', fire="GO")
    request = node.next()
    node.answer(request, payload={"data": request.data})
    fired.result()
    assert f'"n":{digits}' in api.get(f"/entity/{entity}").text


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ('"success":true,"payload":{"data":{"a":"x\\u0000y"}}', "NUL"),
        ('"success":true,"payload":{"data":{"a":1,"a":2}}', "duplicate member"),
        ('"success":true,"payload":{"data":1e99999}', "the returned document cannot be used"),
        ('"success":"yes"', "unusable answer"),
    ],
)
def test_an_answer_that_cannot_be_used_fails_the_transition_at_once(
    api: Api, node: Node, meanwhile: Meanwhile, answer: str, reason: str
) -> None:
    api.a_model(guarded_by(a_processor()))
    entity = api.create().id
    fired = meanwhile(api.put, f"/entity/JSON/{entity}/GO", {"year": 9})
    node.answer_literally(answer)
    assert reason in refused(fired.result(), 400, "WORKFLOW_FAILED")["detail"]
    assert_untouched(api, entity)


def test_processors_run_on_creation_too_and_the_cascade_goes_on_with_their_result(
    api: Api, node: Node, meanwhile: Meanwhile
) -> None:
    api.a_model(
        a_workflow(
            New=[automated("TAKE", to="Taken", processors=[a_processor("first")])],
            Taken=[automated("SHELVE", to="Shelved", processors=[a_processor("second")])],
            Shelved=[],
        )
    )
    created = meanwhile(api.create, {"year": 1})
    assert node.return_next({"year": 2})["transition"]["name"] == "TAKE"
    second = node.return_next({"year": 3})
    saved = created.result()
    assert (second.data, second["payload"]["meta"]["state"]) == ({"year": 2}, "Taken")
    assert (api.state(saved.id), api.read(saved.id)["data"]) == ("Shelved", {"year": 3})
    assert second["entityId"] == saved.id


# Failures


def assert_untouched(api: Api, entity: str) -> None:
    """Neither data nor state nor history nor audit knows of the attempt."""
    assert (api.state(entity), api.read(entity)["data"]) == ("New", SAMPLE)
    assert len(done(api.get(f"/entity/{entity}/changes"))) == 1
    trail = done(api.get(f"/audit/entity/{entity}?eventType=StateMachine&limit=1000"))["items"]
    assert "PAUSE_FOR_PROCESSING" not in names(trail)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"success": False, "error": {"code": "E", "message": "out of stock"}}, "out of stock"),
        ({"success": False, "error": {"message": "käse 漢字 \n two lines"}}, "käse 漢字 \n two lines"),
        ({"success": False}, "processor returned failure"),
        ({"success": None}, "processor returned failure"),
        ({"success": False, "error": {"code": "E"}}, "processor returned failure"),
        ({"success": False, "payload": {"data": {"year": 1}}}, "processor returned failure"),
    ],
    ids=str,
)
def test_the_text_of_a_failure_reaches_the_client_and_nothing_else_happens(
    api: Api, node: Node, meanwhile: Meanwhile, answer: dict[str, Json], text: str
) -> None:
    api.a_model(guarded_by(a_processor("price"), a_processor("never")))
    entity = api.create().id
    fired = meanwhile(api.put, f"/entity/JSON/{entity}/GO", {"year": 9})
    node.answer_next(**answer)
    problem = refused(fired.result(), 400, "WORKFLOW_FAILED")
    assert problem["detail"] == f"WORKFLOW_FAILED: processor price failed: processor dispatch failed: {text}"
    assert problem["properties"] == {"errorCode": "WORKFLOW_FAILED"}
    assert node.is_idle
    assert_untouched(api, entity)


def test_a_create_whose_processor_failed_leaves_no_entity(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(a_workflow(New=[automated("TAKE", to="End", processors=[a_processor()])], End=[]))
    created = meanwhile(api.post, "/entity/JSON/prize/1", SAMPLE)
    request = node.fail_next("boom")
    refused(created.result(), 400, "WORKFLOW_FAILED")
    assert done(api.get("/entity/prize/1")) == []
    refused(api.get(f"/entity/{request['entityId']}/changes"), 404, "ENTITY_NOT_FOUND")
    refused(api.get(f"/audit/entity/{request['entityId']}"), 404, "ENTITY_NOT_FOUND")


def test_a_failure_late_in_the_cascade_undoes_all_of_it(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(
        a_workflow(
            New=[manual("GO", to="Mid", processors=[a_processor("first")])],
            Mid=[automated("ON", to="End", processors=[a_processor("second")])],
            End=[],
        )
    )
    entity = api.create().id
    fired = meanwhile(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    node.return_next({"year": 1})
    node.fail_next("too late")
    problem = refused(fired.result(), 400, "WORKFLOW_FAILED")
    assert problem["detail"].endswith("processor second failed: processor dispatch failed: too late")
    assert_untouched(api, entity)


def test_a_member_that_keeps_silent_is_a_failed_run_with_the_cause(api: Api, node: Node) -> None:
    api.a_model(guarded_by(a_processor(responseTimeoutMs=SOON)))
    entity = api.create().id
    problem = refused(api.put(f"/entity/JSON/{entity}/GO", {"year": 9}), 400, "WORKFLOW_FAILED")
    assert problem["properties"] == {"errorCode": "WORKFLOW_FAILED", "cause": "DISPATCH_TIMEOUT"}
    assert problem["detail"] == f"WORKFLOW_FAILED: processor enrich failed: processor dispatch timed out after {SOON}ms"
    assert_untouched(api, entity)


def test_a_late_answer_is_ignored_and_the_stream_goes_on(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor("hasty", responseTimeoutMs=SOON)))
    entity = api.create().id
    refused(api.put(f"/entity/JSON/{entity}/GO", {"year": 9}), 400, "WORKFLOW_FAILED")
    late = node.next()
    api.import_workflows(guarded_by(a_processor("patient", responseTimeoutMs=NEVER)))
    fired = meanwhile(api.update, entity, {"year": 10}, fire="GO")
    current = node.next()
    node.answer(late, payload={"data": {"year": 666}})
    node.answer(late, success=False, error={"message": "late"})
    node.answer(current, payload={"data": {"year": 11}})
    node.answer(current, payload={"data": {"year": 12}})
    fired.result()
    assert api.read(entity)["data"] == {"year": 11}
    assert current["requestId"] != late["requestId"]


def test_an_answer_on_another_stream_is_nobodys(api: Api, node: Node, join: Join, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor(responseTimeoutMs=NEVER)))
    entity = api.create().id
    fired = meanwhile(api.update, entity, fire="GO")
    request = node.next()
    impostor = join("impostor")
    impostor.answer(request, payload={"data": {"year": 666}})
    api.import_workflows(guarded_by(a_processor("probe", tags="impostor")))
    other = meanwhile(api.update, api.create().id, fire="GO")
    impostor.return_next({"year": 1})
    other.result()  # so the answer before it has arrived, too
    assert not fired.done()
    node.answer(request, payload={"data": {"year": 2}})
    fired.result()
    assert api.read(entity)["data"] == {"year": 2}


@pytest.mark.parametrize("tags", ["absent", "node,absent", "node;absent"])
def test_without_a_member_for_all_tags_a_client_may_try_again(api: Api, node: Node, tags: str) -> None:
    api.a_model(guarded_by(a_processor("price", tags=tags)))
    entity = api.create().id
    problem = refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert problem["properties"] == {"errorCode": "NO_COMPUTE_MEMBER_FOR_TAG", "retryable": True}
    assert problem["detail"] == (
        f'NO_COMPUTE_MEMBER_FOR_TAG: processor price failed: no matching calculation member: tags "{tags}"; '
        "a member needs all of them; tags of the connected members: node"
    )
    assert "ticket" not in problem
    assert node.is_idle
    assert_untouched(api, entity)


def test_members_of_other_tenants_get_no_work(
    service: RunningService, api: Api, node: Node, meanwhile: Meanwhile, tenant: str
) -> None:
    stranger = service.api(f"not-{tenant}")
    stranger.a_model(guarded_by(a_processor()))
    entity = stranger.create().id
    refused(stranger.put(f"/entity/JSON/{entity}/GO", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert node.is_idle


@pytest.mark.parametrize("tags", ["", " Node ", "NODE,extra", " extra ; node "])
def test_tags_are_compared_trimmed_and_without_case(api: Api, join: Join, meanwhile: Meanwhile, tags: str) -> None:
    node = join("nodE", "EXTRA", "more")
    api.a_model(guarded_by(a_processor(tags=tags)))
    entity = api.create().id
    fired = meanwhile(api.update, entity, fire="GO")
    node.answer_next()
    fired.result()
    assert api.state(entity) == "Done"


def test_a_member_that_leaves_in_the_middle_is_told_and_the_run_undone(
    api: Api, join: Join, meanwhile: Meanwhile
) -> None:
    node = join("node")
    api.a_model(guarded_by(a_processor(responseTimeoutMs=NEVER)))
    entity = api.create().id
    fired = meanwhile(api.put, f"/entity/JSON/{entity}/GO", {"year": 9})
    node.next()
    node.leave()
    problem = refused(fired.result(), 503, "COMPUTE_MEMBER_DISCONNECTED")
    assert problem["properties"] == {"errorCode": "COMPUTE_MEMBER_DISCONNECTED", "retryable": True}
    assert problem["detail"] == ("COMPUTE_MEMBER_DISCONNECTED: compute member disconnected during processor dispatch")
    assert_untouched(api, entity)


def test_an_execution_inside_the_service_is_not_offered(api: Api, node: Node) -> None:
    inside = a_processor("inner") | {"type": "internalized"}
    api.a_model(guarded_by(inside))
    entity = api.create().id
    problem = refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 400, "WORKFLOW_FAILED")
    assert problem["detail"] == (
        'WORKFLOW_FAILED: processor inner failed: execution type "internalized" is not yet implemented'
    )
    assert node.is_idle


def test_a_fixed_retry_goes_to_another_member_when_nothing_was_done(api: Api, join: Join, meanwhile: Meanwhile) -> None:
    """Decision W7: nobody is there at the first attempt; somebody joins before the last."""
    api.a_model(guarded_by(a_processor(retryPolicy="FIXED")))
    entity = api.create().id
    fired = meanwhile(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    node = join("node")
    node.answer_next()
    done(fired.result())
    assert api.state(entity) == "Done"


def test_warnings_are_no_part_of_http_answers(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor()))
    fired = meanwhile(api.put, f"/entity/JSON/{api.create().id}/GO", SAMPLE)
    node.answer_next(warnings=["careful", "really"])
    assert set(done(fired.result())) == {"entityIds", "transactionId"}


@pytest.mark.parametrize("document", [{"motivation": "nul \0"}, {"n": Decimal("1e7000")}], ids=["nul", "huge"])
def test_a_document_that_cannot_be_stored_is_no_answer(
    api: Api, node: Node, meanwhile: Meanwhile, document: Json
) -> None:
    api.a_model(guarded_by(a_processor(responseTimeoutMs=SOON)))
    entity = api.create().id
    fired = meanwhile(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    node.return_next(document)
    refused(fired.result(), 400, "WORKFLOW_FAILED")
    assert_untouched(api, entity)


# Others, meanwhile


def test_nobody_sees_a_run_before_it_is_over(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor(responseTimeoutMs=NEVER)))
    entity = api.create().id
    fired = meanwhile(api.update, entity, {"year": 9}, fire="GO")
    request = node.next()
    assert_untouched(api, entity)
    assert [e["data"] for e in done(api.get("/entity/prize/1"))] == [SAMPLE]
    node.answer(request)
    fired.result()
    assert api.state(entity) == "Done"


def test_whoever_writes_while_a_processor_works_wins(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor(responseTimeoutMs=NEVER)))
    entity = api.create().id
    slow = meanwhile(api.put, f"/entity/JSON/{entity}/GO", {"year": 1})
    request = node.next()
    quick = api.update(entity, {"year": 2})
    node.answer(request, payload={"data": {"year": 3}})
    problem = refused(slow.result(), 409, "CONFLICT")
    assert problem["properties"] == {"errorCode": "CONFLICT", "retryable": True}
    assert (api.state(entity), api.read(entity)["meta"]["transactionId"]) == ("New", quick.transaction)


def test_a_version_that_moved_while_a_processor_worked_is_told_to_whoever_demanded_it(
    api: Api, node: Node, meanwhile: Meanwhile
) -> None:
    api.a_model(guarded_by(a_processor(responseTimeoutMs=NEVER)))
    created = api.create()
    slow = meanwhile(api.put, f"/entity/JSON/{created.id}/GO", {"year": 1}, If_Match=created.transaction)
    request = node.next()
    api.update(created.id, {"year": 2})
    node.answer(request)
    refused(slow.result(), 412, "ENTITY_MODIFIED")


def test_many_callouts_share_a_stream_and_each_gets_its_own_answer(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor(responseTimeoutMs=NEVER)))
    known = [api.create({"year": n}).id for n in range(24)]
    running = [meanwhile(api.update, entity, {"year": n}, fire="GO") for n, entity in enumerate(known)]
    requests = [node.next() for _ in known]
    for request in reversed(requests):
        node.answer(request, payload={"data": {"year": request.data["year"] + 1000}})
    for fired in running:
        fired.result()
    assert [api.read(entity)["data"]["year"] for entity in known] == [n + 1000 for n in range(24)]


def test_slow_processors_keep_no_connection_from_others(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    """More runs wait for the node than there are connections; reading and writing go on."""
    api.a_model(guarded_by(a_processor(responseTimeoutMs=NEVER)))
    known = [api.create().id for _ in range(30)]
    running = [meanwhile(api.update, entity, fire="GO") for entity in known]
    requests = [node.next() for _ in known]
    other = api.create().id
    api.update(other)
    assert len(done(api.get("/entity/prize/1?pageSize=100"))) == 31
    for request in requests:
        node.answer(request)
    for fired in running:
        fired.result()


def test_work_is_shared_among_members(api: Api, join: Join, meanwhile: Meanwhile) -> None:
    members = [join("node") for _ in range(3)]
    api.a_model(guarded_by(a_processor(responseTimeoutMs=NEVER)))
    entities = [api.create().id for _ in range(6)]
    running = [meanwhile(api.update, entity, fire="GO") for entity in entities]
    taken = [(member, member.next()) for member in members for _ in range(2)]
    for member, request in taken:
        member.answer(request)
    for fired in running:
        fired.result()
    assert [api.state(entity) for entity in entities] == ["Done"] * 6


def test_a_client_that_goes_away_during_a_processor_ends_its_run(
    service: RunningService, api: Api, node: Node, tenant: str
) -> None:
    api.a_model(guarded_by(a_processor(responseTimeoutMs=NEVER)))
    entity = api.create().id
    connection = http.client.HTTPConnection(service.root.removeprefix("http://"), timeout=PATIENCE_S)
    connection.request("PUT", f"/api/entity/JSON/{entity}/GO", b'{"year": 9}', {"Authorization": f"Bearer {api.token}"})
    request = node.next()
    connection.close()
    eventually(lambda: in_flight(service, tenant) == 0)
    node.answer(request, payload={"data": {"year": 10}})
    assert_untouched(api, entity)
    api.update(entity, {"year": 1})
