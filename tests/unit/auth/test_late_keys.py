"""A token whose key is not known yet gets a second look (docs/reference/authentication.md#keys)."""

import asyncio
from datetime import timedelta

import pytest

from statewright.auth import AuthenticationFailed, JwtAuthenticator, KeyNotKnownYet, KeyRing, TokenVerifier
from statewright.services.auth.live_providers import SharedLooks
from tests.unit.auth.builders import RULES, Clock, minted, signing_key


class Finder:
    """Finds the key ``other`` when it is looked for, if there is room."""

    def __init__(self, ring: KeyRing, *, has_room: bool = True) -> None:
        self._ring = ring
        self._has_room = has_room
        self.looked_for: list[str] = []

    def may_find(self, kid: str, issuer: str) -> bool:
        return self._has_room

    async def look_for(self, kid: str, issuer: str) -> None:
        self.looked_for.append(kid)
        self._ring.replace_all([signing_key(), signing_key("other")])


def an_authenticator(*, has_room: bool = True) -> tuple[JwtAuthenticator, Finder]:
    ring = KeyRing(signing_key())
    finder = Finder(ring, has_room=has_room)
    return JwtAuthenticator(TokenVerifier(ring, RULES, Clock()), None, finder), finder


async def test_an_unknown_key_is_looked_for_once_and_then_counts():
    authenticator, finder = an_authenticator()
    header = f"Bearer {minted('other')}"
    with pytest.raises(KeyNotKnownYet):
        authenticator.authenticate(header)
    assert (await authenticator.authenticate_later(header)).id == "ann"
    assert authenticator.authenticate(header).id == "ann"
    assert finder.looked_for == [signing_key("other").kid]


async def test_a_key_that_is_not_found_is_unknown():
    authenticator, finder = an_authenticator()
    with pytest.raises(AuthenticationFailed) as refused:
        await authenticator.authenticate_later(f"Bearer {minted('third')}")
    assert not isinstance(refused.value, KeyNotKnownYet)
    assert len(finder.looked_for) == 1


@pytest.mark.parametrize("header", [None, "Basic x", "Bearer ", "Bearer nonsense", "expired"])
async def test_nothing_is_looked_for_where_a_key_would_not_help(header: str | None):
    authenticator, finder = an_authenticator()
    if header == "expired":
        header = f"Bearer {minted(exp=0)}"
    with pytest.raises(AuthenticationFailed) as refused:
        authenticator.authenticate(header)
    assert not isinstance(refused.value, KeyNotKnownYet)
    with pytest.raises(AuthenticationFailed):
        await authenticator.authenticate_later(header)
    assert finder.looked_for == []


def test_without_room_for_one_who_waits_the_refusal_is_final():
    authenticator, _ = an_authenticator(has_room=False)
    with pytest.raises(AuthenticationFailed) as refused:
        authenticator.authenticate(f"Bearer {minted('other')}")
    assert not isinstance(refused.value, KeyNotKnownYet)


async def test_who_comes_while_others_look_shares_the_next_look():
    began, go_on, looks = asyncio.Event(), asyncio.Event(), 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        began.set()
        await go_on.wait()

    shared = SharedLooks(look, timedelta(0))
    first = asyncio.create_task(shared.wait())
    await began.wait()
    late = [asyncio.create_task(shared.wait()) for _ in range(50)]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(first, *late)
    assert looks == 2
