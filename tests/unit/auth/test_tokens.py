"""Verifying and issuing first-party tokens (docs/reference/authentication.md#access-tokens)."""

import base64
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from statewright.auth import AuthenticationFailed, JwtAuthenticator, KeyRing, TokenIssuer, TokenRules, TokenVerifier
from statewright.auth.tokens import TokenRefused, UnknownKey
from statewright.entity import Principal
from tests.unit.auth.builders import ABSENT, NOW, RULES, Clock, a_client, claims, minted, rsa_key, signing_key, verifier

AUDIENCE_RULES = TokenRules(issuer="cyoda", audience="orders", expiry_seconds=60)


def refusal(token: str, **options: object) -> str:
    with pytest.raises(TokenRefused) as refused:
        verifier(**options).verify(token)  # type: ignore[arg-type]
    return str(refused.value)


def part(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(header: object, body: object, key: str = "main") -> str:
    """A token of which every byte can be wrong, except its signature."""
    text = f"{part(header)}.{part(body)}"
    return f"{text}.{part(rsa_key(key).sign(text.encode(), PKCS1v15(), SHA256()))}"


# Acceptance


def test_a_token_minted_with_the_configured_key_is_accepted_on_its_claims():
    principal = verifier().verify(minted(scopes=["S"], user_roles=ABSENT)).principal
    assert (principal.id, principal.tenant, principal.kind, principal.roles) == ("ann", "acme", "service", ("S",))


@pytest.mark.parametrize("token", ["", ".", "..", "a.b", "a.b.c.d", "ä.b.c", "\ud800.b.c"])
def test_what_has_not_three_base64url_parts_is_malformed(token: str):
    assert refusal(token).startswith("malformed")


@pytest.mark.parametrize("damage", ["=", "+", "/", " ", "\n", "!"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_characters_that_are_no_base64url_are_not_skipped(damage: str, which: int):
    parts = minted().split(".")
    parts[which] += damage
    assert refusal(".".join(parts)).startswith("malformed")


@pytest.mark.parametrize("body", [b"", b"[]", b'"x"', b"null", b"{", b'{"a":1}x', b"\xff", b"[" * 100_000])
def test_header_and_claims_must_be_json_objects(body: bytes):
    good = {"alg": "RS256", "kid": signing_key().kid}
    assert refusal(signed(body, claims())).startswith("malformed: header")
    assert refusal(signed(good, body)).startswith("malformed: claims")


def test_critical_extensions_are_refused():
    header = {"alg": "RS256", "kid": signing_key().kid, "crit": ["exp"]}
    assert refusal(signed(header, claims())) == "malformed: critical extensions are not understood"


@pytest.mark.parametrize("algorithm", [ABSENT, "none", "HS256", "RS384", "PS256", "ES256", "rs256", "", 5, None])
def test_every_algorithm_but_one_is_refused(algorithm: object):
    header = {"kid": signing_key().kid} | ({} if algorithm is ABSENT else {"alg": algorithm})
    assert refusal(signed(header, claims())) == "unsupported algorithm"


def test_the_public_key_is_no_hmac_secret():
    numbers = rsa_key().public_key().public_numbers()
    forged = jwt.encode(claims(), str(numbers.n), algorithm="HS256", headers={"kid": signing_key().kid})
    assert refusal(forged) == "unsupported algorithm"


@pytest.mark.parametrize("kid", [ABSENT, "", 5, None, ["x"]])
def test_the_key_id_must_be_a_text(kid: object):
    header = {"alg": "RS256"} | ({} if kid is ABSENT else {"kid": kid})
    assert refusal(signed(header, claims())) == "missing kid"


def test_an_unknown_key_is_told_from_every_other_refusal():
    with pytest.raises(UnknownKey):
        verifier().verify(minted("stranger"))


def test_the_algorithm_counts_before_the_key():
    header = {"alg": "HS256", "kid": "nobody"}
    assert refusal(signed(header, claims())) == "unsupported algorithm"


def test_the_key_counts_before_the_claims():
    with pytest.raises(UnknownKey):
        verifier().verify(minted("stranger", exp=0, iss="other"))


def test_a_signature_by_another_key_is_final_even_if_the_key_id_is_known():
    token = minted("stranger", header={"kid": signing_key().kid})
    with pytest.raises(TokenRefused) as refused:
        verifier().verify(token)
    assert not isinstance(refused.value, UnknownKey)
    assert str(refused.value) == "bad signature"


def test_claims_cannot_be_changed_under_a_signature():
    header, _, signature = minted().split(".")
    assert refusal(f"{header}.{part(claims(sub='eve'))}.{signature}") == "bad signature"


def test_the_signature_counts_before_the_expiry():
    header, _, signature = minted().split(".")
    assert refusal(f"{header}.{part(claims(exp=0))}.{signature}") == "bad signature"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"exp": ABSENT}, "missing exp claim"),
        ({"exp": "soon"}, "missing exp claim"),
        ({"exp": True}, "missing exp claim"),
        ({"exp": NOW - 31}, "token expired"),
        ({"iat": ABSENT}, "missing iat claim"),
        ({"iat": None}, "missing iat claim"),
        ({"iat": NOW + 31}, "iat is in the future"),
        ({"nbf": NOW + 31}, "token not yet valid (nbf)"),
        ({"iss": ABSENT}, "wrong issuer"),
        ({"iss": "Cyoda"}, "wrong issuer"),
        ({"iss": ["cyoda"]}, "wrong issuer"),
        ({"sub": ABSENT}, "no user or no tenant"),
        ({"caas_org_id": ""}, "no user or no tenant"),
        ({"exp": ABSENT, "iat": ABSENT, "iss": "x"}, "missing exp claim"),
        ({"exp": NOW - 31, "iat": ABSENT}, "token expired"),
        ({"nbf": NOW + 31, "iss": "x"}, "token not yet valid (nbf)"),
        ({"iss": "x", "sub": ABSENT}, "wrong issuer"),
    ],
)
def test_the_first_claim_that_fails_decides(change: dict[str, object], problem: str):
    assert refusal(signed({"alg": "RS256", "kid": signing_key().kid}, claims(**change))) == problem


@pytest.mark.parametrize(
    "change",
    [
        {"exp": NOW - 30}, {"exp": NOW - 29.5}, {"exp": NOW + 0.9}, {"iat": NOW + 30}, {"iat": NOW + 30.9},
        {"nbf": NOW + 30}, {"nbf": "never"}, {"nbf": None}, {"exp": 1e300},
    ],
)  # fmt: skip
def test_times_have_thirty_seconds_of_grace_and_no_fractions(change: dict[str, object]):
    assert verifier().verify(signed({"alg": "RS256", "kid": signing_key().kid}, claims(**change))).principal.id == "ann"


@pytest.mark.parametrize("audience", ["orders", ["x", "orders"]])
def test_a_required_audience_may_be_named_alone_or_in_a_list(audience: object):
    assert verifier(rules=AUDIENCE_RULES).verify(minted(aud=audience)).principal.id == "ann"


@pytest.mark.parametrize("audience", [ABSENT, "other", ["other"], [], "orders ", {"orders": 1}])
def test_a_required_audience_must_be_named(audience: object):
    token = signed({"alg": "RS256", "kid": signing_key().kid}, claims(aud=audience))
    assert refusal(token, rules=AUDIENCE_RULES) == "wrong audience"


def test_without_a_required_audience_any_will_do():
    assert verifier().verify(minted(aud="whoever")).principal.id == "ann"


@given(st.text())
def test_no_text_makes_verification_fail_in_another_way(text: str):
    with pytest.raises(TokenRefused):
        verifier().verify(text)


def test_a_refusal_holds_nothing_of_the_token():
    assert "ann" not in refusal(minted(iss="evil-ann"))


# The memory


class CountingKey:
    """A public key that knows how often it was asked."""

    def __init__(self) -> None:
        self.checks = 0

    def verify(self, *arguments: object) -> None:
        self.checks += 1
        rsa_key().public_key().verify(*arguments)  # type: ignore[arg-type]


class CountingKeys:
    """A key ring with one such key, which can be withdrawn."""

    def __init__(self) -> None:
        self.key = CountingKey()
        self.is_withdrawn = False
        self.end = 1 << 63

    @property
    def generation(self) -> int:
        return int(self.is_withdrawn)

    def find_verifying_key(self, kid: str, now: int) -> RSAPublicKey | None:
        is_known = not self.is_withdrawn and kid == signing_key().kid and now < self.end
        return self.key if is_known else None  # type: ignore[return-value]

    def get_end(self, kid: str) -> int:
        return self.end


def authenticated(authenticator: JwtAuthenticator, token: str) -> Principal:
    return authenticator.authenticate(f"Bearer {token}")


def reason(authenticator: JwtAuthenticator, token: str) -> str:
    """Why a token is refused."""
    with pytest.raises(AuthenticationFailed) as refused:
        authenticated(authenticator, token)
    return refused.value.detail_for_log


def test_a_remembered_token_expires_like_any_other():
    clock = Clock()
    watched, token = JwtAuthenticator(verifier(clock=clock)), minted(exp=NOW + 10)
    assert authenticated(watched, token).id == "ann"
    clock.seconds = NOW + 40.9
    assert authenticated(watched, token).id == "ann"
    clock.seconds = NOW + 41
    assert reason(watched, token) == "token expired"


def test_a_remembered_token_does_not_outlive_its_key():
    keys = CountingKeys()
    watched, token = JwtAuthenticator(TokenVerifier(keys, RULES, Clock())), minted()
    assert authenticated(watched, token).id == "ann"
    keys.is_withdrawn = True
    assert reason(watched, token) == "unknown key"


def test_a_remembered_token_ends_with_the_validity_of_its_key():
    keys, clock = CountingKeys(), Clock()
    keys.end = (NOW + 10) * 1_000_000
    watched, token = JwtAuthenticator(TokenVerifier(keys, RULES, clock)), minted()
    clock.seconds = NOW + 9.9
    assert authenticated(watched, token).id == authenticated(watched, token).id == "ann"
    clock.seconds = NOW + 10
    assert reason(watched, token) == "unknown key"


def test_a_key_ring_is_of_another_generation_when_a_key_has_changed():
    ring = KeyRing(signing_key())
    before = ring.generation
    ring.replace_all([signing_key()])
    assert ring.generation == before
    ring.replace_all([signing_key(), signing_key("other")])
    ring.replace_all([signing_key()])
    assert ring.generation == before + 2


def test_a_refused_token_is_not_remembered():
    clock = Clock(NOW - 100)
    watched, token = JwtAuthenticator(verifier(clock=clock)), minted(iat=NOW)
    assert "future" in reason(watched, token)
    clock.seconds = NOW
    assert authenticated(watched, token).id == "ann"


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("statewright.auth.authenticators._MAX_REMEMBERED", 2)
    watched = JwtAuthenticator(verifier())
    for number in range(5):
        authenticated(watched, minted(sub=f"user-{number}"))
    assert len(watched._remembered) == 2
    assert authenticated(watched, minted(sub="user-0")).id == "user-0"


def test_a_remembered_token_is_not_verified_again():
    keys = CountingKeys()
    watched, token = JwtAuthenticator(TokenVerifier(keys, RULES, Clock())), minted()
    assert authenticated(watched, token) is authenticated(watched, token)
    assert keys.key.checks == 1


# Issuing


def issuer(*, rules: TokenRules = RULES, clock: Clock | None = None) -> TokenIssuer:
    return TokenIssuer(KeyRing(signing_key()), rules, clock or Clock(), new_id=lambda: "the-id")


def said_by(token: str | None) -> dict[str, object]:
    assert token is not None
    return jwt.decode(
        token,
        rsa_key().public_key(),
        ["RS256"],
        options={"verify_exp": False, "verify_iat": False, "verify_aud": False},
    )


def test_a_client_gets_exactly_these_claims():
    assert said_by(issuer().issue_for_client(a_client())) == {
        "sub": "robot", "iss": "cyoda", "caas_user_id": "operator", "caas_org_id": "acme", "scopes": ["ROLE_M2M"],
        "caas_tier": "unlimited", "iat": NOW, "exp": NOW + 3600, "jti": "the-id",
    }  # fmt: skip


def test_the_header_names_algorithm_type_and_key():
    token = issuer().issue_for_client(a_client())
    assert token is not None
    assert jwt.get_unverified_header(token) == {"alg": "RS256", "typ": "JWT", "kid": signing_key().kid}


def test_a_client_acting_for_a_user_gets_exactly_these_claims():
    subject = {"sub": "ann", "caas_org_id": "acme", "user_roles": ["A", 1], "email": "ann@example.org"}
    assert said_by(issuer().issue_on_behalf(subject, a_client())) == {
        "sub": "ann", "iss": "cyoda", "caas_user_id": "ann", "caas_org_id": "acme", "user_roles": ["A", 1],
        "act": {"sub": "robot"}, "caas_tier": "unlimited", "iat": NOW, "exp": NOW + 3600, "jti": "the-id",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "roles"),
    [
        ({"user_roles": None, "roles": ["R"]}, None),
        ({"roles": ["R"]}, ["R"]),
        ({"roles": "R S"}, "R S"),
        ({}, None),
    ],
)
def test_the_roles_of_the_subject_are_copied_as_they_are(said: dict[str, object], roles: object):
    issued = said_by(issuer().issue_on_behalf({"sub": "ann", "caas_org_id": "acme"} | said, a_client()))
    assert "user_roles" in issued
    assert issued["user_roles"] == roles


def test_a_service_with_an_audience_issues_tokens_that_it_accepts_itself():
    token = issuer(rules=AUDIENCE_RULES).issue_for_client(a_client())
    assert token is not None
    assert verifier(rules=AUDIENCE_RULES).verify(token).principal.id == "operator"


def test_every_token_has_an_id_of_its_own():
    minting = TokenIssuer(KeyRing(signing_key()), RULES, Clock())
    assert said_by(minting.issue_for_client(a_client()))["jti"] != said_by(minting.issue_for_client(a_client()))["jti"]


def test_without_a_usable_key_nothing_is_issued():
    assert TokenIssuer(KeyRing(), RULES, Clock()).issue_for_client(a_client()) is None
