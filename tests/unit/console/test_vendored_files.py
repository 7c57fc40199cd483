"""What the console takes from others is unchanged, known by hash, and comes with its licence."""

import base64
import hashlib
import tomllib
from pathlib import Path

import pytest

from scripts.vendor import FOLDER, check_integrity, read_table, update_component

ROOT = Path(__file__).resolve().parents[3]

ARCHIVES = read_table()
FILES = [file for archive in ARCHIVES for file in archive["file"]]
LICENCED = [*ARCHIVES, *(part for archive in ARCHIVES for part in archive.get("component", []))]


def list_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file["file"]))
def test_a_file_is_the_one_the_table_names(file: dict[str, str]) -> None:
    assert hashlib.sha256((FOLDER / file["file"]).read_bytes()).hexdigest() == file["sha256"]


def test_the_table_names_every_file() -> None:
    assert list_names(FOLDER) == {"vendor.toml", *(file["file"] for file in FILES)}


@pytest.mark.parametrize("software", LICENCED, ids=lambda software: str(software["name"]))
def test_all_software_has_a_version_and_the_text_of_its_licence(software: dict[str, str]) -> None:
    assert software["version"]
    assert len((FOLDER / software["licence_text"]).read_text()) > 500


def test_every_licence_text_belongs_to_something() -> None:
    assert list_names(FOLDER / "licences") == {Path(software["licence_text"]).name for software in LICENCED}


def test_what_the_layout_library_contains_names_its_sources() -> None:
    components = {part["name"]: part for archive in ARCHIVES for part in archive.get("component", [])}
    assert set(components) == {"Graphviz", "Expat"}
    assert all(part["version"] in part["source"] for part in components.values())


def test_the_wheel_takes_the_package_whole() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["src/statewright"]
    assert "exclude" not in wheel
    assert FOLDER.is_relative_to(ROOT / "src" / "statewright")


def test_an_archive_that_the_registry_does_not_describe_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "some.tgz"
    archive.write_bytes(b"content")
    digest = base64.b64encode(hashlib.sha512(b"content").digest()).decode()
    check_integrity(archive, f"sha512-{digest}")
    archive.write_bytes(b"other content")
    with pytest.raises(SystemExit, match="not what the registry describes"):
        check_integrity(archive, f"sha512-{digest}")


def test_the_record_of_a_build_tells_the_version_of_a_component() -> None:
    component = ARCHIVES[1]["component"][1].copy()
    update_component(component, '{"uri": "https://example.org/R_3/expat-3.0.1.tar.gz"}')
    assert component["version"] == "3.0.1"
    assert component["source"] == "https://example.org/R_3/expat-3.0.1.tar.gz"
    with pytest.raises(SystemExit, match="does not name the sources of Expat"):
        update_component(component, "{}")
