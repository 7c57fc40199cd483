"""What clients may speak on the port of the API: HTTP/2, the wish for an upgrade, and TLS by the settings of the
installed program.
"""

import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.certificates import Authority
from tests.database import Template, kept_open
from tests.e2e.program import PATIENCE_S, Program, started
from tests.service import eventually

JDK_CLIENT = Path(__file__).parent / "http_clients" / "PostBodies.java"


@pytest.fixture(scope="module")
def program(database_template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The program without settings for its protocols, for all tests that only ask it something."""
    home = tmp_path_factory.mktemp("protocols")
    with kept_open(database_template.clone()) as database, started(home, POSTGRES_URL=database) as running:
        yield running.ready()
        assert running.terminate() == 0
        assert running.errors == []


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def encrypted(authority: Authority) -> dict[str, str]:
    """The settings that switch TLS on."""
    certificate, key = authority.issue("server")
    return {"TLS_CERT": str(certificate), "TLS_KEY": str(key)}


def health(program: Program, context: ssl.SSLContext, *, http2: bool = False) -> httpx.Response:
    with httpx.Client(verify=context, http2=http2, trust_env=False) as client:
        return client.get(f"https://127.0.0.1:{program.ports['HTTP']}/api/health")


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.file))


def test_http2_is_spoken_with_prior_knowledge(program: Program) -> None:
    with httpx.Client(http1=False, http2=True, trust_env=False) as client:
        for path, status in (("/api/health", 200), ("/api/model/", 200), ("/api/no/such", 404), ("/v1/x", 404)):
            response = client.get(f"{program.root}{path}")
            assert (response.http_version, response.status_code) == ("HTTP/2", status)
        created = client.post(f"{program.root}/api/model/import/JSON/SAMPLE_DATA/two/1", json={"year": 1})
        assert created.status_code == 200


@pytest.mark.skipif(not shutil.which("javac"), reason="no JDK is installed")
def test_the_http_client_of_the_jdk_gets_its_bodies_across(program: Program) -> None:
    """It wishes for an upgrade to HTTP/2 with each request, and sends head and body apart."""
    api = program.api()
    api.a_model(model="letter/1", sample={"text": ""})
    document = {"text": "é" * 10_000}
    ran = subprocess.run(
        ["java", str(JDK_CLIENT), f"{api.url}/entity/JSON/letter/1", json.dumps(document)],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    responses = [line.partition(" ") for line in ran.stdout.splitlines()]
    assert [status for status, _, _ in responses] == ["200"] * 8, ran.stdout + ran.stderr
    for _, _, body in responses:
        [saved] = json.loads(body)
        assert api.read(saved["entityIds"][0])["data"] == document


def test_with_a_certificate_the_api_speaks_tls_only(
    tmp_path: Path, database: str, authority: Authority, encrypted: dict[str, str]
) -> None:
    with started(tmp_path, POSTGRES_URL=database, **encrypted) as program:
        program.ready()
        context = trusting(authority)
        assert health(program, context).http_version == "HTTP/1.1"
        assert health(program, context, http2=True).http_version == "HTTP/2"
        old = trusting(authority)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert health(program, old).status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"{program.root}/api/health", trust_env=False)
        assert program.admin.get("/readyz").status_code == 200, "the admin listener is for the inside"
        assert program.terminate() == 0
        assert program.errors == []


def test_older_tls_can_be_refused(
    tmp_path: Path, database: str, authority: Authority, encrypted: dict[str, str]
) -> None:
    with started(tmp_path, POSTGRES_URL=database, TLS_MIN_VERSION="1.3", **encrypted) as program:
        program.ready()
        old = trusting(authority)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(httpx.ConnectError):
            health(program, old)
        assert health(program, trusting(authority)).status_code == 200
        assert program.terminate() == 0


def test_clients_can_be_asked_for_a_certificate(
    tmp_path: Path, database: str, authority: Authority, encrypted: dict[str, str]
) -> None:
    of_clients = Authority(tmp_path, "clients")
    with started(tmp_path, POSTGRES_URL=database, TLS_CLIENT_CA=str(of_clients.file), **encrypted) as program:
        program.ready()
        with pytest.raises(httpx.TransportError):
            health(program, trusting(authority))
        known = trusting(authority)
        known.load_cert_chain(*of_clients.issue("client"))
        assert health(program, known).status_code == 200
        assert program.terminate() == 0


@pytest.mark.parametrize(
    ("setting", "content"),
    [("TLS_CERT", None), ("TLS_KEY", "no key"), ("TLS_KEY", "another"), ("TLS_CLIENT_CA", "no certificate")],
)
def test_files_that_do_not_fit_end_the_start_before_anything_else(
    tmp_path: Path, encrypted: dict[str, str], setting: str, content: str | None
) -> None:
    wrong = tmp_path / "wrong"
    if content == "another":
        _, wrong = Authority(tmp_path, "others").issue("other")
    elif content is not None:
        wrong.write_text(content)
    data = tmp_path / "data"
    with started(tmp_path, DATA_DIRECTORY=str(data), **encrypted | {setting: str(wrong)}) as program:
        assert program.ended() == 1
        [line] = program.errors
        assert "TLS" in line
    assert not data.exists()


@pytest.mark.parametrize("port", ["HTTP", "GRPC"])
@pytest.mark.parametrize("arguments", [[], ["serve", "--workers", "2"]], ids=["one process", "two workers"])
def test_a_port_that_is_taken_is_told_before_anything_else(tmp_path: Path, port: str, arguments: list[str]) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with started(tmp_path, *arguments, DATA_DIRECTORY=str(data), ports={port: number}) as program:
            assert program.ended() == 1
            [line] = program.errors
            assert str(number) in line
    assert not data.exists()


def test_any_port_will_do(tmp_path: Path, database: str) -> None:
    with started(tmp_path, POSTGRES_URL=database, ports={"HTTP": 0}) as program:
        program.ready()
        eventually(lambda: "msg=ready" in program.log)
        [chosen] = {part for part in program.log.split() if part.startswith("http=")}
        port = int(chosen.removeprefix("http="))
        assert httpx.get(f"http://127.0.0.1:{port}/api/health", trust_env=False).status_code == 200
        assert program.terminate() == 0
