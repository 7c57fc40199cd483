"""What a run was asked for that failed by something outside it, as incidents keep it."""

from msgspec import Struct


class FailedAttempt(Struct, frozen=True):
    """An attempt at a callout: when it failed (epoch microseconds), the member that was asked, and what it came to."""

    at: int
    member: str
    error: str


class FailedRun(Struct, frozen=True, kw_only=True):
    """Where a run failed, and what it was asked for.

    ``component`` is the processor or function, empty for a limit of the cascade. ``base_transaction`` is the version of
    the entity that the run began with or has made durable, None when nothing of the entity is stored. ``document`` and
    ``requested`` repeat the run: its document, and the transition to fire, None for a loopback or a creation.
    """

    entity_id: str
    model: str
    version: int
    workflow: str
    state: str
    transition: str
    component: str
    base_transaction: str | None
    document: str
    requested: str | None
    attempts: tuple[FailedAttempt, ...] = ()
