"""What a handler is given, and what it may raise."""

from datetime import datetime

from msgspec import Struct

from statewright.jsonval.values import JsonObject


class Job(Struct, frozen=True, kw_only=True):
    """A job as it was claimed. ``variables`` are those of the instance when the job was made."""

    id: str
    type: str
    instance_id: str
    step_id: str = ""
    step_execution_id: str = ""
    retries_remaining: int = 0
    lock_expires_at: datetime | None = None
    """When the engine gives the job to somebody else; the worker renews the lease where the engine lets it."""
    variables: JsonObject = {}


class NonRetryable(Exception):
    """Raised by a handler whose job would fail again: the step fails at once, whatever retries are left."""
