"""Every route of the step dialect (docs/reference/steps.md#operations): method, path, what it does, what its
documentation says.

One table serves the router and the OpenAPI document. ``is_extension`` marks what the public engine does not have.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from statewright.api.http.processes.bodies import PAGE, Parameter, ProcessRoute
from statewright.api.http.processes.jobs import JOB_ROUTES
from statewright.api.http.processes.tables import build_table
from statewright.api.http.steps.interface import STEP_INTERFACE, complete_task_by_id, list_inbox

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
    *JOB_ROUTES,
    ProcessRoute(
        method="GET",
        path="/v1/user-tasks",
        endpoint=list_inbox,
        id="listUserTasks",
        tag="Step user tasks",
        summary="The inbox: open user tasks of all languages, the oldest first",
        query=(
            Parameter("language", "string", "only of definitions in this language: steps, flows or playbooks"),
            Parameter("jobType", "string", "only of steps with this jobType"),
            Parameter("definitionId", "string", "only of this definition"),
            Parameter("assignee", "string", "only those that are for this person"),
            Parameter("group", "string", "only those that are for this group"),
            Parameter("olderThanSeconds", "integer", "only those that have been open for so long"),
            *PAGE,
        ),
        reply="StepInbox",
        errors=(400,),
        is_extension=True,
    ),
    ProcessRoute(
        method="POST",
        path="/v1/user-tasks/{taskId}/complete",
        endpoint=complete_task_by_id,
        id="completeUserTaskById",
        tag="Step user tasks",
        summary="A person's result for a task by its own id",
        body="StepTaskResult",
        body_required=False,
        status=204,
        errors=(400, 404, 409, 413),
    ),
)
