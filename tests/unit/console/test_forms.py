"""Whose forms are taken (docs/console.md#security)."""

import pytest

from statewright.console.response import is_foreign_form
from statewright.console.session import MockSessions, Session, build_form_token, check_form_token

HOST = (b"host", b"127.0.0.1:8080")


def test_a_form_of_our_own_page_is_taken():
    assert not is_foreign_form(dict([HOST, (b"sec-fetch-site", b"same-origin")]))
    assert not is_foreign_form(dict([HOST, (b"origin", b"http://127.0.0.1:8080")]))


@pytest.mark.parametrize(
    "header",
    [
        (b"sec-fetch-site", b"cross-site"),
        (b"sec-fetch-site", b"same-site"),
        (b"sec-fetch-site", b"none"),
        (b"origin", b"http://evil.example"),
        (b"origin", b"null"),
        (b"x-other", b""),
    ],
)
def test_any_other_form_is_foreign(header: tuple[bytes, bytes]):
    assert is_foreign_form(dict([HOST, header]))


def test_the_token_of_a_form_differs_each_time_and_holds_for_its_session_alone():
    alice, bob = Session(id="a" * 43), Session(id="b" * 43)
    one, other = build_form_token(alice), build_form_token(alice)
    assert one != other
    assert check_form_token(alice, one)
    assert check_form_token(alice, other)
    assert not check_form_token(bob, one)


@pytest.mark.parametrize("token", ["", "x", "é", "A" * 88, "A" * 86 + "=="])
def test_what_is_no_token_is_refused(token: str):
    assert not check_form_token(Session(id="a" * 43), token)


async def test_a_browser_keeps_its_session():
    sessions = MockSessions()
    new = await sessions.find({})
    assert new is not None
    assert new.set_cookie is not None
    assert "HttpOnly" in new.set_cookie
    assert "SameSite=Lax" in new.set_cookie
    again = await sessions.find({"statewright": new.id})
    assert again == Session(id=new.id)
