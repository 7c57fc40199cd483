"""The commands of docs/guides do what the pages say, against the installed program."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.builders import SEED_IMPORT
from tests.e2e.program import EXECUTABLE, environment, started
from tests.service import done

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "openssl", "tar"))), reason="bash, curl, openssl or tar is missing"
)


def blocks(page: str) -> list[str]:
    """The commands of a page, block by block."""
    return re.findall(r"```bash\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def run(script: str, home: Path, **variables: str) -> str:
    """What a script prints; it has to succeed."""
    told = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=home,
        env=environment(home, variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


def exported(script: str, home: Path) -> Mapping[str, str]:
    """The settings that a script exports, without their prefix."""
    lines = run(f"{script}\nenv", home).splitlines()
    pairs = (line.partition("=") for line in lines if line.startswith("STATEWRIGHT_"))
    return {name.removeprefix("STATEWRIGHT_"): value for name, _, value in pairs}


def test_a_backup_of_the_embedded_server_brings_back_what_was_lost(tmp_path: Path) -> None:
    back_up, restore = blocks("guides/backup.md")
    data = tmp_path / "data"
    with started(tmp_path, DATA_DIRECTORY=str(data)) as program:
        api = program.ready().api()
        api.import_model()
        done(api.post("/model/prize/1/workflow/import", SEED_IMPORT))
        api.lock()
        kept = api.create().id
        before = api.get(f"/entity/{kept}").text, api.get(f"/audit/entity/{kept}").text
        assert program.terminate() == 0
    run(back_up, tmp_path, STATEWRIGHT_DATA_DIRECTORY=str(data))
    with started(tmp_path, DATA_DIRECTORY=str(data)) as program:
        later = program.ready().api().create().id
        assert program.terminate() == 0
    run(restore, tmp_path, STATEWRIGHT_DATA_DIRECTORY=str(data))
    with started(tmp_path, DATA_DIRECTORY=str(data)) as program:
        api = program.ready().api()
        assert (api.get(f"/entity/{kept}").text, api.get(f"/audit/entity/{kept}").text) == before
        assert api.get(f"/entity/{later}").status_code == 404
        api.create()
        assert program.terminate() == 0


def test_the_guide_to_authentication_leads_to_tokens_of_one_client_and_of_a_team(tmp_path: Path) -> None:
    settings, use, *team = blocks("guides/authentication.md")
    given = dict(exported(settings, tmp_path))
    assert given["REQUIRE_JWT"] == "true"
    with started(tmp_path, DATA_DIRECTORY=str(tmp_path / "data"), **given) as program:
        program.ready()
        told = run(use.replace("localhost:8080", f"127.0.0.1:{program.ports['HTTP']}"), tmp_path)
        assert '"id":"acme"' in told
        assert program.api().get("/account").status_code == 401
        port = program.ports["HTTP"]
        path = f"{EXECUTABLE.parent}:{os.environ['PATH']}"
        told = run("\n".join(team).replace("localhost:8080", f"127.0.0.1:{port}"), tmp_path, PATH=path)
        assert "ROLE_M2M" in told
        assert len(re.findall(r"^\s*[0-9a-f]{32}\s+RS256", told, re.MULTILINE)) == 2
        assert program.terminate() == 0


def test_the_quick_start_leads_to_a_paid_order(tmp_path: Path) -> None:
    script = "\n".join(blocks("help/quickstart.md")).replace("curl ", "curl -sSf ")
    with started(tmp_path, DATA_DIRECTORY=str(tmp_path / "data")) as program:
        program.ready()
        told = run(script.replace("localhost:8080", f"127.0.0.1:{program.ports['HTTP']}"), tmp_path)
        assert '"state":"PAID"' in told
        assert '"total":130.5' in told
        assert program.terminate() == 0
