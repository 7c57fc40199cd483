"""The audit trail over REST (docs/reference/workflows.md#audit, docs/reference/workflows.md#the-finish-event)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, cast

import msgspec

from statewright.api.http.declaration import Subject
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.entity import AuditEvent
from statewright.failures import BadRequest
from statewright.ids import EntityId, TransactionId
from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject
from statewright.operations.entity_answers import Pagination, TrailPage, TrailRecord
from statewright.operations.records import TRANSACTION, QueryParameter
from statewright.services import audit
from statewright.services.audit import AuditQuery, EntityChanged, TrailItem, TrailPosition

DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 1000

_AUDIT: Final = Subject(tag="Audit", problems=("BAD_REQUEST", "ENTITY_NOT_FOUND"))


@_AUDIT.declare(
    "GET /audit/entity/{entityId}/workflow/{transactionId}/finished", "getStateMachineFinishedEvent", reply="AuditItem"
)
async def get_finish_event(request: Request) -> Response:
    """How a run ended."""
    entity_id = request.entity_id()
    transaction = TransactionId(uuid_text("transactionId", request.path_params["transactionId"]))
    event = await audit.find_finish_event(request.runtime.core, request.principal, entity_id, transaction)
    return Response(encode_json(_to_event_record(entity_id, transaction, event)))


@_AUDIT.declare(
    "GET /audit/entity/{entityId}",
    "searchEntityAuditEvents",
    query=(
        QueryParameter(
            "eventType", "string", "StateMachine, EntityChange, System; the first two when absent", repeatable=True
        ),
        QueryParameter("severity", "string", "every event is INFO"),
        QueryParameter("fromUtcTime", "string", "inclusive", "date-time"),
        QueryParameter("toUtcTime", "string", "exclusive", "date-time"),
        TRANSACTION,
        QueryParameter("limit", "integer", "1 to 1000, 20 when absent", "int32"),
        QueryParameter("cursor", "string", "nextCursor of the page before"),
    ),
    reply="AuditPage",
)
async def list_audit_events(request: Request) -> Response:
    """Change history and workflow events of an entity, newest first."""
    core, principal, entity_id = request.runtime.core, request.principal, request.entity_id()
    query = AuditQuery(
        types=frozenset(request.query_all("eventType") or ("StateMachine", "EntityChange")),
        severity=request.query("severity"),
        since=request.query_instant("fromUtcTime"),
        before=request.query_instant("toUtcTime"),
        transaction=request.query_transaction("transactionId"),
        after=_parse_cursor(request.query("cursor")),
    )
    await audit.require_entity(core, principal, entity_id)
    limit = _parse_limit(request.query("limit"))
    items = await audit.list_trail(core, principal, entity_id, query, limit + 1)
    page, more = items[:limit], len(items) > limit
    pagination = Pagination(has_next=more, next_cursor=_build_cursor(page[-1]) if more else None)
    records = tuple(_to_record(entity_id, principal.tenant, item) for item in page)
    shown = TrailPage(items=records, pagination=pagination)
    return Response(encode_json(shown))


def _to_record(entity_id: EntityId, tenant: str, item: TrailItem) -> TrailRecord:
    if isinstance(item, EntityChanged):
        attributed = item.change.attributed.id
        return TrailRecord(
            audit_event_type="EntityChange",
            change_type=item.change.type,
            severity="INFO",
            utc_time=to_rfc3339(item.at),
            micros_time=item.at,
            system=False,
            entity_id=entity_id,
            transaction_id=item.transaction,
            actor={"id": attributed, "name": attributed, "legalId": tenant},
        )
    return _to_event_record(entity_id, item.transaction, item.event)


def _to_event_record(entity_id: EntityId, transaction: TransactionId, event: AuditEvent) -> TrailRecord:
    return TrailRecord(
        audit_event_type="StateMachine",
        event_type=event.type,
        severity="INFO",
        utc_time=to_rfc3339(event.at),
        micros_time=event.at,
        entity_id=entity_id,
        transaction_id=transaction,
        state=event.state,
        details=event.details,
        data=cast("JsonObject | None", event.data),  # of scalars and lists of texts
    )


def _parse_limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    digits = text.lstrip("0")
    if not text.isascii() or not text.isdecimal() or not digits:
        raise BadRequest("invalid limit parameter")
    return min(int(digits[:9]), MAX_LIMIT)  # Python reads no number of thousands of digits


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(TrailPosition).decode


def _build_cursor(last: TrailItem) -> str:
    """The place of the last item of a page, so that what is written meanwhile moves nothing."""
    return urlsafe_b64encode(_encode(last.position)).decode().rstrip("=")


def _parse_cursor(cursor: str | None) -> TrailPosition | None:
    """An unusable cursor is the start (docs/reference/workflows.md#audit)."""
    try:
        return _decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))) if cursor else None
    except ValueError:
        return None
