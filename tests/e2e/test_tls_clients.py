"""Clients and nodes of a service with a private certificate that asks for theirs (docs/deployment.md#tls)."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from statewright import Client, Tls, Unreachable
from statewright.sdk import ONCE
from tests.builders import SAMPLE, a_processor, a_workflow, automated
from tests.certificates import Authority
from tests.e2e.program import EXECUTABLE, Program, environment, started
from tests.service import CLIENT_ID, CLIENT_SECRET, eventually, signing_key_pem

TAKEN = a_workflow("w", NEW=[automated("TAKE", to="TAKEN", processors=[a_processor("stamp")])], TAKEN=[])

NODE = """
from statewright.sdk import Node

node = Node(tags=["node"])


@node.processor("stamp")
def stamp(prize, context):
    context.client.create("note", 1, {"text": "taken"})
    return prize | {"year": 1}
"""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def named(authority: Authority, tmp_path: Path) -> dict[str, str]:
    """What clients and nodes are told by their environment."""
    certificate, key = authority.issue("client")
    (tmp_path / "secret").write_text(CLIENT_SECRET)
    return {
        "STATEWRIGHT_CA": str(authority.file),
        "STATEWRIGHT_CLIENT_CERT": str(certificate),
        "STATEWRIGHT_CLIENT_KEY": str(key),
        "STATEWRIGHT_CLIENT_ID": CLIENT_ID,
        "STATEWRIGHT_CLIENT_SECRET_FILE": str(tmp_path / "secret"),
    }


@pytest.fixture
def program(authority: Authority, tmp_path: Path) -> Iterator[Program]:
    """A service whose tokens live for four seconds, and that wants certificates."""
    certificate, key = authority.issue("server")
    settings = {
        "DATA_DIRECTORY": str(tmp_path / "data"),
        "TLS_CERT": str(certificate),
        "TLS_KEY": str(key),
        "TLS_CLIENT_CA": str(authority.file),
        "IAM_MODE": "jwt",
        "JWT_SIGNING_KEY": signing_key_pem(),
        "JWT_EXPIRY_SECONDS": "4",
        "BOOTSTRAP_CLIENT_ID": CLIENT_ID,
        "BOOTSTRAP_CLIENT_SECRET": CLIENT_SECRET,
    }
    with started(tmp_path, **settings) as running:
        yield running.ready()


def test_a_client_and_a_node_with_certificates_of_their_own(
    program: Program,
    authority: Authority,
    named: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"https://localhost:{program.ports['HTTP']}"
    endpoint = f"grpcs://localhost:{program.ports['GRPC']}"
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "tls_node.py").write_text(NODE)
    log = tmp_path / "node.log"
    variables = environment(tmp_path, {**named, "STATEWRIGHT_URL": url, "STATEWRIGHT_COMPUTE_ENDPOINT": endpoint})
    with log.open("wb") as out:
        node = subprocess.Popen(
            [EXECUTABLE, "node", "tls_node:node"], cwd=tmp_path, env=variables, stdout=out, stderr=out
        )
    try:
        with Client(url) as client:
            for model, sample in (("prize", SAMPLE), ("note", {"text": "x"})):
                client.models.import_sample(model, 1, sample)
                client.models.lock(model, 1)
            client.workflows.import_("prize", 1, [TAKEN])
            eventually(lambda: b"node_joined" in log.read_bytes(), within_s=60)
            assert client.get(client.create("prize", 1, SAMPLE).id).state == "TAKEN"
            known = subprocess.run(
                [EXECUTABLE, "models", "list", "--url", url],
                env=variables,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (known.returncode, "prize/1" in known.stdout) == (0, True), known.stderr

            begun = monotonic()  # the client and the node, which calls back, outlive their first tokens
            eventually(lambda: client.create("prize", 1, SAMPLE) and monotonic() > begun + 6)
            assert client.count("note", 1) == client.count("prize", 1)
    finally:
        node.terminate()
        assert node.wait(30) == 0, log.read_text()

    strangers = [  # one does not trust the service, the other is not trusted, the third does not speak TLS
        (url, Tls(), "STATEWRIGHT_CA names the authority"),
        (url, Tls(ca=authority.file), "STATEWRIGHT_CLIENT_CERT"),
        (url.replace("https", "http"), Tls(), "that port may speak TLS"),
    ]
    for address, stranger, told in strangers:
        with Client(address, tls=stranger, retry=ONCE, timeout_s=10) as client, pytest.raises(Unreachable, match=told):
            client.request("GET", "/health")
