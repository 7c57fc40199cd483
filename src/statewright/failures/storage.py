"""The database."""

from statewright.failures.failure import Failure


class StorageUnavailable(Failure):
    """The database cannot be reached, or has no connection to spare."""

    code, status, retryable = "STORAGE_UNAVAILABLE", 503, True

    def __init__(self, message: str = "storage is not available") -> None:
        super().__init__(message)
