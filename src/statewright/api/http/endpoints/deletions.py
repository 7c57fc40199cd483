"""Deleting the entities of a model over REST (spec/entities.md §9.2)."""

from statewright.api.http.bodies import json_body
from statewright.api.http.exchange import Answer, Exchange
from statewright.services import deletions

MAX_CONDITION_BYTES = 64 * 1024 * 1024
"""The dialect knows no limit for this body; this one only protects the process."""


async def delete_all(exchange: Exchange) -> Answer:
    """Delete all entities of a model, or those that satisfy the condition in the body."""
    key = exchange.model_key()
    exchange.query_int32("transactionSize", 1000)
    verbose, instant = exchange.query_flag("verbose"), exchange.query_instant("pointInTime")
    condition = deletions.read_optional_condition(await exchange.body(MAX_CONDITION_BYTES))
    deletion = await deletions.delete_all(exchange.runtime, exchange.caller, key, condition=condition, instant=instant)
    result = {
        "numberOfEntitites": deletion.found,
        "numberOfEntititesRemoved": deletion.removed,
        "idToError": {},
    }
    answer: dict[str, object] = {"entityModelClassId": deletion.model, "deleteResult": result}
    return Answer(json_body(answer | {"ids": deletion.matched} if verbose else answer))
