"""An identity provider that a test controls: what it publishes, what it signs, and how it misbehaves.

The provider of tests/e2e/test_provider_guide.py is a real one.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.unit.auth.builders import rsa_key

Answer = tuple[int, Mapping[str, str], bytes]
DISCOVERY, KEYS = "/.well-known/openid-configuration", "/keys"


class IdentityProvider:
    """Publishes the ``keys`` (kid → name of a key) and signs with any. ``answers`` replaces what it says at a path."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.issuer = root
        self.keys = {"one": "idp-one"}
        self.answers: dict[str, Callable[[], Answer]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.granted: list[dict[str, str]] = []
        """The forms that the token endpoint was sent."""
        self.claims: dict[str, Any] = {}
        """Of the tokens that it gives for codes; ``None`` removes a claim."""
        self.gives_opaque_tokens = False
        self.asked: list[str] = []

    @property
    def uri(self) -> str:
        """Its discovery document."""
        return f"{self.root}{DISCOVERY}"

    def mint(self, kid: str = "one", *, key: str = "", header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """A token; ``None`` removes a claim, ``key`` names another key than the one of ``kid``."""
        now = int(time())
        named = {"iss": self.issuer, "sub": "ann", "aud": "shop", "iat": now, "exp": now + 600, "jti": uuid4().hex}
        kept = {name: value for name, value in (named | claims).items() if value is not None}
        private = find_key(key or self.keys.get(kid, "idp-one"))
        return jwt.encode(kept, private, algorithm="RS256", headers={"kid": kid} | dict(header or {}))

    def fail(self, path: str = DISCOVERY, status: int = 503) -> None:
        """Answer with an error from now on."""
        self.answers[path] = lambda: (status, {}, b"down")

    def answer(self, path: str) -> Answer:
        """What is said at ``path``."""
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]()
        if path == DISCOVERY:
            endpoints = {
                f"{name}_endpoint": f"{self.root}/{name}" for name in ("authorization", "token", "end_session")
            }
            return reply({"issuer": self.issuer, "jwks_uri": f"{self.root}{KEYS}"} | endpoints)
        if path.startswith("/authorization?"):
            return self.authorize(dict(parse_qsl(path.partition("?")[2])))
        return reply({"keys": [public_jwk(kid, name) for kid, name in self.keys.items()]})

    def authorize(self, asked: dict[str, str]) -> Answer:
        """Somebody logs in without more ado, and is sent back."""
        code = uuid4().hex
        self.codes[code] = asked
        query = urlencode({"code": code, "state": asked["state"]})
        return 302, {"Location": f"{asked['redirect_uri']}?{query}"}, b""

    def grant(self, form: dict[str, str]) -> Answer:
        """What the token endpoint says to a form."""
        self.granted.append(form)
        if form["grant_type"] == "refresh_token":
            asked = {"client_id": "shop", "nonce": None} if form["refresh_token"].startswith("again-") else None
        else:
            asked = self.codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if asked is not None and (asked["code_challenge"], asked["redirect_uri"]) != (
                challenge,
                form["redirect_uri"],
            ):
                asked = None
        if asked is None or asked["client_id"] != form.get("client_id"):
            return 400, {}, b'{"error": "invalid_grant"}'
        token = self.mint(**self.claims)
        id_token = self.mint(**({"nonce": asked["nonce"]} | self.claims))
        given = "opaque" if self.gives_opaque_tokens else token
        return reply({"access_token": given, "id_token": id_token, "refresh_token": f"again-{uuid4().hex}"})


def reply(document: Any, media_type: str = "application/json") -> Answer:
    return 200, {"Content-Type": media_type}, json.dumps(document).encode()


_making_keys = threading.Lock()


def find_key(name: str) -> rsa.RSAPrivateKey:
    """One key per name, also when several threads ask for it first."""
    with _making_keys:
        return rsa_key(name)


def public_jwk(kid: str, name: str) -> dict[str, Any]:
    jwk: dict[str, Any] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(find_key(name).public_key()))
    return {"kty": jwk["kty"], "n": jwk["n"], "e": jwk["e"], "kid": kid, "use": "sig"}


_ports = set[int]()
"""Those that a provider had in this process: the port makes its issuer, which is registered once in a service."""


def listen(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """A server on a port that no provider had before."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    while server.server_port in _ports:
        server.server_close()
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    _ports.add(server.server_port)
    server.daemon_threads = True
    return server


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """A provider on a port of its own while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, headers, body = provider.answer(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, headers, answer = provider.grant(dict(parse_qsl(body)))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = listen(Handler)
    provider = IdentityProvider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
