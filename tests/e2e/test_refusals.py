"""A start that cannot succeed ends with code 1 and one line that helps
(docs/reference/service.md#what-stops-the-start).
"""

import socket
import time
from pathlib import Path

import pytest

from tests.e2e.program import Program, free_ports, started


def the_one_line(program: Program) -> str:
    """What the operator reads."""
    assert program.ended() == 1
    [line] = program.errors
    assert "Traceback" not in program.log
    return line


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ({"HTTP_PORT": "eighty"}, "STATEWRIGHT_HTTP_PORT"),
        ({"HTTP_PORT": "70000"}, "STATEWRIGHT_HTTP_PORT"),
        ({"IAM_MODE": "trust-me"}, "STATEWRIGHT_IAM_MODE"),
        ({"IAM_MODE": "jwt"}, "STATEWRIGHT_JWT_SIGNING_KEY"),
        ({"IAM_MODE": "jwt", "JWT_SIGNING_KEY": "no key at all"}, "STATEWRIGHT_JWT_SIGNING_KEY"),
        ({"IAM_MODE": "jwt", "JWT_SIGNING_KEY_FILE": "/no/such/file"}, "STATEWRIGHT_JWT_SIGNING_KEY_FILE"),
        ({"HOST": "0.0.0.0"}, "STATEWRIGHT_HOST"),
        ({"STORAGE_BACKEND": "postgres"}, "STATEWRIGHT_POSTGRES_URL"),
        ({"STORAGE_BACKEND": "cassandra"}, "STATEWRIGHT_STORAGE_BACKEND"),
        ({"SCHEDULER_SCAN_INTERVAL": "often"}, "STATEWRIGHT_SCHEDULER_SCAN_INTERVAL"),
        ({"MAX_STATE_VISITS": "few"}, "STATEWRIGHT_MAX_STATE_VISITS"),
        ({"HTTP_PROT": "1"}, "STATEWRIGHT_HTTP_PROT"),
        ({"METRICS_REQUIRE_AUTH": "true"}, "STATEWRIGHT_METRICS_BEARER"),
    ],
    ids=str,
)
def test_a_setting_that_cannot_stand_is_named(tmp_path: Path, settings: dict[str, str], variable: str) -> None:
    with started(tmp_path, **settings) as program:
        assert variable in the_one_line(program)


def test_a_malformed_setting_in_the_other_dialect_is_named_as_written(tmp_path: Path) -> None:
    with started(tmp_path, prefix="CYODA_", IAM_MODE="nonsense") as program:
        assert "CYODA_IAM_MODE" in the_one_line(program)


def test_a_key_that_cannot_be_used_is_noticed_before_anything_is_made(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started(tmp_path, IAM_MODE="jwt", JWT_SIGNING_KEY="no key at all", DATA_DIRECTORY=str(data)) as program:
        the_one_line(program)
    assert not data.exists()


def test_the_key_is_never_quoted(tmp_path: Path) -> None:
    with started(tmp_path, IAM_MODE="jwt", JWT_SIGNING_KEY="-----BEGIN SECRET hunter2") as program:
        assert "hunter2" not in the_one_line(program) + program.log


@pytest.mark.parametrize(
    "listener",
    ["HTTP", "GRPC", "ADMIN"],
)
def test_a_port_that_is_taken_is_named(tmp_path: Path, database: str, listener: str) -> None:
    ports = free_ports("HTTP", "GRPC", "ADMIN")
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", ports[listener]))
        squatter.listen()
        with started(tmp_path, ports=ports, POSTGRES_URL=database) as program:
            assert str(ports[listener]) in the_one_line(program)


def test_a_second_service_on_one_data_directory_is_turned_away_and_the_first_goes_on(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with started(tmp_path, DATA_DIRECTORY=data) as first:
        api = first.ready().api()
        api.a_model()
        entity = api.create().id
        with started(tmp_path, DATA_DIRECTORY=data) as second:
            line = the_one_line(second)
        assert data in line
        assert str(first.process.pid) in line
        assert api.state(entity) == "CREATED"
        assert first.admin.get("/readyz").status_code == 200
        assert first.terminate() == 0


def test_a_database_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    [port] = free_ports("DB").values()
    url = f"postgres://somebody:hunter2@127.0.0.1:{port}/prizes?sslmode=disable"
    started_at = time.monotonic()
    with started(tmp_path, POSTGRES_URL=url, STARTUP_TIMEOUT="3s") as program:
        line = the_one_line(program)
    assert f"127.0.0.1:{port}" in line
    assert "hunter2" not in line
    assert time.monotonic() - started_at < 20


def test_a_schema_of_a_newer_release_is_left_alone(tmp_path: Path, newer_database: str) -> None:
    with started(tmp_path, POSTGRES_URL=newer_database) as program:
        assert "newer" in the_one_line(program)


def test_pending_migrations_are_not_applied_unless_allowed(tmp_path: Path, empty_database: str) -> None:
    with started(tmp_path, POSTGRES_URL=empty_database, POSTGRES_AUTO_MIGRATE="false") as program:
        assert "migrate" in the_one_line(program)
    with started(tmp_path, "migrate", POSTGRES_URL=empty_database) as program:
        assert program.ended() == 0
    with started(tmp_path, POSTGRES_URL=empty_database, POSTGRES_AUTO_MIGRATE="false") as program:
        program.ready()
        assert program.terminate() == 0
