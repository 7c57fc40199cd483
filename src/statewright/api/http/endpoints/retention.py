"""Removing superseded versions by request: an extension of ours."""

from statewright.api.http.bodies import json_body
from statewright.api.http.exchange import Answer, Exchange
from statewright.failures import Forbidden, InvalidParameter
from statewright.instants import to_rfc3339
from statewright.services import retention
from statewright.settings import read_period

ADMIN = "ROLE_ADMIN"


async def prune(exchange: Exchange) -> Answer:
    """Remove versions of a model that were superseded long ago, for a few seconds; whether that was all."""
    if ADMIN not in exchange.principal.roles:
        raise Forbidden("admin role required")
    key = exchange.model_key()
    try:
        period = read_period(exchange.query("olderThan") or "")
    except (ValueError, OverflowError) as malformed:
        raise InvalidParameter("olderThan") from malformed
    pruning = await retention.prune(exchange.runtime, exchange.caller, key, period=period)
    answer = {
        "removed": pruning.removed,
        "keptFrom": to_rfc3339(pruning.kept_from),
        "complete": pruning.is_complete,
    }
    return Answer(json_body(answer))
