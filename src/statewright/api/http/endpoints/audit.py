"""The audit trail over REST (spec/workflows.md §14.3, §14.4)."""

from statewright.api.http.bodies import json_body
from statewright.api.http.exchange import Answer, Exchange, uuid_text
from statewright.entity import AuditEvent
from statewright.failures import BadRequest
from statewright.identity import EntityId, TransactionId
from statewright.instants import to_rfc3339
from statewright.services import audit
from statewright.services.audit import AuditQuery, EntityChanged, Item

DEFAULT_LIMIT = 20
MAX_LIMIT = 1000


async def finished(exchange: Exchange) -> Answer:
    """How a run ended."""
    entity_id = exchange.entity_id()
    transaction = TransactionId(uuid_text("transactionId", exchange.segments["transactionId"]))
    event = await audit.finish_event(exchange.runtime, exchange.principal, entity_id, transaction)
    return Answer(json_body(_state_machine_item(entity_id, transaction, event)))


async def trail(exchange: Exchange) -> Answer:
    """Change history and events of an entity in one list, newest first."""
    entity_id = exchange.entity_id()
    query = AuditQuery(
        types=frozenset(exchange.query_all("eventType") or ("StateMachine", "EntityChange")),
        severity=exchange.query("severity"),
        since=exchange.query_instant("fromUtcTime"),
        before=exchange.query_instant("toUtcTime"),
        transaction=exchange.query_transaction("transactionId"),
    )
    items = await audit.trail(exchange.runtime, exchange.principal, entity_id, query)
    limit, offset = _limit(exchange.query("limit")), _offset(exchange.query("cursor"))
    page = items[offset : offset + limit]
    more = len(items) > offset + limit
    pagination = {"hasNext": True, "nextCursor": str(offset + limit)} if more else {"hasNext": False}
    tenant = exchange.principal.tenant
    return Answer(json_body({"items": [_item(entity_id, tenant, item) for item in page], "pagination": pagination}))


def _item(entity_id: EntityId, tenant: str, item: Item) -> dict[str, object]:
    if isinstance(item, EntityChanged):
        return {
            "auditEventType": "EntityChange",
            "changeType": item.change.type,
            "severity": "INFO",
            "utcTime": to_rfc3339(item.at),
            "microsTime": item.at,
            "system": False,
            "entityId": entity_id,
            "transactionId": item.transaction,
            "actor": {"id": item.change.attributed.id, "name": item.change.attributed.id, "legalId": tenant},
        }
    return _state_machine_item(entity_id, item.transaction, item.event)


def _state_machine_item(entity_id: EntityId, transaction: TransactionId, event: AuditEvent) -> dict[str, object]:
    item: dict[str, object] = {
        "auditEventType": "StateMachine",
        "eventType": event.type,
        "severity": "INFO",
        "utcTime": to_rfc3339(event.at),
        "microsTime": event.at,
        "entityId": entity_id,
        "transactionId": transaction,
        "details": event.details,
        "data": event.data,
    }
    return item if event.state is None else item | {"state": event.state}


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise BadRequest("invalid limit parameter")
    return min(int(text), MAX_LIMIT)


def _offset(cursor: str | None) -> int:
    """An unusable cursor is the start (spec/workflows.md §14.3)."""
    return int(cursor) if cursor and cursor.isascii() and cursor.isdecimal() and len(cursor) < 10 else 0
