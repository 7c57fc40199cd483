"""What the service publishes of its own interface (docs/reference/grpc.md#service, docs/reference/service.md#help)."""

import json
import re
from pathlib import Path
from urllib.parse import urljoin

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from jsonschema import Draft202012Validator

from tests.builders import Json
from tests.integration.grpc_rpcs import published
from tests.integration.grpc_rpcs.conversation import KINDS
from tests.service import Api, RunningService, done

SOURCES = Path(__file__).resolve().parents[3] / "proto"


@pytest.fixture(scope="module")
def anonymous(service: RunningService) -> Api:
    return service.anonymous()


@pytest.fixture(scope="module")
def described(anonymous: Api) -> Json:
    return done(anonymous.get("/help/cloudevents/json"))


def test_the_sources_are_handed_out_as_they_are(anonymous: Api) -> None:
    response = anonymous.get("/help/grpc/proto")
    assert (response.status_code, response.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    for name in ("cloudevents.proto", "cyoda-cloud-api.proto", "workflow/v1/engine.proto"):
        assert (SOURCES / name).read_text() in response.text


def test_a_client_can_be_made_from_the_descriptors_alone(anonymous: Api) -> None:
    response = anonymous.get("/help/grpc/json")
    assert response.headers["content-type"] == "application/json"
    described = json_format.Parse(response.text, FileDescriptorSet())
    pool = DescriptorPool()
    for file in described.file:
        pool.Add(file)
    service = pool.FindServiceByName("org.cyoda.cloud.api.grpc.CloudEventsService")
    assert {(method.name, method.client_streaming, method.server_streaming) for method in service.methods} == {
        ("startStreaming", True, True),
        ("entityModelManage", False, False),
        ("entityManage", False, False),
        ("entityManageCollection", False, True),
        ("entitySearch", False, False),
        ("entitySearchCollection", False, True),
    }
    steps = pool.FindServiceByName("workflow.v1.WorkflowEngine")
    assert {"UploadDefinition", "StartInstance", "PollJobs", "CompleteJob"} <= {method.name for method in steps.methods}
    assert "attributes" in pool.FindMessageTypeByName("io.cloudevents.v1.CloudEvent").fields_by_name


def test_every_event_type_has_a_schema(described: Json) -> None:
    assert (described["schema"], described["baseId"]) == (1, "https://cyoda.com/cloud/event/")
    assert described["specVersion"] == "https://json-schema.org/draft/2020-12/schema"
    paths = list(described["schemas"])
    assert paths == sorted(paths)
    assert set(KINDS) <= {path.rpartition("/")[2].removesuffix(".json") for path in paths}
    for path, schema in described["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert schema["$id"] == f"https://cyoda.com/cloud/event/{path}"


def test_the_parts_that_schemas_share_are_published_too(described: Json) -> None:
    schemas = described["schemas"]
    assert {
        "common/BaseEvent.json",
        "common/statemachine/WorkflowInfo.json",
        "search/SearchSnapshotStatus.json",
    } <= set(schemas)
    assert len(schemas) >= len(KINDS) + 19
    for path, schema in schemas.items():
        for reference in re.findall(r'"\$ref": "([^"#]+)', json.dumps(schema)):
            assert urljoin(path, reference) in schemas, f"{path} -> {reference}"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_sent_is_as_described_and_nothing_else(heard: dict[str, list[Json]], kind: str) -> None:
    for payload in heard[kind]:
        assert published.faults(kind, payload) == []


@pytest.mark.parametrize("page", ["/help/grpc/proto", "/help/grpc/json", "/help/cloudevents/json"])
def test_descriptions_can_only_be_read(anonymous: Api, page: str) -> None:
    assert anonymous.post(page).status_code == 405
