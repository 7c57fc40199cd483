"""Counts of instances as clients read them (docs/reference/operations.md#counts-of-instances)."""

from typing import Final

from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query
from statewright.failures import InvalidParameter
from statewright.services.ops import instance_counts

LANGUAGE: Final = Query("language", "string", "process language, such as `steps`")
DEFINITION: Final = Query("definitionId", "string", "id of the definition")


async def count_instances(request: Request) -> Response:
    """How many instances there are by definition and status."""
    found, is_complete = await instance_counts.count_instances(
        request.runtime, request.caller, language=_read(request, LANGUAGE), definition_id=_read(request, DEFINITION)
    )
    items = [
        {"language": each.language, "definitionId": each.definition_id, "status": each.status, "count": each.count}
        for each in found
    ]
    return Response(encode_json({"items": items, "isLowerBound": not is_complete}))


async def count_steps(request: Request) -> Response:
    """How many executions are under way by step."""
    language, definition_id = _read(request, LANGUAGE), _read(request, DEFINITION)
    if not language or not definition_id:
        raise InvalidParameter("definitionId" if language else "language")
    found, is_complete = await instance_counts.count_steps(
        request.runtime, request.caller, language=language, definition_id=definition_id
    )
    items = [{"stepId": each.step, "count": each.count} for each in found]
    return Response(encode_json({"items": items, "isLowerBound": not is_complete}))


def _read(request: Request, query: Query) -> str | None:
    text = request.query(query.name)
    if text is not None and "\0" in text:
        raise InvalidParameter(query.name)
    return text


INSTANCE_COUNTS: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/instance-counts",
        endpoint=count_instances,
        id="countInstances",
        summary="How many instances there are by definition and status",
        query=(LANGUAGE, DEFINITION),
        reply="OpsInstanceCounts",
        problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
    ),
    OpsRoute(
        method="GET",
        path="/ops/v1/instance-counts/steps",
        endpoint=count_steps,
        id="countSteps",
        summary="How many executions of a definition are under way by step",
        query=(LANGUAGE, DEFINITION),
        reply="OpsStepCounts",
        problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
    ),
)
