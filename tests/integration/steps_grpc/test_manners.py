"""``workflow.v1`` beside the other service: on one port, found by reflection, for those who are known."""

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from statewright.proto.workflow.v1 import engine_pb2 as pb
from statewright.sdk.endpoint import Tls, parse_endpoint
from statewright.sdk.grpc_jobs import GrpcJobs
from statewright.sdk.jobs import Job, JobsRefused
from statewright.sdk.tokens import make_token_source
from tests.integration.steps_grpc.engine import Engine, engine_of, refused
from tests.service import PATIENCE_S, RunningService, a_token

METHODS = [method.name for method in pb.DESCRIPTOR.services_by_name["WorkflowEngine"].methods]


@pytest.mark.parametrize("method", METHODS)
def test_nobody_is_served_without_credentials(service: RunningService, method: str) -> None:
    for token in (None, "no token"):
        with engine_of(service, token) as engine:
            assert refused(engine, "UNAUTHENTICATED", method) == "authentication failed"


@pytest.mark.parametrize(
    ("method", "members", "message"),
    [
        ("UploadDefinition", {}, "definition is required"),
        ("StartInstance", {}, "definitionId is required"),
        ("CompleteUserTask", {"instance_id": "x"}, "instance_id and user_task_step_id are required"),
        ("CompleteUserTask", {"user_task_step_id": "x"}, "instance_id and user_task_step_id are required"),
        ("SignalWait", {}, "instance_id and wait_step_id are required"),
    ],
)
def test_what_is_missing_is_named(engine: Engine, method: str, members: dict[str, str], message: str) -> None:
    assert refused(engine, "INVALID_ARGUMENT", method, **members) == message


def test_a_poll_for_no_types_finds_no_jobs(engine: Engine) -> None:
    assert list(engine("PollJobs", worker_id="w").jobs) == []


def test_the_service_is_healthy_and_describes_itself(service: RunningService) -> None:
    with grpc.insecure_channel(service.grpc) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        asked = health_pb2.HealthCheckRequest(service="workflow.v1.WorkflowEngine")
        assert check(asked, timeout=PATIENCE_S).status == health_pb2.HealthCheckResponse.SERVING
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        wanted = reflection_pb2.ServerReflectionRequest(file_containing_symbol="workflow.v1.WorkflowEngine")
        [answer] = reflection.ServerReflectionInfo(iter([wanted]), timeout=PATIENCE_S)
        files = [FileDescriptorProto.FromString(raw) for raw in answer.file_descriptor_response.file_descriptor_proto]
        assert "workflow/v1/engine.proto" in [file.name for file in files]
        pool = DescriptorPool()
        for file in reversed(files):
            pool.Add(file)


def texts_of(method: str) -> list[str]:
    """The members of a request that are texts."""
    fields = getattr(pb, f"{method}Request").DESCRIPTOR.fields
    return [field.name for field in fields if field.type == field.TYPE_STRING]


@pytest.mark.parametrize(("method", "member"), [(method, text) for method in METHODS for text in texts_of(method)])
def test_no_text_has_a_nul_character(engine: Engine, method: str, member: str) -> None:
    repeated = member == "job_types"
    message = refused(engine, "INVALID_ARGUMENT", method, **{member: ["a\0b"] if repeated else "a\0b"})
    assert message.endswith("contains a NUL character")


@pytest.mark.parametrize("member", ["id", "name"])
def test_no_text_of_a_definition_has_a_nul_character(engine: Engine, member: str) -> None:
    texts = {"id": "nul", "name": "nul"} | {member: "a\0b"}
    end = pb.WorkflowStep(id="end", type=pb.STEP_TYPE_END)
    refused(engine, "INVALID_ARGUMENT", "UploadDefinition", definition=pb.WorkflowDefinition(**texts, steps=[end]))


async def test_the_sdk_is_refused_a_result_that_is_too_large(service: RunningService, tenant: str) -> None:
    """Another attempt, for which it would wait with what is only unavailable, would be no better."""
    jobs = GrpcJobs(parse_endpoint(f"http://{service.grpc}", Tls()), make_token_source(a_token(tenant)))
    try:
        with pytest.raises(JobsRefused, match=r"RESOURCE_EXHAUSTED .*message larger than max"):
            await jobs.complete(Job(id="j-1", type="t", instance_id="i-1"), "w", b'{"text": "%b"}' % (5_000_000 * b"x"))
    finally:
        await jobs.close()
