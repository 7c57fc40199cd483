"""Clients that public generators make of ``statewright openapi`` compile, create an entity and read it back.

Generators and libraries come from the registries of their languages, pinned in ``generated_clients``; where they
cannot be had the test is skipped. The client in Go takes part when ``STATEWRIGHT_TEST_GO`` is set: compiling the
generator and ``net/http`` for the first time takes minutes.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.database import Template, kept_open
from tests.e2e.program import EXECUTABLE, Program, started
from tests.e2e.registries import find_program, install, run
from tests.service import a_token, signing_key_pem

HERE = Path(__file__).parent / "generated_clients"


@pytest.fixture
def program(database_template: Template, tmp_path: Path) -> Iterator[Program]:
    """The service, which wants tokens."""
    settings = {"IAM_MODE": "jwt", "JWT_SIGNING_KEY": signing_key_pem()}
    with kept_open(database_template.clone()) as database, started(tmp_path, POSTGRES_URL=database, **settings) as it:
        yield it.ready()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with the sources, and the document of the installed program."""
    copy = Path(shutil.copytree(HERE, tmp_path / "project"))
    (copy / "openapi.json").write_text(run(str(EXECUTABLE), "openapi", within=copy))
    return copy


@pytest.mark.parametrize("language", ["typescript", "go"])
def test_a_generated_client_creates_an_entity_and_reads_it_back(program: Program, project: Path, language: str) -> None:
    client = compile_in_typescript(project) if language == "typescript" else compile_in_go(project)
    token = a_token("acme")
    api = program.api(token)
    api.a_model(model="letter/1", sample={"text": ""})
    told = json.loads(run(*client, api.url, token, within=project))
    kept = api.read(told["id"])
    assert told == {"id": kept["meta"]["id"], "state": kept["meta"]["state"], "data": kept["data"]}
    assert told["data"] == {"text": "from a generated client"}


def compile_in_typescript(project: Path) -> Sequence[str]:
    """The types by openapi-typescript, a program on openapi-fetch that uses them; how to run it."""
    node = find_program("node")
    install(find_program("npm"), "ci", "--ignore-scripts", "--fetch-retries=0", within=project)
    tools = project / "node_modules" / ".bin"
    run(str(tools / "openapi-typescript"), "openapi.json", "--output", "schema.d.ts", within=project)
    options = ("--strict", "--noUncheckedIndexedAccess", "--module", "nodenext", "--target", "es2023")
    run(str(tools / "tsc"), *options, "round_trip.ts", within=project)
    return node, "round_trip.js"


def compile_in_go(project: Path) -> Sequence[str]:
    """Types and client by oapi-codegen, a program that uses them; how to run it."""
    if not os.environ.get("STATEWRIGHT_TEST_GO"):
        pytest.skip("STATEWRIGHT_TEST_GO is not set")
    go = find_program("go")
    install(go, "mod", "download", within=project)
    (project / "api").mkdir()
    generator = ("oapi-codegen", "-generate", "types,client", "-package", "api", "-o", "api/api.go")
    run(go, "tool", *generator, "openapi.json", within=project)
    run(go, "build", "-mod=readonly", "-o", "round_trip", ".", within=project)
    return (str(project / "round_trip"),)
