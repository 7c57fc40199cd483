"""Workers as programs, in several languages, do the three-step chain against the installed service.

The one in Go takes part when ``STATEWRIGHT_TEST_GO`` is set: compiling ``net/http`` for the first time takes minutes.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.builders import Json
from tests.database import connected
from tests.e2e.program import EXAMPLES, EXECUTABLE, PATIENCE_S, Program, play_demo, started
from tests.service import Api, eventually

HERE = Path(__file__).parent / "step_workers"
LANGUAGES = ("node", "go", "sdk over rest", "sdk over grpc")
ROUNDS = 4
COMPILED_WITHIN_S = 300.0


def service_task(name: str, then: str) -> Json:
    return {"id": name, "name": name, "type": "SERVICE_TASK", "jobType": name, "retryCount": 1, "nextStep": then}


CHAIN = {
    "id": "chain",
    "name": "Three steps",
    "steps": [
        service_task("chain-a", "chain-b"),
        service_task("chain-b", "chain-c"),
        service_task("chain-c", "end"),
        {"id": "end", "name": "End", "type": "END"},
    ],
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The service as an operator would start it, for all languages."""
    home = tmp_path_factory.mktemp("workers")
    with started(home, "serve", DATA_DIRECTORY=str(home / "data")) as running:
        running.ready()
        assert Api(running.root).post("/v1/definitions", CHAIN).status_code == 201
        yield running


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_worker_does_the_three_step_chain(program: Program, tmp_path: Path, language: str) -> None:
    api = Api(program.root)
    with worker(language, program, tmp_path) as process:
        fine = [start(api, {"trail": [], "n": n}) for n in range(ROUNDS)]
        doomed = start(api, {"trail": [], "doomed": True})
        eventually(lambda: all(has_ended(api, one) for one in (*fine, doomed)), within_s=PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    for number, instance in enumerate(fine):
        after = read(api, instance)
        assert (after["status"], after["variables"]) == (
            "COMPLETED",
            {"trail": ["a", "b", "c"], "n": number, "attempts": 2},
        )
    failed = read(api, doomed)
    assert (failed["status"], failed["failureReason"], failed["currentStepIds"]) == (
        "FAILED",
        "there is no hope",
        ["chain-c"],
    )


async def test_a_deployment_of_the_public_engine_switches_by_its_own_variables(database: str, tmp_path: Path) -> None:
    parts = urlsplit(database)
    host = parts.hostname or dict(parse_qsl(parts.query))["host"]
    dsn = f"host={host} port={parts.port or 5432} user={parts.username} dbname={parts.path[1:]}"
    dsn += f" password='{parts.password}'" if parts.password else ""
    settings = {"POSTGRES_DSN": dsn, "LOG_LEVEL": "warn", "DISPATCH_MODE": "polling", "OUTBOX_BATCH_SIZE": "9"}
    with started(tmp_path, "serve", prefix="WE_", **settings, RETS_PORT="1") as program:
        api = Api(program.ready().root)
        assert api.post("/v1/definitions", CHAIN).status_code == 201
        for language in ("node", "sdk over grpc"):
            with worker(language, program, tmp_path):
                instance = start(api, {"trail": []})
                eventually(lambda at=instance: has_ended(api, at), within_s=PATIENCE_S)
            assert read(api, instance)["variables"]["trail"] == ["a", "b", "c"]
        assert "WE_RETS_PORT is unknown and ignored; did you mean WE_REST_PORT?" in program.log
        assert "WE_OUTBOX_BATCH_SIZE without effect" in program.log
        assert program.terminate() == 0
    async with connected(database) as connection:
        assert await connection.fetchval("SELECT count(*) FROM entity") >= 3  # definition and instances


def test_the_page_of_the_documentation_does_what_it_says(program: Program, tmp_path: Path) -> None:
    """Its definition and its shell blocks, the first without a service, the second against one on another port."""
    page = (Path(__file__).parents[2] / "docs" / "steps.md").read_text()
    blocks = {kind: re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("json", "bash")}
    (tmp_path / "onboarding.json").write_text(blocks["json"][0])
    script = "\n".join(blocks["bash"]).replace("localhost:8080", program.root.removeprefix("http://"))
    told = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("curl ", "curl -sSf ")],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{EXECUTABLE.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert '"status":"COMPLETED"' in told.stdout
    assert '"account":"ada"' in told.stdout
    assert "class s3 done" in told.stdout


def test_the_demo_plays_every_row_of_the_seeds_table(tmp_path: Path) -> None:
    assert "Every row of the table ended where it should." in play_demo("demo_steps.py", tmp_path)


def test_the_demo_plays_the_definitions_that_the_seed_prints() -> None:
    for name in ("application.json", "disbursement.json"):
        seed = Path(__file__).parents[1] / "unit" / "steps" / "loan_chain" / name
        assert (EXAMPLES / "loan" / name).read_text() == seed.read_text()


def start(api: Api, variables: Json) -> str:
    answer = api.post("/v1/instances", {"definitionId": "chain", "variables": variables})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def read(api: Api, instance: str) -> Json:
    return api.get(f"/v1/instances/{instance}").json()


def has_ended(api: Api, instance: str) -> bool:
    return read(api, instance)["status"] in ("COMPLETED", "FAILED")


@contextmanager
def worker(language: str, program: Program, directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker process; killed at the end if it still runs."""
    command, extra = command_of(language, program, directory)
    with (directory / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=HERE, env={**os.environ, **extra}
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_S)


def command_of(language: str, program: Program, directory: Path) -> tuple[Sequence[str], Mapping[str, str]]:
    """How to run the worker of a language, and what its environment has besides. Skips what is not installed."""
    match language:
        case "node":
            return [installed("node"), "worker.mjs", program.root], {}
        case "go":
            if not os.environ.get("STATEWRIGHT_TEST_GO"):
                pytest.skip("STATEWRIGHT_TEST_GO is not set")
            binary = str(directory / "worker")
            subprocess.run(
                [installed("go"), "build", "-o", binary, "worker.go"],
                cwd=HERE,
                env={**os.environ, "GOFLAGS": "-mod=mod", "GO111MODULE": "off", "GOTOOLCHAIN": "local"},
                timeout=COMPILED_WITHIN_S,
                check=True,
            )
            return [binary, program.root], {}
        case _:
            over = language.rpartition(" ")[2]
            command = [str(EXECUTABLE), "node", "worker:node", "--endpoint", program.grpc, "--api", program.root]
            return command, {"WORKER_OVER": over}


def installed(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path
