"""Parameters that all writes of entities share (spec/entities.md §1.4, §5.5)."""

from statewright.api.http.exchange import Exchange
from statewright.failures import BadRequest

MAX_WINDOW = 1000
"""Items per transaction of a collection (spec/entities.md §1.6)."""

DEFAULT_WINDOW = 100


def bind_write_parameters(exchange: Exchange) -> None:
    """Parameters that have no effect, but must be well-formed."""
    if exchange.has_query:
        exchange.query_flag("waitForConsistencyAfter")
        exchange.query_int64("transactionTimeoutMillis")


def bind_window(exchange: Exchange) -> int:
    """The wanted number of items per transaction, whatever it is."""
    return exchange.query_int32("transactionWindow", DEFAULT_WINDOW)


def check_window(window: int) -> int:
    """The same number. Raises ``BadRequest`` when it is out of range."""
    if not 1 <= window <= MAX_WINDOW:
        raise BadRequest(f"transactionWindow must be between 1 and {MAX_WINDOW}")
    return window
