"""Routes on edge messages (spec/entities.md)."""

from statewright.api.http.endpoints import messages
from statewright.api.http.routes.parameters import TIMEOUT
from statewright.api.http.routes.route import Query, Route

MESSAGES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/message/new/{subject}",
        endpoint=messages.create,
        id="newMessage",
        tag="Messages",
        summary="Store an edge message; its headers are kept with it",
        query=(TIMEOUT,),
        headers=(
            "Content-Encoding",
            "X-Message-ID",
            "X-User-ID",
            "X-Recipient",
            "X-Reply-To",
            "X-Correlation-ID",
        ),
        body="NewMessage",
        body_limited=True,
        reply="TransactionResults",
        problems=("BAD_REQUEST",),
    ),
    Route(
        method="GET",
        path="/message/{messageId}",
        endpoint=messages.read,
        id="getMessage",
        tag="Messages",
        summary="Read an edge message",
        reply="Message",
        problems=("BAD_REQUEST", "ENTITY_NOT_FOUND"),
    ),
    Route(
        method="GET",
        path="/message/get/{messageId}",
        endpoint=messages.read,
        id="getMessageAsBefore",
        tag="Messages",
        summary="The same, for older libraries",
        reply="Message",
        problems=("BAD_REQUEST", "ENTITY_NOT_FOUND"),
    ),
    Route(
        method="DELETE",
        path="/message/{messageId}",
        endpoint=messages.delete,
        id="deleteMessage",
        tag="Messages",
        summary="Delete an edge message",
        reply="DeletedMessage",
        problems=("BAD_REQUEST", "ENTITY_NOT_FOUND"),
    ),
    Route(
        method="DELETE",
        path="/message",
        endpoint=messages.delete_all,
        id="deleteMessages",
        tag="Messages",
        summary="Delete edge messages by their ids; unknown ones are ignored",
        query=(Query("transactionSize", "integer", "accepted for compatibility", "int32"),),
        body="Ids",
        body_limited=True,
        reply="DeletedMessages",
        problems=("BAD_REQUEST",),
    ),
)
