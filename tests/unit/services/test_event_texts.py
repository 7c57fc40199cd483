"""Texts of events are made once for all who read them at about the same time."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from statewright.ids import TenantId
from statewright.services.ops.event_texts import MAX_KEPT_BYTES, EventTexts
from statewright.storage.connections import DatabaseUrl
from statewright.storage.pool import Pool
from tests.unit.operations.test_events import a_row

TENANT = TenantId("t")


def some_texts() -> EventTexts:
    return EventTexts(Pool(DatabaseUrl(dsn="postgresql://nowhere")), source="s")


async def test_a_text_is_made_once() -> None:
    texts, fact = some_texts(), (a_row(), "entity.updated")
    [first] = await texts.encode(TENANT, [fact], "NONE")
    [again] = await texts.encode(TENANT, [fact], "NONE")
    assert again is first
    texts.forget()
    [anew] = await texts.encode(TENANT, [fact], "NONE")
    assert anew is not first
    assert anew == first


async def test_a_text_is_one_line_to_all_readers() -> None:
    row = replace(a_row(), state="a\u2028b\u2029c\x85d")
    [made] = await some_texts().encode(TENANT, [(row, "entity.updated")], "NONE")
    [line] = made.text.decode().splitlines()
    assert json.loads(line)["data"]["state"] == row.state


async def test_tenants_do_not_share_texts() -> None:
    texts, fact = some_texts(), (a_row(), "entity.updated")
    [ours] = await texts.encode(TENANT, [fact], "NONE")
    [theirs] = await texts.encode(TenantId("other"), [fact], "NONE")
    assert (b'"s/t"' in ours.text, b'"s/other"' in theirs.text) == (True, True)


async def test_so_many_texts_are_kept_and_the_oldest_go() -> None:
    texts = some_texts()
    facts = [(replace(a_row(), at=at), "entity.updated") for at in range(MAX_KEPT_BYTES // 1024)]
    made = [event for fact in facts for event in await texts.encode(TENANT, [fact], "NONE")]
    [oldest, newest] = await texts.encode(TENANT, [facts[0], facts[-1]], "NONE")
    assert (oldest is made[0], newest is made[-1]) == (False, True)
    assert [oldest, newest] == [made[0], made[-1]]


async def test_all_who_wait_for_a_text_hear_of_its_failure() -> None:
    texts, fact = some_texts(), (a_row(), "entity.updated")
    asked = [texts.encode(TENANT, [fact], "AFTER") for _ in range(3)]
    failures = await asyncio.gather(*asked, return_exceptions=True)
    assert len({id(failure) for failure in failures}) == 1
    assert isinstance(failures[0], Exception)


@pytest.mark.parametrize(
    ("tenant", "source"),
    [
        ("7c9e6679-7425-40de-944b-e07fc1f90ae7", "s/7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        ("acme/eu:1~a", "s/acme/eu:1~a"),
        ("50 % é\n", "s/50%20%25%20%C3%A9%0A"),
    ],
)
def test_the_source_of_an_event_is_a_uri_reference_whatever_the_tenant_is_called(tenant: str, source: str) -> None:
    event = json.loads(bytes(some_texts().encode_test(TenantId(tenant), "s-1", 0).text))
    assert event["source"] == source
