"""Settings as administrators read them (docs/reference/operations.md#settings)."""

from typing import Final

from statewright.api.http.ops.route import ADMIN, OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.services.ops import settings


async def list_settings(request: Request) -> Response:
    """What the node that answers runs with."""
    items = [
        {
            "name": each.name,
            "section": each.section,
            "value": each.value,
            "variable": each.variable,
            "meaning": each.meaning,
        }
        for each in settings.list_settings(request.runtime)
    ]
    return Response(encode_json({"items": items}))


EFFECTIVE_SETTINGS: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/settings",
        endpoint=list_settings,
        id="listSettings",
        summary="The settings of the node that answers; secrets are masked",
        role=ADMIN,
        reply="OpsSettings",
        problems=("BAD_REQUEST", "FORBIDDEN"),
    ),
)
