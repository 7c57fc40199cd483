"""What strangers and hostile tenants may try by way of identity providers (docs/reference/oidc.md)."""

import json
import threading
from collections.abc import Iterator
from ipaddress import ip_network
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.hashes import SHA256, SHA512
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.database import Template
from tests.identity_provider import DISCOVERY, KEYS, IdentityProvider, find_key, identity_provider, public_jwk, reply
from tests.integration.identity.conftest import administrator
from tests.integration.identity.test_attacks import encoded, mac
from tests.integration.identity.test_providers import PROVIDERS, register, status_of
from tests.service import Api, RunningService, done, hosted, refused

GUARDED: dict[str, Any] = {
    "oidc_require_https": False,
    "egress_networks": (ip_network("127.0.0.1"),),
    "oidc_connect_timeout_ms": 200,
    "oidc_socket_timeout_ms": 200,
    "oidc_connection_request_timeout_ms": 200,
}
"""Of loopback only one address may be called."""


@pytest.fixture(scope="module")
def guarded(database_template: Template) -> Iterator[RunningService]:
    with hosted(database_template.clone(), **GUARDED) as running:
        yield running


@pytest.fixture
def admin(guarded: RunningService) -> Api:
    return administrator(guarded, str(uuid4()))


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


def forged(idp: IdentityProvider) -> Iterator[str]:
    public = find_key("idp-one").public_key()
    claims = {"iss": idp.issuer, "sub": "eve", "aud": "shop", "exp": 9_999_999_999}
    for head in ({"alg": "HS256", "kid": "one"}, {"alg": "RS256", "kid": "one"}):
        for secret in (
            public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            json.dumps(public_jwk("one", "idp-one")).encode(),
            b"",
        ):
            yield mac(head, claims, secret, SHA256())
            yield mac({**head, "alg": "HS512"}, claims, secret, SHA512())
    for name in ("none", "NONE", None, "RS384", "PS256"):
        yield f"{encoded({'alg': name, 'kid': 'one'})}.{encoded(claims)}."
    yield idp.mint(key="evil")
    yield idp.mint(key="evil", header={"jwk": public_jwk("one", "evil")})
    yield idp.mint(key="evil", header={"jku": f"{idp.root}/evil"})
    yield idp.mint(key="evil", header={"x5u": f"{idp.root}/evil.pem"})
    yield idp.mint(header={"crit": ["b64"], "b64": False})
    for kid in ("' OR '1'='1", "../../etc/passwd", "x\0y", "\u202e", "k" * 4000, "one ", "ONE"):
        yield idp.mint(kid, key="idp-one")
    yield idp.mint() + "=="
    yield idp.mint().replace(".", "..")


def test_no_forged_token_of_a_provider_opens_anything(guarded: RunningService, admin: Api, idp: IdentityProvider):
    register(admin, idp)
    assert status_of(guarded, idp.mint()) == 200
    answers = [Api(guarded.url, token).get("/account") for token in forged(idp)]
    assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}
    assert {path for path in idp.asked if path not in {DISCOVERY, KEYS}} == set()


@pytest.mark.parametrize(
    "host",
    [
        *(
            "127.0.0.2",
            "169.254.169.254",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "0.0.0.0",
        ),
        *("[::1]", "[fe80::1]", "[fd00::1]", "[::ffff:10.0.0.1]", "[::ffff:7f00:2]", "127.2", "2130706434"),
    ],
)
def test_an_internal_address_is_not_registered(guarded: RunningService, host: str):
    body = {"wellKnownConfigUri": f"http://{host}:8443{DISCOVERY}"}
    blocked = refused(administrator(guarded, str(uuid4())).post(PROVIDERS, body), 400, "OIDC_SSRF_BLOCKED")
    assert blocked["detail"].endswith("; STATEWRIGHT_EGRESS_NETWORKS permits networks that are not public")


@pytest.mark.parametrize(
    ("uri", "setting"),
    [
        ("http://127.0.0.1:8443/x", "STATEWRIGHT_OIDC_REQUIRE_HTTPS=false permits http"),
        ("https://127.0.0.1:22/x", "STATEWRIGHT_EGRESS_PORTS names those that are permitted"),
        ("https://elsewhere.test/x", "STATEWRIGHT_EGRESS_HOSTS names those that are permitted"),
    ],
)
def test_what_is_not_called_says_which_setting_permits_it(database_template: Template, uri: str, setting: str):
    with hosted(database_template.clone(), egress_hosts=("127.0.0.1",)) as strict:
        response = administrator(strict, str(uuid4())).post(PROVIDERS, {"wellKnownConfigUri": uri})
        assert response.status_code == 400
        assert f"; {setting}" in response.json()["detail"]


def test_a_name_that_is_not_to_be_resolved_is_a_bad_request(admin: Api):
    problem = refused(admin.post(PROVIDERS, {"wellKnownConfigUri": "http://nowhere.invalid/x"}), 400, "BAD_REQUEST")
    assert "nowhere.invalid cannot be resolved" in problem["detail"]


@pytest.mark.parametrize(
    "elsewhere", ["http://127.0.0.2:{port}/keys", "http://169.254.169.254/keys", "file:///etc/passwd"]
)
def test_keys_are_not_fetched_from_an_internal_address(
    guarded: RunningService, admin: Api, idp: IdentityProvider, elsewhere: str
):
    port = idp.root.rpartition(":")[2]
    idp.answers[DISCOVERY] = lambda: reply({"issuer": idp.issuer, "jwks_uri": elsewhere.format(port=port)})
    register(admin, idp)
    assert status_of(guarded, idp.mint()) == 401
    assert KEYS not in idp.asked


def test_key_sets_that_are_bombs_hold_nobody_up(guarded: RunningService, admin: Api, idp: IdentityProvider):
    number = public_jwk("one", "idp-one")["n"]
    bombs = [
        {"keys": [{"kty": "RSA", "kid": f"k{n}", "n": number, "e": "AQAB"} for n in range(2_400)]},
        {"keys": [{"kty": "RSA", "kid": "one", "n": number, "e": number}]},
        {"keys": [{"kty": "RSA", "kid": "one", "n": number * 8, "e": "AQAB"}]},
        {"keys": [{"kty": "RSA", "kid": "one", "n": "AQAB", "e": "AQAB"}]},
        {"keys": [{}] * 300_000},
    ]
    path = f"{PROVIDERS}/{register(admin, idp)['id']}"
    for bomb in bombs:
        idp.answers[KEYS] = lambda bomb=bomb: reply(bomb)  # type: ignore[misc]
        done(admin.request("PATCH", path, {}))
        assert status_of(guarded, idp.mint()) == 401
    idp.answers[KEYS] = lambda: (200, {"Content-Type": "application/json"}, b'{"keys":' + b"[" * 500_000)
    done(admin.request("PATCH", path, {}))
    assert status_of(guarded, idp.mint()) == 401
    idp.answers.clear()
    done(admin.request("PATCH", path, {}))
    assert status_of(guarded, idp.mint()) == 200


def test_a_silent_provider_delays_its_own_tokens_and_no_others(
    guarded: RunningService, admin: Api, idp: IdentityProvider
):
    released = threading.Event()

    def stay_silent() -> tuple[int, dict[str, str], bytes]:
        released.wait(20)
        return 200, {}, b""

    with identity_provider() as silent:
        silent.answers[DISCOVERY] = stay_silent
        began = monotonic()
        register(administrator(guarded, str(uuid4())), silent)
        assert monotonic() - began < 10, "its own limit is 0.2 s"
        register(admin, idp)
        slow = threading.Thread(target=lambda: status_of(guarded, silent.mint()))
        slow.start()
        assert status_of(guarded, idp.mint()) == 200
        slow.join()
        assert status_of(guarded, silent.mint()) == 401
        released.set()


def test_ids_of_keys_that_do_not_exist_do_not_become_requests(
    guarded: RunningService, admin: Api, idp: IdentityProvider
):
    register(admin, idp)
    asked, began = idp.asked.count(KEYS), monotonic()
    tokens = [idp.mint(f"no-{number}") for number in range(40)]
    assert {status_of(guarded, token) for token in tokens} == {401}
    most = 5 + (monotonic() - began) / 10 + 1
    assert idp.asked.count(KEYS) - asked <= most, "five at once, and one every ten seconds"
    assert status_of(guarded, idp.mint()) == 200


def test_issuers_that_nobody_has_registered_do_not_become_requests(
    guarded: RunningService, admin: Api, idp: IdentityProvider
):
    register(admin, idp)
    asked = len(idp.asked)
    assert status_of(guarded, idp.mint("other", iss="https://nobody.test")) == 401
    assert len(idp.asked) == asked


def test_failures_tell_nothing_of_a_token(
    guarded: RunningService, admin: Api, idp: IdentityProvider, capfd: pytest.CaptureFixture[str]
):
    register(admin, idp)
    token = idp.mint(sub="hunter2\n", secret="hunter2")
    answer = Api(guarded.url, token).get("/account")
    metrics = Api(guarded.admin).get("/metrics").text
    told = answer.text + metrics + "".join(capfd.readouterr())
    assert answer.status_code == 401
    assert "hunter2" not in told
    assert token.split(".")[1] not in told
    assert idp.root not in metrics


def test_the_log_has_neither_hosts_nor_uris_of_providers(
    guarded: RunningService, admin: Api, idp: IdentityProvider, capfd: pytest.CaptureFixture[str]
):
    port = idp.root.rpartition(":")[2]
    for keys in (f"http://127.0.0.2:{port}/hidden", "http://hidden.invalid/keys"):
        idp.answers[DISCOVERY] = lambda keys=keys: reply({"issuer": idp.issuer, "jwks_uri": keys})  # type: ignore[misc]
        path = f"{PROVIDERS}/{register(admin, idp)['id']}"
        admin.delete(path)
    idp.fail()
    register(admin, idp)
    told = "".join(capfd.readouterr())
    assert not any(text in told for text in ("hidden", "127.0.0.2", idp.root, DISCOVERY))
