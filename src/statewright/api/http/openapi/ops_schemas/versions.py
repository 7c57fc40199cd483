"""Versions, transactions, events of runs, waits."""

from typing import Final

from statewright.api.http.openapi.ops_schemas.common import ACTOR, MAP, MODEL, define_list
from statewright.api.http.openapi.shapes import (
    FLAG,
    INSTANT,
    INT32,
    INT64,
    TEXT,
    UUID,
    Document,
    allow_null,
    define_array,
    define_object,
    define_open_object,
    ref,
)

_VERSION_MEMBERS: Final = (
    "transactionId at until state transition changeType attributedTo executedBy workflow workflowRevision bytes current"
)
_VERSION: Final[Document] = {
    "transactionId": UUID,
    "at": INSTANT,
    "until": allow_null(INSTANT),
    "state": TEXT,
    "transition": TEXT,
    "changeType": {"type": "string", "enum": ["CREATE", "UPDATE", "DELETE"]},
    "attributedTo": ACTOR,
    "executedBy": ACTOR,
    "workflow": TEXT,
    "workflowRevision": INT64,
    "bytes": INT32,
    "current": FLAG,
}

VERSIONS: Final[Document] = {
    "OpsVersion": define_open_object(_VERSION_MEMBERS, **_VERSION),
    "OpsVersions": define_list("OpsVersion"),
    "OpsVersionDocument": define_open_object(
        f"{_VERSION_MEMBERS} document", **_VERSION, document={"type": ["object", "array", "null"]}
    ),
    "OpsRestore": define_object(
        "version reason",
        version={**TEXT, "description": "a transaction, an instant, `current` or `previous`"},
        reason={**TEXT, "minLength": 1, "maxLength": 500},
        ifMatch=UUID,
        transition=TEXT,
        paths={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 1000},
    ),
    "OpsRestored": define_open_object(
        "transactionId restored patch", transactionId=UUID, restored=FLAG, patch=define_array(MAP)
    ),
    "OpsDifference": define_open_object(
        "from to state patch",
        **{"from": allow_null(UUID)},
        to=UUID,
        state=define_open_object("from to", **{"from": allow_null(TEXT)}, to=TEXT),
        patch=define_array(
            define_open_object(
                "op path", op={"type": "string", "enum": ["add", "remove", "replace"]}, path=TEXT, value={}
            )
        ),
    ),
    "OpsWrittenEntity": define_open_object(
        "entityId at events versions",
        entityId=UUID,
        at=INSTANT,
        events=INT32,
        versions=INT32,
        model=MODEL,
        state=TEXT,
        transition=TEXT,
        changeType=_VERSION["changeType"],
    ),
    "OpsWrittenEntities": define_list("OpsWrittenEntity"),
    "OpsChange": define_open_object(
        "at entityId transactionId events",
        at=INSTANT,
        entityId=UUID,
        transactionId=UUID,
        events=INT32,
        model=MODEL,
        state=TEXT,
        transition=TEXT,
        changeType=_VERSION["changeType"],
        attributedTo=_VERSION["attributedTo"],
        executedBy=_VERSION["executedBy"],
    ),
    "OpsChanges": define_open_object(
        "items scanned", items=define_array(ref("OpsChange")), scanned=INT32, nextCursor=TEXT
    ),
    "OpsEvent": define_open_object(
        "at transactionId eventType details data",
        at=INSTANT,
        transactionId=UUID,
        eventType=TEXT,
        state=TEXT,
        details=TEXT,
        data=allow_null(MAP),
    ),
    "OpsEvents": define_list("OpsEvent"),
    "OpsWaited": define_open_object(
        "reached deleted waitedMs",
        reached=FLAG,
        deleted=FLAG,
        state=TEXT,
        transactionId=UUID,
        at=INSTANT,
        waitedMs=INT32,
    ),
    "OpsInstanceWaited": define_open_object(
        "reached deleted status waitedMs",
        reached=FLAG,
        deleted=FLAG,
        status=TEXT,
        failureReason=TEXT,
        transactionId=UUID,
        at=INSTANT,
        waitedMs=INT32,
    ),
}
