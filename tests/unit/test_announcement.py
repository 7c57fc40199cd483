"""What a start says about itself (docs/reference/service.md#start-and-stop)."""

import io
import json
from pathlib import Path

import pytest

from statewright.app.serving import announce, explain_start
from statewright.settings import Settings
from statewright.supervisor.serving import SupervisedService
from statewright.telemetry import logs
from statewright.telemetry.logs import LogFormat


def announced(form: LogFormat, capsys: pytest.CaptureFixture[str], **settings: object) -> tuple[str, str]:
    """What goes to the terminal, and what to the log."""
    stream = io.BytesIO()
    logs.configure("info", form, stream)
    listening = SupervisedService(http_port=8080, grpc_port=9090, admin_port=9091)
    announce(Settings(log_format=form, **settings), listening)  # type: ignore[arg-type]
    return capsys.readouterr().out, stream.getvalue().decode()


def test_people_are_told_where_everything_is(capsys: pytest.CaptureFixture[str]):
    banner, log = announced("text", capsys)
    assert "http://127.0.0.1:8080/api" in banner
    assert "WARNING: mock authentication" in banner
    assert "msg=mock_authentication" in log
    assert announced("text", capsys, suppress_banner=True)[0] == ""


def test_people_are_told_to_use_https_where_it_is_spoken(capsys: pytest.CaptureFixture[str]):
    banner, _ = announced("text", capsys, tls_cert=Path("chain.pem"), tls_key=Path("key.pem"))
    assert "https://127.0.0.1:8080/console/" in banner
    assert "https://127.0.0.1:8080/api" in banner


def test_a_start_whose_port_is_taken_names_the_setting():
    settings = Settings(http_port=8080)
    taken = "cannot listen on 127.0.0.1:8080: Address already in use"
    assert explain_start(settings, taken) == f"{taken}; STATEWRIGHT_HTTP_PORT chooses another port"
    assert explain_start(settings, "no database") == "no database"


def test_who_reads_json_gets_nothing_but_json(capsys: pytest.CaptureFixture[str]):
    banner, log = announced("json", capsys)
    assert banner == ""
    [line] = log.splitlines()
    assert (json.loads(line)["msg"], json.loads(line)["level"]) == ("mock_authentication", "WARN")


def test_nothing_is_said_of_mock_authentication_where_there_is_none(capsys: pytest.CaptureFixture[str]):
    assert announced("json", capsys, iam_mode="jwt") == ("", "")
