"""``ROLE_READ_ONLY`` takes every change away, at every interface (docs/reference/authentication.md#roles)."""

import re
from urllib.parse import urljoin

import grpc
import pytest

from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.builders import SAMPLE, Json
from tests.integration.grpc_rpcs.client import NEW, SERVICE, Rpcs, channel
from tests.integration.steps_grpc.engine import engine_of, refused
from tests.service import PATIENCE_S, Api, RunningService, a_token, done

ROLES = ["ROLE_ADMIN", "ROLE_M2M", "ROLE_OPERATOR", "ROLE_READ_ONLY"]
UNKNOWN = "00000000-0000-1000-8000-000000000000"
READS = {
    "/model/validate/{entityName}/{modelVersion}",
    "/entity/stats/{entityName}/{modelVersion}/query",
    "/search/direct/{entityName}/{modelVersion}",
    "/search/async/{entityName}/{modelVersion}",
    "/search/snapshot/{entityName}/{modelVersion}",
    "/search/{entityName}/{modelVersion}",
    "/ops/v1/models/{entityName}/{modelVersion}/entities/search",
    "/ops/v1/models/{entityName}/{modelVersion}/entities/count",
    "/ops/v1/models/{entityName}/{modelVersion}/workflow/check",
    "/ops/v1/models/{entityName}/{modelVersion}/workflow/simulate",
    "/v1/flows/validate",
    "/v1/playbooks/validate",
}
"""What is sent with ``POST`` and changes nothing."""
PUBLIC = {"/oauth/token"}
ALL = {"type": "group", "operator": "AND", "conditions": []}


@pytest.fixture
def reader(service: RunningService, tenant: str) -> Api:
    """The API as somebody sees it who has every role, and may only read."""
    return service.api(tenant, "reader", user_roles=ROLES)


def list_changes(document: Json) -> list[tuple[str, str, str]]:
    """Method, pattern and URL of every operation that may change something, below the root of the service."""
    return [
        (method.upper(), path, urljoin(f"{operation.get('servers', [{'url': '/api'}])[0]['url']}/", fill(path)))
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in {"post", "put", "patch", "delete"}
    ]


def fill(path: str) -> str:
    """A path with something that binds in place of every parameter, relative."""
    numbers = path.replace("{modelVersion}", "1").replace("{format}", "JSON")
    return re.sub(r"\{\w+\}", UNKNOWN, numbers).lstrip("/")


def test_every_operation_that_may_change_something_is_refused(service: RunningService, reader: Api):
    document = done(Api(service.root).get("/openapi.json"))
    root = Api(service.root, reader.token)
    answers = {(method, path): root.request(method, url) for method, path, url in list_changes(document)}
    allowed = {path for (_, path), answer in answers.items() if "READ_ONLY" not in answer.text}
    assert allowed == READS | PUBLIC
    assert {answer.status_code for (_, path), answer in answers.items() if path not in allowed} == {403}
    assert len(answers) > 80


def test_a_change_is_refused_whatever_its_key_and_stored_under_none(service: RunningService, api: Api, reader: Api):
    api.a_model()
    key = {"Idempotency_Key": "k-1"}
    assert reader.post("/entity/JSON/prize/1", SAMPLE, **key).status_code == 403
    assert api.post("/entity/JSON/prize/1", SAMPLE, **key).status_code == 200
    assert done(reader.get("/entity/stats/prize/1"))["count"] == 1


def test_requests_over_grpc_that_change_something_are_refused(service: RunningService, api: Api, tenant: str):
    api.a_model()
    rpcs = Rpcs(service.grpc, a_token(tenant, "reader", user_roles=ROLES))
    rpcs.refused("EntityCreateRequest", "READ_ONLY", dataFormat="JSON", payload=NEW)
    rpcs.refused("EntityModelDeleteRequest", "READ_ONLY", model={"name": "prize", "version": 1})
    rpcs.refused("EntityCreateCollectionRequest", "READ_ONLY", dataFormat="JSON", payloads=[NEW])
    assert len(rpcs.done("EntityModelGetAllRequest")["models"]) == 1
    begun = rpcs.done("EntitySnapshotSearchRequest", model={"name": "prize", "version": 1}, condition=ALL)
    rpcs.refused("SnapshotCancelRequest", "READ_ONLY", snapshotId=begun["status"]["snapshotId"])


def test_a_stream_of_a_member_is_refused(service: RunningService, tenant: str):
    call = channel(service.grpc).stream_stream(
        f"{SERVICE}startStreaming", CloudEvent.SerializeToString, CloudEvent.FromString
    )
    metadata = (("authorization", f"Bearer {a_token(tenant, 'reader', user_roles=ROLES)}"),)
    with pytest.raises(grpc.RpcError) as caught:
        next(call(iter(()), metadata=metadata, timeout=PATIENCE_S))
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED  # type: ignore[attr-defined]  # a call, too


def test_steps_are_read_and_not_worked_on(service: RunningService, tenant: str):
    with engine_of(service, a_token(tenant, "reader", user_roles=ROLES)) as engine:
        for method in ("PollJobs", "UploadDefinition", "StartInstance", "CancelInstance", "ExtendJobLease"):
            assert "ROLE_READ_ONLY" in refused(engine, "PERMISSION_DENIED", method)
        assert not engine("ListDefinitions").definitions
