"""Keys of others that a tenant trusts, and what they are for: token exchange, and clients that sign
(docs/reference/authentication.md#trusted-keys).
"""

import base64
import json
from time import time
from uuid import uuid4

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.builders import Json
from tests.integration.identity.conftest import administrator, ask
from tests.service import ISSUER, Api, RunningService, done, eventually, refused, signing_key, signing_key_id
from tests.unit.auth.builders import rsa_key

TRUSTED = "/oauth/keys/trusted"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT = "urn:ietf:params:oauth:token-type:jwt"
BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def encoded(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8)).decode().rstrip("=")


def jwk(kid: str, key: str = "signer", **changes: Json) -> Json:
    numbers = rsa_key(key).public_key().public_numbers()
    members = {"kty": "RSA", "kid": kid, "n": encoded(numbers.n), "e": encoded(numbers.e)} | changes
    return {name: value for name, value in members.items() if value is not None}


@pytest.fixture
def kid() -> str:
    """An id that no tenant has used."""
    return f"ci-signer.{uuid4().hex[:8]}"


def a_registration(kid: str, **changes: Json) -> Json:
    return {"keyId": kid, "audience": "client", "jwk": jwk(kid)} | changes


def register(api: Api, kid: str, **changes: Json) -> Json:
    return done(api.post(TRUSTED, a_registration(kid, **changes)))


def signed(kid: str, key: rsa.RSAPrivateKey | None = None, **claims: Json) -> str:
    now = int(time())
    named = {"iat": now, "exp": now + 300} | claims
    kept = {name: value for name, value in named.items() if value is not None}
    return jwt.encode(kept, key or rsa_key("signer"), algorithm="RS256", headers={"kid": kid})


class Machine:
    """A client of the test's tenant."""

    def __init__(self, service: RunningService, admin: Api) -> None:
        issued = done(admin.post("/clients"))
        self.service, self.id, self.secret = service, issued["client_id"], issued["client_secret"]

    def exchange(self, subject: str, **parameters: str) -> httpx.Response:
        form = {"grant_type": EXCHANGE, "subject_token": subject, "subject_token_type": JWT} | parameters
        return ask(self.service, self.id, self.secret, **form)

    def assert_itself(self, assertion: str, **parameters: str) -> httpx.Response:
        fields = {
            "grant_type": "client_credentials",
            "client_assertion_type": BEARER,
            "client_assertion": assertion,
        } | parameters
        form = str(httpx.QueryParams(fields))
        return self.service.anonymous().post("/oauth/token", form, content_type="application/x-www-form-urlencoded")

    def assertion(self, kid: str, **claims: Json) -> str:
        own = {"iss": self.id, "sub": self.id, "aud": ISSUER, "jti": uuid4().hex}
        return signed(kid, **(own | claims))


@pytest.fixture
def machine(launched: RunningService, admin: Api) -> Machine:
    return Machine(launched, admin)


# Registration


def test_a_registered_key_is_shown_as_it_was_registered(admin: Api, kid: str, tenant: str) -> None:
    assert done(admin.get(TRUSTED)) == []
    window = {"validFrom": "2026-03-01T00:00:00Z", "validTo": "2999-09-01T00:00:00Z"}
    issuers = ["https://ci.example.org"]
    key = register(admin, kid, jwk=jwk(kid, use="sig"), issuers=issuers, **window)
    assert key == {
        "keyId": kid, "legalEntityId": tenant, "jwk": jwk(kid, use="sig"), "audience": "client", "active": True,
        "issuers": issuers, **window,
    }  # fmt: skip
    assert done(admin.get(TRUSTED)) == [key]
    again = register(admin, kid, audience="human")
    assert set(key) - set(again) == {"issuers"}
    assert done(admin.get(TRUSTED)) == [again]
    response = admin.delete(f"{TRUSTED}/{kid}")
    assert (response.status_code, response.content, response.headers.get("content-type")) == (200, b"", None)
    assert done(admin.get(TRUSTED)) == []


private = rsa_key("signer").private_numbers()


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"keyId": "no/id", "jwk": None}, "BAD_REQUEST", "invalid keyId format"),
        ({"jwk": None, "audience": "x"}, "BAD_REQUEST", "jwk is required"),
        ({"jwk": "text"}, "BAD_REQUEST", "invalid request body"),
        ({"jwk": {f"x{n}": n for n in range(21)}}, "BAD_REQUEST", "jwk has more than 20 members"),
        ({"jwk": {"x": "y" * 70_000}}, "BAD_REQUEST", "jwk is longer than 65536 bytes"),
        ({"jwk": {}}, "BAD_REQUEST", "jwk.kty is required"),
        ({"jwk": jwk("x", kty=1)}, "BAD_REQUEST", "jwk.kty is required"),
        ({"jwk": jwk("x", kty="EC")}, "UNSUPPORTED_KEY_TYPE", "only RSA keys are supported"),
        ({"jwk": jwk("another")}, "BAD_REQUEST", "jwk.kid must be keyId"),
        ({"jwk": jwk("x", n=None)}, "BAD_REQUEST", "jwk.n must be a base64url text"),
        ({"jwk": jwk("x", n="*")}, "BAD_REQUEST", "jwk.n must be a base64url text"),
        ({"jwk": jwk("x", n=encoded(2**1023 + 1))}, "BAD_REQUEST", "jwk.n must have 2048 to 4096 bits"),
        ({"jwk": jwk("x", n=encoded(2**4096 + 1))}, "BAD_REQUEST", "jwk.n must have 2048 to 4096 bits"),
        ({"jwk": jwk("x", e=encoded(1))}, "BAD_REQUEST", "jwk.n and jwk.e are no RSA key"),
        ({"jwk": jwk("x", e=encoded(4))}, "BAD_REQUEST", "jwk.n and jwk.e are no RSA key"),
        ({"jwk": jwk("x", e=encoded(2**64 + 1))}, "BAD_REQUEST", "jwk.e is too large"),
        ({"audience": "nobody", "validTo": "2000-01-01T00:00:00Z"}, "BAD_REQUEST", "invalid audience"),
        ({"validTo": "2000-01-01", "invalidateGracePeriodSec": -1}, "BAD_REQUEST", "validTo must be > validFrom"),
        ({"invalidateGracePeriodSec": -1}, "BAD_REQUEST", "gracePeriodSec must be >= 0"),
        ({"issuers": [""]}, "BAD_REQUEST", "an entry of issuers is empty, or longer than 1000 bytes"),
        ({"issuers": ["x"] * 101}, "BAD_REQUEST", "issuers has more than 100 entries"),
    ],
)  # fmt: skip
def test_a_malformed_registration_is_refused_by_its_first_fault(
    admin: Api, change: Json, code: str, message: str
) -> None:
    problem = refused(admin.post(TRUSTED, a_registration("x") | change), 400, code)
    assert problem["detail"] == f"{code}: {message}"


def test_a_private_key_is_not_taken_and_not_told_again(admin: Api) -> None:
    sent = jwk("x", d=encoded(private.d))
    response = admin.post(TRUSTED, a_registration("x", jwk=sent))
    refused(response, 400, "BAD_REQUEST")
    assert encoded(private.d) not in response.text


def test_padding_of_numbers_is_tolerated(admin: Api, kid: str) -> None:
    register(admin, kid, jwk=jwk(kid, n=jwk(kid)["n"] + "=="))


def test_an_id_that_another_tenant_uses_is_refused_and_its_key_is_none(
    launched: RunningService, admin: Api, kid: str
) -> None:
    other = administrator(launched, f"globex-{uuid4().hex[:8]}")
    register(other, kid)
    refused(admin.post(TRUSTED, a_registration(kid)), 409, "KEY_OWNED_BY_DIFFERENT_TENANT")
    assert kid not in admin.get(TRUSTED).text
    later = {"validTo": "2999-01-01T00:00:00Z"}
    for method, suffix, body in (("DELETE", "", b""), ("POST", "/invalidate", b""), ("POST", "/reactivate", later)):
        foreign = admin.request(method, f"{TRUSTED}/{kid}{suffix}", body)
        unknown = admin.request(method, f"{TRUSTED}/nothing{suffix}", body)
        refused(foreign, 404, "TRUSTED_KEY_NOT_FOUND")
        assert foreign.text.replace(kid, "nothing") == unknown.text
    assert [key["active"] for key in done(other.get(TRUSTED))] == [True]


def test_so_many_keys_of_a_tenant_count_at_a_time(admin: Api, kid: str) -> None:
    for number in range(10):
        register(admin, f"{kid}-{number}")
    problem = refused(admin.post(TRUSTED, a_registration(kid)), 400, "TRUSTED_KEY_CAP_REACHED")
    assert problem["detail"] == "TRUSTED_KEY_CAP_REACHED: trusted-key cap reached for tenant"
    register(admin, f"{kid}-3", audience="human")
    assert admin.post(f"{TRUSTED}/{kid}-4/invalidate").status_code == 200
    register(admin, kid)
    register(admin, f"{kid}-new", invalidatePrevious=True)
    active = {key["keyId"] for key in done(admin.get(TRUSTED)) if key["active"]}
    assert active == {f"{kid}-new"}


CALLS = [
    ("GET", TRUSTED),
    ("POST", TRUSTED),
    ("DELETE", f"{TRUSTED}/x"),
    ("POST", f"{TRUSTED}/x/invalidate"),
    ("POST", f"{TRUSTED}/x/reactivate"),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_who_may_is_looked_at_before_whether_the_feature_is_on(
    launched: RunningService, service: RunningService, tenant: str, method: str, path: str
) -> None:
    refused(launched.anonymous().request(method, path), 401, "UNAUTHORIZED")
    refused(service.api(tenant).request(method, path, "no json"), 403, "FORBIDDEN")
    problem = refused(administrator(service, tenant).request(method, path, "no json"), 404, "FEATURE_DISABLED")
    told = "trusted-key registration is disabled; STATEWRIGHT_IAM_TRUSTED_KEY_REGISTRATION_ENABLED=true permits it"
    assert problem["detail"] == f"FEATURE_DISABLED: {told}"


@pytest.mark.parametrize("suffix", ["", "/invalidate", "/reactivate"])
def test_an_id_of_other_characters_is_refused(admin: Api, suffix: str) -> None:
    method = "POST" if suffix else "DELETE"
    problem = refused(admin.request(method, f"{TRUSTED}/a%20b{suffix}", {"validTo": "2999-01-01"}), 400, "BAD_REQUEST")
    assert problem["detail"] == "BAD_REQUEST: invalid keyId format"


# Token exchange


def test_a_client_acts_for_a_subject_that_a_trusted_key_has_signed(
    admin: Api, machine: Machine, kid: str, tenant: str
) -> None:
    register(admin, kid)
    response = machine.exchange(signed(kid, sub="ann", caas_org_id=tenant, user_roles=["ROLE_USER"]))
    granted = done(response)
    assert granted["issued_token_type"] == JWT
    info = done(Api(machine.service.url, granted["access_token"]).get("/account"))["userAccountInfo"]
    assert (info["userId"], info["legalEntity"]["id"], info["roles"]) == ("ann", tenant, [{"id": "ROLE_USER"}])
    claims = jwt.decode(granted["access_token"], options={"verify_signature": False})
    assert (claims["act"], claims["user_roles"], claims["sub"]) == ({"sub": machine.id}, ["ROLE_USER"], "ann")


def test_an_exchange_is_refused_by_its_first_fault(
    launched: RunningService, admin: Api, machine: Machine, kid: str, tenant: str
) -> None:
    register(admin, kid, issuers=["https://ci.example.org"])
    good = {"sub": "ann", "caas_org_id": tenant, "iss": "https://ci.example.org"}

    def fault(subject: str, status: int = 400, **parameters: str) -> str:
        response = machine.exchange(subject, **parameters)
        assert response.status_code == status, response.text
        assert response.json()["error"] == ("invalid_grant" if status == 400 else "access_denied")
        return str(response.json()["error_description"])

    access_token = "urn:ietf:params:oauth:token-type:access_token"
    assert fault(signed(kid, **good), subject_token_type=access_token) == "unsupported subject_token_type"
    assert fault("a.b") == "invalid subject token"
    assert fault(jwt.encode(good, "k" * 32, algorithm="HS256", headers={"kid": kid})) == "unsupported token algorithm"
    assert fault(jwt.encode(good, rsa_key("signer"), algorithm="RS256")) == "missing kid in subject token"
    assert fault(signed("nobody", **good)) == "unknown trusted key"
    own = signed(signing_key_id(), signing_key(), **(good | {"iss": ISSUER}))
    assert fault(own) == "unknown trusted key", "our own tokens are no subject tokens"
    assert fault(signed(kid, rsa_key("other"), **good)) == "signature verification failed"
    assert fault(signed(kid, **(good | {"iss": "https://ci.example.org/"}))) == "untrusted token issuer"
    assert fault(signed(kid, **good, exp=int(time()) - 60)) == "token expired"
    assert fault(signed(kid, **good, exp=None)) == "missing exp claim"
    assert fault(signed(kid, **(good | {"sub": None}))) == "subject token missing sub claim"
    assert fault(signed(kid, **(good | {"caas_org_id": "globex"})), 403) == "tenant mismatch"
    assert fault(signed(kid, **(good | {"caas_org_id": None})), 403) == "tenant mismatch"
    assert machine.exchange(signed(kid, **good)).status_code == 200
    done_with = admin.post(f"{TRUSTED}/{kid}/invalidate", {"gracePeriodSec": 600})
    assert done_with.status_code == 200
    assert fault(signed(kid, **good)) == "trusted key is inactive"
    done(admin.post(f"{TRUSTED}/{kid}/reactivate", {"validFrom": "2998-01-01T00:00:00Z", "validTo": "2999-01-01"}))
    assert fault(signed(kid, **good)) == "trusted key not yet valid"
    admin.delete(f"{TRUSTED}/{kid}")
    assert fault(signed(kid, **good)) == "unknown trusted key"


def test_a_subject_token_is_of_use_to_its_own_tenant_only(
    launched: RunningService, admin: Api, machine: Machine, kid: str, tenant: str
) -> None:
    register(admin, kid)
    subject = signed(kid, sub="ann", caas_org_id=tenant)
    stranger = Machine(launched, administrator(launched, f"globex-{uuid4().hex[:8]}"))
    assert stranger.exchange(subject).json()["error_description"] == "unknown trusted key"
    refused(Api(launched.url, subject).get("/account"), 401, "UNAUTHORIZED")
    granted = done(machine.exchange(subject))["access_token"]
    assert machine.exchange(granted).json()["error_description"] == "unknown trusted key"


# Clients that sign


def test_a_client_may_sign_in_place_of_a_secret(admin: Api, machine: Machine, kid: str, tenant: str) -> None:
    register(admin, kid, issuers=[machine.id])
    granted = done(machine.assert_itself(machine.assertion(kid), client_id=machine.id))
    claims = jwt.decode(granted["access_token"], options={"verify_signature": False})
    assert (claims["sub"], claims["caas_org_id"], claims["scopes"]) == (machine.id, tenant, ["ROLE_M2M"])


def test_an_assertion_counts_once(admin: Api, machine: Machine, kid: str) -> None:
    register(admin, kid, issuers=[machine.id])
    assertion = machine.assertion(kid)
    assert [machine.assert_itself(assertion).status_code for _ in range(3)] == [200, 401, 401]
    admin.delete(f"/clients/{machine.id}")
    assert machine.assert_itself(machine.assertion(kid)).status_code == 401


def test_whatever_is_wrong_with_an_assertion_is_told_the_same(
    launched: RunningService, admin: Api, machine: Machine, kid: str
) -> None:
    other = Machine(launched, admin)
    register(admin, kid, issuers=[machine.id])
    register(admin, f"{kid}-any")
    register(admin, f"{kid}-human", issuers=[machine.id], audience="human")
    foreign = administrator(launched, f"globex-{uuid4().hex[:8]}")
    register(foreign, f"{kid}-foreign", issuers=[machine.id])
    now = int(time())
    header, payload, signature = machine.assertion(kid).split(".")
    forged = base64.urlsafe_b64encode(json.dumps({"alg": "none", "kid": kid}).encode()).decode().rstrip("=")
    assertions = [
        "",
        "a.b.c",
        f"{forged}.{payload}.",
        f"{header}.{payload}.{signature[:-8]}AAAAAAAA",
        "x" * 20_000,
        jwt.encode({"iss": machine.id, "sub": machine.id}, "k" * 32, algorithm="HS256", headers={"kid": kid}),
        machine.assertion("nobody"),
        machine.assertion(f"{kid}-any"),
        machine.assertion(f"{kid}-human"),
        machine.assertion(f"{kid}-foreign"),
        other.assertion(kid),
        machine.assertion(kid, iss="https://ci.example.org"),
        machine.assertion(kid, sub="nobody", iss="nobody"),
        machine.assertion(kid, aud="https://elsewhere.example.org"),
        machine.assertion(kid, aud=None),
        machine.assertion(kid, jti=None),
        machine.assertion(kid, exp=None),
        machine.assertion(kid, exp=now - 60),
        machine.assertion(kid, exp=now + 7200),
    ]
    answers = [machine.assert_itself(assertion) for assertion in assertions]
    assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}
    assert answers[0].json()["error"] == "invalid_client"
    assert machine.assert_itself(machine.assertion(kid), client_id="another").status_code == 401
    assert machine.assert_itself(machine.assertion(kid), client_assertion_type="saml").status_code == 401
    both = machine.assert_itself(machine.assertion(kid), client_secret=machine.secret)
    assert (both.status_code, both.json()["error"]) == (400, "invalid_request")


def test_a_key_that_is_not_trusted_any_more_proves_nothing(admin: Api, machine: Machine, kid: str) -> None:
    register(admin, kid, issuers=[machine.id])
    assert machine.assert_itself(machine.assertion(kid)).status_code == 200
    admin.post(f"{TRUSTED}/{kid}/invalidate", {"gracePeriodSec": 600})
    eventually(lambda: machine.assert_itself(machine.assertion(kid)).status_code == 401, within_s=1)
