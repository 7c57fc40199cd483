"""Routes that count and group entities (spec/entities.md §13, §14)."""

from statewright.api.http.endpoints import statistics
from statewright.api.http.routes.route import Query, Route

NO_INSTANT = Query("pointInTime", "string", "accepted for compatibility; counts are always current", "date-time")
STATES = Query("states", "string", "only these states, 1000 at most", repeatable=True)

STATISTICS: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/entity/stats",
        endpoint=statistics.of_models,
        id="getEntityStatistics",
        tag="Statistics",
        summary="Count the entities of every model",
        query=(NO_INSTANT,),
        reply="Counts",
        problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
    ),
    Route(
        method="GET",
        path="/entity/stats/states",
        endpoint=statistics.of_states,
        id="getEntityStatisticsByState",
        tag="Statistics",
        summary="Count the entities of every model in each state that has any",
        query=(STATES, NO_INSTANT),
        reply="StateCounts",
        problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
    ),
    Route(
        method="GET",
        path="/entity/stats/{entityName}/{modelVersion}",
        endpoint=statistics.of_model,
        id="getEntityStatisticsForModel",
        tag="Statistics",
        summary="Count the entities of a model",
        query=(NO_INSTANT,),
        reply="Count",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "SEARCH_SHARD_TIMEOUT"),
    ),
    Route(
        method="GET",
        path="/entity/stats/states/{entityName}/{modelVersion}",
        endpoint=statistics.of_states_of_model,
        id="getEntityStatisticsByStateForModel",
        tag="Statistics",
        summary="Count the entities of a model in each state that has any",
        query=(STATES, NO_INSTANT),
        reply="StateCounts",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "SEARCH_SHARD_TIMEOUT"),
    ),
    Route(
        method="POST",
        path="/entity/stats/{entityName}/{modelVersion}/query",
        endpoint=statistics.query,
        id="queryEntityStatistics",
        tag="Statistics",
        summary="Group the entities of a model and work out numbers for each group",
        body="GroupedQuery",
        body_limited=True,
        reply="Groups",
        problems=(
            "HISTORY_PRUNED",
            "MALFORMED_REQUEST",
            "MISSING_GROUP_BY",
            "INVALID_GROUP_BY_PATH",
            "DUPLICATE_GROUP_BY",
            "INVALID_AGGREGATION_OP",
            "INVALID_AGGREGATION_FIELD",
            "DUPLICATE_AGGREGATION_ALIAS",
            "INVALID_LIMIT",
            "MODEL_NOT_FOUND",
            "INVALID_CONDITION",
            "INVALID_FIELD_PATH",
            "CONDITION_TYPE_MISMATCH",
            "SCAN_BUDGET_EXHAUSTED",
            "GROUP_CARDINALITY_EXCEEDED",
            "SEARCH_SHARD_TIMEOUT",
        ),
    ),
)
