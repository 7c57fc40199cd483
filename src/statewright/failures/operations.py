"""The failures of requests with an ``Idempotency-Key`` (docs/reference/operations.md#idempotent-requests), of acts on
incidents (docs/reference/operations.md#incidents) and of suspensions (docs/reference/operations.md#suspensions).
"""

from collections.abc import Sequence

from statewright.failures.failure import Failure


class IdempotencyConflict(Failure):
    """The key was used for another request: choose a new one for each request that is to have an effect of its own."""

    names_its_code = True
    code, status = "IDEMPOTENCY_CONFLICT", 409

    def __init__(self) -> None:
        super().__init__("the idempotency key belongs to another request")


class IdempotencyInProgress(Failure):
    """The first request with the key is still at work. Repeat it with the same key."""

    names_its_code = True
    code, status, retryable, retry_after_s = "IDEMPOTENCY_IN_PROGRESS", 409, True, 1

    def __init__(self) -> None:
        super().__init__("the first request with this idempotency key is still at work")


class IdempotencyInterrupted(Failure):
    """A part of what the first request did is durable, and its node ended before the rest. It is not run again: look at
    the entities that are named, and go on from there with another key.
    """

    names_its_code = True
    code, status = "IDEMPOTENCY_INTERRUPTED", 409

    def __init__(self, transaction: str, entities: Sequence[str]) -> None:
        super().__init__(
            "the first request with this idempotency key was interrupted after a part of it was committed",
            {"transactionId": transaction, "entityIds": tuple(entities)},
        )


class IdempotencyKeyNotFound(Failure):
    """There is no record of a request with the key, or its time is over."""

    names_its_code = True
    code, status = "IDEMPOTENCY_KEY_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("there is no record of a request with this idempotency key")


class IdempotencyKeyTaken(Failure):
    """Another request with the key was faster. Clients are not told: what the other has done is looked up."""

    names_its_code = True
    code, status, retryable, retry_after_s = "IDEMPOTENCY_IN_PROGRESS", 409, True, 1

    def __init__(self) -> None:
        super().__init__("another request with this idempotency key was faster")


class IdempotencyClaimLost(Failure):
    """The node was taken for dead while it worked, and another has taken the request over."""

    code, status, retryable = "CONFLICT", 409, True

    def __init__(self) -> None:
        super().__init__("another node has taken this request over")


class IncidentNotFound(Failure):
    """The tenant has no such incident, or keeps it no longer."""

    code, status = "INCIDENT_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("no incident has this id")


class IncidentClosed(Failure):
    """The incident is resolved, or somebody else is just retrying it."""

    code, status = "INCIDENT_CLOSED", 409

    def __init__(self, state: str) -> None:
        super().__init__(f"the incident is {state}", {"status": state})


class IncidentStale(Failure):
    """The entity was written since the incident."""

    code, status = "INCIDENT_STALE", 409

    def __init__(self, current: str) -> None:
        super().__init__("the entity was written since the failure", {"currentTransactionId": current})


class IncidentNotRetryable(Failure):
    """There is nothing kept that could be done again."""

    code, status = "INCIDENT_NOT_RETRYABLE", 409

    def __init__(self, reason: str) -> None:
        super().__init__(f"the incident cannot be retried: {reason}", {"reason": reason})


class Suspended(Failure):
    """An operator has suspended what the request would move."""

    code, status = "SUSPENDED", 409

    def __init__(self, scope: str, target: str, *, suspension_id: str = "", reason: str = "") -> None:
        named = f"{scope} {target}".rstrip()
        properties = {"scope": scope, "target": target, "suspensionId": suspension_id, "reason": reason}
        super().__init__(
            f"{named} is suspended: {reason}" if reason else f"{named} is suspended",
            {name: value for name, value in properties.items() if value},
        )


class SuspensionNotFound(Failure):
    """No active suspension of the tenant has this id, or none at all for a reader."""

    code, status = "SUSPENSION_NOT_FOUND", 404


class RevisionMismatch(Failure):
    """The workflows of the model have another revision than the one that the change is for."""

    code, status = "REVISION_MISMATCH", 412

    def __init__(self, current: int, what: str = "the workflows are") -> None:
        super().__init__(f"{what} at revision {current}", {"currentRevision": current})


class RevisionNotFound(Failure):
    """The workflows of the model have no such revision."""

    code, status = "REVISION_NOT_FOUND", 404


class AlreadyExists(Failure):
    """There is one already, which ``existingId`` names."""

    code, status = "ALREADY_EXISTS", 409

    def __init__(self, message: str, existing_id: str) -> None:
        super().__init__(message, {"existingId": existing_id})


class LimitReached(Failure):
    """A tenant has as many as it may have."""

    code, status = "LIMIT_REACHED", 409

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"there are {limit} {what} already", {"limit": limit})


class SubscriptionNotFound(Failure):
    """The tenant has no such subscription."""

    code, status = "SUBSCRIPTION_NOT_FOUND", 404


class TargetNotAllowed(Failure):
    """Events are not sent there (docs/reference/operations.md#targets)."""

    code, status = "TARGET_NOT_ALLOWED", 400

    def __init__(self, wrong: str, member: str = "url") -> None:
        super().__init__(f"the target is not allowed: {wrong}", {"parameter": f"/target/{member}"})


class EventsNotRecorded(Failure):
    """The tenant records no events, or not all nodes know of it yet."""

    code, status = "EVENTS_NOT_RECORDED", 409

    def __init__(self) -> None:
        super().__init__("events are not recorded")


class EventsGone(Failure):
    """Events behind the position are not kept any more, or were never recorded."""

    code, status = "EVENTS_GONE", 410

    def __init__(self, kept_from: str) -> None:
        super().__init__(f"events are kept from {kept_from} on", {"keptFrom": kept_from})


class BulkJobNotFound(Failure):
    """The tenant has no such bulk job, or keeps it no longer."""

    code, status = "BULK_JOB_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("no bulk job has this id")


class BulkState(Failure):
    """The bulk job is in a state in which that cannot be done."""

    code, status = "BULK_STATE", 409

    def __init__(self, state: str) -> None:
        super().__init__(f"the bulk job is {state}", {"status": state})


class BulkCountChanged(Failure):
    """The bulk job has another number of items than was expected."""

    code, status = "BULK_COUNT_CHANGED", 409

    def __init__(self, count: int) -> None:
        super().__init__(f"the bulk job has {count} items", {"count": count})
