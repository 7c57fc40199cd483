"""Parameters that several groups of routes have in common."""

from statewright.api.http.routes.route import Query

POINT_IN_TIME = Query(
    "pointInTime", "string", "the instant to look at; RFC 3339, UTC when it has no offset", "date-time"
)
TRANSACTION = Query("transactionId", "string", "the transaction whose version is wanted", "uuid")
TIMEOUT = Query("transactionTimeoutMillis", "integer", "accepted for compatibility", "int64")
MODEL = "/model/{entityName}/{modelVersion}"
