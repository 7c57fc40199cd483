"""Many entities at once over REST (spec/entities.md §5.3–§5.5, §7.2)."""

from statewright.api.http.bodies import results_body
from statewright.api.http.endpoints.write_parameters import bind_window, bind_write_parameters, check_window
from statewright.api.http.exchange import Answer, Exchange
from statewright.entity import ModelKey
from statewright.failures import BadRequest
from statewright.services import collections


async def create(exchange: Exchange) -> Answer:
    """Create entities of any models; ``{format}`` is not looked at."""
    bind_write_parameters(exchange)
    window = check_window(bind_window(exchange))
    items = collections.read_new_items(await exchange.body())
    return Answer(results_body(await collections.create_all(exchange.runtime, exchange.caller, items, window=window)))


async def create_array(exchange: Exchange, key: ModelKey, body: bytes, window: int) -> Answer:
    """Create the items of an array body, all of one model."""
    items = collections.read_array(body, key)
    return Answer(results_body(await collections.create_all(exchange.runtime, exchange.caller, items, window=window)))


async def update(exchange: Exchange) -> Answer:
    """Replace documents and fire transitions of many entities."""
    media = exchange.segments["format"]
    bind_write_parameters(exchange)
    window = bind_window(exchange)
    if media != "JSON":
        raise BadRequest(f"unsupported format: {media}")
    check_window(window)
    items = collections.read_changed_items(await exchange.body())
    return Answer(results_body(await collections.update_all(exchange.runtime, exchange.caller, items, window=window)))
