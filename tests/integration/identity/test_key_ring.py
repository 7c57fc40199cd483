"""The keys of several processes on one database (docs/reference/authentication.md#keys)."""

import base64
import secrets
from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from statewright.auth import SigningKey
from statewright.auth.keys import KeyCipher, KeyPair, Unreadable, build_cipher, encode_private_key, encode_public_key
from statewright.services.auth.key_ring import LiveKeyRing
from statewright.settings import Secret
from statewright.storage.auth.keys import StoredKeyPairs
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import Pool
from tests.unit.auth.builders import rsa_key, signing_key

NOW = 1_790_000_000_000_000
HOUR = 3_600_000_000


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    async with Pool(parse_database_url(database), size=4) as pool:
        yield pool


def an_encryption_key() -> str:
    return secrets.token_hex(32)


class Node:
    """A process with the signing key ``name`` in its settings."""

    def __init__(self, pool: Pool, name: str = "main", *, keys: str = "") -> None:
        self.configured = signing_key(name, valid_from=NOW - HOUR, valid_to=NOW + HOUR)
        assert self.configured.private is not None
        self.cipher = build_cipher(Secret(keys) if keys else None, self.configured.private)
        self.store = StoredKeyPairs(pool, self.configured.kid)
        self.live = LiveKeyRing(self.store, self.configured, self.cipher)

    async def open(self) -> "Node":
        await self.live.open()
        return self

    def signs_with(self, now: int = NOW) -> str | None:
        key = self.live.ring.find_signing_key(now)
        return None if key is None else key.kid

    def verifies(self, kid: str, now: int = NOW) -> bool:
        return self.live.ring.find_verifying_key(kid, now) is not None


def a_pair(cipher: KeyCipher, kid: str = "issued") -> KeyPair:
    return KeyPair(
        kid=kid,
        audience="client",
        public_key=encode_public_key(rsa_key(kid).public_key()),
        private_key=cipher.encrypt(encode_private_key(rsa_key(kid))),
        active=True,
        valid_from=NOW,
        valid_to=NOW + HOUR,
    )


async def test_what_one_issues_the_other_signs_with_once_it_has_looked(pool: Pool) -> None:
    here, there = await Node(pool).open(), await Node(pool).open()
    assert await here.store.issue(a_pair(here.cipher))
    await there.live.refresh()
    assert (there.signs_with(), there.verifies("issued")) == ("issued", True)
    found = there.live.ring.find_signing_key(NOW)
    assert found is not None
    assert found.private is not None
    assert found.private.private_numbers() == rsa_key("issued").private_numbers()


async def test_a_public_key_stays_the_same_object_while_its_window_changes(pool: Pool) -> None:
    node = await Node(pool).open()
    await node.store.issue(a_pair(node.cipher))
    await node.live.refresh()
    before = node.live.ring.find_verifying_key("issued", NOW)
    await node.store.invalidate("issued", ends_at=NOW + 10)
    await node.live.refresh()
    assert node.live.ring.find_verifying_key("issued", NOW) is before is not None
    assert node.signs_with() == node.configured.kid


async def test_a_revoked_configured_key_stays_so_for_every_node_that_has_it(pool: Pool) -> None:
    node = await Node(pool).open()
    kid = node.configured.kid
    await node.store.issue(a_pair(node.cipher), others_end_at=NOW)
    for known in (node, await Node(pool).open()):
        await known.live.refresh()
        assert (known.signs_with(), known.verifies(kid)) == ("issued", False)
    await node.store.reactivate(kid, valid_from=NOW, valid_to=NOW + 10)
    again = await Node(pool).open()
    assert (again.verifies(kid), again.verifies(kid, NOW + 10)) == (True, False), "the window that was set counts"
    assert await node.store.delete(kid)
    assert not await node.store.delete(kid)
    assert not (await Node(pool).open()).verifies(kid)


async def test_a_configured_key_counts_only_where_it_is_configured(pool: Pool) -> None:
    old, new = await Node(pool, "old").open(), await Node(pool, "new").open()
    assert not new.verifies(old.configured.kid)
    assert [pair.kid for pair in await new.store.list_all()] == [new.configured.kid]
    assert not await new.store.invalidate(old.configured.kid, ends_at=NOW)
    assert not await new.store.delete(old.configured.kid)
    rotated = a_pair(new.cipher)
    await new.store.issue(rotated, others_end_at=NOW)
    await old.live.refresh()
    assert not old.verifies(old.configured.kid), "what was rotated out is out everywhere"


async def test_a_grace_never_prolongs_a_key(pool: Pool) -> None:
    node = await Node(pool).open()
    await node.store.issue(a_pair(node.cipher))
    for ends_at, expected in [(NOW + 10, NOW + 10), (NOW + 20, NOW + 10), (NOW + 5, NOW + 5)]:
        assert await node.store.invalidate("issued", ends_at=ends_at)
        found = await node.store.find("issued")
        assert found is not None
        assert found.valid_to == expected


async def test_private_keys_are_encrypted_anew_at_the_start_with_another_first_key(pool: Pool) -> None:
    async def stored(*keys: str) -> KeyPair:
        node = await Node(pool, keys=" , ".join(keys)).open()
        assert node.signs_with() == "issued"
        found = await node.store.find("issued")
        assert found is not None
        return found

    node = await Node(pool).open()
    pair = a_pair(node.cipher)
    await node.store.issue(pair)
    assert pair.private_key is not None
    assert pair.private_key.is_derived
    old, new = an_encryption_key(), base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    first = (await stored(old)).private_key
    second = (await stored(new, old)).private_key
    assert first is not None
    assert second is not None
    assert len({pair.private_key.key_name, first.key_name, second.key_name}) == 3
    assert (await stored(new)).private_key == second
    for keys in (old, ""):
        with pytest.raises(Unreadable, match="issued of the database cannot be read") as refusal:
            await Node(pool, keys=keys).open()
        assert new not in str(refusal.value)


async def test_a_pair_that_has_ended_does_not_stop_the_start_of_a_node_that_cannot_read_it(pool: Pool) -> None:
    before = await Node(pool, keys=an_encryption_key()).open()
    await before.store.issue(a_pair(before.cipher))
    await before.store.invalidate("issued", ends_at=NOW - 2 * HOUR)
    after = await Node(pool, keys=an_encryption_key()).open()
    assert after.signs_with() == after.configured.kid


async def test_a_pair_whose_key_went_with_the_signing_key_verifies_and_signs_no_more(pool: Pool) -> None:
    before = await Node(pool, "before").open()
    await before.store.issue(a_pair(before.cipher))
    after = await Node(pool, "after").open()
    assert (after.signs_with(), after.verifies("issued")) == (after.configured.kid, True)


async def test_a_changed_private_key_is_not_used(pool: Pool) -> None:
    node = await Node(pool).open()
    pair = a_pair(node.cipher)
    assert pair.private_key is not None
    await node.store.issue(structs.replace(pair, private_key=structs.replace(pair.private_key, ciphertext=b"gAAAAA==")))
    await node.live.refresh()
    assert node.signs_with() == node.configured.kid


def test_a_signing_key_shows_no_private_part() -> None:
    key: SigningKey = signing_key()
    assert str(rsa_key().private_numbers().d) not in repr(key)
