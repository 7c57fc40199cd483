"""Searching over REST (spec/search.md §9, §10)."""

import asyncio
import re
from collections.abc import Sequence

from statewright.api.http.bodies import envelope, json_body
from statewright.api.http.exchange import Answer, Exchange
from statewright.conditions import Condition
from statewright.conditions.sorting import SortKey, parse_sort
from statewright.conditions.templates import Shaped
from statewright.entity import EntityView, ModelKey
from statewright.failures import BadRequest, InvalidParameter
from statewright.services import search
from statewright.services.search import Search

EXPLANATIONS = {"plan": False, "analyze": True}
"""Whether the statement is run."""

AT_ONCE = 200
"""Envelopes between two looks at what else there is to do."""

NDJSON = "application/x-ndjson"

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")


async def direct(exchange: Exchange) -> Answer:
    """Everything that matches, as lines of JSON; with ``explain``, how that is found out."""
    key = exchange.model_key()
    explain = exchange.query("explain")
    if explain is not None:
        return await _explanation(exchange, key, explain)
    lines = await enveloped(await _found(exchange, key), key)
    return Answer(b"".join(line + b"\n" for line in lines), media_type=NDJSON)


async def direct_as_array(exchange: Exchange) -> Answer:
    """The same as one JSON array, for older clients (spec/search.md §20)."""
    key = exchange.model_key()
    return Answer(b"[" + b",".join(await enveloped(await _found(exchange, key), key)) + b"]\n")


async def enveloped(entities: Sequence[EntityView], key: ModelKey) -> list[bytes]:
    """The envelopes; ten thousand of them take a while, in which others get their turn."""
    if len(entities) <= AT_ONCE:
        return [envelope(entity, key) for entity in entities]
    envelopes: list[bytes] = []
    for start in range(0, len(entities), AT_ONCE):
        envelopes += [envelope(entity, key) for entity in entities[start : start + AT_ONCE]]
        await asyncio.sleep(0)
    return envelopes


async def _explanation(exchange: Exchange, key: ModelKey, kind: str) -> Answer:
    if kind not in EXPLANATIONS:
        raise InvalidParameter("explain")
    wanted, limit = await _wanted(exchange, key)
    found = await search.explain(exchange.runtime, exchange.caller, wanted, limit=limit, analyze=EXPLANATIONS[kind])
    text = " ".join(found.statement.text.split())
    arguments = [str(argument) for argument in found.statement.args]
    return Answer(json_body({"sql": text, "arguments": arguments, "judged": found.judged, "plan": found.plan}))


async def _found(exchange: Exchange, key: ModelKey) -> list[EntityView]:
    tracking = exchange.query_flag("trackingRead")
    wanted, limit = await _wanted(exchange, key)
    return await search.direct(exchange.runtime, exchange.caller, wanted, limit=limit, tracking=tracking)


async def _wanted(exchange: Exchange, key: ModelKey) -> tuple[Search, int]:
    instant = exchange.query_instant("pointInTime")
    question, sort = await read_question(exchange), read_sort(exchange)
    limit = _limit(exchange)
    return Search(key=key, question=question, sort=sort, instant=instant), limit


async def read_question(exchange: Exchange) -> Condition | Shaped:
    """The condition in the body."""
    try:
        body = await exchange.body()
    except BadRequest as refused:
        raise BadRequest(f"failed to read request body: {refused.message}") from refused
    return search.read_question(body)


def read_sort(exchange: Exchange) -> tuple[SortKey, ...]:
    """The keys of the query."""
    return parse_sort(exchange.query_all("sort"), most=exchange.runtime.max_sort_keys)


def _limit(exchange: Exchange) -> int:
    text = exchange.query("limit")
    if text is None:
        return search.DEFAULT_LIMIT
    if not _INTEGER.fullmatch(text):
        raise BadRequest(f'invalid limit: "{text}" is no integer')
    return search.check_limit(int(text))
