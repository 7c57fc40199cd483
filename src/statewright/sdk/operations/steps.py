"""The JSON step engine: definitions, instances (docs/reference/steps.md#rest).

User tasks of all languages (docs/reference/steps.md#user-tasks-and-signals).

Workers, which take jobs, are written with ``Node``.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from statewright.sdk.operations.calls import (
    MAX_PAGE_SIZE,
    Operation,
    Page,
    Script,
    build_key_header,
    read_nothing,
    wait_for,
)
from statewright.sdk.operations.processes import ProcessPaths, build_process_call, list_pages, read_as, rename_members

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue
else:  # Any: msgspec, which reads records, cannot resolve an alias that contains itself
    JsonValue = Any
    JsonObject = dict

InstanceStatus: TypeAlias = Literal["ACTIVE", "WAITING", "COMPLETED", "FAILED", "CANCELLED"]

FINAL_STATUSES: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


class StepDefinition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A definition as lists show it, with its latest version."""

    id: str
    version: int
    name: str = ""
    uploaded_at: str = ""
    versions: tuple[int, ...] = ()


class StepInstance(Struct, frozen=True, kw_only=True, rename=rename_members(steps="currentStepIds")):
    """An instance. ``steps`` are those that hold a token; ``failure_reason`` is empty unless it failed or was
    cancelled. Times are RFC 3339 texts.
    """

    id: str
    definition_id: str
    definition_version: int
    status: str
    steps: tuple[str, ...] = ()
    variables: JsonObject = {}
    started: str = ""
    completed: str = ""
    business_key: str = ""
    failure_reason: str = ""


class StepExecution(
    Struct,
    frozen=True,
    kw_only=True,
    rename=rename_members(attempt="attemptNumber", input="inputSnapshot", output="outputSnapshot"),
):
    """One entry into a step."""

    id: str
    step_id: str
    step_type: str
    attempt: int
    status: str
    started: str
    ended: str = ""
    input: JsonObject = {}
    output: JsonObject = {}
    failure_reason: str = ""


class UserTask(Struct, frozen=True, kw_only=True, rename=rename_members()):
    """An open task of a person. ``payload`` are the variables when it was opened, or what the task works on.
    What its author says of it begins with ``title``, which tasks of steps do not have.
    """

    id: str
    language: str = "steps"
    instance_id: str
    step_id: str
    definition_id: str
    definition_version: int
    status: str
    payload: JsonObject = {}
    created: str
    job_type: str = ""
    business_key: str = ""
    title: str = ""
    description: str = ""
    groups: tuple[str, ...] = ()
    assignee: str = ""
    form: JsonObject = {}


def upload(definition: Mapping[str, JsonValue]) -> Operation[StepDefinition]:
    """Upload a definition; the same content again is the version that has it."""
    call = build_process_call("upload_definition", "POST", "/definitions", members=definition)
    return Operation(call, msgspec.json.Decoder(StepDefinition).decode)


def definition(definition_id: str, *, version: int | None = None) -> "Operation[JsonObject]":
    """A definition as its author wrote it, the latest version unless one is named."""
    return _PATHS.get_definition(definition_id, version)


def definitions(
    *, keyword: str | None = None, size: int = MAX_PAGE_SIZE, number: int = 0
) -> Script[Page[StepDefinition]]:
    """All definitions, by id; ``keyword`` is a part of the name or id."""
    return _PATHS.list_definitions(keyword, size=size, number=number)


def start(
    definition_id: str,
    variables: Mapping[str, object] | None = None,
    *,
    version: int | None = None,
    business_key: str = "",
    idempotency_key: str | None = None,
) -> Operation[StepInstance]:
    """Start an instance; how it stands after all steps that wait for nobody.

    With a ``business_key`` only one instance of the definition can be under way for that key (``Conflicting``).
    """
    given = {
        "definitionId": definition_id,
        "variables": dict(variables or {}),
        "definitionVersion": version,
        "businessKey": business_key,
    }
    return _PATHS.start(definition_id, given, build_key_header(idempotency_key))


def instance(instance_id: str) -> Operation[StepInstance]:
    """The instance as it is now."""
    return _PATHS.get_instance(instance_id)


def instances(
    *,
    definition_id: str | None = None,
    status: InstanceStatus | None = None,
    business_key: str | None = None,
    size: int = MAX_PAGE_SIZE,
    number: int = 0,
) -> Script[Page[StepInstance]]:
    """Instances, newest first."""
    filters = {"definitionId": definition_id, "status": status, "businessKey": business_key}
    return _PATHS.list_instances(size=size, number=number, **filters)


def wait(instance_id: str, *, until: Collection[InstanceStatus] = ()) -> Script[StepInstance]:
    """Wait until the instance is COMPLETED, FAILED or CANCELLED, or in one of the statuses ``until``: WAITING, say, for
    a person or a signal. There is no limit of time: ``asyncio.timeout`` around that of the ``AsyncClient`` sets one.
    """
    return wait_for(instance(instance_id), lambda found: found.status in {*until, *FINAL_STATUSES})


def history(instance_id: str) -> Operation[list[StepExecution]]:
    """Every entry into a step, by start."""
    call = build_process_call("instance_history", "GET", "/instances/{}/history", instance_id)
    return Operation(call, _PATHS.read_line.read_items)


def signal(instance_id: str, step_id: str, variables: Mapping[str, object] | None = None) -> Operation[None]:
    """Wake a WAIT step; its variables are merged. Signals are not kept: nothing waiting is ``Conflicting``."""
    path = "/instances/{}/signals/{}"
    return Operation(
        build_process_call("signal", "POST", path, instance_id, step_id, members=variables or {}), read_nothing
    )


def retry(instance_id: str, step_id: str, variables: Mapping[str, object] | None = None) -> Operation[StepInstance]:
    """Try a step of a failed instance again, with changed variables if some are given."""
    members = {"variables": dict(variables)} if variables else {}
    call = build_process_call(
        "retry_step", "POST", "/instances/{}/steps/{}/retry", instance_id, step_id, members=members
    )
    return Operation(call, _PATHS.read_instance.read_one)


def cancel(instance_id: str, reason: str = "") -> Operation[StepInstance]:
    """End the instance."""
    return _PATHS.change("cancel", instance_id, {"reason": reason})


def user_tasks(
    *,
    job_type: str | None = None,
    definition_id: str | None = None,
    older_than_s: int | None = None,
    size: int = MAX_PAGE_SIZE,
    number: int = 0,
) -> Script[Page[UserTask]]:
    """Open tasks of people in definitions of steps, oldest first; ``older_than_s`` in seconds."""
    return tasks(
        language="steps",
        job_type=job_type,
        definition_id=definition_id,
        older_than_s=older_than_s,
        size=size,
        number=number,
    )


def tasks(
    *,
    language: str | None = None,
    definition_id: str | None = None,
    job_type: str | None = None,
    assignee: str | None = None,
    group: str | None = None,
    older_than_s: int | None = None,
    size: int = MAX_PAGE_SIZE,
    number: int = 0,
) -> Script[Page[UserTask]]:
    """Open tasks of people, oldest first, that match all that is given; ``language`` is ``steps``, ``flows`` or
    ``playbooks``, ``older_than_s`` in seconds.
    """
    filters = {
        "language": language,
        "jobType": job_type,
        "definitionId": definition_id,
        "assignee": assignee,
        "group": group,
        "olderThanSeconds": older_than_s,
    }
    return list_pages("list_user_tasks", "/user-tasks", read_as(UserTask), size=size, number=number, filters=filters)


def complete_task(
    task_id: str, variables: Mapping[str, object] | Sequence[object] | None = None, *, completed_by: str = ""
) -> Operation[None]:
    """Complete a task. Of steps its variables are merged into those of the instance; of other languages they are the
    output of the task, and may be an array.
    """
    given: dict[str, object] = {"result": variables}
    if variables is None or isinstance(variables, Mapping):
        given = {"variables": dict(variables or {})}
    if completed_by:
        given["completedBy"] = completed_by
    call = build_process_call("complete_user_task", "POST", "/user-tasks/{}/complete", task_id, members=given)
    return Operation(call, read_nothing)


_PATHS: Final = ProcessPaths(
    definition="definition",
    instance="instance",
    definitions_path="/definitions",
    instances_path="/instances",
    read_definition=read_as(StepDefinition),
    read_instance=read_as(StepInstance),
    read_line=read_as(StepExecution),
)
