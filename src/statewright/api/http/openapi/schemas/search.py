"""Bodies and answers of searches, search jobs and indexes (spec/search.md)."""

from typing import Final

from statewright.api.http.openapi.shapes import FLAG, INSTANT, INT32, INT64, TEXT, UUID, Document, array, closed, ref

_JOB_STATES = {"type": "string", "enum": ["RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"]}
_INDEX_TYPES = {"type": "string", "enum": ["TEXT", "NUMBER", "BOOLEAN", "DOCUMENT"]}
_JOB_MEMBERS: Final = "createTime entitiesCount calculationTimeMillis expirationDate"
_JOB: Final = {
    "createTime": INSTANT,
    "finishTime": INSTANT,
    "entitiesCount": INT64,
    "calculationTimeMillis": INT64,
    "expirationDate": INSTANT,
}

SEARCH: Final[Document] = {
    "WantedIndex": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "the field; `$` for the whole document"},
            "type": _INDEX_TYPES,
            "state": {"type": "string", "description": "only entities in this state"},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    "SearchIndex": closed(
        "id path type status",
        id=TEXT,
        path=TEXT,
        type=_INDEX_TYPES,
        state=TEXT,
        status={"type": "string", "enum": ["BUILDING", "READY", "FAILED", "DROPPING"]},
        failure=TEXT,
        progress=closed("phase percent", phase=TEXT, percent=INT32),
    ),
    "Explanation": closed(
        "sql arguments judged plan",
        sql=TEXT,
        arguments=array(TEXT),
        judged=array(TEXT),
        plan=array(TEXT),
    ),
    "SearchIndexes": array(ref("SearchIndex")),
    "JobId": UUID,
    "JobStatus": closed(f"searchJobStatus {_JOB_MEMBERS}", searchJobStatus=_JOB_STATES, **_JOB),
    "SnapshotStatus": closed(f"snapshotStatus {_JOB_MEMBERS}", snapshotStatus=_JOB_STATES, **_JOB),
    "JobResults": closed("content page", content=array(ref("Envelope")), page=ref("Page")),
    "SnapshotResults": closed(
        "_embedded page",
        _embedded=closed("objectNodes", objectNodes=array(ref("Envelope"))),
        page=ref("Page"),
    ),
    "Page": closed(
        "number size totalElements totalPages", number=INT32, size=INT32, totalElements=INT64, totalPages=INT32
    ),
    "JobCancellation": closed(
        "isCancelled cancelled currentSearchJobStatus",
        isCancelled=FLAG,
        cancelled=FLAG,
        currentSearchJobStatus=_JOB_STATES,
    ),
    "JobFailure": closed("searchJobStatus reason", searchJobStatus=_JOB_STATES, reason={"type": ["string", "null"]}),
}
