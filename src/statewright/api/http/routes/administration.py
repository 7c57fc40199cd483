"""Routes for administrators."""

from statewright.api.http.endpoints import administration, retention
from statewright.api.http.routes.parameters import MODEL
from statewright.api.http.routes.route import Query, Route

ADMINISTRATION: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/admin/log-level",
        endpoint=administration.log_level,
        id="getLogLevel",
        tag="Administration",
        summary="The least severe events that this process logs",
        reply="LogLevel",
        problems=("FORBIDDEN",),
    ),
    Route(
        method="POST",
        path="/admin/log-level",
        endpoint=administration.set_log_level,
        id="setLogLevel",
        tag="Administration",
        summary="Change the level of this process until it ends",
        body="LogLevel",
        reply="LogLevelChange",
        problems=("BAD_REQUEST", "FORBIDDEN"),
    ),
    Route(
        method="POST",
        path=f"{MODEL}/history/prune",
        endpoint=retention.prune,
        id="pruneHistory",
        tag="Administration",
        summary="Remove superseded versions of a model's entities, for a few seconds; again until complete",
        query=(Query("olderThan", "string", "they were superseded so long ago: `90d`, `12h`"),),
        reply="Pruning",
        problems=("BAD_REQUEST", "FORBIDDEN", "MODEL_NOT_FOUND"),
    ),
)
