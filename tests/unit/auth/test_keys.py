"""Signing keys: loading, naming, publishing (docs/reference/authentication.md#access-tokens,
docs/reference/authentication.md#keys).
"""

import hashlib

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from statewright.auth import KeyRing, load_configured_key
from statewright.auth.keys import UnusableKey, compute_key_id, load_private_key
from statewright.settings import Secret, Settings, SettingsError
from tests.unit.auth.builders import NOW, minted, pem, rsa_key, signing_key

MICROS = NOW * 1_000_000
DAY = 86_400 * 1_000_000


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL], ids=["PKCS#8", "PKCS#1"])
def test_both_pem_forms_hold_the_same_key(form: PrivateFormat):
    loaded = load_private_key(Secret(pem(rsa_key(), form)))
    assert loaded.private_numbers() == rsa_key().private_numbers()


def test_the_key_id_is_the_first_half_of_the_hash_of_the_public_key():
    public = rsa_key().public_key()
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert compute_key_id(public) == hashlib.sha256(der).hexdigest()[:32]


def unusable() -> dict[str, str]:
    elliptic = ec.generate_private_key(ec.SECP256R1())
    encrypted = rsa_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    return {
        "garbage": "-----BEGIN PRIVATE KEY-----\nZm9v\n-----END PRIVATE KEY-----",
        "public": rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
        "encrypted": encrypted.decode(),
        "elliptic": elliptic.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        "short": pem(rsa_key("short", bits=1024)),
    }


@pytest.mark.parametrize("which", ["garbage", "public", "encrypted", "elliptic", "short"])
def test_what_is_no_usable_rsa_key_is_refused_without_quoting_it(which: str):
    text = unusable()[which]
    with pytest.raises(UnusableKey) as refused:
        load_private_key(Secret(text))
    assert not any(line in str(refused.value) for line in text.splitlines())


def test_an_unusable_configured_key_is_reported_by_its_variable():
    settings = Settings.from_environment({"CYODA_IAM_MODE": "jwt", "CYODA_JWT_SIGNING_KEY": unusable()["elliptic"]})
    with pytest.raises(SettingsError, match=r"^CYODA_JWT_SIGNING_KEY: the value is not an RSA key$"):
        load_configured_key(settings, MICROS)


def test_the_configured_key_is_valid_for_the_days_of_the_settings():
    settings = Settings.from_environment({
        "CYODA_JWT_SIGNING_KEY": pem(rsa_key()), "CYODA_IAM_KEYPAIR_DEFAULT_VALIDITY_DAYS": "40",
    })  # fmt: skip
    key = load_configured_key(settings, MICROS)
    assert key is not None
    assert (key.valid_to, key.audience, key.kid) == (MICROS + 40 * DAY, "client", signing_key().kid)


def test_without_a_configured_key_there_is_none():
    assert load_configured_key(Settings(), MICROS) is None


def test_a_key_shows_nothing_but_its_id():
    assert repr(signing_key()) == f"SigningKey(kid='{signing_key().kid}')"


def test_the_published_keys_verify_what_the_private_keys_sign():
    document = jwt.PyJWKSet.from_json(msgspec.json.encode(KeyRing(signing_key()).build_jwk_set(MICROS)).decode())
    token = minted()
    verified = jwt.decode(
        token, document[signing_key().kid], ["RS256"], options={"verify_exp": False, "verify_iat": False}
    )
    assert verified["sub"] == "ann"


def test_a_published_key_has_exactly_the_members_of_the_contract():
    document = msgspec.json.decode(msgspec.json.encode(KeyRing(signing_key()).build_jwk_set(MICROS)))
    assert list(document) == ["keys"]
    assert set(document["keys"][0]) == {"kty", "kid", "use", "alg", "n", "e"}
    assert {name: document["keys"][0][name] for name in ("kty", "use", "alg", "e")} == {
        "kty": "RSA", "use": "sig", "alg": "RS256", "e": "AQAB",
    }  # fmt: skip


def test_a_configured_key_past_its_validity_is_not_published_but_still_verifies():
    ring = KeyRing(signing_key(valid_to=MICROS))
    assert ring.build_jwk_set(MICROS).keys == ()
    assert ring.find_verifying_key(signing_key().kid, MICROS) is not None


@pytest.mark.parametrize(
    "change", [{"active": False, "is_unlimited": False}, {"is_unlimited": False}], ids=["invalidated", "issued"]
)
def test_any_other_key_verifies_until_its_last_microsecond(change: dict[str, bool]):
    ring = KeyRing(signing_key(valid_to=MICROS, **change))
    assert ring.find_verifying_key(signing_key().kid, MICROS - 1) is not None
    assert ring.find_verifying_key(signing_key().kid, MICROS) is None


def test_an_issued_key_verifies_as_early_as_clocks_may_differ():
    ring = KeyRing(signing_key(valid_from=MICROS, is_unlimited=False))
    assert ring.find_verifying_key(signing_key().kid, MICROS - 30_000_000) is not None
    assert ring.find_verifying_key(signing_key().kid, MICROS - 30_000_001) is None


def test_an_invalidated_key_is_published_until_its_grace_is_over():
    ring = KeyRing(signing_key(valid_to=MICROS, active=False, is_unlimited=False))
    assert [key.kid for key in ring.build_jwk_set(MICROS - 1).keys] == [signing_key().kid]
    assert ring.build_jwk_set(MICROS).keys == ()


def test_an_empty_ring_publishes_an_empty_list():
    assert msgspec.json.encode(KeyRing().build_jwk_set(MICROS)) == b'{"keys":[]}'


def test_only_a_client_key_that_is_still_valid_signs():
    assert KeyRing(signing_key(valid_to=MICROS)).find_signing_key(MICROS) is None
    assert KeyRing(signing_key(audience="human")).find_signing_key(MICROS) is None
    assert KeyRing(signing_key(active=False)).find_signing_key(MICROS) is None
    assert KeyRing(signing_key(private=None)).find_signing_key(MICROS) is None


def test_of_several_keys_the_one_signs_whose_validity_began_last():
    old, new, coming = (
        signing_key("old", valid_from=MICROS - 2), signing_key("new", valid_from=MICROS),
        signing_key("coming", valid_from=MICROS + 1),
    )  # fmt: skip
    ring = KeyRing(new, coming, old)
    assert ring.find_signing_key(MICROS) is new
    assert ring.find_signing_key(MICROS + 1) is coming
    ring.replace_all([old])
    assert ring.find_signing_key(MICROS) is old
