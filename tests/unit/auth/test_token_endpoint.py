"""``POST /oauth/token`` (docs/reference/authentication.md#token-endpoint)."""

import base64
import json
from typing import ClassVar
from urllib.parse import quote_plus, urlencode

import jwt
import msgspec
import pytest

from statewright.auth import (
    Client,
    KeyRing,
    MockTokenEndpoint,
    TokenEndpoint,
    TokenIssuer,
    TokenRequest,
    TrustedKey,
    TrustedKeys,
    build_mock_principal,
)
from statewright.auth.clients import TooManyGuesses
from statewright.ids import TenantId
from tests.unit.auth.builders import (
    ABSENT,
    NOW,
    RULES,
    Clock,
    a_client,
    claims,
    minted,
    rsa_key,
    signing_key,
    verifier,
)

FORM = "application/x-www-form-urlencoded"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT_TYPE = "urn:ietf:params:oauth:token-type:jwt"
MICROS = NOW * 1_000_000
PAUSED = "192.0.2.1"
SPECIAL = "p+ss%20w0rd:&=ü"


def basic(client_id: str = "robot", secret: str = "hunter2") -> str:
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()


class Secrets:
    """Knows the secrets of two clients, without the slow hash that ``test_clients`` is about."""

    KNOWN: ClassVar = {"robot": "hunter2", "special": SPECIAL}

    async def authenticate(self, client_id: str, secret: str, address: str = "") -> Client | None:
        if address == PAUSED:
            raise TooManyGuesses(1.25)
        return a_client(client_id) if self.KNOWN.get(client_id) == secret else None


def request(
    authorization: str | None = basic(),
    body: dict[str, str] | bytes | None = None,
    *,
    content_type: str | None = FORM,
    query: str = "",
) -> TokenRequest:
    fields = {"grant_type": "client_credentials"} if body is None else body
    raw = fields if isinstance(fields, bytes) else urlencode(fields).encode()
    return TokenRequest(authorization=authorization, content_type=content_type, body=raw, query=query)


def endpoint(*, trusted: TrustedKeys | None = None, ring: KeyRing | None = None) -> TokenEndpoint:
    issuer = TokenIssuer(ring or KeyRing(signing_key()), RULES, Clock())
    return TokenEndpoint(Secrets(), issuer, trusted or TrustedOf("acme"), Clock())


async def answer(asked: TokenRequest, **options: object) -> tuple[int, dict[str, object]]:
    reply = await endpoint(**options).issue(asked)  # type: ignore[arg-type]
    return reply.status, json.loads(reply.body)


# Client credentials


async def test_a_client_gets_a_token_that_the_service_accepts():
    status, body = await answer(request())
    assert status == 200
    assert body | {"access_token": ""} == {"access_token": "", "token_type": "Bearer", "expires_in": 3600}
    principal = verifier().verify(str(body["access_token"])).principal
    assert (principal.id, principal.tenant, principal.kind, principal.roles) == (
        "operator", "acme", "service", ("ROLE_M2M",),
    )  # fmt: skip


@pytest.mark.parametrize(
    "authorization",
    [
        None, "", "Basic", "Basic ", "basic " + basic()[6:], "Basic  " + basic()[6:], "Bearer x", "Basic !!!",
        basic().rstrip("=") + "\n", "Basic " + base64.b64encode(b"robot").decode(),
        "Basic " + base64.b64encode(b"\xff:x").decode(),
        basic(secret="wrong"), basic("nobody"),
    ],
)  # fmt: skip
async def test_whoever_does_not_prove_to_be_a_client_is_told_so_and_no_more(authorization: str | None):
    reply = await endpoint().issue(request(authorization))
    said = json.loads(reply.body)
    assert (reply.status, said["error"]) == (401, "invalid_client")
    assert reply.headers["www-authenticate"].startswith('Basic realm="')
    assert said["error_description"] != said["error"]
    if authorization is None:
        assert "client_secret" in said["error_description"]


async def test_an_unknown_client_and_a_wrong_secret_are_told_the_same():
    assert await answer(request(basic("nobody"))) == await answer(request(basic(secret="wrong")))


async def test_the_client_counts_before_the_grant():
    status, _ = await answer(request(basic(secret="wrong"), {"grant_type": "nonsense"}))
    assert status == 401


POSTED = {"grant_type": "client_credentials", "client_id": "robot", "client_secret": "hunter2"}


async def test_credentials_may_be_in_the_form():
    assert (await answer(request(None, POSTED)))[0] == 200
    assert (await answer(request(None, POSTED | {"client_id": "special", "client_secret": SPECIAL})))[0] == 200
    for wrong in ({"client_secret": "wrong"}, {"client_secret": ""}, {"client_id": "nobody"}):
        assert (await answer(request(None, POSTED | wrong)))[0] == 401


async def test_credentials_in_the_query_do_not_count():
    query = "client_id=robot&client_secret=hunter2"
    assert (await answer(request(None, query=query)))[0] == 401
    assert (await answer(request(None, {"grant_type": "client_credentials", "client_id": "robot"}, query=query)))[
        0
    ] == 401


async def test_a_client_proves_itself_in_one_way_only():
    status, said = await answer(request(basic(), POSTED))
    assert (status, said["error"]) == (400, "invalid_request")
    assert (await answer(request(basic(), {"grant_type": "client_credentials", "client_id": "robot"})))[0] == 200


async def test_whoever_guesses_too_much_is_told_how_long_to_wait():
    reply = await endpoint().issue(msgspec.structs.replace(request(), address=PAUSED))
    assert (reply.status, json.loads(reply.body)["error"]) == (429, "temporarily_unavailable")
    assert reply.headers["retry-after"] == "2"


async def test_no_answer_is_to_be_stored():
    for asked in (request(), request(None)):
        assert (await endpoint().issue(asked)).headers["cache-control"] == "no-store"


async def test_credentials_may_be_form_encoded():
    assert (await answer(request(basic("special", quote_plus(SPECIAL)))))[0] == 200


async def test_credentials_may_be_sent_as_they_are_though_they_look_encoded():
    assert (await answer(request(basic("special", SPECIAL))))[0] == 200


@pytest.mark.parametrize(
    "asked",
    [
        request(body={}),
        request(body={"grant_type": ""}),
        request(body={"grant_type": "password"}),
        request(body=b'{"grant_type":"client_credentials"}', content_type="application/json"),
        request(content_type=None),
        request(content_type="text/plain"),
        request(body=b"grant_type=client_credentials&x=" + b"x" * (1 << 20)),
        request(body=b"grant_type=client_credentials&x=\xff"),
        request(body=b"&".join(b"a=b" for _ in range(200))),
        request(body={"grant_type": ""}, query="grant_type=client_credentials"),
        request(body=b"x", content_type="multipart/form-data; boundary=b"),
    ],
    ids=str,
)
async def test_a_grant_that_is_missing_unknown_or_unreadable_is_not_supported(asked: TokenRequest):
    status, said = await answer(asked)
    assert (status, said["error"]) == (400, "unsupported_grant_type")
    assert said["error_description"] != said["error"]


async def test_a_refusal_of_a_grant_says_what_is_offered_or_what_is_wrong_with_the_body():
    _, said = await answer(request(body={"grant_type": "password"}))
    assert said["error_description"] == (
        f'grant_type "password" is not offered; offered are client_credentials and {EXCHANGE}'
    )
    _, said = await answer(request(body=b'{"grant_type":"client_credentials"}', content_type="application/json"))
    assert said["error_description"] == f"the body is no form: its content type must be {FORM}"


@pytest.mark.parametrize(
    "asked",
    [
        request(body=b"", query="grant_type=client_credentials"),
        request(body=b"", content_type=None, query="grant_type=client_credentials"),
        request(content_type="Application/X-WWW-Form-URLEncoded; charset=utf-8"),
        request(query="grant_type=password"),
        request(body={"grant_type": "client_credentials", "scope": "x", "audience": "y", "resource": "z"}),
        request(
            body=b'--b\r\nContent-Disposition: form-data; name="grant_type"\r\n\r\nclient_credentials\r\n--b--\r\n',
            content_type="multipart/form-data; boundary=b",
        ),
    ],
    ids=str,
)
async def test_where_the_grant_may_stand(asked: TokenRequest):
    assert (await answer(asked))[0] == 200


GRANT_PART = b'--b\r\nContent-Disposition: form-data; name="grant_type"\r\n\r\nclient_credentials\r\n'
FILE_PART = b'--b\r\nContent-Disposition: form-data; name="f"; filename="x.txt"\r\n\r\n--b is no line of it\r\n'


async def test_a_multipart_form_may_have_a_preamble_files_and_unnamed_parts():
    body = b"to be ignored\r\n" + FILE_PART + b"--b \r\n\r\nno name\r\n" + GRANT_PART + b"--b--\r\nthe rest"
    assert (await answer(request(body=body, content_type='multipart/form-data; boundary="b"')))[0] == 200


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"--b\r\n\r\n\r\n" * 190_000 + b"--b--", "too many parameters"),
        (GRANT_PART * 101 + b"--b--", "too many parameters"),
        (b"--b\r\n" + b"a: b\r\n" * 1000 + b"\r\n\r\n--b--", "the head of a field is longer than 1024 bytes"),
        (GRANT_PART, "the body is not multipart: it has no end"),
        (GRANT_PART.replace(b"client", b"\xff") + b"--b--", "a field is not UTF-8"),
        (GRANT_PART.replace(b"name=", b"x=x\r\nContent-Transfer-Encoding: base64\r\na: ") + b"--b--",
         "a field has a transfer encoding"),
    ],
    ids=["delimiters", "fields", "head", "end", "bytes", "encoding"],
)  # fmt: skip
async def test_a_multipart_form_is_refused_before_it_costs_time(body: bytes, said: str):
    """A parser of mail took a second of the event loop for the first of these, and asked nobody for credentials."""
    asked = request(body=body[: 1 << 20], content_type="multipart/form-data; boundary=b")
    assert await answer(asked) == (400, {"error": "unsupported_grant_type", "error_description": said})


@pytest.mark.parametrize("content_type", ["multipart/form-data", "multipart/form-data; boundary="])
async def test_a_multipart_form_needs_a_boundary(content_type: str):
    _, said = await answer(request(body=GRANT_PART + b"--b--", content_type=content_type))
    assert said["error_description"] == "the content type names no boundary"


@pytest.mark.parametrize("ring", [KeyRing(), KeyRing(signing_key(audience="human"))], ids=["none", "human"])
async def test_without_a_key_that_may_sign_the_server_is_at_fault(ring: KeyRing):
    assert await answer(request(), ring=ring) == (
        500, {"error": "server_error", "error_description": "no key of this service may sign now"},
    )  # fmt: skip


# Token exchange


class TrustedOf:
    """The trusted keys of one tenant."""

    def __init__(self, tenant: str, *keys: TrustedKey) -> None:
        self._tenant = tenant
        self._keys = {key.kid: key for key in keys}

    async def find(self, tenant: TenantId, kid: str) -> TrustedKey | None:
        return self._keys.get(kid) if tenant == self._tenant else None


def trusted_key(**changes: object) -> TrustedKey:
    good: dict[str, object] = {
        "kid": "ci", "public": rsa_key("ci").public_key(), "active": True,
        "valid_from": MICROS - 1, "valid_to": MICROS + 1,
    }  # fmt: skip
    return TrustedKey(**(good | changes))  # type: ignore[arg-type]


def subject_token(header: dict[str, object] | None = None, **changes: object) -> str:
    return minted("ci", header={"kid": "ci"} | (header or {}), **({"iss": "https://ci.example.org"} | changes))


def exchange(token: str | None = None, token_type: str = JWT_TYPE) -> TokenRequest:
    fields = {"grant_type": EXCHANGE, "subject_token_type": token_type}
    return request(body=fields | {"subject_token": subject_token() if token is None else token})


async def exchanged(asked: TokenRequest, *keys: TrustedKey, tenant: str = "acme") -> tuple[int, dict[str, object]]:
    return await answer(asked, trusted=TrustedOf(tenant, *(keys or (trusted_key(),))))


async def test_a_client_may_act_for_the_subject_of_a_trusted_signer():
    status, body = await exchanged(exchange())
    assert status == 200
    assert body | {"access_token": ""} == {
        "access_token": "", "token_type": "Bearer", "expires_in": 3600, "issued_token_type": JWT_TYPE,
    }  # fmt: skip
    principal = verifier().verify(str(body["access_token"])).principal
    assert (principal.id, principal.kind, principal.roles) == ("ann", "user", ("ROLE_ADMIN",))


def unsigned(header: dict[str, object], body: object) -> str:
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, body)]
    return ".".join([*encoded, "AAAA"])


@pytest.mark.parametrize(
    ("asked", "description"),
    [
        (exchange(token_type="urn:ietf:params:oauth:token-type:access_token"), "unsupported subject_token_type"),
        (exchange("nonsense", token_type=""), "unsupported subject_token_type"),
        (exchange(""), "invalid subject token"),
        (exchange(unsigned({"alg": "HS256"}, [])), "invalid subject token"),
        (exchange(unsigned({"alg": "HS256"}, {})), "unsupported token algorithm"),
        (exchange(unsigned({"alg": "RS256"}, {})), "missing kid in subject token"),
        (exchange(unsigned({"alg": "RS256", "kid": "x"}, {})), "unknown trusted key"),
        (exchange(minted()), "unknown trusted key"),
        (exchange(unsigned({"alg": "RS256", "kid": "ci"}, claims())), "signature verification failed"),
        (exchange(subject_token(exp=NOW - 31)), "token expired"),
        (exchange(subject_token(exp=ABSENT)), "missing exp claim"),
        (exchange(subject_token(iat=ABSENT)), "missing iat claim"),
        (exchange(subject_token(iat=NOW + 31)), "iat is in the future"),
        (exchange(subject_token(nbf=NOW + 31)), "token not yet valid (nbf)"),
        (exchange(subject_token(sub=ABSENT)), "subject token missing sub claim"),
        (exchange(subject_token(sub="")), "subject token missing sub claim"),
        (exchange(subject_token(sub=ABSENT, exp=NOW - 31, caas_org_id="x")), "token expired"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_first_check_that_a_subject_token_fails_decides(asked: TokenRequest, description: str):
    assert await exchanged(asked) == (400, {"error": "invalid_grant", "error_description": description})


@pytest.mark.parametrize(
    ("change", "description"),
    [
        ({"valid_to": MICROS - 1, "active": False}, "unknown trusted key"),
        ({"active": False, "valid_from": MICROS + 1}, "trusted key is inactive"),
        ({"valid_from": MICROS + 1, "public": rsa_key().public_key()}, "trusted key not yet valid"),
        ({"public": rsa_key().public_key()}, "signature verification failed"),
        ({"issuers": ("https://other.example.org",)}, "untrusted token issuer"),
        ({"issuers": ("https://ci.example.org/",)}, "untrusted token issuer"),
    ],
)
async def test_the_first_check_that_a_trusted_key_fails_decides(change: dict[str, object], description: str):
    assert await exchanged(exchange(), trusted_key(**change)) == (
        400, {"error": "invalid_grant", "error_description": description},
    )  # fmt: skip


async def test_the_issuer_counts_before_the_times():
    key = trusted_key(issuers=("x",))
    assert (await exchanged(exchange(subject_token(exp=NOW - 31)), key))[1][
        "error_description"
    ] == "untrusted token issuer"


async def test_a_listed_issuer_is_trusted():
    assert (await exchanged(exchange(), trusted_key(issuers=("x", "https://ci.example.org"))))[0] == 200


@pytest.mark.parametrize("tenant", ["other", "", ABSENT, 5])
async def test_the_subject_must_belong_to_the_tenant_of_the_client(tenant: object):
    assert await exchanged(exchange(subject_token(caas_org_id=tenant))) == (
        403, {"error": "access_denied", "error_description": "tenant mismatch"},
    )  # fmt: skip


async def test_a_key_that_another_tenant_trusts_is_unknown():
    assert (await exchanged(exchange(), tenant="other"))[1]["error_description"] == "unknown trusted key"


async def test_a_service_without_trusted_keys_exchanges_nothing():
    assert (await answer(exchange()))[1]["error_description"] == "unknown trusted key"


# Mock mode


async def test_in_mock_mode_everybody_gets_a_token_that_describes_the_mock_principal():
    mock = MockTokenEndpoint(build_mock_principal(["A"], "user"), RULES, Clock())
    reply = await mock.issue(request(None, b"", content_type=None))
    body = json.loads(reply.body)
    said = jwt.decode(body["access_token"], options={"verify_signature": False})
    assert (reply.status, body["token_type"], body["expires_in"]) == (200, "Bearer", 3600)
    assert (said["sub"], said["caas_org_id"], said["iss"], said["user_roles"]) == (
        "mock-user-001", "mock-tenant", "cyoda", ["A"],
    )  # fmt: skip
