"""Workflows over REST (spec/workflows.md §4, §6)."""

from statewright.api.http.bodies import json_body, json_in_order
from statewright.api.http.exchange import Answer, Exchange
from statewright.failures import BadRequest
from statewright.jsonval.codec import encode
from statewright.services import workflows
from statewright.workflow import MAX_IMPORT_BYTES, version_discovery


async def import_workflows(exchange: Exchange) -> Answer:
    """Import workflows for a model."""
    key = exchange.model_key()
    try:
        body = await exchange.body(MAX_IMPORT_BYTES)
    except BadRequest as oversized:
        raise BadRequest("failed to read request body") from oversized
    await workflows.import_workflows(exchange.runtime, exchange.principal, key=key, body=body)
    return Answer(json_body({"success": True}))


async def export_workflows(exchange: Exchange) -> Answer:
    """Export the workflows of a model; the order of members is part of the format (spec/workflows.md §6)."""
    document = await workflows.export_workflows(exchange.runtime, exchange.principal, key=exchange.model_key())
    return Answer(json_in_order(document))


def schema_versions_body() -> bytes:
    """Which import contracts this server knows."""
    return encode(version_discovery()) + b"\n"
