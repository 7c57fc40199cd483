"""What makes two requests with an ``Idempotency-Key`` the same (docs/reference/operations.md#idempotent-requests)."""

import asyncio

import pytest

from statewright.api.http.idempotency import hash_request


def hashed(query: str, *, method: str = "POST", path: str = "/api/x", body: bytes = b"{}", **headers: str) -> bytes:
    scope = {"method": method, "path": path, "query_string": query.encode(), "headers": []}
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
