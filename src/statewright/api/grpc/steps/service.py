"""The methods of ``workflow.v1.WorkflowEngineService`` (docs/reference/steps.md#methods,
docs/reference/steps.md#differences-from-rest).

``PollJobs`` waits for a job when the metadata has ``wait-seconds``, an extension like ``waitSeconds`` of the REST
dialect. The message itself stays as the public engine has it.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Final, TypeVar

import grpc.aio
from google.protobuf.message import Message
from grpc import StatusCode

from statewright.api.grpc.calls import (
    authenticate_call,
    begin_call_span,
    get_first_value,
    to_internal_status,
    to_status,
)
from statewright.api.grpc.idempotency import KEY_METADATA, REPLAYED_METADATA, hash_message, require_key
from statewright.api.grpc.steps.messages import (
    NO_FAILURES,
    ResponseTooLarge,
    answer_with,
    answer_with_instance,
    decode_message,
    definition_message,
    encode_message,
    execution_message,
    fill_job,
    read_definition,
    read_object,
    read_status_filter,
    refuse_nul,
    require_size,
    run_by_variables,
    summary_message,
    to_timestamp,
    write_instance,
)
from statewright.auth import Authenticator
from statewright.failures import Failure, ProcessBadRequest, ReadOnly
from statewright.jsonval.values import JsonObject
from statewright.operations.idempotency import StoredAnswer
from statewright.processes.changes import MAX_RETRY_AFTER_S, FailureReport
from statewright.proto.workflow.v1 import engine_pb2 as pb
from statewright.proto.workflow.v1.engine_pb2_grpc import WorkflowEngineServicer
from statewright.services.core import Caller
from statewright.services.idempotency.execution import execute_for
from statewright.services.processes import dialects, failed_jobs, jobs
from statewright.services.processes import instances as hosted
from statewright.services.processes.hosting import find_shared_queue
from statewright.services.processes.instances import StartRequest
from statewright.services.processes.jobs import MAX_WAIT, JobClaim, clamp_batch_size, clamp_lease_s
from statewright.services.runtime import Runtime
from statewright.services.steps import definitions, find_steps, instances
from statewright.services.steps.definitions import UploadResult
from statewright.services.steps.dialect import STEP_DIALECT
from statewright.steps import Instance
from statewright.telemetry.tracing import Span, get_error_code

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

Observe = Callable[[str, str, float], None]
"""Called with method, code and duration in seconds of every call."""

DEFAULT_BATCH: Final = 1
"""``max_jobs`` when a worker does not say (docs/reference/steps.md#differences-from-rest)."""
WAIT_METADATA_KEY: Final = "wait-seconds"
"""The metadata that asks a poll to wait."""
RESPONSE_MARGIN_S: Final = 0.25
"""Time before the deadline of a poll at which it answers, so that the response arrives in time."""

READS: Final = frozenset({"GetDefinition", "ListDefinitions", "GetInstance", "GetInstanceHistory", "ListInstances"})
"""The methods that change nothing."""


class WorkflowEngineService(WorkflowEngineServicer):
    """The service: messages to use cases and back, failures to statuses."""

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
                raise ProcessBadRequest("definition is required")
            caller = answer_with(caller, respond)
            return respond(
                await definitions.upload(self._runtime.processes, caller, read_definition(request.definition))
            )

        def respond(stored: UploadResult) -> pb.UploadDefinitionResponse:
            return pb.UploadDefinitionResponse(
                id=stored.id, version=stored.version, uploaded_at=to_timestamp(stored.uploaded_at)
            )

        return await self._run("UploadDefinition", request, context, work, records=pb.UploadDefinitionResponse)

    async def GetDefinition(  # noqa: N802
        self,
        request: pb.GetDefinitionRequest,
        context: grpc.aio.ServicerContext[pb.GetDefinitionRequest, pb.GetDefinitionResponse],
        /,
    ) -> pb.GetDefinitionResponse:
        async def work(caller: Caller) -> pb.GetDefinitionResponse:
            found = await dialects.get_version(
                STEP_DIALECT, self._runtime.processes, caller, request.id, request.version
            )
            return pb.GetDefinitionResponse(definition=definition_message(found.process.definition, found.version))

        return await self._run("GetDefinition", request, context, work)

    async def ListDefinitions(  # noqa: N802
        self,
        request: pb.ListDefinitionsRequest,
        context: grpc.aio.ServicerContext[pb.ListDefinitionsRequest, pb.ListDefinitionsResponse],
        /,
    ) -> pb.ListDefinitionsResponse:
        async def work(caller: Caller) -> pb.ListDefinitionsResponse:
            found = await dialects.list_definitions(
                STEP_DIALECT,
                self._runtime.processes,
                caller,
                keyword=request.keyword,
                page=request.page,
                page_size=request.page_size,
            )
            return pb.ListDefinitionsResponse(definitions=map(summary_message, found.items), total=found.total)

        return await self._run("ListDefinitions", request, context, work)

    async def StartInstance(  # noqa: N802
        self,
        request: pb.StartInstanceRequest,
        context: grpc.aio.ServicerContext[pb.StartInstanceRequest, pb.StartInstanceResponse],
        /,
    ) -> pb.StartInstanceResponse:
        async def work(caller: Caller) -> pb.StartInstanceResponse:
            start = StartRequest(
                definition_id=request.definition_id,
                definition_version=request.definition_version,
                variables=await read_object(request.variables),
                business_key=request.business_key,
            )
            if not start.definition_id:
                raise ProcessBadRequest("definitionId is required")
            caller = answer_with_instance(caller, respond)
            return await respond(await hosted.start(find_steps(self._runtime.processes), caller, start))

        async def respond(instance: Instance) -> pb.StartInstanceResponse:
            response = pb.StartInstanceResponse()
            await write_instance(response.instance, instance)
            return response

        return await self._run("StartInstance", request, context, work, records=pb.StartInstanceResponse)

    async def GetInstance(  # noqa: N802
        self,
        request: pb.GetInstanceRequest,
        context: grpc.aio.ServicerContext[pb.GetInstanceRequest, pb.GetInstanceResponse],
        /,
    ) -> pb.GetInstanceResponse:
        async def work(caller: Caller) -> pb.GetInstanceResponse:
            found = await dialects.get_instance(STEP_DIALECT, self._runtime.processes, caller, request.id)
            response = pb.GetInstanceResponse()
            await write_instance(response.instance, found)
            return response

        return await self._run("GetInstance", request, context, work)

    async def GetInstanceHistory(  # noqa: N802
        self,
        request: pb.GetInstanceHistoryRequest,
        context: grpc.aio.ServicerContext[pb.GetInstanceHistoryRequest, pb.GetInstanceHistoryResponse],
        /,
    ) -> pb.GetInstanceHistoryResponse:
        async def work(caller: Caller) -> pb.GetInstanceHistoryResponse:
            found = await instances.stream_history(self._runtime.processes, caller, request.id)
            response = pb.GetInstanceHistoryResponse()
            async for lines in found.portions:
                response.executions.extend(execution_message(line, found.process) for line in lines)
                require_size(response.ByteSize(), "the history", "GET /v1/instances/{id}/history streams it")
            return response

        return await self._run("GetInstanceHistory", request, context, work)

    async def CancelInstance(  # noqa: N802
        self,
        request: pb.CancelInstanceRequest,
        context: grpc.aio.ServicerContext[pb.CancelInstanceRequest, pb.CancelInstanceResponse],
        /,
    ) -> pb.CancelInstanceResponse:
        async def work(caller: Caller) -> pb.CancelInstanceResponse:
            caller = answer_with_instance(caller, respond)
            return await respond(await self._ask(caller, request.id, "cancel", {"reason": request.reason}))

        async def respond(instance: Instance) -> pb.CancelInstanceResponse:
            response = pb.CancelInstanceResponse()
            await write_instance(response.instance, instance)
            return response

        return await self._run("CancelInstance", request, context, work, records=pb.CancelInstanceResponse)

    async def ListInstances(  # noqa: N802
        self,
        request: pb.ListInstancesRequest,
        context: grpc.aio.ServicerContext[pb.ListInstancesRequest, pb.ListInstancesResponse],
        /,
    ) -> pb.ListInstancesResponse:
        async def work(caller: Caller) -> pb.ListInstancesResponse:
            found = await instances.stream_instances(
                self._runtime.processes,
                caller,
                definition_id=request.definition_id,
                status=read_status_filter(request.status),
                business_key=request.business_key,
                page=request.page,
                page_size=request.page_size,
            )
            response, size = pb.ListInstancesResponse(total=found.total), 0
            async for portion in found.portions:
                for instance in portion:
                    await write_instance(added := response.instances.add(), instance)
                    size += added.ByteSize()
                    if len(response.instances) > 1:
                        require_size(size, "the page", f"page_size was {found.page_size}, ask for fewer")
            return response

        return await self._run("ListInstances", request, context, work)

    async def PollJobs(  # noqa: N802
        self,
        request: pb.PollJobsRequest,
        context: grpc.aio.ServicerContext[pb.PollJobsRequest, pb.PollJobsResponse],
        /,
    ) -> pb.PollJobsResponse:
        async def work(caller: Caller) -> pb.PollJobsResponse:
            if not request.job_types:
                return pb.PollJobsResponse()
            claim = JobClaim(
                worker_id=request.worker_id,
                job_types=tuple(request.job_types),
                max_jobs=clamp_batch_size(request.max_jobs, DEFAULT_BATCH),
                lease=timedelta(seconds=clamp_lease_s(request.lease_seconds)),
                wait=_read_wait(context),
            )
            response = pb.PollJobsResponse()
            for job in await jobs.claim(find_shared_queue(self._runtime.processes), caller, claim):
                write = partial(fill_job, response.jobs.add(), job)
                await run_by_variables(job.variables, write)
            return response

        return await self._run("PollJobs", request, context, work)

    async def CompleteJob(  # noqa: N802
        self,
        request: pb.CompleteJobRequest,
        context: grpc.aio.ServicerContext[pb.CompleteJobRequest, pb.CompleteJobResponse],
        /,
    ) -> pb.CompleteJobResponse:
        async def work(caller: Caller) -> pb.CompleteJobResponse:
            caller = answer_with(caller, lambda _: pb.CompleteJobResponse())
            result = await read_object(request.variables_to_set)
            await jobs.complete(
                find_shared_queue(self._runtime.processes), caller, request.job_id, result, worker_id=request.worker_id
            )
            return pb.CompleteJobResponse()

        return await self._run("CompleteJob", request, context, work, records=pb.CompleteJobResponse)

    async def ExtendJobLease(  # noqa: N802
        self,
        request: pb.ExtendJobLeaseRequest,
        context: grpc.aio.ServicerContext[pb.ExtendJobLeaseRequest, pb.ExtendJobLeaseResponse],
        /,
    ) -> pb.ExtendJobLeaseResponse:
        async def work(caller: Caller) -> pb.ExtendJobLeaseResponse:
            lease = timedelta(seconds=clamp_lease_s(request.lease_seconds))
            until = await jobs.renew(
                find_shared_queue(self._runtime.processes),
                caller,
                request.job_id,
                worker_id=request.worker_id,
                lease=lease,
            )
            return pb.ExtendJobLeaseResponse(accepted=True, lock_expires_at=to_timestamp(until))

        return await self._run("ExtendJobLease", request, context, work)

    async def FailJob(  # noqa: N802
        self,
        request: pb.FailJobRequest,
        context: grpc.aio.ServicerContext[pb.FailJobRequest, pb.FailJobResponse],
        /,
    ) -> pb.FailJobResponse:
        async def work(caller: Caller) -> pb.FailJobResponse:
            caller = answer_with(caller, lambda _: pb.FailJobResponse())
            rest_s = request.retry_after_seconds if request.HasField("retry_after_seconds") else None
            if rest_s is not None and not 0 <= rest_s <= MAX_RETRY_AFTER_S:
                raise ProcessBadRequest(f"retry_after_seconds must be from 0 to {MAX_RETRY_AFTER_S}")
            report = FailureReport(
                worker_id=request.worker_id,
                message=request.error_message,
                retryable=request.retryable,
                retry_after_s=rest_s,
            )
            await failed_jobs.fail(find_shared_queue(self._runtime.processes), caller, request.job_id, report)
            return pb.FailJobResponse()

        return await self._run("FailJob", request, context, work, records=pb.FailJobResponse)

    async def CompleteUserTask(  # noqa: N802
        self,
        request: pb.CompleteUserTaskRequest,
        context: grpc.aio.ServicerContext[pb.CompleteUserTaskRequest, pb.CompleteUserTaskResponse],
        /,
    ) -> pb.CompleteUserTaskResponse:
        async def work(caller: Caller) -> pb.CompleteUserTaskResponse:
            caller = answer_with(caller, lambda _: pb.CompleteUserTaskResponse())
            if not request.instance_id or not request.user_task_step_id:
                raise ProcessBadRequest("instance_id and user_task_step_id are required")
            result = await read_object(request.result)
            document: JsonObject = {"variables": result, "completedBy": request.completed_by}
            await self._ask(caller, request.instance_id, "complete", document, step=request.user_task_step_id)
            return pb.CompleteUserTaskResponse()

        return await self._run("CompleteUserTask", request, context, work, records=pb.CompleteUserTaskResponse)

    async def SignalWait(  # noqa: N802
        self,
        request: pb.SignalWaitRequest,
        context: grpc.aio.ServicerContext[pb.SignalWaitRequest, pb.SignalWaitResponse],
        /,
    ) -> pb.SignalWaitResponse:
        async def work(caller: Caller) -> pb.SignalWaitResponse:
            caller = answer_with(caller, lambda _: pb.SignalWaitResponse())
            if not request.instance_id or not request.wait_step_id:
                raise ProcessBadRequest("instance_id and wait_step_id are required")
            variables = await read_object(request.variables)
            await self._ask(caller, request.instance_id, "signal", variables, step=request.wait_step_id)
            return pb.SignalWaitResponse()

        return await self._run("SignalWait", request, context, work, records=pb.SignalWaitResponse)

    async def RetryStep(  # noqa: N802
        self,
        request: pb.RetryStepRequest,
        context: grpc.aio.ServicerContext[pb.RetryStepRequest, pb.RetryStepResponse],
        /,
    ) -> pb.RetryStepResponse:
        async def work(caller: Caller) -> pb.RetryStepResponse:
            variables = await read_object(request.variables) or None
            caller = answer_with_instance(caller, respond)
            return await respond(
                await self._ask(caller, request.instance_id, "retry", {"variables": variables}, step=request.step_id)
            )

        async def respond(instance: Instance) -> pb.RetryStepResponse:
            response = pb.RetryStepResponse()
            await write_instance(response.instance, instance)
            return response

        return await self._run("RetryStep", request, context, work, records=pb.RetryStepResponse)

    async def _ask(
        self, caller: Caller, instance_id: str, verb: str, document: JsonObject, *, step: str = ""
    ) -> Instance:
        """The instance after something was asked of it, of a step where it is about one."""
        segments = {"stepId": step}
        done = await dialects.ask(
            STEP_DIALECT, self._runtime.processes, caller, instance_id, verb, document, segments=segments
        )
        return done.instance

    async def _run(
        self,
        method: str,
        request: Message,
        context: grpc.aio.ServicerContext[RequestT, ReplyT],
        work: Callable[[Caller], Awaitable[ReplyT]],
        *,
        records: type[ReplyT] | None = None,
    ) -> ReplyT:
        """The response of the work; a failure ends the call with its status. ``records`` is the class of the response
        where a call may have an idempotency key.
        """
        begun, code = perf_counter(), StatusCode.UNAUTHENTICATED
        span: Span | None = None
        try:
            caller = Caller(await authenticate_call(context, self._authenticator))
            span = begin_call_span(self._runtime.core.tracer, method, caller.principal, context)
            code = StatusCode.CANCELLED
            try:
                if caller.principal.is_read_only and method not in READS:
                    raise ReadOnly  # noqa: TRY301 - as what the work raises
                refuse_nul(request)
                key = None if records is None else get_first_value(context, KEY_METADATA)
                if key is None or records is None:
                    answer = await work(caller)
                else:
                    answer = await self._answer_keyed(method, request, context, caller, work, key=key, reply=records)
            except Failure as failure:
                if span is not None:
                    span.set("error.code", failure.code)
                code, message = to_status(failure, method)
            except ResponseTooLarge as large:
                code, message = StatusCode.RESOURCE_EXHAUSTED, str(large)
            except Exception as error:  # whatever went wrong, the client gets a status without details
                if span is not None:
                    span.fail(get_error_code(error))
                code, message = to_internal_status(error, method)
            else:
                code = StatusCode.OK
                return answer
            await context.abort(code, message)
        finally:
            self._observe(method, code.name, perf_counter() - begun)
            if span is not None:
                span.end()

    async def _answer_keyed(
        self,
        method: str,
        request: Message,
        context: grpc.aio.ServicerContext[RequestT, ReplyT],
        caller: Caller,
        work: Callable[[Caller], Awaitable[ReplyT]],
        *,
        key: str,
        reply: type[ReplyT],
    ) -> ReplyT:
        """The response to a call with an idempotency key: its own, or that of the first one."""

        async def run(_runtime: Runtime, keyed: Caller) -> StoredAnswer:
            return encode_message(await work(keyed))

        executed = await execute_for(
            self._runtime.core,
            self._runtime,
            caller,
            run,
            key=require_key(key, KEY_METADATA),
            request_hash=hash_message(method, request),
            answer_format=NO_FAILURES,
            recording="commit",
            size=request.ByteSize(),
        )
        if executed.is_replay:
            context.set_trailing_metadata(((REPLAYED_METADATA, "true"),))
        return decode_message(executed.answer, reply)


def _read_wait(context: grpc.aio.ServicerContext[pb.PollJobsRequest, pb.PollJobsResponse]) -> timedelta:
    """How long a poll may wait: as requested, but not beyond its deadline."""
    asked = get_first_value(context, WAIT_METADATA_KEY) or ""
    if not asked.isascii() or not asked.isdecimal() or len(asked) > 6:
        return timedelta(0)
    remaining_s = context.time_remaining() - RESPONSE_MARGIN_S  # infinite without a deadline
    return timedelta(seconds=max(0.0, min(int(asked), MAX_WAIT.total_seconds(), remaining_s)))
