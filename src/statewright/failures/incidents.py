"""The failures of acts on incidents (docs/reference/operations.md#incidents)."""

from statewright.failures.failure import Failure


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
