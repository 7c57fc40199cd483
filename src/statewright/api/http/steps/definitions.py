"""Definitions over REST (spec/step-engine.md §11.2)."""

from statewright.api.http.exchange import Answer, Exchange
from statewright.api.http.steps import parameters
from statewright.api.http.steps.bodies import TEXT, reply
from statewright.api.http.steps.refusals import error
from statewright.failures import BodyTooLarge
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.services.steps import definitions
from statewright.services.steps.definitions import Summary
from statewright.steps.core.lint import warnings as lint
from statewright.steps.core.times import instant_text
from statewright.steps.core.writing import to_document

_XML = ("application/xml", "text/xml")


async def upload(exchange: Exchange) -> Answer:
    """Store a definition."""
    content_type = exchange.header(b"content-type") or ""
    if any(kind in content_type.lower() for kind in _XML):
        return error(415, "Only JSON workflow definitions are accepted")
    raw = await exchange.body(excess=BodyTooLarge)
    stored = await definitions.upload(exchange.runtime, exchange.caller, raw)
    summary: JsonObject = {
        "id": stored.id,
        "version": stored.version,
        "name": stored.name,
        "uploadedAt": instant_text(stored.uploaded_at),
    }
    if parameters.flag(exchange, "warnings"):
        summary["warnings"] = list(stored.warnings)
    return reply(summary, 201)


async def listing(exchange: Exchange) -> Answer:
    """A page of definitions."""
    found = await definitions.listing(
        exchange.runtime,
        exchange.caller,
        keyword=parameters.text(exchange, "keyword"),
        page=parameters.number(exchange, "page"),
        page_size=parameters.number(exchange, "pageSize"),
    )
    items: list[JsonValue] = [_item(summary) for summary in found.items]
    return reply({"items": items, "page": found.page, "pageSize": found.page_size, "total": found.total})


async def latest(exchange: Exchange) -> Answer:
    """The latest version of a definition."""
    return await _document(exchange, 0)


async def version(exchange: Exchange) -> Answer:
    """One version of a definition."""
    return await _document(exchange, parameters.version(exchange))


async def warnings(exchange: Exchange) -> Answer:
    """What looks like a mistake in the latest version."""
    found = await definitions.published(exchange.runtime, exchange.caller, exchange.segments["id"])
    return reply({"version": found.version, "warnings": list(lint(found.definition))})


async def diagram(exchange: Exchange) -> Answer:
    """The latest version as a Mermaid flowchart."""
    return await _diagram(exchange, 0)


async def version_diagram(exchange: Exchange) -> Answer:
    """One version as a Mermaid flowchart."""
    return await _diagram(exchange, parameters.version(exchange))


async def _document(exchange: Exchange, wanted: int) -> Answer:
    found = await definitions.published(exchange.runtime, exchange.caller, exchange.segments["id"], wanted)
    return reply(to_document(found.definition, found.version))


async def _diagram(exchange: Exchange, wanted: int) -> Answer:
    drawn = await definitions.diagram(exchange.runtime, exchange.caller, exchange.segments["id"], wanted)
    return Answer(drawn.encode(), media_type=TEXT)


def _item(summary: Summary) -> JsonObject:
    return {
        "id": summary.id,
        "version": summary.version,
        "name": summary.name,
        "uploadedAt": instant_text(summary.uploaded_at),
        "versions": list(summary.versions),
    }
