"""The commands of docs/guides do what the pages say, against the installed program."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.builders import SEED_IMPORT
from tests.e2e.program import EXECUTABLE, environment, free_ports, started
from tests.service import done, eventually

COMPANY = 4
"""Blocks of the walk of a company with an identity provider, the last ones of the guide."""

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
    settings, use, *team = blocks("guides/authentication.md")[:-COMPANY]
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


def sign_in(provider: str, user: str, application: str) -> str:
    """The ID token that an application gets for a user, by the authorization code flow."""
    known = httpx.get(f"{provider}/.well-known/openid-configuration").json()
    back = "http://localhost/back"
    asked = {"client_id": application, "response_type": "code", "redirect_uri": back, "scope": "openid", "state": "s"}
    sent_back = httpx.post(known["authorization_endpoint"], params=asked, data={"sub": user})
    code = httpx.URL(sent_back.headers["location"]).params["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back}
    return str(done(httpx.post(known["token_endpoint"], data=form, auth=(application, "secret")))["id_token"])


@contextmanager
def provider_of(user: str) -> Iterator[str]:
    """The address of a provider that knows one user, a process of its own."""
    port = free_ports("PROVIDER")["PROVIDER"]
    provider = Path(__file__).parent / "named_keys_provider.py"
    command = [sys.executable, str(provider), str(port), user]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            eventually(lambda: answers(address))
            yield address
        finally:
            process.kill()


def answers(address: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{address}/.well-known/openid-configuration").is_success
    return False


def test_the_guide_to_authentication_lets_the_people_of_a_company_in(tmp_path: Path) -> None:
    """With a real provider, and the flow by which people sign in."""
    settings, *_ = guide = blocks("guides/authentication.md")
    tenant, register, use, withdraw = guide[-COMPANY:]
    given = dict(exported(settings + tenant, tmp_path))
    development = {"OIDC_REQUIRE_HTTPS": "false", "OIDC_ALLOW_PRIVATE_NETWORKS": "true"}
    with (
        provider_of('{"sub": "ann", "groups": ["ROLE_ADMIN", "sales"]}') as provider,
        started(tmp_path, DATA_DIRECTORY=str(tmp_path / "data"), **given, **development) as program,
    ):
        port = program.ready().ports["HTTP"]
        path = f"{EXECUTABLE.parent}:{os.environ['PATH']}"

        def follow(script: str, **variables: str) -> str:
            named = script.replace("localhost:8080", f"127.0.0.1:{port}").replace("https://login.example.org", provider)
            return run(named, tmp_path, PATH=path, **variables)

        assert provider in follow(register)
        token = sign_in(provider, "ann", "orders-app")
        who = json.loads(follow(use, ID_TOKEN=token))["userAccountInfo"]
        assert (who["userName"], who["legalEntity"]["id"]) == ("ann", given["BOOTSTRAP_TENANT_ID"])
        assert [role["id"] for role in who["roles"]] == ["ROLE_ADMIN", "sales"]
        assert program.api(token).get("/clients").status_code == 200
        other = sign_in(provider, "ann", "another-app")
        assert program.api(other).get("/account").status_code == 401
        follow("\n".join(line for line in register.splitlines() if line.startswith("export")) + "\n" + withdraw)
        assert program.api(token).get("/account").status_code == 401
        assert program.terminate() == 0


def test_the_quick_start_leads_to_a_paid_order(tmp_path: Path) -> None:
    script = "\n".join(blocks("help/quickstart.md")).replace("curl ", "curl -sSf ")
    with started(tmp_path, DATA_DIRECTORY=str(tmp_path / "data")) as program:
        program.ready()
        told = run(script.replace("localhost:8080", f"127.0.0.1:{program.ports['HTTP']}"), tmp_path)
        assert '"state":"PAID"' in told
        assert '"total":130.5' in told
        assert program.terminate() == 0
