"""The failures of conditions and searches (docs/reference/search.md#search), and of grouped statistics
(docs/reference/entities.md#grouped-statistics).
"""

from statewright.failures.failure import Failure


class InvalidCondition(Failure):
    """A condition is malformed (docs/reference/search.md#order-of-checks)."""

    code, status = "INVALID_CONDITION", 400


class InvalidFieldPath(Failure):
    """A condition names a field that its model does not have (docs/reference/conditions.md#known-paths)."""

    code, status = "INVALID_FIELD_PATH", 400


class ConditionTypeMismatch(Failure):
    """An operand fits none of the declared types of its field (docs/reference/search.md#order-of-checks)."""

    code, status = "CONDITION_TYPE_MISMATCH", 400


class SearchResultLimit(Failure):
    """A direct search matches more entities than its limit (docs/reference/search.md#direct-search)."""

    code, status = "SEARCH_RESULT_LIMIT", 400

    def __init__(self, limit: int) -> None:
        super().__init__(f"search matches more than {limit} entities; narrow the condition or search asynchronously")


class ScanBudgetExhausted(Failure):
    """A direct search would have to test more entities one by one than the scan budget allows."""

    code, status = "SCAN_BUDGET_EXHAUSTED", 400

    def __init__(self, budget: int) -> None:
        super().__init__(
            f"the condition leaves more than {budget} entities to be judged one by one; "
            "narrow it or search asynchronously"
        )


class SearchTimeout(Failure):
    """A search took longer than its time limit."""

    code, status, retryable = "SEARCH_SHARD_TIMEOUT", 503, True

    def __init__(self, seconds: float) -> None:
        super().__init__(f"search was stopped after {seconds:g} s; narrow the condition or search asynchronously")


class SearchJobNotFound(Failure):
    """The tenant has no such asynchronous search, or its results have expired."""

    code, status = "SEARCH_JOB_NOT_FOUND", 404

    def __init__(self, job: str) -> None:
        super().__init__(f"search job {job} not found")


class SearchJobAlreadyTerminal(Failure):
    """An asynchronous search that is to be cancelled has ended before
    (docs/reference/search.md#error-codes-of-searches).
    """

    code, status = "SEARCH_JOB_ALREADY_TERMINAL", 400

    def __init__(self, job: str, job_status: str) -> None:
        super().__init__(
            f"snapshot by id={job} is not running. current status={job_status}",
            {"currentStatus": job_status, "snapshotId": job},
        )


class SearchIndexNotFound(Failure):
    """The model has no such declared index."""

    code, status = "SEARCH_INDEX_NOT_FOUND", 404

    def __init__(self, index: str) -> None:
        super().__init__(f"index {index} not found")


class MalformedRequest(Failure):
    """The body of a statistics query cannot be decoded
    (docs/reference/entities.md#the-request-of-a-grouped-statistic).
    """

    code, status = "MALFORMED_REQUEST", 400


class MissingGroupBy(Failure):
    """A statistics query does not say what to group by."""

    code, status = "MISSING_GROUP_BY", 400

    def __init__(self) -> None:
        super().__init__("groupBy must name at least one path")


class InvalidGroupByPath(Failure):
    """A ``groupBy`` entry is neither ``state`` nor the path of a scalar."""

    code, status = "INVALID_GROUP_BY_PATH", 400


class DuplicateGroupBy(Failure):
    """A statistics query groups by the same path twice."""

    code, status = "DUPLICATE_GROUP_BY", 400


class InvalidAggregationOp(Failure):
    """An aggregation asks for something else than sum, avg, min, max or stdev."""

    code, status = "INVALID_AGGREGATION_OP", 400


class InvalidAggregationField(Failure):
    """An aggregation's field is not the path of a scalar."""

    code, status = "INVALID_AGGREGATION_FIELD", 400


class DuplicateAggregationAlias(Failure):
    """Two different aggregations would have the same name in the result."""

    code, status = "DUPLICATE_AGGREGATION_ALIAS", 400


class InvalidLimit(Failure):
    """The number of wanted groups is out of range."""

    code, status = "INVALID_LIMIT", 400


class GroupCardinalityExceeded(Failure):
    """A statistics query has more groups than the limit allows."""

    code, status = "GROUP_CARDINALITY_EXCEEDED", 422
