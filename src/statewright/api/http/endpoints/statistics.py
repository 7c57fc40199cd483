"""Statistics over REST (spec/entities.md §13, §14)."""

from statewright.api.http.bodies import json_body
from statewright.api.http.exchange import Answer, Exchange
from statewright.failures import BodyTooLarge
from statewright.services import statistics
from statewright.services.grouped_query import GroupedQuery, read_query
from statewright.storage.grouping import Group
from statewright.storage.statistics import Count


async def of_models(exchange: Exchange) -> Answer:
    """How many entities each model has."""
    _bind_instant(exchange)
    counts = await statistics.counts(exchange.runtime, exchange.caller)
    return Answer(json_body([_row(count) for count in counts]))


async def of_model(exchange: Exchange) -> Answer:
    """How many entities one model has."""
    key = exchange.model_key()
    _bind_instant(exchange)
    return Answer(json_body(_row(await statistics.count(exchange.runtime, exchange.caller, key))))


async def of_states(exchange: Exchange) -> Answer:
    """How many entities each model has in each state."""
    _bind_instant(exchange)
    counts = await statistics.counts_by_state(exchange.runtime, exchange.caller, states=exchange.query_all("states"))
    return Answer(json_body([_row(count) for count in counts]))


async def of_states_of_model(exchange: Exchange) -> Answer:
    """How many entities one model has in each state."""
    key = exchange.model_key()
    _bind_instant(exchange)
    counts = await statistics.counts_by_state(
        exchange.runtime, exchange.caller, key=key, states=exchange.query_all("states")
    )
    return Answer(json_body([_row(count) for count in counts]))


async def query(exchange: Exchange) -> Answer:
    """Group the entities of a model. The version is no bound parameter here (spec/entities.md §14.1)."""
    body = await exchange.body(excess=BodyTooLarge)
    wanted = read_query(body, most=exchange.runtime.stats_group_max)
    groups = await statistics.grouped(
        exchange.runtime,
        exchange.caller,
        name=exchange.segments["entityName"],
        version=exchange.segments["modelVersion"],
        query=wanted,
    )
    return Answer(json_body([_bucket(group, wanted) for group in groups.first]))


def _bind_instant(exchange: Exchange) -> None:
    """Counts are always current; the parameter must be well-formed all the same (spec/entities.md §1.4)."""
    exchange.query_instant("pointInTime")


def _row(count: Count) -> dict[str, object]:
    row: dict[str, object] = {
        "modelName": count.model.name,
        "modelVersion": count.model.version,
        "count": count.count,
    }
    return row if count.state is None else row | {"state": count.state}


def _bucket(group: Group, wanted: GroupedQuery) -> dict[str, object]:
    keys = zip(wanted.group_by, group.keys, strict=True)
    bucket: dict[str, object] = {
        "groupKey": [{"path": path, "value": value} for path, value in keys],
        "count": group.count,
    }
    if wanted.aggregations:
        bucket["aggregations"] = dict(zip(wanted.aggregations, group.values, strict=True))
    return bucket
