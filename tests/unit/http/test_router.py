"""The table of routes is one in which every request has one route."""

import pytest

from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.api.http.router import FoundRoute, PublicRoute, Router


async def answer(_request: Request) -> Response:
    return Response(b"")


def a_route(method: str, path: str) -> tuple[str, PublicRoute]:
    return "/api", PublicRoute(method=method, path=path, endpoint=answer)


@pytest.mark.parametrize("other", ["/things/{id}", "/things/{name}", "/things/{id}/"])
def test_two_routes_of_one_path_are_refused(other: str):
    with pytest.raises(ValueError, match="two routes are GET /api/things/"):
        Router([a_route("GET", "/things/{id}"), a_route("GET", other)])


def test_methods_of_one_path_have_routes_of_their_own():
    router = Router([a_route("GET", "/things/{id}"), a_route("POST", "/things/{name}"), a_route("GET", "/things")])
    found = [router.find(method, "/api/things/1") for method in ("GET", "HEAD", "POST", "PUT", "OPTIONS")]
    assert [entry.route.path for entry in found[:3] if isinstance(entry, FoundRoute)] == [
        "/things/{id}",
        "/things/{id}",
        "/things/{name}",
    ]
    assert found[3:] == [("GET", "HEAD", "POST")] * 2
