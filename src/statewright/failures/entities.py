"""The failures of entities and their versions (docs/reference/entities.md#entities-and-messages)."""

from statewright.failures.failure import Failure
from statewright.instants import to_rfc3339


class EntityNotFound(Failure):
    """The tenant has no such entity, or had none at the asked instant."""

    code, status = "ENTITY_NOT_FOUND", 404


class EntityModified(Failure):
    """``If-Match`` names a version that is no longer current."""

    code, status = "ENTITY_MODIFIED", 412

    def __init__(self, entity_id: str, *, expected: str | None = None, actual: str | None = None) -> None:
        super().__init__("entity has been modified since last read", {"entityId": entity_id})
        self.expected = expected
        self.actual = actual


class Conflict(Failure):
    """Another transaction committed first; repeating the request makes sense."""

    code, status, retryable = "CONFLICT", 409, True

    def __init__(self, message: str = "transaction conflict — retry") -> None:
        super().__init__(message)


class VersionNotFound(Failure):
    """The entity has no such version, or keeps it no longer."""

    code, status = "VERSION_NOT_FOUND", 404


class HistoryPruned(Failure):
    """Versions of the asked instant have been removed by the retention of history; both instants in epoch microseconds.

    ``kept_from`` is the first instant at which everything is kept, where that is known.
    """

    code, status = "HISTORY_PRUNED", 410

    def __init__(self, instant: int, kept_from: int | None = None) -> None:
        since = "" if kept_from is None else f"; versions are kept from {to_rfc3339(kept_from)} on"
        properties = {} if kept_from is None else {"keptFrom": to_rfc3339(kept_from)}
        super().__init__(f"versions of {to_rfc3339(instant)} have been removed{since}", properties)
