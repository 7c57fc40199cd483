"""What a client does when the service is busy, away, or speaks TLS; and when its token expires."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic

import pytest

from statewright import Client, ClientCredentials, Tls, TokenUnavailable, Unavailable, Unreachable
from statewright.sdk import ONCE
from statewright.settings import Secret
from statewright.tls import build_server_context
from tests.builders import SAMPLE, a_processor, a_workflow, manual
from tests.certificates import Authority
from tests.database import Template
from tests.e2e.program import free_ports
from tests.integration.client.conftest import Connect
from tests.integration.node import a_node
from tests.service import CLIENT_ID, CLIENT_SECRET, RunningService, a_token, eventually, hosted

CHECKED = a_workflow("w", NEW=[manual("CHECK", to="CHECKED", processors=[a_processor("check")])], CHECKED=[])


def test_a_request_that_the_service_marks_as_retryable_is_made_again(
    service: RunningService, client: Client, tenant: str
) -> None:
    """The member loses its connection in the middle of the first callout; the second is answered by another one."""
    client.models.import_sample("prize", 1, SAMPLE)
    client.workflows.import_("prize", 1, [CHECKED])
    client.models.lock("prize", 1)
    made = client.create("prize", 1, SAMPLE)
    fired = threading.Thread(target=client.transition, args=(made.id, "CHECK"))
    with a_node(service, tenant, "node") as first:
        fired.start()
        first.next()
    with a_node(service, tenant, "node") as second:
        second.answer_next()
        fired.join(20)
    assert client.get(made.id).state == "CHECKED"


def test_one_attempt_can_be_asked_for(connect: Connect, service: RunningService, tenant: str) -> None:
    client = connect(service.root, token=a_token(tenant), retry=ONCE)
    client.models.import_sample("prize", 1, SAMPLE)
    client.workflows.import_("prize", 1, [CHECKED])
    client.models.lock("prize", 1)
    made = client.create("prize", 1, SAMPLE)
    with pytest.raises(Unavailable) as refused:
        client.transition(made.id, "CHECK")
    assert (refused.value.code, refused.value.retryable) == ("NO_COMPUTE_MEMBER_FOR_TAG", True)


def test_a_service_that_is_not_there_is_told_in_words(connect: Connect) -> None:
    [port] = free_ports("HTTP").values()
    with pytest.raises(Unreachable, match=f"GET /api/model/ at http://127.0.0.1:{port}: Connection refused$") as lost:
        connect(f"http://127.0.0.1:{port}", retry=ONCE).models.list()
    assert not lost.value.was_sent


def test_a_service_that_comes_later_is_waited_for(connect: Connect, database_template: Template) -> None:
    ports = free_ports("HTTP")
    client = connect(f"http://127.0.0.1:{ports['HTTP']}", token=a_token("t"))
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(client.models.import_sample("prize", 1, SAMPLE)))
    asking.start()
    with hosted(database_template.clone(), http_port=ports["HTTP"]):
        asking.join(30)
        assert [found.id for found in client.models.list()] == answers


def test_tokens_are_fetched_for_client_credentials_and_renewed(connect: Connect, database_template: Template) -> None:
    settings = {
        "bootstrap_client_id": CLIENT_ID,
        "bootstrap_client_secret": Secret(CLIENT_SECRET),
        "jwt_expiry_seconds": 1,
    }
    with hosted(database_template.clone(), **settings) as service:
        client = connect(service.root, token=ClientCredentials(client_id=CLIENT_ID, client_secret=CLIENT_SECRET))
        client.models.import_sample("prize", 1, SAMPLE)
        client.models.lock("prize", 1)
        begun = monotonic()
        eventually(lambda: client.create("prize", 1, SAMPLE) and monotonic() > begun + 2.5)  # the life of two tokens
        stranger = connect(service.root, token=ClientCredentials(client_id=CLIENT_ID, client_secret="wrong"))
        with pytest.raises(TokenUnavailable, match="/api/oauth/token: 401"):
            stranger.models.list()


def test_a_private_authority_is_trusted_when_it_is_named(connect: Connect, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with _tls_service(authority) as url:
        assert connect(url, tls=Tls(ca=authority.file)).request("GET", "/health") == {"status": "UP"}
        with pytest.raises(Unreachable, match="certificate verify failed"):
            connect(url, retry=ONCE).request("GET", "/health")


def test_a_service_that_asks_for_a_certificate_gets_it(connect: Connect, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("client")
    with _tls_service(authority, asks=True) as url:
        known = Tls(ca=authority.file, cert=certificate, key=key)
        assert connect(url, tls=known).request("GET", "/health") == {"status": "UP"}
        with pytest.raises(Unreachable):
            connect(url, tls=Tls(ca=authority.file), retry=ONCE).request("GET", "/health")


class _Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"status":"UP"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def _tls_service(authority: Authority, *, asks: bool = False) -> Iterator[str]:
    """The address of a server with a certificate; ``asks``: it wants one of its clients, too."""
    tls = authority.issue_tls(client_ca=authority.file if asks else None)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Health) as server:
        server.daemon_threads = True
        context = build_server_context(tls, protocols=("http/1.1",))
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_restart_in_the_middle_is_sat_out(connect: Connect, database: str) -> None:
    """Reads never fail; of a write that may have been carried out the client says so, and everything else is done."""
    ports = free_ports("HTTP")
    client = connect(f"http://127.0.0.1:{ports['HTTP']}", token=a_token("t"))
    stop, created, doubtful, reads = threading.Event(), [], [], []
    unexpected: list[Exception] = []

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                client.create("prize", 1, {"year": number})
                created.append(number)
            except (Unreachable, Unavailable) as failure:
                is_doubt = failure.was_sent if isinstance(failure, Unreachable) else not failure.retryable
                unexpected.extend([] if is_doubt else [failure])
                doubtful.append(number)

    def read() -> None:
        while not stop.is_set():
            reads.append(client.count("prize", 1))

    work = [threading.Thread(target=write), threading.Thread(target=read)]
    with hosted(nullcontext(database), http_port=ports["HTTP"]):
        client.models.import_sample("prize", 1, SAMPLE)
        client.models.lock("prize", 1)
        for thread in work:
            thread.start()
        eventually(lambda: len(created) > 5 and len(reads) > 5)
    seen = len(created), len(reads)
    with hosted(nullcontext(database), http_port=ports["HTTP"]):
        eventually(lambda: len(created) > seen[0] + 5 and len(reads) > seen[1] + 5)
        stop.set()
        for thread in work:
            thread.join(40)
        found = sorted(entity.data["year"] for entity in client.iterate("prize", 1))
    assert unexpected == []
    assert set(created) <= set(found) <= set(created) | set(doubtful)
    assert len(found) == len(set(found))
