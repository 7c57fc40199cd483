"""Members, queues, nodes."""

from typing import Final

from statewright.api.http.openapi.ops_schemas.common import define_list
from statewright.api.http.openapi.shapes import (
    FLAG,
    INSTANT,
    INT32,
    INT64,
    TEXT,
    Document,
    allow_null,
    define_array,
    define_open_object,
)

QUEUES: Final[Document] = {
    "OpsMember": define_open_object(
        "id kind draining",
        id=TEXT,
        kind={"type": "string", "enum": ["STREAM", "POLL"]},
        draining=FLAG,
        node=TEXT,
        software=TEXT,
        tags=define_array(TEXT),
        jobTypes=define_array(TEXT),
        connectedAt=INSTANT,
        lastSeenAt=INSTANT,
        inFlight=INT32,
        succeeded=INT64,
        failed=INT64,
        timedOut=INT64,
    ),
    "OpsMembers": define_list("OpsMember"),
    "OpsQueue": define_open_object(
        "kind name depth inFlight delayed held oldestAgeSeconds workers wanted ratePerMinute suspended since",
        kind={"type": "string", "enum": ["JOB_TYPE", "TAG"]},
        name=TEXT,
        depth=INT32,
        inFlight=INT32,
        delayed=INT32,
        held=INT32,
        oldestAgeSeconds=allow_null(INT64),
        workers=INT32,
        wanted=INT32,
        ratePerMinute=INT32,
        suspended=FLAG,
        since=allow_null(INSTANT),
        isLowerBound=FLAG,
    ),
    "OpsQueues": define_list("OpsQueue"),
    "OpsNode": define_open_object(
        "id name version draining startedAt leaseUntil members",
        id=TEXT,
        name=TEXT,
        version=TEXT,
        draining=FLAG,
        startedAt=INSTANT,
        leaseUntil=INSTANT,
        members=INT32,
    ),
    "OpsNodes": define_list("OpsNode"),
    "OpsRates": define_open_object(
        "transactions versions minutes",
        transactions=INT64,
        versions=INT64,
        minutes=define_array(
            define_open_object("at transactions versions", at=INSTANT, transactions=INT64, versions=INT64)
        ),
    ),
}
