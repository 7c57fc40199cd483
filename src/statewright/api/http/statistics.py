"""Statistics over REST (docs/reference/entities.md#counts, docs/reference/entities.md#grouped-statistics)."""

from typing import Any, Final

from statewright.api.http.declaration import Subject
from statewright.api.http.request import Request
from statewright.api.http.response import Response, build_warning_headers, encode_json
from statewright.api.http.router import BUILTIN, bind_scope
from statewright.entity import EntityCount, EntityGroup
from statewright.operations.entity_answers import GroupKeyPart, GroupTally, ModelTally, StateTally
from statewright.operations.records import POINT_IN_TIME, QueryParameter
from statewright.services import statistics
from statewright.services.statistics import GroupedQuery, read_query

STATES: Final = QueryParameter("states", "string", "only these states, 1000 at most", repeatable=True)

_STATISTICS: Final = Subject(tag="Statistics", problems=("HISTORY_PRUNED", "SEARCH_SHARD_TIMEOUT"))


@_STATISTICS.declare(
    "GET /entity/stats",
    "getEntityStatistics",
    query=(POINT_IN_TIME, BUILTIN),
    reply="Counts",
    problems=("BAD_REQUEST",),
)
async def count_entities(request: Request) -> Response:
    """Count the entities of every model."""
    instant, scope = request.query_instant("pointInTime"), bind_scope(request)
    counts = await statistics.count_models(request.runtime.core, request.caller, instant=instant, scope=scope)
    return Response(encode_json([_to_model_tally(count) for count in counts]))


@_STATISTICS.declare(
    "GET /entity/stats/{entityName}/{modelVersion}",
    "getEntityStatisticsForModel",
    query=(POINT_IN_TIME,),
    reply="Count",
    problems=("BAD_REQUEST", "MODEL_NOT_FOUND"),
)
async def count_model_entities(request: Request) -> Response:
    """Count the entities of a model."""
    key = request.model_key()
    instant = request.query_instant("pointInTime")
    count = await statistics.count_model(request.runtime.core, request.caller, key, instant=instant)
    return Response(encode_json(_to_model_tally(count)))


@_STATISTICS.declare(
    "GET /entity/stats/states",
    "getEntityStatisticsByState",
    query=(STATES, POINT_IN_TIME, BUILTIN),
    reply="StateCounts",
    problems=("BAD_REQUEST",),
)
async def count_states(request: Request) -> Response:
    """Count the entities of every model in each state that has any."""
    instant, states, scope = request.query_instant("pointInTime"), request.query_all("states"), bind_scope(request)
    counts = await statistics.count_by_state(
        request.runtime.core, request.caller, states=states, instant=instant, scope=scope
    )
    return Response(encode_json([_to_state_tally(count) for count in counts]))


@_STATISTICS.declare(
    "GET /entity/stats/states/{entityName}/{modelVersion}",
    "getEntityStatisticsByStateForModel",
    query=(STATES, POINT_IN_TIME),
    reply="StateCounts",
    problems=("BAD_REQUEST", "MODEL_NOT_FOUND"),
)
async def count_model_states(request: Request) -> Response:
    """Count the entities of a model in each state that has any."""
    key = request.model_key()
    instant, states = request.query_instant("pointInTime"), request.query_all("states")
    counts = await statistics.count_by_state(
        request.runtime.core, request.caller, key=key, states=states, instant=instant
    )
    return Response(encode_json([_to_state_tally(count) for count in counts]))


@_STATISTICS.declare(
    "POST /entity/stats/{entityName}/{modelVersion}/query",
    "queryGroupedEntityStatisticsForModel",
    recording="nothing",
    is_read=True,
    body="GroupedQuery",
    body_limited=True,
    reply="Groups",
    problems=(
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
    ),
)
async def group_entities(request: Request) -> Response:
    """Group the entities of a model and work out numbers for each group.

    The version is no bound parameter here
    (docs/reference/entities.md#the-request-of-a-grouped-statistic).
    """
    wanted = await request.read(lambda body: read_query(body, max_limit=request.runtime.core.max_stats_groups))
    groups, warnings = await statistics.group_entities(
        request.runtime.core,
        request.caller,
        name=request.path_params["entityName"],
        version=request.path_params["modelVersion"],
        query=wanted,
    )
    shown = [_to_group_tally(group, wanted) for group in groups.first]
    return Response(encode_json(shown), headers=build_warning_headers(warnings))


def _to_model_tally(count: EntityCount) -> ModelTally:
    return ModelTally(model_name=count.model.name, model_version=count.model.version, count=count.count)


def _to_state_tally(count: EntityCount) -> StateTally:
    return StateTally(
        model_name=count.model.name, model_version=count.model.version, state=count.state or "", count=count.count
    )


def _to_group_tally(group: EntityGroup, wanted: GroupedQuery) -> GroupTally:
    keys = zip(wanted.group_by, group.keys, strict=True)
    values = _name_values(group, wanted) if wanted.aggregations else None
    return GroupTally(
        group_key=tuple(GroupKeyPart(path=path, value=value) for path, value in keys),
        count=group.count,
        aggregations=values,
    )


def _name_values(group: EntityGroup, wanted: GroupedQuery) -> dict[str, Any]:  # Any: a float stays one
    return dict(zip(wanted.aggregations, group.values, strict=True))
