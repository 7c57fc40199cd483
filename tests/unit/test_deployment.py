"""What is in ``deploy/`` fits the program: its settings, its commands, its paths. No engine is there to run it."""

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from statewright.settings import SETTINGS, Settings, list_variables
from tests.image import list_context, of_image, of_image_environment, read_stages

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "statewright"
VALUES = Path(__file__).with_name("chart_values.yaml")
RENDERED = Path(__file__).with_name("rendered_chart.yaml")
COMMANDS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
KNOWN = {variable for name in SETTINGS for variable in list_variables(name)}
PEM = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "docker-compose.yaml").read_text())
    return loaded


def manifests() -> dict[str, Any]:
    """What the chart renders with ``chart_values.yaml``, by kind."""
    documents: Sequence[Any] = list(yaml.safe_load_all(RENDERED.read_text()))
    return {document["kind"]: document for document in documents}


def find_helm() -> str:
    """Helm, which need not be installed where the tests run."""
    helm = os.environ.get("STATEWRIGHT_TEST_HELM") or shutil.which("helm")
    if helm is None:
        pytest.skip("no helm on the path, and STATEWRIGHT_TEST_HELM names none")
    return helm


def render(helm: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        helm,
        "template",
        "statewright",
        str(CHART),
        "--namespace",
        "default",
        "--kube-version",
        "1.31.0",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_chart_renders_what_the_other_tests_look_at():
    """``make chart`` writes it anew."""
    helm = find_helm()
    rendered = render(helm, "--values", str(VALUES))
    assert rendered.returncode == 0, rendered.stderr
    assert list(yaml.safe_load_all(rendered.stdout)) == list(yaml.safe_load_all(RENDERED.read_text()))
    linted = subprocess.run(
        [helm, "lint", "--strict", str(CHART), "--values", str(VALUES)], capture_output=True, text=True, check=False
    )
    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ((), "existingSecret is required"),
        (("postgres.existingSecret=a",), "jwt.existingSecret is required"),
        (
            ("postgres.existingSecret=a", "jwt.existingSecret=b", "bootstrap.clientId=c"),
            "bootstrap.clientSecret.existingSecret is required",
        ),
        (
            ("postgres.existingSecret=a", "jwt.existingSecret=b", "monitoring.serviceMonitor.enabled=true"),
            "metricsBearer.existingSecret is required",
        ),
    ],
)
def test_a_chart_without_its_secrets_is_not_rendered(values: Sequence[str], word: str):
    refused = render(find_helm(), *(part for value in values for part in ("--set", value)))
    assert refused.returncode != 0
    assert word in refused.stderr


def test_the_fewest_values_are_two_secrets():
    rendered = render(find_helm(), "--set", "postgres.existingSecret=a,jwt.existingSecret=b")
    assert rendered.returncode == 0, rendered.stderr
    kinds = {document["kind"] for document in yaml.safe_load_all(rendered.stdout)}
    assert kinds == {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "Job"}


def test_the_schema_is_made_by_a_job_before_the_pods():
    job = manifests()["Job"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["migrate"]
    assert of_pod()["STATEWRIGHT_POSTGRES_AUTO_MIGRATE"] == "false"


def test_secrets_are_files_and_nothing_else():
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    [secrets] = [volume["projected"] for volume in pod["volumes"] if "projected" in volume]
    files = {item["path"] for source in secrets["sources"] for item in source["secret"]["items"]}
    named = {Path(value).name for name, value in of_pod().items() if name.endswith("_FILE")}
    assert files == named
    assert secrets["defaultMode"] == 0o440
    assert all("secretKeyRef" not in str(entry) for entry in container()["env"])


def test_nodes_are_asked_by_nodes_and_metrics_by_those_who_may():
    rules = manifests()["NetworkPolicy"]["spec"]["ingress"]
    open_ports = {port["port"] for rule in rules if "from" not in rule for port in rule["ports"]}
    assert open_ports == {"http", "grpc"}
    assert {port["port"] for rule in rules if "from" in rule for port in rule["ports"]} == {"node", "admin"}
    monitor = manifests()["ServiceMonitor"]["spec"]
    assert monitor["endpoints"][0]["authorization"]["credentials"] == {"name": "metrics", "key": "bearer"}


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
        content = "00" * 32 if "ENCRYPTION" in name else PEM if "KEY" in name else "secret"
        file.write_text("postgres://u:p@db/x" if "POSTGRES" in name else content)
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
    assert {port["targetPort"] for port in found["Service"]["spec"]["ports"]} == {"http", "grpc", "admin"}


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
    assert of_image("ENTRYPOINT") == [["statewright"]]
    assert of_image("CMD") == [["serve"]]


def test_the_image_is_not_root_and_leaves_checks_to_who_runs_it():
    assert of_image("USER") == [["65532:65532"]]
    assert of_image("HEALTHCHECK") == []
    assert {*of_image("EXPOSE")[0]} == {
        str(port) for port in (Settings().http_port, Settings().grpc_port, Settings().admin_port)
    }
    [accounts] = of_image("RUN")
    assert "--uid 65532 --gid 65532" in accounts[0]
    assert of_image("VOLUME") == of_image("WORKDIR")
    assert Path(of_image_environment()["STATEWRIGHT_DATA_DIRECTORY"]).is_relative_to(of_image("VOLUME")[0][0])


def test_the_image_is_made_of_what_exists():
    [build, _] = read_stages()
    copied = {source for line in build if line[0] == "COPY" for source in line[1:-1]}
    assert {path.parts[0] for path in list_context()} == copied


def test_ports_that_the_compose_file_publishes_are_those_of_the_nodes():
    for node in ("one", "two"):
        published = {int(port.rpartition(":")[2]) for port in compose()["services"][node]["ports"]}
        assert published == {Settings().http_port, Settings().grpc_port}
