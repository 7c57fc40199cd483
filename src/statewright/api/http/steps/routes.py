"""Every route of the step dialect (docs/reference/steps.md#operations): method, path, what it does, what its
documentation says.

One table serves the router and the OpenAPI document. ``is_extension`` marks what the public engine does not have.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from statewright.api.http.processes import jobs
from statewright.api.http.processes.bodies import DEFAULT_TIMEOUT, PAGE, Parameter, ProcessRoute
from statewright.api.http.processes.tables import build_table
from statewright.api.http.steps import tasks
from statewright.api.http.steps.interface import STEP_INTERFACE
from statewright.services.processes.jobs import MAX_WAIT

_JOB: Final = "/v1/jobs/{id}"
_WARNINGS: Final = Parameter("warnings", "boolean", "ours: tell in the answer what looks like a mistake")
_OTHERWISE: Final[Mapping[str, Mapping[str, object]]] = {
    "upload": {"query": (_WARNINGS,), "errors": (400, 413, 415)},
    "draw": {"errors": (404,), "is_extension": True},
    "draw_version": {"is_extension": True},
    "start": {"hold": STEP_INTERFACE.hold_start},
    "history": {"query": ()},
    "draw_instance": {"errors": (404,), "is_extension": True},
}
"""How the dialect of the public engine differs from what other languages have in common."""

STEP_ROUTES: Final[tuple[ProcessRoute, ...]] = (
    *(
        replace(route, is_ours=False, **_OTHERWISE.get(role, {}))
        for role, route in build_table(STEP_INTERFACE).items()
        if role != "versions"
    ),
    ProcessRoute(
        method="GET",
        path="/v1/definitions/{id}/warnings",
        endpoint=STEP_INTERFACE.list_warnings,
        id="lintDefinition",
        tag="Step definitions",
        summary="What looks like a mistake in the latest version",
        reply="StepWarnings",
        errors=(404,),
        is_extension=True,
    ),
    ProcessRoute(
        method="POST",
        path="/v1/instances/purge",
        endpoint=STEP_INTERFACE.purge,
        id="purgeInstances",
        tag="Step instances",
        summary="Remove completed and cancelled instances of some age for good, for a few seconds; administrators only",
        body="StepPurge",
        reply="StepPurged",
        errors=(400, 403, 413),
        is_extension=True,
    ),
    ProcessRoute(
        method="POST",
        path="/v1/jobs/poll",
        endpoint=jobs.poll_jobs,
        recording="nothing",
        id="pollJobs",
        tag="Step jobs",
        summary="Claim the oldest jobs of some types; with waitSeconds the answer waits for the first one",
        body="StepPoll",
        reply="StepJobs",
        errors=(400, 413),
        timeout=DEFAULT_TIMEOUT + MAX_WAIT,
    ),
    ProcessRoute(
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
    ProcessRoute(
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
    ProcessRoute(
        method="POST",
        path=f"{_JOB}/heartbeat",
        endpoint=jobs.heartbeat_job,
        recording="nothing",
        id="heartbeatJob",
        tag="Step jobs",
        summary="Lengthen the lease of a job, as workers of the public SDKs do",
        body="StepRenewal",
        reply="StepHeartbeat",
        errors=(400, 404, 409, 413),
    ),
    ProcessRoute(
        method="POST",
        path=f"{_JOB}/renew",
        endpoint=jobs.renew_job,
        recording="nothing",
        id="renewJob",
        tag="Step jobs",
        summary="Lengthen the lease of a job that its worker still works on",
        body="StepRenewal",
        reply="StepLease",
        errors=(400, 404, 409, 413),
        is_extension=True,
    ),
    ProcessRoute(
        method="POST",
        path=f"{_JOB}/progress",
        endpoint=jobs.report_progress,
        recording="nothing",
        id="reportJobProgress",
        tag="Step jobs",
        summary="What a run of a playbook's pipeline has done so far, while its worker goes on",
        body="StepProgress",
        reply="StepProgressTaken",
        errors=(400, 409, 413),
        is_extension=True,
    ),
    ProcessRoute(
        method="POST",
        path=f"{_JOB}/release",
        endpoint=jobs.release_job,
        recording="nothing",
        id="releaseJob",
        tag="Step jobs",
        summary="Give a claimed job back without using a retry",
        body="StepWorker",
        status=204,
        errors=(400, 413),
        is_extension=True,
    ),
    ProcessRoute(
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
    ProcessRoute(
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
