"""What the worker for tools is told to do, and where its requests may go (docs/guides/tools.md)."""

from ipaddress import ip_address
from pathlib import Path

import pytest

from statewright.tools.requests import is_metadata
from statewright.tools.worker import (
    SAFE_KINDS,
    UnusableTools,
    choose_environment,
    find_directories,
    read_credentials,
    read_kinds,
)


def test_programs_are_not_run_unless_they_are_named() -> None:
    assert set(SAFE_KINDS) == {"postgres", "duckdb", "http"}
    assert read_kinds("shell, python") == ("python", "shell")


@pytest.mark.parametrize("text", ["perl", "", " , "])
def test_kinds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UnusableTools, match="--kinds"):
        read_kinds(text)


def test_tasks_see_the_usual_variables_and_what_is_named() -> None:
    given = {"PATH": "/bin", "LANG": "C", "STATEWRIGHT_POSTGRES_URL": "secret", "API_KEY": "k", "OTHER": "o"}
    assert choose_environment(given, ["API_KEY"]) == {"PATH": "/bin", "LANG": "C", "API_KEY": "k"}
    with pytest.raises(UnusableTools, match="--env: MISSING"):
        choose_environment(given, ["MISSING"])


def test_files_must_be_directories(tmp_path: Path) -> None:
    assert find_directories("--files", [tmp_path / "." / ""]) == (str(tmp_path),)
    with pytest.raises(UnusableTools, match="--files"):
        find_directories("--files", [tmp_path / "none"])


def test_credentials_of_the_worker_are_files_by_the_names_in_auth(tmp_path: Path) -> None:
    (tmp_path / "db").write_text('{"password": "secret"}\n')
    (tmp_path / "token").write_text("of-shop\n")
    (tmp_path.parent / "outside").write_text("x")
    found = {"db": {"password": "secret"}}
    directory = str(tmp_path)
    assert read_credentials(directory, "db") == read_credentials(directory, {"pg": {"key": "db", "n": 1}}) == found
    assert read_credentials(directory, {"a": "token", "b": "none"}) == {"token": "of-shop"}
    for auth in ("../outside", "", ".", None, 7):
        assert read_credentials(directory, auth) == {}
    assert read_credentials(None, "db") == {}


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        ("169.254.169.254", True),
        ("::ffff:169.254.169.254", True),
        ("fe80::1", True),
        ("fd00:ec2::254", True),
        ("168.63.129.16", True),
        ("100.100.100.200", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("93.184.216.34", False),
        ("2606:2800::1", False),
    ],
)
def test_requests_go_anywhere_but_to_metadata(address: str, refused: bool) -> None:
    assert is_metadata(ip_address(address)) is refused
