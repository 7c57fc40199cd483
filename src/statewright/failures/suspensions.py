"""The failures of suspensions (docs/reference/operations.md#suspensions)."""

from statewright.failures.failure import Failure


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
