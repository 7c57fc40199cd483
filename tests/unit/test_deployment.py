"""What is in ``deploy/`` fits the program: its settings, its commands, its paths. No engine is there to run it."""

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from statewright.settings import SETTINGS, Settings, list_variables

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMMANDS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
KNOWN = {variable for name in SETTINGS for variable in list_variables(name)}
PEM = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"


def dockerfile() -> list[list[str]]:
    """The instructions, word by word; lines that go on are one."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    return [shlex.split(line) for line in text.splitlines() if line and not line.startswith("#")]


def of_image(instruction: str) -> list[list[str]]:
    """What follows the instruction in the last stage."""
    lines = dockerfile()
    last = max(number for number, line in enumerate(lines) if line[0] == "FROM")
    return [line[1:] for line in lines[last:] if line[0] == instruction]


def of_image_environment() -> dict[str, str]:
    pairs = [pair.partition("=") for line in of_image("ENV") for pair in line]
    return {name: value for name, _, value in pairs if name.startswith("STATEWRIGHT_")}


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "docker-compose.yaml").read_text())
    return loaded


def manifests() -> dict[str, Any]:
    documents: Sequence[Any] = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "statewright.yaml").read_text()))
    return {document["kind"]: document for document in documents}


def container() -> dict[str, Any]:
    [only] = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(only)


def of_pod() -> dict[str, str]:
    return {entry["name"]: str(entry.get("value", "set-by-the-cluster")) for entry in container()["env"]}


def of_unit() -> dict[str, str]:
    lines = (DEPLOY / "systemd" / "statewright.env").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines if not line.startswith("#"))}


def accepted(environment: Mapping[str, str], secrets: Path) -> Settings:
    """The settings of a process that is started so; its secret files are there."""
    given = dict(environment)
    for name in [name for name in given if name.endswith("_FILE")]:
        file = secrets / Path(given[name]).name
        file.write_text("postgres://u:p@db/x" if "POSTGRES" in name else PEM if "KEY" in name else "secret")
        given[name] = str(file)
    return Settings.from_environment(given)


@pytest.mark.parametrize("node", ["one", "two"])
def test_the_nodes_of_the_compose_file_start_and_find_each_other(tmp_path: Path, node: str):
    settings = accepted(of_image_environment() | compose()["services"][node]["environment"], tmp_path)
    assert settings.storage == "postgres"
    assert settings.node_host == node
    assert settings.node_port


def test_nothing_of_the_compose_file_is_open_to_other_machines():
    ports = [port for service in compose()["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_pods_start_with_real_authentication_and_their_probes_reach_them(tmp_path: Path):
    settings = accepted(of_image_environment() | of_pod(), tmp_path)
    assert (settings.iam_mode, settings.require_jwt, settings.storage) == ("jwt", True, "postgres")
    assert settings.admin_bind_address == "0.0.0.0"
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert ports == {
        "http": settings.http_port,
        "grpc": settings.grpc_port,
        "admin": settings.admin_port,
        "node": settings.node_port,
    }
    probes = [container()[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
    assert [(probe["path"], probe["port"]) for probe in probes] == [
        ("/readyz", "admin"),
        ("/readyz", "admin"),
        ("/livez", "admin"),
    ]


def test_containers_write_nowhere_but_to_temporary_files_and_have_no_privileges():
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    security = pod["securityContext"] | container()["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"], security["runAsGroup"]) == (True, 65532, 65532)
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    [temporary] = [volume["name"] for volume in pod["volumes"] if "emptyDir" in volume]
    assert {"name": temporary, "mountPath": "/tmp"} in container()["volumeMounts"]
    for node in ("one", "two"):
        service = compose()["services"][node]
        assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, ["/tmp"], ["ALL"])


def test_whoever_runs_the_image_asks_after_its_health():
    for node in ("one", "two"):
        assert compose()["services"][node]["healthcheck"]["test"] == ["CMD", "statewright", "health"]
    for kind in ("startup", "readiness", "liveness"):
        assert container()[f"{kind}Probe"]["timeoutSeconds"] > 2


def test_the_service_and_the_budget_select_the_pods():
    found = manifests()
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert {port["targetPort"] for port in found["Service"]["spec"]["ports"]} == {"http", "grpc"}


def test_there_is_time_to_stop_before_a_kill():
    defaults = Settings()
    needed = (defaults.drain_window + defaults.shutdown_timeout).total_seconds()
    unit = (DEPLOY / "systemd" / "statewright.service").read_text()
    [_, before] = container()["lifecycle"]["preStop"]["exec"]["command"]
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > needed + float(before)
    assert float(re.findall(r"(?m)^TimeoutStopSec=(\d+)s$", unit)[0]) > needed
    assert all(float(compose()["services"][node]["stop_grace_period"].rstrip("s")) > needed for node in ("one", "two"))


def test_the_unit_starts_with_its_settings(tmp_path: Path):
    settings = accepted(of_unit(), tmp_path)
    assert (settings.iam_mode, settings.storage) == ("jwt", "postgres")


def test_every_named_setting_exists_and_every_command_is_one_of_ours():
    text = "\n".join(file.read_text() for file in DEPLOY.rglob("*") if file.is_file())
    assert set(re.findall(r"\bSTATEWRIGHT_[A-Z_]+[A-Z]", text)) <= KNOWN
    unit = (DEPLOY / "systemd" / "statewright.service").read_text()
    [started] = re.findall(r"(?m)^ExecStart=(.+)$", unit)
    assert Path(started.split()[0]).name in COMMANDS
    assert of_image("ENTRYPOINT") == [["[statewright]"]]
    assert of_image("CMD") == [["[serve]"]]


def test_the_image_is_not_root_leaves_checks_to_who_runs_it_and_copies_what_exists():
    assert of_image("USER") == [["65532:65532"]]
    assert of_image("HEALTHCHECK") == []
    copied = [
        source for line in dockerfile() if line[0] == "COPY" and "--from=build" not in line for source in line[1:-1]
    ]
    assert copied
    assert all((ROOT / source).exists() for source in copied)
    kept = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied) <= kept
    assert {str(port) for port in (Settings().http_port, Settings().grpc_port)} <= set(of_image("EXPOSE")[0])
