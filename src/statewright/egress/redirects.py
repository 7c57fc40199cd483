"""What follows a redirect (RFC 9110, section 15.4)."""

from typing import Final

import httpx
from msgspec import structs

from statewright.egress.connecting import Refused
from statewright.egress.messages import HttpFailure, HttpRequest, HttpResponse

_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_GO_ANYWHERE: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Headers that another host than the one they were written for is sent: none that could hold a secret."""


def follow_redirect(request: HttpRequest, response: HttpResponse) -> HttpRequest | None:
    """The request that ``response`` leads to; None when it is no redirect. Raises ``Refused`` for one that leads
    nowhere, or from https to http. Whether its URL is permitted is for the policy to say.
    """
    location = response.get_header("location")
    if response.status not in _STATUSES or location is None:
        return None
    here = httpx.URL(response.url)
    try:
        there = here.join(location)
    except (httpx.InvalidURL, ValueError, UnicodeError):
        raise Refused(_refuse("the redirect leads nowhere")) from None
    if here.scheme == "https" and there.scheme != "https":
        raise Refused(_refuse("the redirect leads from https to another scheme"))
    following = structs.replace(request, url=str(there))
    if _get_origin(here) != _get_origin(there):
        kept = tuple((name, value) for name, value in following.headers if name.lower() in _GO_ANYWHERE)
        following = structs.replace(following, headers=kept)
    return _drop_body(following) if _becomes_get(response.status, request.method) else following


def _becomes_get(status: int, method: str) -> bool:
    return (status == 303 and method != "HEAD") or (status in {301, 302} and method == "POST")


def _drop_body(request: HttpRequest) -> HttpRequest:
    headers = tuple((name, value) for name, value in request.headers if name.lower() != "content-type")
    return structs.replace(request, method="GET", headers=headers, body=b"")


def _get_origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _refuse(detail: str) -> HttpFailure:
    return HttpFailure(reason="redirect_refused", detail=detail, was_sent=True)
