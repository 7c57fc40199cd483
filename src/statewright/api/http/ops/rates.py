"""How much was written in the last hour, as clients read it (docs/reference/operations.md#rates)."""

from typing import Final

from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.instants import to_rfc3339
from statewright.services.ops.rates import MINUTE_US, MinuteRate, list_rates


async def show_rates(request: Request) -> Response:
    """What the tenant has written in each minute of the last hour."""
    minutes = await list_rates(request.runtime, request.caller)
    return Response(
        encode_json(
            {
                "transactions": sum(each.transactions for each in minutes),
                "versions": sum(each.versions for each in minutes),
                "minutes": [_describe(each) for each in minutes],
            }
        )
    )


def _describe(rate: MinuteRate) -> dict[str, object]:
    return {
        "at": to_rfc3339(rate.minute * MINUTE_US),
        "transactions": rate.transactions,
        "versions": rate.versions,
    }


RATES: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/rates",
        endpoint=show_rates,
        id="showRates",
        summary="What was written in each minute of the last hour",
        reply="OpsRates",
        problems=("BAD_REQUEST",),
    ),
)
