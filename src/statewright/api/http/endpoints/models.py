"""Models over REST (spec/models.md §4)."""

from statewright.api.http.bodies import json_body
from statewright.api.http.exchange import Answer, Exchange
from statewright.entity import ModelKey
from statewright.identity import ModelId
from statewright.instants import to_rfc3339
from statewright.services import models

MAX_UNIQUE_KEYS_BYTES = 1024 * 1024
"""Of the body that sets unique keys (spec/models.md §2)."""


async def listing(exchange: Exchange) -> Answer:
    """All models of the tenant."""
    found = await models.listing(exchange.runtime, exchange.principal)
    rows = [
        {
            "id": model.id,
            "modelName": model.key.name,
            "modelVersion": model.key.version,
            "currentState": model.state,
            "modelUpdateDate": to_rfc3339(model.imported_at),
        }
        for model in found
    ]
    return Answer(json_body(rows))


async def import_model(exchange: Exchange) -> Answer:
    """Infer a model from a sample document, or take over an exported one."""
    key = exchange.model_key()
    model = await models.import_model(
        exchange.runtime,
        exchange.principal,
        key=key,
        converter=exchange.segments["converter"],
        media=exchange.segments["dataFormat"],
        body=await exchange.body(),
    )
    return Answer(json_body(model))


async def export(exchange: Exchange) -> Answer:
    """The schema in an export format; the one response without a trailing newline (spec/models.md §2)."""
    key, converter = exchange.model_key(), exchange.segments["converter"]
    return Answer(await models.export(exchange.runtime, exchange.principal, key=key, converter=converter))


async def validate(exchange: Exchange) -> Answer:
    """Check a document against the schema."""
    key = exchange.model_key()
    result = await models.validate(exchange.runtime, exchange.principal, key=key, body=await exchange.body())
    errors = "; ".join(str(violation) for violation in result.violations)
    message = f"Validation failed: {errors}" if errors else "Validation passed"
    return _action(key, result.model.id, message, success=not errors)


async def set_change_level(exchange: Exchange) -> Answer:
    """Say how far documents may extend the model."""
    key, level = exchange.model_key(), exchange.segments["changeLevel"]
    model = await models.set_change_level(exchange.runtime, exchange.principal, key, level)
    return _action(key, model, f"model {key.name}:{key.version} now at change level {level}")


async def set_unique_keys(exchange: Exchange) -> Answer:
    """Replace the unique keys of an unlocked model."""
    key = exchange.model_key()
    body = await exchange.body(MAX_UNIQUE_KEYS_BYTES)
    model = await models.set_unique_keys(exchange.runtime, exchange.principal, key=key, body=body)
    return _action(key, model, f"unique keys set on model {key.name}:{key.version}")


async def lock(exchange: Exchange) -> Answer:
    """Let entities be created."""
    key = exchange.model_key()
    model = await models.lock(exchange.runtime, exchange.principal, key)
    return _action(key, model, f"Model {key.name}:{key.version} locked")


async def unlock(exchange: Exchange) -> Answer:
    """Let the model be changed."""
    key = exchange.model_key()
    model = await models.unlock(exchange.runtime, exchange.principal, key)
    return _action(key, model, f"Model {key.name}:{key.version} unlocked")


async def delete(exchange: Exchange) -> Answer:
    """Delete an unlocked model without entities."""
    key = exchange.model_key()
    model = await models.delete(exchange.runtime, exchange.principal, key)
    return _action(key, model, f"model {key.name}:{key.version} deleted")


def _action(key: ModelKey, model: ModelId, message: str, *, success: bool = True) -> Answer:
    identity = {"name": key.name, "version": key.version}
    return Answer(json_body({"success": success, "message": message, "modelId": model, "modelKey": identity}))
