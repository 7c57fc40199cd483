"""Brings a file of the console that others wrote up to a version: ``python scripts/vendor.py htmx.org 4.0.1``.

The archive comes from the npm registry by ``npm pack``, which checks its integrity; here it is checked once more,
against what the registry says of the version. The members that ``vendor.toml`` names are copied unchanged, and their
hashes written there. What is compiled into a file (components) is read from the archive's record of its build.

An update is a commit of its own: read the licences anew, and run the browser tests.
"""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

FOLDER = Path(__file__).resolve().parent.parent / "src" / "statewright" / "console" / "static" / "vendor"
TABLE = FOLDER / "vendor.toml"
HEADER = "# What the console takes from others, unchanged; rewritten by `python scripts/vendor.py NAME VERSION`.\n"

BUILD_RECORD = "lib/provenance.json"
"""Where an archive tells from which sources its compiled parts were built."""

VENDORED = ("name", "version", "integrity", "licence", "licence_text")
FILE = ("file", "member", "sha256")
COMPONENT = ("name", "version", "source", "licence", "licence_text")


class Component(TypedDict):
    """Software in object form inside a file of an archive."""

    name: str
    version: str
    source: str
    licence: str
    licence_text: str


class File(TypedDict):
    """A member of an archive and the name it has here."""

    file: str
    member: str
    sha256: str


class Archive(TypedDict):
    """One package of the registry; ``component`` is absent where nothing is compiled in."""

    name: str
    version: str
    integrity: str
    licence: str
    licence_text: str
    file: list[File]
    component: list[Component]


def read_table() -> list[Archive]:
    """The table as it stands."""
    archives: list[Archive] = tomllib.loads(TABLE.read_text())["archive"]
    return archives


def write_table(archives: list[Archive]) -> None:
    """The table, archives in their order."""
    blocks = [HEADER]
    for archive in archives:
        blocks.append(format_block("archive", VENDORED, archive))
        blocks += [format_block("archive.file", FILE, file) for file in archive["file"]]
        blocks += [format_block("archive.component", COMPONENT, part) for part in archive.get("component", [])]
    TABLE.write_text("\n".join(blocks))


def format_block(title: str, keys: tuple[str, ...], values: Mapping[str, object]) -> str:
    """One TOML table; strings only, and JSON's strings are TOML's."""
    return f"[[{title}]]\n" + "".join(f"{key} = {json.dumps(values[key])}\n" for key in keys)


def download(name: str, version: str, folder: Path) -> tuple[Path, str]:
    """The archive of a package and the integrity value that the registry gives for it."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is needed to fetch packages")
    package = f"{name}@{version}"
    view = [npm, "view", package, "dist.integrity", "--json"]
    integrity: str = json.loads(subprocess.run(view, check=True, capture_output=True, text=True).stdout)  # noqa: S603
    pack = [npm, "pack", package, "--pack-destination", str(folder)]
    subprocess.run(pack, check=True, capture_output=True)  # noqa: S603
    (archive,) = folder.glob("*.tgz")
    return archive, integrity


def check_integrity(archive: Path, integrity: str) -> None:
    """Refuses an archive that is not the one the registry describes (algorithm, ``-``, hash in base 64)."""
    algorithm, _, expected = integrity.partition("-")
    found = base64.b64encode(hashlib.new(algorithm, archive.read_bytes()).digest()).decode()
    if algorithm != "sha512" or found != expected:
        raise SystemExit(f"{archive.name} is not what the registry describes: {found}, not {expected}")


def read_member(archive: tarfile.TarFile, member: str) -> bytes:
    """A file of a package."""
    stream = archive.extractfile(f"package/{member}")
    if stream is None:
        raise SystemExit(f"the archive has no file {member}")
    return stream.read()


def update_component(component: Component, record: str) -> None:
    """Version and source archive of a compiled part, as the record of the build names them."""
    name = re.escape(component["name"].lower())
    found = re.search(rf'"(?P<source>https://[^"]*/{name}-(?P<version>[\d.]+)\.tar\.\w+)"', record)
    if found is None:
        raise SystemExit(f"{BUILD_RECORD} does not name the sources of {component['name']}")
    component["version"], component["source"] = found["version"], found["source"]


def update(name: str, version: str) -> None:
    """Replaces the files of one package and its part of the table."""
    archives = read_table()
    archive = next((archive for archive in archives if archive["name"] == name), None)
    if archive is None:
        raise SystemExit(f"{TABLE.name} does not know {name}; it has {', '.join(one['name'] for one in archives)}")
    with tempfile.TemporaryDirectory() as folder:
        path, integrity = download(name, version, Path(folder))
        check_integrity(path, integrity)
        with tarfile.open(path) as members:
            for file in archive["file"]:
                content = read_member(members, file["member"])
                (FOLDER / file["file"]).write_bytes(content)
                file["sha256"] = hashlib.sha256(content).hexdigest()
            if archive.get("component"):
                record = read_member(members, BUILD_RECORD).decode()
                for component in archive["component"]:
                    update_component(component, record)
    archive["version"], archive["integrity"] = version, integrity
    write_table(archives)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    update(sys.argv[1], sys.argv[2])
