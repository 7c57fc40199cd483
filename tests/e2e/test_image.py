"""The container image, but for the container: its steps are carried out in an empty directory, and it starts there."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.program import PATIENCE_S, environment, started
from tests.image import ROOT, build_image, of_image, of_image_environment

RENDERED = ROOT / "tests" / "unit" / "rendered_chart.yaml"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of the image."""
    return build_image(tmp_path_factory.mktemp("image"))


@pytest.fixture(autouse=True)
def _without_python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules come from the image alone."""
    monkeypatch.delenv("PYTHONPATH", raising=False)


def probed_paths() -> set[str]:
    """What the chart's probes ask the admin listener for."""
    [pod] = [made for made in yaml.safe_load_all(RENDERED.read_text()) if made["kind"] == "Deployment"]
    [container] = pod["spec"]["template"]["spec"]["containers"]
    return {probe["httpGet"]["path"] for name, probe in container.items() if name.endswith("Probe")}


def test_the_image_serves(python: Path, tmp_path: Path, empty_database: str) -> None:
    """API, console, documentation and ``.proto`` sources; nothing but its environment is there."""
    [[entrypoint], command] = [*of_image("ENTRYPOINT"), *of_image("CMD")]
    program = [python.with_name(entrypoint), *command]
    brought = {name.removeprefix("STATEWRIGHT_"): value for name, value in of_image_environment().items()}
    brought |= {"HOST": "127.0.0.1", "DATA_DIRECTORY": str(tmp_path / "data"), "POSTGRES_URL": empty_database}
    with started(tmp_path, executable=program, **brought) as service:
        api = service.ready().api()
        assert api.get("/health").json() == {"status": "UP"}
        assert {service.admin.get(path).status_code for path in probed_paths()} == {200}
        console = service.api(context_path="")
        files = set(re.findall(r'"(/console/static/[^"]+)"', console.get("/console/").text))
        assert [path for path in files if path.endswith(".css")]
        assert {console.get(path).status_code for path in files} == {200}
        assert api.get("/help/workflows").status_code == 200
        assert "service CloudEventsService" in api.get("/help/grpc/proto").text
        assert api.a_model() == "prize/1"
        assert api.state(api.create().id) == "CREATED"
        health = subprocess.run(
            [*program[:1], "health"],
            env=environment(tmp_path, {"STATEWRIGHT_ADMIN_PORT": str(service.ports["ADMIN"])}),
            check=False,
        )
        assert health.returncode == 0
        assert [json.loads(line)["level"] for line in service.log.splitlines() if line.startswith("{")]
        assert service.terminate() == 0


@pytest.mark.parametrize("words", [("help", "workflows"), ("help", "grpc", "proto"), ("schema", "workflow")])
def test_the_commands_of_the_image_find_their_files(python: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    told = subprocess.run(
        [python.with_name("statewright"), *words],
        cwd=tmp_path,
        env=environment(tmp_path, {}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert len(told.stdout.splitlines()) > 10


def test_nothing_of_the_repository_is_used(python: Path, tmp_path: Path) -> None:
    code = "import statewright, asyncpg, grpc_h2; print(statewright.__file__, grpc_h2.__file__)"
    told = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    files = [Path(file) for file in told.stdout.split()]
    assert [file.is_relative_to(python.parents[1]) for file in files] == [True, True]
