"""A launcher of the reference server changes the binary and nothing else (decision A1)."""

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.builders import SAMPLE, a_processor, a_workflow, manual
from tests.e2e.program import Program, started
from tests.integration.node import Node
from tests.service import CLIENT_ID, CLIENT_SECRET, ISSUER, a_token, done, refused, signing_key_id, signing_key_pem


def launched_settings(database: str) -> dict[str, str]:
    """What such a launcher sets, without the prefix."""
    separator = "&" if "?" in database else "?"
    assert "\n" in signing_key_pem().strip()
    return {
        "CONTEXT_PATH": "/cyoda/v1",
        "IAM_MODE": "jwt",
        "JWT_SIGNING_KEY": signing_key_pem(),
        "JWT_ISSUER": ISSUER,
        "REQUIRE_JWT": "true",
        "BOOTSTRAP_CLIENT_ID": CLIENT_ID,
        "BOOTSTRAP_CLIENT_SECRET": CLIENT_SECRET,
        "BOOTSTRAP_TENANT_ID": "boot-tenant",
        "BOOTSTRAP_USER_ID": "boot-user",
        "BOOTSTRAP_ROLES": "ROLE_ADMIN, ROLE_M2M",
        "STORAGE_BACKEND": "postgres",
        "POSTGRES_URL": f"{database}{separator}sslmode=prefer&pool_max_conns=10",
        "POSTGRES_AUTO_MIGRATE": "true",
        "SCHEDULER_SCAN_INTERVAL": "250ms",
        "MAX_STATE_VISITS": "10",
        "LOG_LEVEL": "warn",
        "ERROR_RESPONSE_MODE": "sanitized",
        "SUPPRESS_BANNER": "true",
    }


def bootstrap_token(program: Program) -> str:
    """What the bootstrap client is granted."""
    secret = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
    granted = program.api(context_path="/cyoda/v1").post(
        "/oauth/token",
        "grant_type=client_credentials",
        Authorization=f"Basic {secret}",
        Content_Type="application/x-www-form-urlencoded",
    )
    return str(done(granted)["access_token"])


def test_a_deployment_of_the_reference_server_works_unchanged(tmp_path: Path, empty_database: str) -> None:
    settings = launched_settings(empty_database)
    with started(tmp_path, prefix="CYODA_", **settings) as program, ThreadPoolExecutor() as pool:
        program.ready()
        token = bootstrap_token(program)
        api = program.api(token, context_path="/cyoda/v1")
        refused(program.api(context_path="/cyoda/v1").get("/model/"), 401, "UNAUTHORIZED")
        assert (
            done(program.api(context_path="/cyoda/v1").get("/.well-known/jwks.json"))["keys"][0]["kid"]
            == signing_key_id()
        )

        api.a_model(a_workflow(New=[manual("GO", to="Done", processors=[a_processor()])], Done=[]))
        entity = api.create().id
        node = Node(program.grpc, token, ("node",))
        fired = pool.submit(api.update, entity, fire="GO")
        node.return_next({"year": 1})
        fired.result()
        assert (api.state(entity), api.read(entity)["data"]) == ("Done", {"year": 1})
        assert done(api.get(f"/entity/{entity}/changes"))[0]["executedBy"] == {"id": "boot-user", "kind": "service"}

        newcomer = program.api(a_token("a tenant nobody has seen before"), context_path="/cyoda/v1")
        refused(newcomer.get(f"/entity/{entity}"), 404, "ENTITY_NOT_FOUND")
        newcomer.a_model()
        assert newcomer.read(newcomer.create().id)["data"] == SAMPLE

        assert "level=INFO" not in program.log
        for secret in (CLIENT_SECRET, token, "PRIVATE KEY"):
            assert secret not in program.log
        assert program.terminate() == 0
        node.leave()


def test_secrets_may_stand_in_files(tmp_path: Path, database: str) -> None:
    key, secret = tmp_path / "key.pem", tmp_path / "secret"
    key.write_text(signing_key_pem())
    secret.write_text(f"{CLIENT_SECRET}\n")
    settings = launched_settings(database) | {
        "JWT_SIGNING_KEY_FILE": str(key),
        "BOOTSTRAP_CLIENT_SECRET_FILE": str(secret),
    }
    del settings["JWT_SIGNING_KEY"], settings["BOOTSTRAP_CLIENT_SECRET"]
    with started(tmp_path, prefix="CYODA_", **settings) as program:
        program.ready()
        assert done(program.api(bootstrap_token(program), context_path="/cyoda/v1").get("/model/")) == []
        assert program.terminate() == 0
