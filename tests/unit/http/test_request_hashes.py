"""What makes two requests with an ``Idempotency-Key`` the same (docs/reference/operations.md#idempotent-requests)."""

import asyncio

import pytest

from statewright.api.http.idempotency import hash_request


def hashed(query: str, *, method: str = "POST", path: str = "/api/x", body: bytes = b"{}", **headers: str) -> bytes:
    scope = {"method": method, "raw_path": path.encode(), "query_string": query.encode(), "headers": []}
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return asyncio.run(hash_request(scope, named, body))  # type: ignore[arg-type]  # what is looked at of a scope


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a=1&b=2", "b=2&a=1"),
        ("a=1&b=2&a=3", "b=2&a=1&a=3"),
        ("a=1&waitForConsistencyAfter=true", "a=1"),
        ("transactionTimeoutMillis=5", ""),
        ("a=x%20y", "a=x+y"),
    ],
)
def test_the_order_of_names_and_what_is_ignored_make_no_other_request(one: str, other: str):
    assert hashed(one) == hashed(other)


@pytest.mark.parametrize(("one", "other"), [("a=1&a=2", "a=2&a=1"), ("a=1", "a=2"), ("a=", ""), ("a=1&b=2", "a=1b=2")])
def test_values_and_the_order_in_which_they_are_given_make_another_request(one: str, other: str):
    assert hashed(one) != hashed(other)


def test_method_path_precondition_media_type_and_body_make_another_request():
    same = [hashed("a=1"), hashed("a=1", authorization="Bearer x", traceparent="00-1")]
    others = [
        hashed("a=1", method="PUT"),
        hashed("a=1", path="/api/y"),
        hashed("a=1", body=b"[]"),
        hashed("a=1", if_match="1"),
        hashed("a=1", content_type="1"),
    ]
    assert len({*same, *others}) == 1 + len(others)


@pytest.mark.parametrize(
    "spelt", ["/api/entity/JSON/pri%7Ae/1", "/api/entity/JSON/p%72ize/1?", "/api/entity/JSON/prize/1"]
)
def test_how_a_letter_of_the_path_is_spelt_makes_no_other_request(spelt: str):
    assert hashed("", path=spelt) == hashed("", path="/api/entity/JSON/prize/1")


def test_segments_of_a_path_that_differ_make_another_request():
    names = ["a/b/1", "a%2Fb/1", "a/b%2F1", "a%2Fb%2F1", "a%252Fb/1", "a%252Fb%2F1", "a%25252Fb/1", "a%25b/1"]
    assert len({hashed("", path=f"/api/entity/JSON/{name}") for name in names}) == len(names)
    assert hashed("", path="/api/entity/JSON/a%2fb/1") == hashed("", path="/api/entity/JSON/a%2Fb/1")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/entity/JSON/prize/1", "8171f7878274ce62"),
        ("/api/entity/JSON/gr%C3%B6%C3%9Fe%20x/1", "fd7778efdb835d7b"),
    ],
)
def test_a_usual_path_has_the_hash_that_records_of_former_versions_have(path: str, expected: str):
    """Or a client that repeats its request across an upgrade would be told of a conflict."""
    assert hashed("", path=path).hex().startswith(expected)
