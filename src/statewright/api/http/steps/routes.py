"""Every route of the step dialect (docs/reference/steps.md#operations): method, path, what it does, what its
documentation says.

One table serves the router and the OpenAPI document. ``ours`` marks what the public engine does not have.
"""

from datetime import timedelta
from typing import Final, Literal

from msgspec import Struct

from statewright.api.http.response import TEXT
from statewright.api.http.router import Operation
from statewright.api.http.steps import definitions, instances, jobs, tasks
from statewright.services.processes.jobs import MAX_WAIT

DEFAULT_TIMEOUT: Final = timedelta(seconds=30)
"""How long the work of a request may take (docs/reference/steps.md#conventions)."""


class Parameter(Struct, frozen=True):
    """A documented query parameter, in the words of OpenAPI."""

    name: str
    type: Literal["string", "integer", "boolean"]
    description: str


class StepRoute(Operation, frozen=True, kw_only=True):
    """An operation of the step engine. ``reply`` names a schema of the OpenAPI document, ``errors`` are the statuses of
    its own.
    """

    query: tuple[Parameter, ...] = ()
    status: int = 200
    reply: str | None = None
    errors: tuple[int, ...] = ()
    timeout: timedelta | None = DEFAULT_TIMEOUT
    is_extension: bool = False

    @property
    def parameter_names(self) -> frozenset[str]:
        return frozenset(parameter.name for parameter in self.query)


PAGE: Final = (
    Parameter("page", "integer", "from 0"),
    Parameter("pageSize", "integer", "20 when absent or not positive, at most 1000"),
)
_DEFINITION: Final = "/v1/definitions/{id}"
_INSTANCE: Final = "/v1/instances/{id}"
_JOB: Final = "/v1/jobs/{id}"

STEP_ROUTES: Final[tuple[StepRoute, ...]] = (
    StepRoute(
        method="POST",
        path="/v1/definitions",
        endpoint=definitions.upload,
        id="uploadDefinition",
        tag="Step definitions",
        summary="Store a definition as its next version; the same content again is the same version",
        query=(Parameter("warnings", "boolean", "ours: tell in the answer what looks like a mistake"),),
        body="StepDefinition",
        status=201,
        reply="StepUpload",
        errors=(400, 413, 415),
    ),
    StepRoute(
        method="GET",
        path="/v1/definitions",
        endpoint=definitions.list_definitions,
        id="listDefinitions",
        tag="Step definitions",
        summary="Definitions by id, each with its latest version",
        query=(Parameter("keyword", "string", "a part of name or id, in any case"), *PAGE),
        reply="StepSummaries",
    ),
    StepRoute(
        method="GET",
        path=_DEFINITION,
        endpoint=definitions.get_latest,
        id="getDefinition",
        tag="Step definitions",
        summary="The latest version of a definition",
        reply="StepDefinition",
        errors=(404,),
    ),
    StepRoute(
        method="GET",
        path=f"{_DEFINITION}/versions/{{version}}",
        endpoint=definitions.get_version,
        id="getDefinitionVersion",
        tag="Step definitions",
        summary="One version of a definition",
        reply="StepDefinition",
        errors=(400, 404),
    ),
    StepRoute(
        method="GET",
        path=f"{_DEFINITION}/warnings",
        endpoint=definitions.list_warnings,
        id="lintDefinition",
        tag="Step definitions",
        summary="What looks like a mistake in the latest version",
        reply="StepWarnings",
        errors=(404,),
        is_extension=True,
    ),
    StepRoute(
        method="GET",
        path=f"{_DEFINITION}/diagram",
        endpoint=definitions.draw_latest,
        id="drawDefinition",
        tag="Step definitions",
        summary="The latest version as a Mermaid flowchart",
        reply="Mermaid",
        media_type=TEXT,
        errors=(404,),
        is_extension=True,
    ),
    StepRoute(
        method="GET",
        path=f"{_DEFINITION}/versions/{{version}}/diagram",
        endpoint=definitions.draw_version,
        id="drawDefinitionVersion",
        tag="Step definitions",
        summary="One version as a Mermaid flowchart",
        reply="Mermaid",
        media_type=TEXT,
        errors=(400, 404),
        is_extension=True,
    ),
    StepRoute(
        method="POST",
        path="/v1/instances",
        endpoint=instances.start_instance,
        id="startInstance",
        tag="Step instances",
        summary="Start an instance; the answer is as it stands after all the steps that need nobody",
        body="StepStart",
        status=201,
        reply="StepInstance",
        errors=(400, 404, 409, 413),
    ),
    StepRoute(
        method="GET",
        path="/v1/instances",
        endpoint=instances.list_instances,
        id="listInstances",
        tag="Step instances",
        summary="Instances, the newest first",
        query=(
            Parameter("definitionId", "string", "only of this definition"),
            Parameter("status", "string", "only in this status; an unknown one matches nothing"),
            Parameter("businessKey", "string", "only with this business key"),
            *PAGE,
        ),
        reply="StepInstances",
    ),
    StepRoute(
        method="GET",
        path=_INSTANCE,
        endpoint=instances.get_instance,
        id="getInstance",
        tag="Step instances",
        summary="An instance as it is now",
        reply="StepInstance",
        errors=(404,),
    ),
    StepRoute(
        method="GET",
        path=f"{_INSTANCE}/history",
        endpoint=instances.list_history,
        id="getInstanceHistory",
        tag="Step instances",
        summary="Every entry into a step, oldest first",
        reply="StepHistory",
        errors=(404,),
    ),
    StepRoute(
        method="GET",
        path=f"{_INSTANCE}/diagram",
        endpoint=instances.draw_instance,
        id="drawInstance",
        tag="Step instances",
        summary="The instance on its definition as a Mermaid flowchart: done, active, failed",
        reply="Mermaid",
        media_type=TEXT,
        errors=(404,),
        is_extension=True,
    ),
    StepRoute(
        method="POST",
        path=f"{_INSTANCE}/cancel",
        endpoint=instances.cancel_instance,
        id="cancelInstance",
        tag="Step instances",
        summary="Stop an instance and all it has going on",
        body="StepCancel",
        body_required=False,
        reply="StepInstance",
        errors=(404, 409, 413),
    ),
    StepRoute(
        method="POST",
        path=f"{_INSTANCE}/steps/{{stepId}}/retry",
        endpoint=instances.retry_step,
        id="retryStep",
        tag="Step instances",
        summary="Run the step again that failed the instance, after a shallow merge of variables",
        body="StepVariables",
        body_required=False,
        reply="StepInstance",
        errors=(400, 404, 409, 413),
    ),
    StepRoute(
        method="POST",
        path=f"{_INSTANCE}/signals/{{stepId}}",
        endpoint=instances.signal_step,
        id="signalWait",
        tag="Step instances",
        summary="Resume a WAIT step; the body is the variables to merge, without a wrapper",
        body="StepVariableMap",
        body_required=False,
        status=204,
        errors=(400, 404, 409, 413),
    ),
    StepRoute(
        method="POST",
        path="/v1/instances/purge",
        endpoint=instances.purge_instances,
        id="purgeInstances",
        tag="Step instances",
        summary="Remove completed and cancelled instances of some age for good, for a few seconds; administrators only",
        body="StepPurge",
        reply="StepPurged",
        errors=(400, 403, 413),
        is_extension=True,
    ),
    StepRoute(
        method="POST",
        path="/v1/jobs/poll",
        endpoint=jobs.poll_jobs,
        id="pollJobs",
        tag="Step jobs",
        summary="Claim the oldest jobs of some types; with waitSeconds the answer waits for the first one",
        body="StepPoll",
        reply="StepJobs",
        errors=(400, 413),
        timeout=DEFAULT_TIMEOUT + MAX_WAIT,
    ),
    StepRoute(
        method="POST",
        path=f"{_JOB}/complete",
        endpoint=jobs.complete_job,
        id="completeJob",
        tag="Step jobs",
        summary="A worker's result; late and repeated ones are accepted without effect",
        body="StepResult",
        status=204,
        errors=(400, 404, 413),
    ),
    StepRoute(
        method="POST",
        path=f"{_JOB}/fail",
        endpoint=jobs.fail_job,
        id="failJob",
        tag="Step jobs",
        summary="A worker's failure: another try, or the end of the instance",
        body="StepFailure",
        status=204,
        errors=(400, 404, 413),
    ),
    StepRoute(
        method="POST",
        path=f"{_JOB}/heartbeat",
        endpoint=jobs.heartbeat_job,
        id="heartbeatJob",
        tag="Step jobs",
        summary="Lengthen the lease of a job, as workers of the public SDKs do",
        body="StepRenewal",
        reply="StepHeartbeat",
        errors=(400, 404, 409, 413),
    ),
    StepRoute(
        method="POST",
        path=f"{_JOB}/renew",
        endpoint=jobs.renew_job,
        id="renewJob",
        tag="Step jobs",
        summary="Lengthen the lease of a job that its worker still works on",
        body="StepRenewal",
        reply="StepLease",
        errors=(400, 404, 409, 413),
        is_extension=True,
    ),
    StepRoute(
        method="POST",
        path=f"{_JOB}/release",
        endpoint=jobs.release_job,
        id="releaseJob",
        tag="Step jobs",
        summary="Give a claimed job back without using a retry",
        body="StepWorker",
        status=204,
        errors=(400, 413),
        is_extension=True,
    ),
    StepRoute(
        method="GET",
        path="/v1/user-tasks",
        endpoint=tasks.list_inbox,
        id="listUserTasks",
        tag="Step user tasks",
        summary="The inbox: open user tasks, the oldest first",
        query=(
            Parameter("jobType", "string", "only of steps with this jobType"),
            Parameter("definitionId", "string", "only of this definition"),
            Parameter("olderThanSeconds", "integer", "only those that have been open for so long"),
            *PAGE,
        ),
        reply="StepInbox",
        is_extension=True,
    ),
    StepRoute(
        method="POST",
        path=f"{_INSTANCE}/user-tasks/{{stepId}}/complete",
        endpoint=tasks.complete_task,
        id="completeUserTask",
        tag="Step user tasks",
        summary="A person's result for the task at a step, the oldest one if there are several",
        body="StepTaskResult",
        body_required=False,
        status=204,
        errors=(400, 404, 409, 413),
    ),
    StepRoute(
        method="POST",
        path="/v1/user-tasks/{taskId}/complete",
        endpoint=tasks.complete_task_by_id,
        id="completeUserTaskById",
        tag="Step user tasks",
        summary="A person's result for a task by its own id",
        body="StepTaskResult",
        body_required=False,
        status=204,
        errors=(400, 404, 409, 413),
    ),
)
