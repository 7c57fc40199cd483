"""An identity provider that a test controls: what it publishes, what it signs, and how it misbehaves.

The provider of tests/e2e/test_provider_guide.py is a real one.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time
from typing import Any
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
            return reply({"issuer": self.issuer, "jwks_uri": f"{self.root}{KEYS}"})
        return reply({"keys": [public_jwk(kid, name) for kid, name in self.keys.items()]})


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

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider = IdentityProvider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
