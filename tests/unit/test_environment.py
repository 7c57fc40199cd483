"""Files of variables, and the one that ``init`` writes (docs/reference/cli.md#files-of-variables)."""

import stat
from pathlib import Path

import pytest

from statewright.cli import environment as init
from statewright.cli.environment import find_user_file, read_environment
from statewright.cli.main import program
from tests.commands import CommandRunner


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a current directory that are empty, and no file of the system."""
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(init, "SYSTEM_FILE", tmp_path / "system.env")
    return tmp_path


def read(home: Path, **environment: str) -> dict[str, str]:
    given = {"HOME": str(home / "home"), **environment}
    found = read_environment(given, system_file=home / "system.env")
    return {name: value for name, value in found.items() if name not in given}


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_without_files_the_environment_is_all_there_is(home: Path) -> None:
    assert read(home, STATEWRIGHT_HTTP_PORT="1") == {}


def test_files_may_have_the_names_of_the_public_step_engine(home: Path) -> None:
    write(home / "system.env", "WE_REST_PORT=1\nDB_MAX_CONNS=2\nDB_HOST=3\nPATH=4\n")
    assert read(home) == {"WE_REST_PORT": "1", "DB_MAX_CONNS": "2"}


def test_the_nearer_file_wins(home: Path) -> None:
    files = [
        home / "system.env",
        home / "home/.config/statewright/statewright.env",
        home / "here/.env",
        home / "here/.env.dev",
        home / "here/.env.mine",
    ]
    for n, file in enumerate(files):
        write(file, f"STATEWRIGHT_HTTP_PORT={n}\nSTATEWRIGHT_X{n}={n}\n")
        found = read(home, STATEWRIGHT_PROFILES="dev, mine")
        assert found["STATEWRIGHT_HTTP_PORT"] == str(n)
        assert len(found) == n + 2
    assert read(home)["STATEWRIGHT_HTTP_PORT"] == "2"


def test_the_environment_wins_over_all_files_even_where_it_says_nothing(home: Path) -> None:
    write(home / "here/.env", "STATEWRIGHT_CONTEXT_PATH=/x\n")
    assert read(home, STATEWRIGHT_CONTEXT_PATH="") == {}


def test_values_may_be_quoted_and_commented(home: Path) -> None:
    write(
        home / "here/.env",
        "# settings\nexport STATEWRIGHT_A='x # y'\nSTATEWRIGHT_B=\"a\\nb\" # why\nCYODA_C=$HOME\n"
        "PATH=/evil\nSTATEWRIGHT_D\n",
    )
    assert read(home) == {"STATEWRIGHT_A": "x # y", "STATEWRIGHT_B": "a\nb", "CYODA_C": "$HOME"}


def test_profiles_cannot_lead_elsewhere(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home / "here/.env.ok", "STATEWRIGHT_A=1\n")
    assert read(home, CYODA_PROFILES="../x,a/b,,ok") == {"STATEWRIGHT_A": "1"}
    assert capsys.readouterr().err.count("warning: profile") == 2


def test_the_file_of_the_user_is_where_his_configuration_is() -> None:
    assert find_user_file({"HOME": "/h"}) == Path("/h/.config/statewright/statewright.env")
    assert find_user_file({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}) == Path("/c/statewright/statewright.env")
    assert find_user_file({}) is None


def run_init(home: Path, *arguments: str) -> str:
    result = CommandRunner().invoke(program, ["init", *arguments], env={"HOME": str(home / "home")})
    assert result.exit_code == 0, result.output
    return result.output


def test_init_writes_a_file_that_changes_nothing_yet(home: Path) -> None:
    told = run_init(home)
    file = home / "home/.config/statewright/statewright.env"
    assert told == f"{file} written\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert read(home) == {}


def test_init_leaves_what_is_there_alone_unless_it_is_forced(home: Path) -> None:
    file = home / "home/.config/statewright/statewright.env"
    write(file, "STATEWRIGHT_HTTP_PORT=1\n")
    assert run_init(home) == f"{file} is there already; nothing was changed\n"
    assert read(home) == {"STATEWRIGHT_HTTP_PORT": "1"}
    run_init(home, "--force")
    assert read(home) == {}


def test_init_does_nothing_where_the_system_has_a_file(home: Path) -> None:
    write(home / "system.env", "")
    assert "is there already" in run_init(home)
    assert not (home / "home/.config").exists()


def test_every_setting_in_the_file_exists(home: Path) -> None:
    from statewright.settings.reading import CLIENT_VARIABLES
    from statewright.settings.table import SETTINGS, list_variables

    known = {variable for name in SETTINGS for variable in list_variables(name)}
    known |= {f"STATEWRIGHT_{name}" for name in CLIENT_VARIABLES}
    named = {line[1:].partition("=")[0] for line in init.CONTENT.splitlines() if line.startswith("#STATEWRIGHT_")}
    assert named <= known
