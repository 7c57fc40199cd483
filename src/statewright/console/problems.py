"""Failed calls as pages and parts show them."""

from http import HTTPStatus
from typing import Final

from statewright.console.calls import Reply
from statewright.console.values import get_object, get_text
from statewright.console.views.page import Problem
from statewright.jsonval.values import JsonObject

TOO_EXPENSIVE: Final = frozenset({"SCAN_BUDGET_EXHAUSTED", "SEARCH_SHARD_TIMEOUT", "SEARCH_RESULT_LIMIT"})
"""Codes by which a search gives up."""

_TITLES: Final = {
    401: "Your login has ended",
    403: "Your roles do not allow this",
    404: "There is no such thing here",
    409: "This cannot be done now",
    410: "It is not kept any more",
    412: "It has changed since you looked",
    429: "Too many requests",
    503: "The service is not available",
    504: "No answer in time",
}
_RETRYABLE: Final = frozenset({429, 500, 502, 503, 504})


def build_problem(reply: Reply, *, retry: str | None = None, subject: str = "") -> Problem:
    """The problem document of a reply in words. ``retry`` is the address of what could not be shown."""
    document = reply.document
    properties = get_object(document, "properties")
    code = get_text(properties, "errorCode") or get_text(document, "error")
    return Problem(
        status=reply.status,
        title=get_title(reply.status),
        detail=_read_detail(document, code),
        code=code,
        ticket=get_text(document, "ticket"),
        subject=subject,
        retry=retry if reply.status in _RETRYABLE else None,
        offers=_list_offers(reply.status, code),
    )


def _read_detail(document: JsonObject, code: str) -> str:
    """What the API says without the code before it, which stands beside it; nothing where it is no more than that."""
    detail = (get_text(document, "detail") or get_text(document, "reason")).removeprefix(f"{code}: ")
    return "" if detail.casefold() == code.casefold() else detail[:1].upper() + detail[1:]


def get_title(status: int) -> str:
    """What went wrong, in a few words."""
    known = _TITLES.get(status)
    if known is not None:
        return known
    return "Something failed here" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "This was refused"


def _list_offers(status: int, code: str) -> tuple[tuple[str, str], ...]:
    if code in TOO_EXPENSIVE:
        return ()
    return (("/console/find", "Find it by its id"),) if status == HTTPStatus.NOT_FOUND else ()
