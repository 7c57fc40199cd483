"""The signing keys of a process, as the database has them.

They are read again when a change is announced, when announcements may have been missed, and every second for the case
that the database tells nothing. So a key that one node issues, invalidates or deletes is one, ended or gone on all of
them within a second, and within milliseconds as a rule. As long as the database cannot be read the process goes on with
what it knows; validity ends by the clock all the same.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from statewright.auth.keys import (
    KeyCipher,
    KeyPair,
    KeyRing,
    SigningKey,
    Unreadable,
    decode_private_key,
    decode_public_key,
    encode_public_key,
)
from statewright.loop.background import repeat
from statewright.storage.auth.keys import StoredKeyPairs
from statewright.telemetry import logs

LOOK_INTERVAL: Final = timedelta(seconds=0.8)
"""Between two looks; less than a second together with what a look takes."""

log = logs.logger(__name__)


class LiveKeyRing:
    """Keeps a key ring as the database has it. ``configured`` is the key of the settings."""

    def __init__(self, store: StoredKeyPairs, configured: SigningKey, cipher: KeyCipher) -> None:
        self.ring = KeyRing(configured)
        self.changed = asyncio.Event()
        """Set it to have the keys read again."""
        self._store = store
        self._configured = configured
        self._cipher = cipher
        self._lock = asyncio.Lock()
        self._known: dict[str, tuple[KeyPair, SigningKey]] = {}

    async def open(self) -> None:
        """Make the key of the settings known, read all others, and encrypt anew what an older key has encrypted.

        Raises ``Unreadable`` for a pair that has not ended and whose key the settings lack.
        """
        key = self._configured
        await self._store.enter_configured(
            KeyPair(
                kid=key.kid,
                audience=key.audience,
                public_key=encode_public_key(key.public),
                private_key=None,
                active=True,
                valid_from=key.valid_from,
                valid_to=key.valid_to,
            )
        )
        for pair in await self._store.list_all():
            await self._renew_encryption(pair)
        await self.refresh()
        known = self._known.get(key.kid)
        if known is None or not known[1].active:
            log.warning("configured_key_revoked", kid=key.kid)

    async def _renew_encryption(self, pair: KeyPair) -> None:
        private = pair.private_key
        if private is None or self._cipher.is_current(private):
            return
        try:
            plain = self._cipher.decrypt(private)
        except Unreadable as unreadable:
            has_ended = pair.valid_to <= self._configured.valid_from
            if private.is_derived or has_ended:  # of a signing key that was replaced, or of no use any more
                log.warning("signing_key_unreadable", kid=pair.kid, reason=str(unreadable))
                return
            raise Unreadable(f"the key pair {pair.kid} of the database cannot be read: {unreadable}") from None
        await self._store.renew_encryption(pair, self._cipher.encrypt(plain))
        log.info("signing_key_encrypted_anew", kid=pair.kid)

    async def follow(self) -> None:
        """Keep the ring as the database has it, until cancelled."""
        await repeat(
            self.refresh, LOOK_INTERVAL, log=log, failure="signing_keys_not_read", spread=(0.9, 1.0), wake=self.changed
        )

    async def refresh(self) -> None:
        """Take over what is stored now. One at a time: what was read first must not be taken over last."""
        async with self._lock:
            pairs = await self._store.list_all()
            fresh = [pair for pair in pairs if not self._is_known(pair)]
            if fresh:
                opened = await asyncio.to_thread(self._open_pairs, fresh)
                self._known |= {pair.kid: (pair, key) for pair, key in zip(fresh, opened, strict=True)}
            self._known = {pair.kid: self._known[pair.kid] for pair in pairs}
            self.ring.replace_all(key for _, key in self._known.values())

    def _is_known(self, pair: KeyPair) -> bool:
        known = self._known.get(pair.kid)
        return known is not None and known[0] == pair

    def _open_pairs(self, pairs: Sequence[KeyPair]) -> list[SigningKey]:
        return [self._open_pair(pair) for pair in pairs]

    def _open_pair(self, pair: KeyPair) -> SigningKey:
        known = self._known.get(pair.kid)
        same = known[1] if known is not None and known[0].public_key == pair.public_key else None
        template = self._configured if pair.private_key is None else same
        return SigningKey(
            kid=pair.kid,
            public=decode_public_key(pair.public_key) if template is None else template.public,
            private=self._decrypt(pair) if template is None else template.private,
            audience=pair.audience,
            active=pair.active,
            valid_from=pair.valid_from,
            valid_to=pair.valid_to,
            is_unlimited=pair.is_unlimited,
        )

    def _decrypt(self, pair: KeyPair) -> RSAPrivateKey | None:
        """The private key; None where this process lacks the key that it is encrypted with: it verifies only."""
        assert pair.private_key is not None  # noqa: S101 - it is not a configured one
        try:
            return decode_private_key(self._cipher.decrypt(pair.private_key))
        except Unreadable as unreadable:
            log.warning("signing_key_unreadable", kid=pair.kid, reason=str(unreadable))
            return None
