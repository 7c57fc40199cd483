"""The failures of transactions that are joined, and of the storage below them."""

from statewright.failures.failure import Failure


class TransactionNotFound(Failure):
    """The transaction a token names has ended, or never was."""

    code, status = "TRANSACTION_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("transaction not found or no longer active")


class TransactionExpired(Failure):
    """The transaction token has expired."""

    code, status = "TRANSACTION_EXPIRED", 410

    def __init__(self) -> None:
        super().__init__("transaction token has expired")


class TransactionNodeUnavailable(Failure):
    """The node that owns a callback's transaction cannot be reached (docs/reference/grpc.md#callbacks-to-other-nodes).

    Not retryable: the transaction ends with its node.
    """

    code, status = "TRANSACTION_NODE_UNAVAILABLE", 503


class OutcomeUnknown(Failure):
    """Whether a transaction was committed could not be determined. Repeating the request might do its work twice; an
    entity with the transaction's id proves that it was committed.
    """

    code, status = "STORAGE_UNAVAILABLE", 503

    def __init__(self, transaction: str) -> None:
        super().__init__(
            f"whether transaction {transaction} was committed is not known", {"transactionId": transaction}
        )


class StorageUnavailable(Failure):
    """The database cannot be reached, or has no connection to spare."""

    code, status, retryable = "STORAGE_UNAVAILABLE", 503, True

    def __init__(self, message: str = "storage is not available") -> None:
        super().__init__(message)
