"""A stranger's first minutes: the program without any setting but its ports."""

import subprocess
from pathlib import Path

import pytest

from tests.builders import SEED_IMPORT
from tests.e2e.program import EXECUTABLE, environment, free_ports, started
from tests.quick_start import run_readme_commands
from tests.service import done, refused


@pytest.mark.parametrize("command", [(), ("serve",)], ids=["bare", "serve"])
def test_the_program_serves_with_or_without_the_word(tmp_path: Path, command: tuple[str, ...]) -> None:
    with started(tmp_path, *command, DATA_DIRECTORY=str(tmp_path / "data")) as program:
        program.ready()
        assert done(program.api().get("/health")) == {"status": "UP"}
        assert program.admin.get("/livez").text == "ok"
        assert "mock authentication" in program.log
        assert program.errors == []
        assert program.terminate() == 0


def test_the_commands_of_the_readme_do_what_it_says(tmp_path: Path) -> None:
    with started(tmp_path, DATA_DIRECTORY=str(tmp_path / "data")) as program:
        run_readme_commands(program.ready().ports["HTTP"])


def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with started(tmp_path, DATA_DIRECTORY=data) as program:
        api = program.ready().api()
        api.import_model()
        done(api.post("/model/prize/1/workflow/import", SEED_IMPORT))
        api.lock()
        saved = api.create()
        before = api.get(f"/entity/{saved.id}").text, api.get(f"/audit/entity/{saved.id}").text
        assert program.terminate() == 0
    with started(tmp_path, DATA_DIRECTORY=data) as program:
        api = program.ready().api()
        assert (api.get(f"/entity/{saved.id}").text, api.get(f"/audit/entity/{saved.id}").text) == before
        refused(api.put(f"/entity/JSON/{saved.id}/NOPE", "{}"), 404, "TRANSITION_NOT_FOUND")
        api.create()


def test_health_asks_the_running_service(tmp_path: Path) -> None:
    ports = free_ports("HTTP", "GRPC", "ADMIN")

    def health() -> "subprocess.CompletedProcess[str]":
        settings = {"STATEWRIGHT_ADMIN_PORT": str(ports["ADMIN"])}
        return subprocess.run(
            [EXECUTABLE, "health"], env=environment(tmp_path, settings), capture_output=True, text=True, check=False
        )

    before = health()
    assert before.returncode == 1
    assert len(before.stderr.splitlines()) == 1
    with started(tmp_path, ports=ports, DATA_DIRECTORY=str(tmp_path / "data")) as program:
        program.ready()
        after = health()
        assert (after.returncode, after.stdout, after.stderr) == (0, "", "")
        program.terminate()
