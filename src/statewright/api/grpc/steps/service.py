"""The methods of ``workflow.v1.WorkflowEngine`` (spec/step-engine.md §12.1, §12.3).

``PollJobs`` waits for a job when the metadata ``wait-seconds`` asks for it: ours, and like ``waitSeconds`` of the REST
dialect. The message itself stays as the public engine has it.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from time import perf_counter
from typing import Final, TypeVar

import grpc.aio
from google.protobuf.struct_pb2 import Struct
from grpc import StatusCode

from statewright.api.grpc.authentication import authenticated, first_value
from statewright.api.grpc.steps.messages import (
    definition_message,
    execution_message,
    instance_message,
    job_message,
    read_definition,
    status_filter,
    summary_message,
)
from statewright.api.grpc.steps.refusals import defect, refusal
from statewright.api.grpc.steps.values import json_object, timestamp
from statewright.auth import Authenticator
from statewright.failures import Failure, StepBadRequest
from statewright.jsonval.values import JsonObject
from statewright.proto.workflow.v1 import engine_pb2 as pb
from statewright.proto.workflow.v1.engine_pb2_grpc import WorkflowEngineServicer
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import definitions, instances, jobs, tasks
from statewright.services.steps.instances import Start
from statewright.services.steps.jobs import LONGEST_WAIT, Claim
from statewright.steps.core import FailureReport
from statewright.steps.core.jobs import batch_size, lease_seconds

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

Observe = Callable[[str, str, float], None]
"""Is told method, code and seconds of every call."""

DEFAULT_BATCH: Final = 1
"""``max_jobs`` when a worker does not say (§12.3)."""
WAIT_SECONDS: Final = "wait-seconds"
"""The metadata that asks a poll to wait."""
ANSWER_TIME: Final = timedelta(milliseconds=250)
"""What a poll that waits leaves of its deadline for the answer to travel."""


class WorkflowEngine(WorkflowEngineServicer):
    """The service as its callers see it."""

    def __init__(self, runtime: Runtime, authenticator: Authenticator, observe: Observe) -> None:
        self._runtime = runtime
        self._authenticator = authenticator
        self._observe = observe

    async def UploadDefinition(  # noqa: N802
        self,
        request: pb.UploadDefinitionRequest,
        context: grpc.aio.ServicerContext[pb.UploadDefinitionRequest, pb.UploadDefinitionResponse],
        /,
    ) -> pb.UploadDefinitionResponse:
        async def work(caller: Caller) -> pb.UploadDefinitionResponse:
            if not request.HasField("definition"):
                raise StepBadRequest("definition is required")
            stored = await definitions.upload(self._runtime, caller, read_definition(request.definition))
            return pb.UploadDefinitionResponse(
                id=stored.id, version=stored.version, uploaded_at=timestamp(stored.uploaded_at)
            )

        return await self._answer("UploadDefinition", context, work)

    async def GetDefinition(  # noqa: N802
        self,
        request: pb.GetDefinitionRequest,
        context: grpc.aio.ServicerContext[pb.GetDefinitionRequest, pb.GetDefinitionResponse],
        /,
    ) -> pb.GetDefinitionResponse:
        async def work(caller: Caller) -> pb.GetDefinitionResponse:
            found = await definitions.published(self._runtime, caller, request.id, request.version)
            return pb.GetDefinitionResponse(definition=definition_message(found.definition, found.version))

        return await self._answer("GetDefinition", context, work)

    async def ListDefinitions(  # noqa: N802
        self,
        request: pb.ListDefinitionsRequest,
        context: grpc.aio.ServicerContext[pb.ListDefinitionsRequest, pb.ListDefinitionsResponse],
        /,
    ) -> pb.ListDefinitionsResponse:
        async def work(caller: Caller) -> pb.ListDefinitionsResponse:
            found = await definitions.listing(
                self._runtime, caller, keyword=request.keyword, page=request.page, page_size=request.page_size
            )
            return pb.ListDefinitionsResponse(definitions=map(summary_message, found.items), total=found.total)

        return await self._answer("ListDefinitions", context, work)

    async def StartInstance(  # noqa: N802
        self,
        request: pb.StartInstanceRequest,
        context: grpc.aio.ServicerContext[pb.StartInstanceRequest, pb.StartInstanceResponse],
        /,
    ) -> pb.StartInstanceResponse:
        async def work(caller: Caller) -> pb.StartInstanceResponse:
            start = Start(
                definition_id=request.definition_id,
                definition_version=request.definition_version,
                variables=json_object(request.variables),
                business_key=request.business_key,
            )
            if not start.definition_id:
                raise StepBadRequest("definitionId is required")
            return pb.StartInstanceResponse(
                instance=instance_message(await instances.start(self._runtime, caller, start))
            )

        return await self._answer("StartInstance", context, work)

    async def GetInstance(  # noqa: N802
        self,
        request: pb.GetInstanceRequest,
        context: grpc.aio.ServicerContext[pb.GetInstanceRequest, pb.GetInstanceResponse],
        /,
    ) -> pb.GetInstanceResponse:
        async def work(caller: Caller) -> pb.GetInstanceResponse:
            found = await instances.instance(self._runtime, caller, request.id)
            return pb.GetInstanceResponse(instance=instance_message(found))

        return await self._answer("GetInstance", context, work)

    async def GetInstanceHistory(  # noqa: N802
        self,
        request: pb.GetInstanceHistoryRequest,
        context: grpc.aio.ServicerContext[pb.GetInstanceHistoryRequest, pb.GetInstanceHistoryResponse],
        /,
    ) -> pb.GetInstanceHistoryResponse:
        async def work(caller: Caller) -> pb.GetInstanceHistoryResponse:
            lines = await instances.history(self._runtime, caller, request.id)
            return pb.GetInstanceHistoryResponse(executions=map(execution_message, lines))

        return await self._answer("GetInstanceHistory", context, work)

    async def CancelInstance(  # noqa: N802
        self,
        request: pb.CancelInstanceRequest,
        context: grpc.aio.ServicerContext[pb.CancelInstanceRequest, pb.CancelInstanceResponse],
        /,
    ) -> pb.CancelInstanceResponse:
        async def work(caller: Caller) -> pb.CancelInstanceResponse:
            cancelled = await instances.cancel(self._runtime, caller, request.id, request.reason)
            return pb.CancelInstanceResponse(instance=instance_message(cancelled))

        return await self._answer("CancelInstance", context, work)

    async def ListInstances(  # noqa: N802
        self,
        request: pb.ListInstancesRequest,
        context: grpc.aio.ServicerContext[pb.ListInstancesRequest, pb.ListInstancesResponse],
        /,
    ) -> pb.ListInstancesResponse:
        async def work(caller: Caller) -> pb.ListInstancesResponse:
            found = await instances.listing(
                self._runtime,
                caller,
                definition_id=request.definition_id,
                status=status_filter(request.status),
                business_key=request.business_key,
                page=request.page,
                page_size=request.page_size,
            )
            return pb.ListInstancesResponse(instances=map(instance_message, found.items), total=found.total)

        return await self._answer("ListInstances", context, work)

    async def PollJobs(  # noqa: N802
        self,
        request: pb.PollJobsRequest,
        context: grpc.aio.ServicerContext[pb.PollJobsRequest, pb.PollJobsResponse],
        /,
    ) -> pb.PollJobsResponse:
        async def work(caller: Caller) -> pb.PollJobsResponse:
            if not request.job_types:
                return pb.PollJobsResponse()
            claim = Claim(
                worker_id=request.worker_id,
                job_types=tuple(request.job_types),
                max_jobs=batch_size(request.max_jobs, DEFAULT_BATCH),
                lease=timedelta(seconds=lease_seconds(request.lease_seconds)),
                wait=_wait(context),
            )
            return pb.PollJobsResponse(jobs=map(job_message, await jobs.claim(self._runtime, caller, claim)))

        return await self._answer("PollJobs", context, work)

    async def CompleteJob(  # noqa: N802
        self,
        request: pb.CompleteJobRequest,
        context: grpc.aio.ServicerContext[pb.CompleteJobRequest, pb.CompleteJobResponse],
        /,
    ) -> pb.CompleteJobResponse:
        async def work(caller: Caller) -> pb.CompleteJobResponse:
            result = json_object(request.variables_to_set)
            await jobs.complete(self._runtime, caller, request.job_id, result, worker_id=request.worker_id)
            return pb.CompleteJobResponse()

        return await self._answer("CompleteJob", context, work)

    async def FailJob(  # noqa: N802
        self,
        request: pb.FailJobRequest,
        context: grpc.aio.ServicerContext[pb.FailJobRequest, pb.FailJobResponse],
        /,
    ) -> pb.FailJobResponse:
        async def work(caller: Caller) -> pb.FailJobResponse:
            report = FailureReport(
                worker_id=request.worker_id, message=request.error_message, retryable=request.retryable
            )
            await jobs.fail(self._runtime, caller, request.job_id, report)
            return pb.FailJobResponse()

        return await self._answer("FailJob", context, work)

    async def CompleteUserTask(  # noqa: N802
        self,
        request: pb.CompleteUserTaskRequest,
        context: grpc.aio.ServicerContext[pb.CompleteUserTaskRequest, pb.CompleteUserTaskResponse],
        /,
    ) -> pb.CompleteUserTaskResponse:
        async def work(caller: Caller) -> pb.CompleteUserTaskResponse:
            if not request.instance_id or not request.user_task_step_id:
                raise StepBadRequest("instance_id and user_task_step_id are required")
            await tasks.complete(
                self._runtime,
                caller,
                request.instance_id,
                request.user_task_step_id,
                json_object(request.result),
                completed_by=request.completed_by,
            )
            return pb.CompleteUserTaskResponse()

        return await self._answer("CompleteUserTask", context, work)

    async def SignalWait(  # noqa: N802
        self,
        request: pb.SignalWaitRequest,
        context: grpc.aio.ServicerContext[pb.SignalWaitRequest, pb.SignalWaitResponse],
        /,
    ) -> pb.SignalWaitResponse:
        async def work(caller: Caller) -> pb.SignalWaitResponse:
            if not request.instance_id or not request.wait_step_id:
                raise StepBadRequest("instance_id and wait_step_id are required")
            variables = json_object(request.variables)
            await instances.signal(self._runtime, caller, request.instance_id, request.wait_step_id, variables)
            return pb.SignalWaitResponse()

        return await self._answer("SignalWait", context, work)

    async def RetryStep(  # noqa: N802
        self,
        request: pb.RetryStepRequest,
        context: grpc.aio.ServicerContext[pb.RetryStepRequest, pb.RetryStepResponse],
        /,
    ) -> pb.RetryStepResponse:
        async def work(caller: Caller) -> pb.RetryStepResponse:
            variables = _given(request.variables)
            retried = await instances.retry(self._runtime, caller, request.instance_id, request.step_id, variables)
            return pb.RetryStepResponse(instance=instance_message(retried))

        return await self._answer("RetryStep", context, work)

    async def _answer(
        self,
        method: str,
        context: grpc.aio.ServicerContext[RequestT, ReplyT],
        work: Callable[[Caller], Awaitable[ReplyT]],
    ) -> ReplyT:
        """What the work comes to; a failure ends the call with its status."""
        begun, code = perf_counter(), StatusCode.UNAUTHENTICATED
        try:
            caller = Caller(await authenticated(context, self._authenticator))
            code = StatusCode.CANCELLED
            try:
                answer = await work(caller)
            except Failure as failure:
                code, message = refusal(failure, method)
            except Exception as error:  # the door: whatever went wrong, the client gets an answer without details
                code, message = defect(error, method)
            else:
                code = StatusCode.OK
                return answer
            await context.abort(code, message)
        finally:
            self._observe(method, code.name, perf_counter() - begun)


def _given(variables: Struct) -> "JsonObject | None":
    return json_object(variables) or None


def _wait(context: grpc.aio.ServicerContext[pb.PollJobsRequest, pb.PollJobsResponse]) -> timedelta:
    """How long a poll may wait: as it asks, but an answer has to get back before its deadline."""
    asked = first_value(context, WAIT_SECONDS) or ""
    if not asked.isascii() or not asked.isdecimal() or len(asked) > 6:
        return timedelta(0)
    wait, remaining = min(timedelta(seconds=int(asked)), LONGEST_WAIT), context.time_remaining()
    return wait if remaining is None else max(timedelta(0), min(wait, timedelta(seconds=remaining) - ANSWER_TIME))
