"""Tokens of transactions: signed with HMAC-SHA256, and refused once anything about them is different."""

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.failures import TransactionExpired, Unauthorized
from statewright.ids import TransactionId
from statewright.services.transactions import TransactionTokens

TRANSACTION = TransactionId("2c5ea4c0-4067-11e9-8bad-9b1deb4d3b7d")


def tokens(secret: bytes = b"secret", *, now: float = 1000.0) -> TransactionTokens:
    return TransactionTokens(secret, node="n1", ttl=60, clock=lambda: int(now * 1_000_000))


def plain(armoured: str) -> bytes:
    return base64.urlsafe_b64decode(armoured + "=" * (-len(armoured) % 4))


@given(secret=st.binary(max_size=200), scope=st.text(max_size=20))
def test_the_signature_is_the_hmac_of_the_payload(secret: bytes, scope: str):
    payload, _, signature = tokens(secret).sign(TRANSACTION, scope).partition(".")
    assert plain(signature) == hmac.digest(secret, plain(payload), "sha256")
    assert not {"+", "/", "="} & set(payload + signature)


@given(scope=st.text(max_size=20))
def test_a_token_says_what_it_was_signed_for(scope: str):
    ticket = tokens(now=1059.0).verify(tokens().sign(TRANSACTION, scope))
    assert (ticket.node, ticket.transaction, ticket.scope) == ("n1", TRANSACTION, scope)


def test_a_token_of_another_secret_is_refused():
    with pytest.raises(Unauthorized):
        tokens(b"other").verify(tokens().sign(TRANSACTION, ""))


def test_a_token_whose_time_is_over_is_refused():
    with pytest.raises(TransactionExpired):
        tokens(now=1062.0).verify(tokens().sign(TRANSACTION, ""))
