"""Transactions that are joined, and what became of them."""

from statewright.failures.failure import Failure


class TransactionNotFound(Failure):
    """The transaction a token names has ended, or never was."""

    code, status = "TRANSACTION_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("transaction not found or no longer active")


class TransactionExpired(Failure):
    """The transaction token is past its time."""

    code, status = "TRANSACTION_EXPIRED", 410

    def __init__(self) -> None:
        super().__init__("transaction token has expired")


class TransactionNodeUnavailable(Failure):
    """The node that owns a callback's transaction cannot be asked (spec/grpc.md §22).

    It is not worth trying again: the transaction lives and ends with its node.
    """

    code, status = "TRANSACTION_NODE_UNAVAILABLE", 503


class OutcomeUnknown(Failure):
    """Whether a transaction was committed could not be found out. Repeating the request might do its work twice; an
    entity that bears the transaction's id proves that it was.
    """

    code, status = "STORAGE_UNAVAILABLE", 503

    def __init__(self, transaction: str) -> None:
        super().__init__(
            f"whether transaction {transaction} was committed is not known", {"transactionId": transaction}
        )
