"""The failures of requests with an ``Idempotency-Key`` (docs/reference/operations.md#idempotent-requests)."""

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
