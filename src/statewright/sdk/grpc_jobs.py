"""Jobs over ``workflow.v1`` (docs/reference/steps.md#grpc, docs/reference/steps.md#public-sdks).

The numbers of its messages are doubles: integers are exact up to 2^53, decimals are rounded. The protocol has no lease
renewal.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.struct_pb2 import Struct as ProtoStruct
from google.protobuf.struct_pb2 import Value

from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.proto.workflow.v1 import engine_pb2 as pb
from statewright.proto.workflow.v1.engine_pb2_grpc import WorkflowEngineStub
from statewright.sdk.endpoint import Endpoint
from statewright.sdk.errors import TokenUnavailable
from statewright.sdk.jobs import Job, JobsRefused, JobsUnavailable, Poll
from statewright.sdk.tokens import TokenSource

RESPONSE_TIMEOUT_S: Final = 30.0
"""Limit of the wait for an answer, in addition to the time that a poll lets the engine wait for jobs."""

_MAX_EXACT: Final = 2.0**53
_REJECTION_CODES: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
_TOO_LARGE: Final = "message larger than max"
"""Of a message that the engine does not take, as gRPC says it everywhere; its code has other reasons as well."""

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


class GrpcJobs:
    """The engine at an endpoint."""

    def __init__(self, endpoint: Endpoint, tokens: TokenSource) -> None:
        self._tokens = tokens
        self._channel = endpoint.open_channel()
        self._engine = WorkflowEngineStub(self._channel)

    async def poll(self, poll: Poll) -> Sequence[Job]:
        """Claim jobs; they are leased to the worker. An engine without the metadata key for waiting answers at once."""
        asked = pb.PollJobsRequest(
            worker_id=poll.worker,
            job_types=poll.types,
            max_jobs=poll.max_jobs,
            lease_seconds=round(poll.lease.total_seconds()),
        )
        wait = poll.wait.total_seconds()
        answer = await self._call(self._engine.PollJobs, asked, ("wait-seconds", str(round(wait))), wait_s=wait)
        return [_to_job(found) for found in answer.jobs]

    async def complete(self, job: Job, worker: str, variables: bytes) -> None:
        """Report a result."""
        try:
            delta = decode(variables)
        except MalformedJson as malformed:
            raise JobsRefused(str(malformed)) from malformed
        asked = pb.CompleteJobRequest(job_id=job.id, worker_id=worker)
        if isinstance(delta, dict) and delta:
            _write_members(asked.variables_to_set, delta)
        await self._call(self._engine.CompleteJob, asked)

    async def fail(
        self, job: Job, worker: str, message: str, *, retryable: bool, rest: timedelta | None = None
    ) -> None:
        """Report a failure."""
        asked = pb.FailJobRequest(job_id=job.id, worker_id=worker, retryable=retryable, error_message=message)
        if rest is not None:
            asked.retry_after_seconds = round(rest.total_seconds())
        await self._call(self._engine.FailJob, asked)

    async def renew(self, job: Job, worker: str, lease: timedelta) -> bool:
        """False: the protocol has no such call."""
        del job, worker, lease
        return False

    async def report_progress(self, job: Job, worker: str, report: bytes) -> None:
        """None: the protocol has no such call."""
        del job, worker, report

    async def close(self) -> None:
        """End the connection."""
        await self._channel.close()

    async def _call(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[RequestT, ReplyT]",
        asked: RequestT,
        *metadata: tuple[str, str],
        wait_s: float = 0.0,
    ) -> ReplyT:
        """The reply. Raises :class:`JobsUnavailable` or :class:`JobsRefused`."""
        try:
            token = await self._tokens.get_token()
        except TokenUnavailable as error:
            raise JobsUnavailable(str(error)) from error
        identity = [("authorization", f"Bearer {token}")] if token else []
        try:
            return await method(asked, metadata=[*identity, *metadata], timeout=RESPONSE_TIMEOUT_S + wait_s)
        except grpc.aio.AioRpcError as error:
            reason = f"{error.code().name} {error.details() or ''}".strip()
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                self._tokens.invalidate()
            if error.code() in _REJECTION_CODES or _TOO_LARGE in reason:
                raise JobsRefused(reason, is_gone=error.code() is grpc.StatusCode.NOT_FOUND) from error
            raise JobsUnavailable(reason) from error


def _to_job(found: pb.Job) -> Job:
    return Job(
        id=found.id,
        type=found.job_type,
        instance_id=found.instance_id,
        step_id=found.step_id,
        step_execution_id=found.step_execution_id,
        retries_remaining=found.retries_remaining,
        lock_expires_at=(found.lock_expires_at.ToDatetime(tzinfo=UTC) if found.HasField("lock_expires_at") else None),
        variables=_to_object(found.variables),
    )


def _to_object(struct: ProtoStruct) -> JsonObject:
    return {name: _to_json_value(value) for name, value in struct.fields.items()}


def _to_json_value(value: Value) -> JsonValue:
    match value.WhichOneof("kind"):
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() and abs(number) <= _MAX_EXACT else Decimal(repr(number))
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return _to_object(value.struct_value)
        case "list_value":
            return [_to_json_value(item) for item in value.list_value.values]
        case _:
            return None


def _write_members(struct: ProtoStruct, members: Mapping[str, JsonValue]) -> None:
    for name, member in members.items():
        _write_value(struct.fields[name], member)


def _write_value(target: Value, value: JsonValue) -> None:
    match value:
        case None:
            target.null_value = 0  # type: ignore[assignment]  # the only value of its enum
        case bool():
            target.bool_value = value
        case int() | Decimal():
            target.number_value = float(value)
        case str():
            target.string_value = value
        case list():
            target.list_value.SetInParent()
            for item in value:
                _write_value(target.list_value.values.add(), item)
        case dict():
            target.struct_value.SetInParent()
            _write_members(target.struct_value, value)
