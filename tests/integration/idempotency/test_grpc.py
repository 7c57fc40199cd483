"""Requests with keys over gRPC (docs/reference/grpc.md#idempotent-requests)."""

from typing import Any
from uuid import uuid4

import pytest

from statewright.jsonval.codec import decode
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.workflow.v1 import engine_pb2 as pb
from tests.builders import SAMPLE, Json, a_workflow, manual
from tests.integration.grpc_rpcs.client import Rpcs, an_event
from tests.integration.steps_grpc.engine import SERVICE, engine_of, refused
from tests.integration.steps_http.conftest import definition, step, uploaded
from tests.service import PATIENCE_S, Api, RunningService, a_token, done

LIFE = a_workflow(HERE=[manual("GO", to="THERE")], THERE=[])
MODEL = {"name": "prize", "version": 1}


@pytest.fixture
def rpcs(service: RunningService, tenant: str) -> Rpcs:
    return Rpcs(service.grpc, a_token(tenant))


def ask(rpcs: Rpcs, kind: str, key: str, **members: Json) -> CloudEvent:
    """The only response to a request with a key."""
    event = an_event(kind, **members)
    event.id = f"ce-{uuid4()}"
    event.attributes["idempotencykey"].ce_string = key
    [answer] = rpcs.send(event)
    return answer


def ask_twice(rpcs: Rpcs, kind: str, key: str, **members: Json) -> Json:
    """The first payload of a request that is sent twice; the second is equal but for the ids that it repeats."""
    first, again = (ask(rpcs, kind, key, **members) for _ in range(2))
    assert "idempotencyreplayed" not in first.attributes
    assert again.attributes["idempotencyreplayed"].ce_string == "true"
    told: list[Json] = [decode(each.text_data) for each in (first, again)]
    assert told[0].pop("id") != told[1].pop("id")
    assert (told[0].pop("requestId", "a")) != told[1].pop("requestId", "b")
    assert told[0] == told[1]
    return told[0]


def test_writes_of_entities_happen_once(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    new = {"model": MODEL, "data": SAMPLE}
    created = ask_twice(rpcs, "EntityCreateRequest", "create", dataFormat="JSON", payload=new)
    [entity] = created["transactionInfo"]["entityIds"]
    payload = {"entityId": entity, "data": {"year": 5}, "transition": "GO"}
    assert ask_twice(rpcs, "EntityUpdateRequest", "update", dataFormat="JSON", payload=payload)["success"]
    assert api.state(entity) == "THERE"
    ask_twice(rpcs, "EntityDeleteRequest", "delete", entityId=entity)
    assert done(api.get("/entity/prize/1")) == []


def test_collections_happen_once(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    news = [{"model": MODEL, "data": {"year": year}} for year in range(3)]
    created = ask_twice(rpcs, "EntityCreateCollectionRequest", "create", dataFormat="JSON", payloads=news)
    ids = created["transactionInfo"]["entityIds"]
    changes = [{"entityId": id_, "data": {"year": 9}} for id_ in ids]
    updated = ask_twice(rpcs, "EntityUpdateCollectionRequest", "update", dataFormat="JSON", payloads=changes)
    assert updated["transactionInfo"]["entityIds"] == ids
    assert [len(done(api.get(f"/entity/{id_}/changes"))) for id_ in ids] == [2, 2, 2]
    deleted = ask_twice(rpcs, "EntityDeleteAllRequest", "delete", model=MODEL)
    assert deleted["numDeleted"] == 3


def test_a_collection_that_stops_in_the_middle_is_remembered(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    first, second = (api.create().id for _ in range(2))
    changes = [{"entityId": first, "data": {"year": 9}}, {"entityId": second, "data": {"year": {"wrong": 1}}}]
    refusal = ask_twice(rpcs, "EntityUpdateCollectionRequest", "k", dataFormat="JSON", payloads=changes)
    assert refusal["success"] is False
    assert refusal["error"]["message"].startswith("BAD_REQUEST: ")
    assert len(done(api.get(f"/entity/{first}/changes"))) == 2


def test_refusals_leave_the_key_and_other_requests_conflict(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    wrong = {"model": MODEL, "data": {"year": {"wrong": 1}}}
    right = {"model": MODEL, "data": SAMPLE}
    assert not decode(ask(rpcs, "EntityCreateRequest", "k", dataFormat="JSON", payload=wrong).text_data)["success"]
    assert ask_twice(rpcs, "EntityCreateRequest", "k", dataFormat="JSON", payload=right)["success"]
    other: Json = decode(ask(rpcs, "EntityCreateRequest", "k", dataFormat="JSON", payload=wrong).text_data)
    assert other["error"]["message"].startswith("IDEMPOTENCY_CONFLICT: ")
    bad: Json = decode(ask(rpcs, "EntityCreateRequest", "a b", dataFormat="JSON", payload=right).text_data)
    assert bad["error"]["message"].startswith("BAD_REQUEST: ")


def test_models_are_changed_once(api: Api, rpcs: Rpcs) -> None:
    api.import_model()
    ask_twice(rpcs, "EntityModelTransitionRequest", "lock", model=MODEL, transition="LOCK")
    ask_twice(rpcs, "EntityModelTransitionRequest", "unlock", model=MODEL, transition="UNLOCK")
    ask_twice(rpcs, "EntityModelDeleteRequest", "delete", model=MODEL)


def test_searches_stream_with_a_key_as_without(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    api.create()
    event = an_event("EntityGetAllRequest", model=MODEL)
    event.attributes["idempotencykey"].ce_string = "k"
    assert [len(rpcs.send(event)) for _ in range(2)] == [1, 1]


def test_instances_and_jobs_are_taken_once(service: RunningService, tenant: str) -> None:
    v1 = Api(service.root, a_token(tenant))
    uploaded(v1, definition("chain", step("work", "SERVICE_TASK", "end", jobType="t")))
    with engine_of(service, a_token(tenant)) as engine:

        def call_twice(method: str, key: str, **members: Any) -> Any:
            request, response = getattr(pb, f"{method}Request"), getattr(pb, f"{method}Response")
            call = engine._channel.unary_unary(f"{SERVICE}{method}", request.SerializeToString, response.FromString)
            metadata = (("authorization", f"Bearer {a_token(tenant)}"), ("idempotency-key", key))
            calls = [call.with_call(request(**members), timeout=PATIENCE_S, metadata=metadata) for _ in range(2)]
            assert calls[0][0] == calls[1][0]
            marks = [("idempotency-replayed", "true") in [*each.trailing_metadata()] for _, each in calls]
            assert marks == [False, True]
            return calls[0][0]

        started = call_twice("StartInstance", "start", definition_id="chain")
        [job] = engine("PollJobs", worker_id="w", job_types=["t"], max_jobs=10).jobs
        call_twice("CompleteJob", "complete", worker_id="w", job_id=job.id)
        found = engine("GetInstance", id=started.instance.id).instance
        assert found.completed_at.seconds > 0
        text = refused(
            engine, "FAILED_PRECONDITION", "CompleteJob", metadata=(("idempotency-key", "start"),), job_id=job.id
        )
        assert text.startswith("IDEMPOTENCY_CONFLICT: ")
