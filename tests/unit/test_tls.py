"""The files that TLS is set to, and what a server does with wrong ones."""

import io
import ssl
import time
from pathlib import Path

import pytest

from statewright.app.service import report_certificate
from statewright.metrics.registry import Metrics
from statewright.network.tls import Tls, build_server_context, check_authorities, check_tls
from statewright.telemetry import logs
from tests.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_a_context_is_as_strict_as_it_was_asked_to_be(authority: Authority):
    certificate, key = authority.issue("server")
    tls = Tls(certificate=certificate, key=key, min_version="1.3", client_ca=authority.file)
    context = build_server_context(tls, protocols=("h2",))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_clients_need_no_certificate_without_a_ca(authority: Authority):
    assert build_server_context(authority.issue_tls(), protocols=()).verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(("hours", "warned"), [(1, False), (-1, True)])
def test_metrics_tell_when_the_certificate_ends_and_the_log_that_it_has(authority: Authority, hours: int, warned: bool):
    certificate, key = authority.issue("server", hours=hours)
    tls, metrics, stream = Tls(certificate=certificate, key=key), Metrics(), io.BytesIO()
    logs.configure("info", "text", stream)
    report_certificate(tls, metrics)
    assert (b"msg=certificate_expired" in stream.getvalue()) is warned
    [line] = [line for line in metrics.render().decode().splitlines() if line.startswith("statewright_tls_cert")]
    assert abs(float(line.partition(" ")[2]) - time.time() - hours * 3600) < 600


def test_no_tls_is_fine():
    check_tls(None)


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path):
    certificate, key = authority.issue("server")
    _, other_key = authority.issue("other")
    _, locked_key = authority.issue("locked", passphrase="secret")
    nothing, text = tmp_path / "nothing", tmp_path / "text"
    text.write_text("no PEM")
    for problem, tls in (
        ("server.crt.*No such file", Tls(certificate=certificate, key=nothing)),
        ("text", Tls(certificate=text, key=key)),
        ("server.crt.*MISMATCH", Tls(certificate=certificate, key=other_key)),
        ("server.crt.*has a passphrase", Tls(certificate=certificate, key=locked_key)),
        ("nothing.*No such file", Tls(certificate=certificate, key=key, client_ca=nothing)),
        ("text", Tls(certificate=certificate, key=key, client_ca=text)),
    ):
        with pytest.raises(OSError, match=f"cannot use the TLS files of .*{problem}"):
            check_tls(tls)


def test_authorities_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path):
    text = tmp_path / "text"
    text.write_text("no PEM")
    check_authorities(None)
    check_authorities(authority.file)
    for problem, file in (("nothing: No such file", tmp_path / "nothing"), ("text: ", text)):
        with pytest.raises(OSError, match=f"cannot use the certificates of .*{problem}"):
            check_authorities(file)
