"""Nodes as clients read them (docs/reference/operations.md#nodes)."""

from typing import Final

from statewright.api.http.ops.lists import PAGING, build_list_response, read_page_request
from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.instants import to_rfc3339
from statewright.services.ops import nodes
from statewright.services.ops.nodes import NodeKey, ObservedNode


async def list_nodes(request: Request) -> Response:
    """The nodes of the installation that are alive."""
    page = read_page_request(request, (), NodeKey)
    return build_list_response(request, (), await nodes.list_nodes(request.runtime, request.caller, page), _describe)


def _describe(node: ObservedNode) -> dict[str, object]:
    return {
        "id": node.id,
        "name": node.name,
        "version": node.version,
        "draining": node.draining,
        "startedAt": to_rfc3339(node.started_at),
        "leaseUntil": to_rfc3339(node.lease_until),
        "members": node.members,
    }


NODES: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/nodes",
        endpoint=list_nodes,
        id="listNodes",
        summary="The nodes of the installation that are alive, by id",
        query=PAGING,
        reply="OpsNodes",
        problems=("BAD_REQUEST",),
    ),
)
