"""The failures of grouped statistics (docs/reference/entities.md#grouped-statistics)."""

from statewright.failures.failure import Failure


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
