"""The methods of ``workflow.v1.WorkflowEngineService`` (docs/reference/steps.md#methods,
docs/reference/steps.md#differences-from-rest).

``PollJobs`` waits for a job when the metadata has ``wait-seconds``, an extension like ``waitSeconds`` of the REST
dialect. The message itself stays as the public engine has it.
"""

from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Any, Final, TypeVar

import grpc.aio
from google.protobuf.message import Message
from grpc import StatusCode
from msgspec import Struct

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
    read_object,
    read_status_filter,
    read_upload,
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
from statewright.services.processes.definitions import UploadedDefinition
from statewright.services.processes.dialects import InstanceQuery
from statewright.services.processes.hosting import JobQueue, Processes, find_shared_queue
from statewright.services.processes.instances import StartRequest
from statewright.services.processes.jobs import MAX_WAIT, JobClaim, clamp_batch_size, clamp_lease_s
from statewright.services.runtime import Runtime
from statewright.services.steps.dialect import STEP_DIALECT, stream_history
from statewright.steps import Instance
from statewright.telemetry.tracing import Span, get_error_code

RequestT = TypeVar("RequestT", bound=Message)
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


class EngineCall(Struct, frozen=True):
    """A call under way, of whom, and of what service."""

    caller: Caller
    runtime: Runtime
    context: grpc.aio.ServicerContext[Any, Any]  # Any: of whatever method

    @property
    def processes(self) -> Processes:
        """Those of the service."""
        return self.runtime.processes

    @property
    def queue(self) -> JobQueue:
        """The jobs that workers take."""
        return find_shared_queue(self.processes)

    async def ask(self, caller: Caller, instance_id: str, verb: str, document: JsonObject, step: str = "") -> Instance:
        """The instance after something was asked of it, of a step where it is about one."""
        segments = {"stepId": step}
        done = await dialects.ask(STEP_DIALECT, self.processes, caller, instance_id, verb, document, segments=segments)
        return done.instance


TellsT = TypeVar(
    "TellsT", pb.StartInstanceResponse, pb.GetInstanceResponse, pb.CancelInstanceResponse, pb.RetryStepResponse
)
"""A response with an instance."""


async def _tell(kind: Callable[[], TellsT], instance: Instance) -> TellsT:
    """A response of a kind with an instance."""
    response = kind()
    await write_instance(response.instance, instance)
    return response


def _answer_told(
    caller: Caller, kind: Callable[[], TellsT]
) -> tuple[Caller, Callable[[Instance], Coroutine[object, object, TellsT]]]:
    """The caller, for a use case that is about an instance, and what makes the response of that."""
    respond = partial(_tell, kind)
    return answer_with_instance(caller, respond), respond


async def _upload_definition(request: pb.UploadDefinitionRequest, call: EngineCall) -> pb.UploadDefinitionResponse:
    def respond(stored: UploadedDefinition) -> pb.UploadDefinitionResponse:
        at = to_timestamp(stored.uploaded_at)
        return pb.UploadDefinitionResponse(id=stored.new.id, version=stored.version, uploaded_at=at)

    if not request.HasField("definition"):
        raise ProcessBadRequest("definition is required")
    caller = answer_with(call.caller, respond)
    definition = await read_upload(request.definition)
    return respond(await dialects.upload_definition(STEP_DIALECT, call.processes, caller, definition))


async def _get_definition(request: pb.GetDefinitionRequest, call: EngineCall) -> pb.GetDefinitionResponse:
    found = await dialects.get_version(STEP_DIALECT, call.processes, call.caller, request.id, request.version)
    return pb.GetDefinitionResponse(definition=definition_message(found.process.definition, found.version))


async def _list_definitions(request: pb.ListDefinitionsRequest, call: EngineCall) -> pb.ListDefinitionsResponse:
    found = await dialects.list_definitions(
        STEP_DIALECT,
        call.processes,
        call.caller,
        keyword=request.keyword,
        page=request.page,
        page_size=request.page_size,
    )
    return pb.ListDefinitionsResponse(definitions=map(summary_message, found.items), total=found.total)


async def _start_instance(request: pb.StartInstanceRequest, call: EngineCall) -> pb.StartInstanceResponse:
    start = StartRequest(
        definition_id=request.definition_id,
        definition_version=request.definition_version,
        variables=await read_object(request.variables),
        business_key=request.business_key,
    )
    if not start.definition_id:
        raise ProcessBadRequest("definitionId is required")
    caller, respond = _answer_told(call.caller, pb.StartInstanceResponse)
    return await respond(await hosted.start(STEP_DIALECT.find_host(call.processes), caller, start))


async def _get_instance(request: pb.GetInstanceRequest, call: EngineCall) -> pb.GetInstanceResponse:
    found = await dialects.get_instance(STEP_DIALECT, call.processes, call.caller, request.id)
    return await _tell(pb.GetInstanceResponse, found)


async def _get_history(request: pb.GetInstanceHistoryRequest, call: EngineCall) -> pb.GetInstanceHistoryResponse:
    found = await stream_history(call.processes, call.caller, request.id)
    response = pb.GetInstanceHistoryResponse()
    async for lines in found.portions:
        response.executions.extend(execution_message(line, found.process) for line in lines)
        require_size(response.ByteSize(), "the history", "GET /v1/instances/{id}/history streams it")
    return response


async def _cancel_instance(request: pb.CancelInstanceRequest, call: EngineCall) -> pb.CancelInstanceResponse:
    caller, respond = _answer_told(call.caller, pb.CancelInstanceResponse)
    return await respond(await call.ask(caller, request.id, "cancel", {"reason": request.reason}))


async def _list_instances(request: pb.ListInstancesRequest, call: EngineCall) -> pb.ListInstancesResponse:
    wanted = InstanceQuery(
        definition_id=request.definition_id,
        status=read_status_filter(request.status),
        business_key=request.business_key,
        page=request.page,
        page_size=request.page_size,
    )
    found = await dialects.stream_instances(STEP_DIALECT, call.processes, call.caller, wanted)
    response, size = pb.ListInstancesResponse(total=found.total), 0
    async for portion in found.portions:
        for instance in portion:
            await write_instance(added := response.instances.add(), instance)
            size += added.ByteSize()
            if len(response.instances) > 1:
                require_size(size, "the page", f"page_size was {found.page_size}, ask for fewer")
    return response


async def _poll_jobs(request: pb.PollJobsRequest, call: EngineCall) -> pb.PollJobsResponse:
    response = pb.PollJobsResponse()
    if not request.job_types:
        return response
    jobs.require_few_types(len(request.job_types))
    claim = JobClaim(
        worker_id=request.worker_id,
        job_types=tuple(request.job_types),
        max_jobs=clamp_batch_size(request.max_jobs, DEFAULT_BATCH),
        lease=timedelta(seconds=clamp_lease_s(request.lease_seconds)),
        wait=_read_wait(call.context),
        peer=call.context.peer(),
    )
    for job in await jobs.claim(call.queue, call.caller, claim):
        await run_by_variables(job.variables, partial(fill_job, response.jobs.add(), job))
    return response


async def _complete_job(request: pb.CompleteJobRequest, call: EngineCall) -> pb.CompleteJobResponse:
    caller = answer_with(call.caller, lambda _: pb.CompleteJobResponse())
    result = await read_object(request.variables_to_set)
    await jobs.complete(call.queue, caller, request.job_id, result)
    return pb.CompleteJobResponse()


async def _extend_lease(request: pb.ExtendJobLeaseRequest, call: EngineCall) -> pb.ExtendJobLeaseResponse:
    lease = timedelta(seconds=clamp_lease_s(request.lease_seconds))
    until = await jobs.renew(call.queue, call.caller, request.job_id, worker_id=request.worker_id, lease=lease)
    return pb.ExtendJobLeaseResponse(accepted=True, lock_expires_at=to_timestamp(until))


async def _fail_job(request: pb.FailJobRequest, call: EngineCall) -> pb.FailJobResponse:
    caller = answer_with(call.caller, lambda _: pb.FailJobResponse())
    rest_s = request.retry_after_seconds if request.HasField("retry_after_seconds") else None
    if rest_s is not None and not 0 <= rest_s <= MAX_RETRY_AFTER_S:
        raise ProcessBadRequest(f"retry_after_seconds must be from 0 to {MAX_RETRY_AFTER_S}")
    report = FailureReport(
        worker_id=request.worker_id,
        message=request.error_message,
        retryable=request.retryable,
        retry_after_s=rest_s,
    )
    await failed_jobs.fail(call.queue, caller, request.job_id, report)
    return pb.FailJobResponse()


async def _complete_task(request: pb.CompleteUserTaskRequest, call: EngineCall) -> pb.CompleteUserTaskResponse:
    caller = answer_with(call.caller, lambda _: pb.CompleteUserTaskResponse())
    if not request.instance_id or not request.user_task_step_id:
        raise ProcessBadRequest("instance_id and user_task_step_id are required")
    result = await read_object(request.result)
    document: JsonObject = {"variables": result, "completedBy": request.completed_by}
    await call.ask(caller, request.instance_id, "complete", document, request.user_task_step_id)
    return pb.CompleteUserTaskResponse()


async def _signal_wait(request: pb.SignalWaitRequest, call: EngineCall) -> pb.SignalWaitResponse:
    caller = answer_with(call.caller, lambda _: pb.SignalWaitResponse())
    if not request.instance_id or not request.wait_step_id:
        raise ProcessBadRequest("instance_id and wait_step_id are required")
    variables = await read_object(request.variables)
    await call.ask(caller, request.instance_id, "signal", variables, request.wait_step_id)
    return pb.SignalWaitResponse()


async def _retry_step(request: pb.RetryStepRequest, call: EngineCall) -> pb.RetryStepResponse:
    variables = await read_object(request.variables) or None
    caller, respond = _answer_told(call.caller, pb.RetryStepResponse)
    return await respond(
        await call.ask(caller, request.instance_id, "retry", {"variables": variables}, request.step_id)
    )


def _serve(
    method: str, work: Callable[[RequestT, EngineCall], Awaitable[ReplyT]], records: type[ReplyT] | None = None
) -> Callable[[Any, RequestT, "grpc.aio.ServicerContext[RequestT, ReplyT]"], Awaitable[ReplyT]]:
    """A method of the service that does this work. ``records`` is the class of the response where a call may have an
    idempotency key.
    """

    async def answer(
        service: "WorkflowEngineService", request: RequestT, context: grpc.aio.ServicerContext[RequestT, ReplyT], /
    ) -> ReplyT:
        return await service.run(method, request, context, work, records)

    return answer


class WorkflowEngineService(WorkflowEngineServicer):
    """The service: messages to use cases and back, failures to statuses."""

    UploadDefinition = _serve("UploadDefinition", _upload_definition, pb.UploadDefinitionResponse)
    GetDefinition = _serve("GetDefinition", _get_definition)
    ListDefinitions = _serve("ListDefinitions", _list_definitions)
    StartInstance = _serve("StartInstance", _start_instance, pb.StartInstanceResponse)
    GetInstance = _serve("GetInstance", _get_instance)
    GetInstanceHistory = _serve("GetInstanceHistory", _get_history)
    CancelInstance = _serve("CancelInstance", _cancel_instance, pb.CancelInstanceResponse)
    ListInstances = _serve("ListInstances", _list_instances)
    PollJobs = _serve("PollJobs", _poll_jobs)
    CompleteJob = _serve("CompleteJob", _complete_job, pb.CompleteJobResponse)
    ExtendJobLease = _serve("ExtendJobLease", _extend_lease)
    FailJob = _serve("FailJob", _fail_job, pb.FailJobResponse)
    CompleteUserTask = _serve("CompleteUserTask", _complete_task, pb.CompleteUserTaskResponse)
    SignalWait = _serve("SignalWait", _signal_wait, pb.SignalWaitResponse)
    RetryStep = _serve("RetryStep", _retry_step, pb.RetryStepResponse)

    def __init__(self, runtime: Runtime, authenticator: Authenticator, observe: Observe) -> None:
        self._runtime = runtime
        self._authenticator = authenticator
        self._observe = observe

    async def run(
        self,
        method: str,
        request: RequestT,
        context: grpc.aio.ServicerContext[RequestT, ReplyT],
        work: Callable[[RequestT, EngineCall], Awaitable[ReplyT]],
        records: type[ReplyT] | None,
    ) -> ReplyT:
        """The response of the work; a failure ends the call with its status. ``records`` is the class of the response
        where a call may have an idempotency key.
        """

        async def do(caller: Caller) -> ReplyT:
            return await work(request, EngineCall(caller, self._runtime, context))

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
                    answer = await do(caller)
                else:
                    answer = await self._answer_keyed(method, request, context, caller, do, key=key, reply=records)
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
