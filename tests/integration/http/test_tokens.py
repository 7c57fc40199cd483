"""Bearer tokens, the token endpoint and the published keys (docs/reference/authentication.md#modes,
docs/reference/authentication.md#clients).
"""

import base64
import json
from collections.abc import Iterator
from time import time
from urllib.parse import quote

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from statewright.settings import Secret
from tests.builders import Json
from tests.database import Template
from tests.service import (
    CLIENT_ID,
    CLIENT_SECRET,
    Api,
    RunningService,
    a_token,
    done,
    hosted,
    refused,
    signing_key,
    signing_key_id,
)


@pytest.fixture(scope="module")
def launched(database_template: Template) -> Iterator[RunningService]:
    """A service with a bootstrap client."""
    with hosted(
        database_template.clone(),
        bootstrap_client_id=CLIENT_ID,
        bootstrap_client_secret=Secret(CLIENT_SECRET),
        bootstrap_tenant_id="boot-tenant",
        bootstrap_user_id="boot-user",
    ) as running:
        yield running


def basic(client: str = CLIENT_ID, secret: str = CLIENT_SECRET) -> str:
    return "Basic " + base64.b64encode(f"{quote(client)}:{quote(secret)}".encode()).decode()


def ask(service: RunningService, body: str = "grant_type=client_credentials", **headers: str) -> httpx.Response:
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    return service.anonymous().post("/oauth/token", body, **(form | headers))


def account(api: Api) -> Json:
    return done(api.get("/account"))["userAccountInfo"]


# Bearer tokens


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"exp": "2999-01-01"},
        {"iat": None},
        {"iss": "somebody else"},
        {"iss": None},
        {"caas_org_id": None},
        {"caas_org_id": ""},
        {"caas_org_id": 7},
        {"caas_user_id": "", "sub": ""},
        {"caas_user_id": None, "sub": None},
    ],
    ids=str,
)
def test_a_token_with_unfit_claims_is_refused_without_a_reason(
    service: RunningService, claims: dict[str, Json]
) -> None:
    problem = refused(service.api("acme", **claims).get("/model/"), 401, "UNAUTHORIZED")
    assert problem["detail"] == "UNAUTHORIZED: authentication failed"


@pytest.mark.parametrize(
    ("claim", "offset_s", "status"),
    [
        ("exp", -60, 401),
        ("exp", -15, 200),
        ("iat", 60, 401),
        ("iat", 15, 200),
        ("nbf", 60, 401),
        ("nbf", 15, 200),
    ],
)
def test_clocks_may_differ_by_half_a_minute(service: RunningService, claim: str, offset_s: int, status: int) -> None:
    caller = service.api("acme", **{claim: int(time()) + offset_s})
    assert caller.get("/model/").status_code == status


def test_the_audience_is_free_unless_one_is_configured(service: RunningService) -> None:
    done(service.api("acme", aud="anybody").get("/model/"))


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "bearer {0}", "Bearer  {0}", "Token {0}", "{0}", "Bearer {0}x", "Basic e30="]
)
def test_the_scheme_is_matched_to_the_letter(service: RunningService, authorization: str) -> None:
    response = service.anonymous().get("/model/", Authorization=authorization.format(a_token("acme")))
    refused(response, 401, "UNAUTHORIZED")


def test_tokens_that_somebody_else_signed_are_refused(service: RunningService) -> None:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = jwt.decode(a_token("acme"), options={"verify_signature": False})
    headers = {"kid": signing_key_id()}
    forged = [
        jwt.encode(claims, stranger, algorithm="RS256", headers=headers),
        jwt.encode(claims, signing_key(), algorithm="RS256"),
        jwt.encode(claims, signing_key(), algorithm="RS256", headers={"kid": "unknown"}),
        jwt.encode(claims, signing_key(), algorithm="RS512", headers=headers),
        jwt.encode(claims, "k" * 32, algorithm="HS256", headers=headers),
        jwt.encode(claims, None, algorithm="none", headers=headers),
    ]
    bodies = {refused(Api(service.url, token).get("/model/"), 401, "UNAUTHORIZED")["detail"] for token in forged}
    assert bodies == {"UNAUTHORIZED: authentication failed"}


def test_a_tampered_token_is_refused_although_its_original_was_accepted(service: RunningService) -> None:
    token = a_token("acme")
    done(Api(service.url, token).get("/model/"))
    head, claims, signature = token.split(".")
    altered = json.loads(base64.urlsafe_b64decode(claims + "=="))
    altered["caas_org_id"] = "globex"
    payload = base64.urlsafe_b64encode(json.dumps(altered).encode()).decode().rstrip("=")
    refused(Api(service.url, f"{head}.{payload}.{signature}").get("/model/"), 401, "UNAUTHORIZED")


def test_tenants_and_users_need_no_registration(service: RunningService, tenant: str) -> None:
    info = account(service.api(tenant, "nobody-has-seen-me", user_roles=["A", 1, "B"]))
    assert info["userId"] == "nobody-has-seen-me"
    assert info["legalEntity"]["id"] == tenant
    assert info["roles"] == [{"id": "A"}, {"id": "B"}]


# The token endpoint


def test_the_bootstrap_client_gets_a_token_that_works(launched: RunningService) -> None:
    response = ask(launched, Authorization=basic())
    assert response.headers["content-type"] == "application/json"
    granted = done(response)
    assert set(granted) == {"access_token", "token_type", "expires_in"}
    assert (granted["token_type"], granted["expires_in"]) == ("Bearer", 3600)
    caller = Api(launched.url, granted["access_token"])
    info = account(caller)
    assert (info["userId"], info["legalEntity"]["id"]) == ("boot-user", "boot-tenant")
    assert info["roles"] == [{"id": "ROLE_ADMIN"}, {"id": "ROLE_M2M"}]
    caller.a_model()
    [change] = done(caller.get(f"/entity/{caller.create().id}/changes"))
    assert change["executedBy"] == {"id": "boot-user", "kind": "service"}


def test_an_issued_token_carries_the_specified_claims(launched: RunningService) -> None:
    token = done(ask(launched, Authorization=basic()))["access_token"]
    assert jwt.get_unverified_header(token) == {"alg": "RS256", "typ": "JWT", "kid": signing_key_id()}
    claims = jwt.decode(token, signing_key().public_key(), algorithms=["RS256"], issuer="cyoda")
    assert set(claims) == {"sub", "iss", "caas_user_id", "caas_org_id", "scopes", "caas_tier", "exp", "iat", "jti"}
    assert (claims["sub"], claims["scopes"], claims["caas_tier"]) == (
        CLIENT_ID,
        ["ROLE_ADMIN", "ROLE_M2M"],
        "unlimited",
    )
    assert claims["exp"] - claims["iat"] == 3600


def test_parameters_may_come_in_the_query_and_unknown_ones_are_ignored(launched: RunningService) -> None:
    authorized = {"Authorization": basic()}
    done(launched.anonymous().post("/oauth/token?grant_type=client_credentials&scope=all", **authorized))


@pytest.mark.parametrize(
    ("authorization", "body"),
    [
        ("", "grant_type=client_credentials"),
        (basic(secret="wrong"), "grant_type=client_credentials"),
        (basic(client="wrong"), "grant_type=client_credentials"),
        ("basic " + basic()[6:], "grant_type=client_credentials"),
        ("Basic !!", ""),
        ("", f"grant_type=client_credentials&client_id={CLIENT_ID}&client_secret=wrong"),
    ],
)
def test_clients_have_to_prove_themselves(launched: RunningService, authorization: str, body: str) -> None:
    response = ask(launched, body, **({"Authorization": authorization} if authorization else {}))
    assert (response.status_code, response.json()["error"]) == (401, "invalid_client")
    assert response.headers["www-authenticate"].startswith("Basic ")
    assert response.headers["content-type"] == "application/json"


def test_clients_may_prove_themselves_in_the_form(launched: RunningService) -> None:
    body = f"grant_type=client_credentials&client_id={CLIENT_ID}&client_secret={quote(CLIENT_SECRET)}"
    assert set(done(ask(launched, body))) == {"access_token", "token_type", "expires_in"}


@pytest.mark.parametrize("body", ["", "grant_type=", "grant_type=password", '{"grant_type": "client_credentials"}'])
def test_an_unknown_grant_is_refused_after_the_client_was_checked(launched: RunningService, body: str) -> None:
    response = ask(launched, body, Authorization=basic())
    assert (response.status_code, response.json()["error"]) == (400, "unsupported_grant_type")


def test_a_service_without_clients_grants_nothing(service: RunningService) -> None:
    assert ask(service, Authorization=basic()).status_code == 401


# Published keys


def test_the_published_key_verifies_what_was_issued(launched: RunningService) -> None:
    response = launched.anonymous().get("/.well-known/jwks.json")
    assert response.headers["content-type"] == "application/json"
    [key] = done(response)["keys"]
    assert set(key) == {"kty", "kid", "use", "alg", "n", "e"}
    assert (key["kty"], key["use"], key["alg"], key["e"]) == ("RSA", "sig", "RS256", "AQAB")
    assert key["kid"] == signing_key_id()
    token = done(ask(launched, Authorization=basic()))["access_token"]
    jwt.decode(token, jwt.PyJWK(key).key, algorithms=["RS256"], issuer="cyoda")


def test_the_private_key_is_nowhere_to_be_seen(launched: RunningService) -> None:
    private = signing_key().private_numbers()
    texts = [launched.anonymous().get(path).text for path in ("/.well-known/jwks.json", "/health", "/no/such/path")]
    for secret in (private.p, private.q, private.d):
        encoded = base64.urlsafe_b64encode(secret.to_bytes((secret.bit_length() + 7) // 8)).decode().rstrip("=")
        assert not any(encoded in text for text in texts)


def test_a_request_joins_one_transaction_and_acts_for_one_caller(api: Api) -> None:
    assert api.get("/model/", X_Tx_Token="one", x_tx_token="another").status_code == 400
    assert api.get("/model/", authorization="Bearer another").status_code == 400
