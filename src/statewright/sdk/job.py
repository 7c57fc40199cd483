"""What a worker is given: a job of a process, and the task of a flow that a job is for."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue


class Job(Struct, frozen=True, kw_only=True):
    """A claimed job. ``variables`` are those of the instance when the job was made."""

    id: str
    type: str
    instance_id: str
    step_id: str = ""
    step_execution_id: str = ""
    retries_remaining: int = 0
    lock_expires_at: datetime | None = None
    """When the lease ends and the engine may give the job to another worker; it is renewed where the engine allows."""
    variables: JsonObject = {}


class Task(Struct, frozen=True, kw_only=True):
    """What a flow asks a task to do. Parameters and input are apart; neither changes the other."""

    id: str
    """Of the job."""
    type: str
    """What the text calls the task behind its alias; workers poll for it."""
    name: str
    """What the text calls it where it is used."""
    instance_id: str
    node: int
    """The number of the node."""
    parameters: Any
    """An object or an array; what is in it is between the flow and its workers."""
    input: JsonValue
    element: int | None = None
    """The place of the element of an iteration that it is for."""
    uri: str | None = None
    """Of a resource that is read or written."""
    retries_remaining: int = 0


def read_task(job: Job) -> Task:
    """The task in a job. Raises ``ValueError`` for a job that no flow has made."""
    payload: JsonObject = job.variables
    name, node, element, uri = (payload.get(member) for member in ("name", "node", "element", "uri"))
    if not isinstance(name, str) or not isinstance(node, int) or "input" not in payload:
        raise ValueError(f"job {job.id} of type {job.type} is not of a flow")
    return Task(
        id=job.id,
        type=job.type,
        name=name,
        instance_id=job.instance_id,
        node=node,
        parameters=payload.get("parameters", {}),
        input=payload["input"],
        element=element if isinstance(element, int) else None,
        uri=uri if isinstance(uri, str) else None,
        retries_remaining=job.retries_remaining,
    )
