"""What follows a redirect (docs/reference/egress.md#redirects)."""

import pytest

from statewright.egress import HttpRequest, HttpResponse
from statewright.egress.client import follow_redirect
from statewright.egress.connecting import Refused

SECRETS = (("Authorization", "Bearer x"), ("X-Api-Key", "x"), ("Cookie", "x"), ("Accept", "text/plain"))


def a_request(method: str = "GET", url: str = "https://one.test/a", body: bytes = b"") -> HttpRequest:
    return HttpRequest(url=url, method=method, headers=SECRETS, body=body, max_redirects=3)


def a_redirect(location: str, status: int = 302, url: str = "https://one.test/a") -> HttpResponse:
    return HttpResponse(status=status, headers=(("location", location),), body=b"", url=url)


def follow(request: HttpRequest, response: HttpResponse) -> HttpRequest:
    following = follow_redirect(request, response)
    assert following is not None
    return following


@pytest.mark.parametrize("status", [200, 300, 304, 404])
def test_other_answers_lead_nowhere(status: int):
    assert follow_redirect(a_request(), a_redirect("/b", status)) is None


def test_a_redirect_without_a_location_is_an_answer():
    assert follow_redirect(a_request(), HttpResponse(status=302, headers=(), body=b"", url="https://one.test/")) is None


def test_a_location_is_relative_to_the_last_hop():
    assert follow(a_request(), a_redirect("b?c=1")).url == "https://one.test/b?c=1"


def test_the_same_host_gets_the_same_headers():
    assert follow(a_request(), a_redirect("/b")).headers == SECRETS


@pytest.mark.parametrize("location", ["https://two.test/", "https://one.test:8443/", "//two.test/"])
def test_another_host_gets_no_secrets(location: str):
    assert follow(a_request(), a_redirect(location)).headers == (("Accept", "text/plain"),)


@pytest.mark.parametrize("location", ["http://one.test/", "ftp://one.test/", "data:text/plain,x"])
def test_https_is_not_left(location: str):
    with pytest.raises(Refused) as refused:
        follow_redirect(a_request(), a_redirect(location))
    assert refused.value.failure.reason == "redirect_refused"


@pytest.mark.parametrize(
    ("status", "method", "following"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (301, "PUT", "PUT"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
    ],
)
def test_methods_and_bodies_as_the_standard_has_them(status: int, method: str, following: str):
    request = follow(a_request(method, body=b"x"), a_redirect("/b", status))
    assert request.method == following
    assert bool(request.body) == (following == method)
