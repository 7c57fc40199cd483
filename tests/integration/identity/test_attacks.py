"""What somebody without credentials may try on tokens, keys and secrets (docs/reference/authentication.md).

``STATEWRIGHT_GUESSES`` is how many secrets are guessed.
"""

import asyncio
import base64
import json
import os
import re
import socket
from collections.abc import Iterator
from time import time
from uuid import uuid4

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.hashes import SHA256, SHA512
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.builders import Json
from tests.integration.identity.test_trusted_keys import EXCHANGE, JWT, Machine, jwk, register
from tests.service import (
    ISSUER,
    Api,
    RunningService,
    a_token,
    done,
    signing_key,
    signing_key_id,
)
from tests.unit.auth.builders import rsa_key

GUESSES = int(os.environ.get("STATEWRIGHT_GUESSES", "1000"))


def encoded(part: Json) -> str:
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def good_claims(**changes: Json) -> Json:
    now = int(time())
    named = {"iss": ISSUER, "sub": "eve", "caas_org_id": "acme", "user_roles": ["ROLE_ADMIN"], "iat": now}
    return named | {"exp": now + 600} | changes


def mac(head: Json, claims: Json, secret: bytes, algorithm: SHA256 | SHA512) -> str:
    signed = f"{encoded(head)}.{encoded(claims)}"
    code = HMAC(secret, algorithm)
    code.update(signed.encode())
    return f"{signed}.{encoded(code.finalize())}"


def confused(kid: str) -> Iterator[str]:
    """Tokens that hope that the algorithm is taken from them."""
    public = signing_key().public_key()
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).rstrip(),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        kid.encode(),
        b"",
    ]
    for secret in secrets:
        yield mac({"alg": "HS256", "kid": kid}, good_claims(), secret, SHA256())
        yield mac({"alg": "HS512", "kid": kid}, good_claims(), secret, SHA512())
        yield mac({"alg": "RS256", "kid": kid}, good_claims(), secret, SHA256())
    for name in ("none", "None", "NONE", "", None, ["RS256"], "rs256"):
        yield f"{encoded({'alg': name, 'kid': kid})}.{encoded(good_claims())}."
    for name in ("RS384", "RS512", "PS256"):
        yield jwt.encode(good_claims(), signing_key(), algorithm=name, headers={"kid": kid})


def with_keys_of_their_own(kid: str, address: str) -> Iterator[str]:
    """Tokens that hope that the key is taken from them, or from where they say."""
    evil = rsa_key("evil")
    for header in (
        {"jwk": jwk(kid, "evil")},
        {"jku": f"http://{address}/jwks.json"},
        {"x5u": f"http://{address}/evil.pem"},
        {"x5c": [base64.b64encode(b"no certificate").decode()]},
    ):
        yield jwt.encode(good_claims(), evil, algorithm="RS256", headers={"kid": kid} | header)
    for other in ("' OR '1'='1", "../../../../etc/passwd", "x\0y", "%00", "k" * 4000, "\u202e", kid.upper(), f"{kid} "):
        yield jwt.encode(good_claims(), signing_key(), algorithm="RS256", headers={"kid": other})
    for odd in (None, 1, [kid], {"": kid}, True):
        yield f"{encoded({'alg': 'RS256', 'kid': odd})}.{encoded(good_claims())}.{encoded(b'x' * 256)}"


def signed_text(head: str, claims: str) -> str:
    """A token with a good signature over texts that no library would write."""
    token = f"{encoded(head.encode())}.{encoded(claims.encode())}"
    signer = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256)
    return f"{token}.{encoded(signer.sign(token.encode(), signing_key()))}"


def strange(kid: str) -> Iterator[str]:
    """Tokens with a good signature whose contents are not to be had."""
    head = json.dumps({"alg": "RS256", "kid": kid})
    named = json.dumps(good_claims())[:-1]
    for rest in (
        '"exp": 1e400',
        '"iat": -1e400',
        '"exp": "9"',
        '"exp": null',
        '"nbf": 1e400',
        '"exp": true',
        '"exp": NaN',
    ):
        yield signed_text(head, f"{named}, {rest}}}")
    yield signed_text(head, f'{named}, "deep": {"[" * 5000}{"]" * 5000}}}')
    yield signed_text(head, '["no", "object"]')
    yield signed_text(head, "")
    yield signed_text(f'{head[:-1]}, "crit": ["b64"], "b64": false}}', json.dumps(good_claims()))
    yield signed_text(head, json.dumps(good_claims(caas_org_id="a\0b")))
    yield signed_text(head, json.dumps(good_claims(caas_org_id="x" * 2000)))
    yield a_token("acme")[:-4]
    yield a_token("acme") + "=="
    yield a_token("acme") + ".x"
    yield a_token("acme").replace(".", "..")


def test_no_forged_token_opens_anything_and_all_are_told_the_same(launched: RunningService) -> None:
    kid = signing_key_id()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        tokens = [*confused(kid), *with_keys_of_their_own(kid, address), *strange(kid)]
        answers = [Api(launched.url, token).get("/account") for token in tokens]
        assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}
        with pytest.raises(BlockingIOError):
            listener.accept()  # nobody has asked for a key


def test_no_forged_token_is_exchanged_and_none_proves_a_client(
    launched: RunningService, admin: Api, tenant: str
) -> None:
    machine, kid = Machine(launched, admin), f"signer.{uuid4().hex[:8]}"
    register(admin, kid, issuers=[machine.id, ISSUER])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        forged = [*confused(kid), *with_keys_of_their_own(kid, address)]
        for token in forged:
            refusal = machine.exchange(token)
            assert (refusal.status_code, refusal.json()["error"]) == (400, "invalid_grant"), token
            refusal = machine.assert_itself(token)
            assert (refusal.status_code, refusal.json()["error"]) == (401, "invalid_client"), token
        with pytest.raises(BlockingIOError):
            listener.accept()


class Guesser:
    """An attacker with an address of its own and connections that it keeps. A client library would be slower than the
    service, so that few guesses were made in the time of a test.
    """

    def __init__(self, service: RunningService, victim: str) -> None:
        self._port = int(service.root.rpartition(":")[2])
        self._victim = victim
        self._numbers = iter(range(GUESSES))
        self.statuses: list[int] = []

    async def run(self) -> None:
        """Guess over one connection until all guesses are made."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=("127.0.0.3", 0))
        for number in self._numbers:
            name = self._victim if number % 2 else f"{number:016X}"
            form = f"grant_type=client_credentials&client_id={name}&client_secret={number:064x}"
            head = "POST /api/oauth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            writer.write(f"{head}Content-Length: {len(form)}\r\n\r\n{form}".encode())
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            self.statuses.append(int(answer[9:12]))
            length = re.search(r"content-length: (\d+)", answer)
            assert length is not None
            await reader.readexactly(int(length[1]))
        writer.close()


async def test_guesses_at_clients_of_the_database_are_slowed_and_hold_nobody_up(
    launched: RunningService, admin: Api
) -> None:
    known = Machine(launched, admin)
    victim = Machine(launched, admin)
    guesser = Guesser(launched, victim.id)
    async with httpx.AsyncClient(timeout=120) as own:

        async def ask_for_a_token() -> int:
            form = {"grant_type": "client_credentials", "client_id": known.id, "client_secret": known.secret}
            return (await own.post(f"{launched.url}/oauth/token", data=form)).status_code

        assert await ask_for_a_token() == 200
        async with asyncio.TaskGroup() as tasks:
            for _ in range(20):
                tasks.create_task(guesser.run())
            granted = [tasks.create_task(ask_for_a_token()) for _ in range(5)]
    assert len(guesser.statuses) == GUESSES
    assert set(guesser.statuses) <= {401, 429}
    assert guesser.statuses.count(429) > GUESSES // 2
    assert [each.result() for each in granted] == [200] * 5


def test_no_answer_and_no_metric_tells_a_secret(launched: RunningService, admin: Api, tenant: str) -> None:
    machine, kid = Machine(launched, admin), f"signer.{uuid4().hex[:8]}"
    register(admin, kid)
    pair = done(admin.post("/oauth/keys/keypair", {"algorithm": "RS256", "audience": "human"}))
    answers = [
        admin.get("/clients"),
        admin.get("/oauth/keys/trusted"),
        admin.get("/oauth/keys/keypair/current?audience=human"),
        launched.anonymous().get("/.well-known/jwks.json"),
        admin.put(f"/clients/{machine.secret}.x/secret"),
        machine.exchange("subject", subject_token_type=EXCHANGE + JWT),
        Api(launched.admin).get("/metrics"),
    ]
    admin.delete(f"/oauth/keys/keypair/{pair['keyId']}")
    texts = [answer.text for answer in answers]
    assert [machine.secret in text for text in texts] == [False] * 4 + [True] + [False] * 2, (
        "only the path it was put in"
    )
    assert not any("PRIVATE" in text or '"d"' in text or '"p"' in text for text in texts)
