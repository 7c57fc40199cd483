"""``statewright clients …`` and ``statewright keys …`` (docs/reference/cli.md)."""

import json
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from statewright.cli.main import program
from tests.commands import CommandRunner
from tests.identity_provider import identity_provider
from tests.integration.identity.conftest import ADMIN, ask
from tests.integration.identity.test_trusted_keys import jwk
from tests.service import RunningService, a_token, signing_key_id
from tests.unit.auth.builders import rsa_key

Run = Callable[..., str]


@pytest.fixture
def run(launched: RunningService, tenant: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command as an administrator of the test's tenant; what it has written."""
    monkeypatch.chdir(tmp_path)
    named = {"STATEWRIGHT_URL": launched.root, "STATEWRIGHT_TOKEN": a_token(tenant, user_roles=ADMIN)}

    def call(*arguments: str, code: int = 0) -> str:
        result = CommandRunner().invoke(program, list(arguments), env={"HOME": str(tmp_path), **named})
        assert result.exit_code == code, result.output
        told = result.stdout if code == 0 else result.stderr
        # The service of this process logs to the same stdout.
        return "".join(line for line in told.splitlines(keepends=True) if not line.startswith("time="))

    return call


def test_clients_are_created_rotated_listed_and_deleted(run: Run, launched: RunningService) -> None:
    lines = dict(line.split("=") for line in run("clients", "create").split())
    client, secret = lines["STATEWRIGHT_CLIENT_ID"], lines["STATEWRIGHT_CLIENT_SECRET"]
    assert ask(launched, client, secret).status_code == 200
    rotated = json.loads(run("clients", "rotate", client, "--json"))
    assert ask(launched, client, secret).status_code == 401
    assert ask(launched, client, rotated["client_secret"]).status_code == 200
    assert client in run("clients", "list")
    assert "ROLE_ADMIN" in json.loads(run("clients", "create", "--admin", "--json"))["roles"]
    run("clients", "delete", client)
    assert client not in run("clients", "list", "--json")
    assert "M2M_CLIENT_NOT_FOUND" in run("clients", "delete", client, code=1)


def test_key_pairs_are_issued_shown_and_ended(run: Run) -> None:
    issued = json.loads(run("keys", "issue", "--audience", "human"))
    assert json.loads(run("keys", "current", "--audience", "human")) == issued
    kid = issued["keyId"]
    rotated = json.loads(run("keys", "rotate", "--audience", "human", "--grace", "60"))
    listed = run("keys", "list")
    assert all(one in listed for one in (kid, rotated["keyId"], signing_key_id()))
    run("keys", "invalidate", kid)
    assert kid not in run("keys", "list", "--json")
    assert json.loads(run("keys", "reactivate", kid, "--until", "2999-01-01T00:00:00Z"))["active"]
    for one in (kid, rotated["keyId"]):
        run("keys", "delete", one)
    assert "KEYPAIR_NOT_FOUND" in run("keys", "delete", kid, code=1)


def test_keys_of_others_are_trusted_and_forgotten(run: Run, tenant: str, tmp_path: Path) -> None:
    as_jwk, as_pem, private = tmp_path / "key.json", tmp_path / "key.pem", tmp_path / "private.pem"
    as_jwk.write_text(json.dumps(jwk(f"{tenant}-1")))
    public = rsa_key("signer").public_key()
    as_pem.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    private.write_bytes(rsa_key("signer").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    first = json.loads(run("keys", "trusted", "register", f"{tenant}-1", str(as_jwk), "--issuer", "https://a.example"))
    assert first["issuers"] == ["https://a.example"]
    second = json.loads(run("keys", "trusted", "register", f"{tenant}-2", str(as_pem), "--audience", "human"))
    assert second["jwk"]["n"] == first["jwk"]["n"]
    given = json.loads(run("keys", "trusted", "register", f"{tenant}-2", json.dumps(jwk(f"{tenant}-2"))))
    assert given["jwk"]["n"] == first["jwk"]["n"]
    assert "no public key" in run("keys", "trusted", "register", "x", str(private), code=1)
    run("keys", "trusted", "invalidate", f"{tenant}-2")
    assert [one["active"] for one in json.loads(run("keys", "trusted", "list", "--json"))] == [True, False]
    run("keys", "trusted", "reactivate", f"{tenant}-2", "--until", "2999-01-01T00:00:00Z")
    run("keys", "trusted", "delete", f"{tenant}-1")
    assert f"{tenant}-2" in run("keys", "trusted", "list")


def test_providers_are_registered_changed_switched_and_deleted(
    launched: RunningService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Run
) -> None:
    with identity_provider() as idp:
        monkeypatch.setenv("STATEWRIGHT_TOKEN", a_token(str(uuid4()), user_roles=ADMIN))
        named = {"STATEWRIGHT_URL": launched.root, "HOME": str(tmp_path)}

        def call(*arguments: str) -> str:
            result = CommandRunner().invoke(program, ["providers", *arguments], env=named)
            assert result.exit_code == 0, result.output
            return "".join(line for line in result.stdout.splitlines(True) if not line.startswith("time="))

        shown = json.loads(call("register", idp.issuer, "--audience", "a", "--audience", "b", "--roles-claim", "g"))
        assert (shown["wellKnownConfigUri"], shown["expectedAudiences"], shown["rolesClaim"]) == (
            idp.uri,
            ["a", "b"],
            "g",
        )
        assert idp.uri in call("list")
        idp.fail()
        named["COLUMNS"] = "300"
        failed = CommandRunner().invoke(program, ["providers", "change", shown["id"], "--roles-claim", "h"], env=named)
        assert failed.stderr.endswith("its tokens do not count: no discovery document: status 503\n")
        assert "no discovery document: status 503" in call("list")
        idp.answers.clear()
        changed = json.loads(call("change", shown["id"], "--audience", "", "--roles-claim", "groups"))
        assert ("expectedAudiences" in changed, changed["rolesClaim"]) == (False, "groups")
        call("reload")
        call("invalidate", shown["id"])
        assert json.loads(call("list", "--active", "--json")) == []
        assert json.loads(call("reactivate", shown["id"]))["active"]
        call("delete", shown["id"])
        assert json.loads(call("list", "--json")) == []
    assert "OIDC_INVALID_TENANT" in run("providers", "register", "http://127.0.0.1:8443", code=1)
