"""Earlier states of the program: their sources, and the dumps of databases that they wrote (tests/data/upgrades)."""

import json
import lzma
import subprocess
import sys
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path

from tests.builders import Json
from tests.database import connected

ROOT = Path(__file__).parents[2]
DUMPS = ROOT / "tests" / "data" / "upgrades"
NEEDED = ("docs", "packages", "proto", "pyproject.toml", "src")
"""What the program is run from."""


class SourcesMissing(LookupError):
    """The history of the repository is not here, or not as far back."""


def unpack_sources(commit: str, directory: Path) -> tuple[str, ...]:
    """The command line that runs the program as of a commit, with the packages that are installed here.

    Raises :class:`SourcesMissing`.
    """
    there = _ask_git("ls-tree", "--name-only", commit).decode().split()
    packed = _ask_git("archive", commit, *(name for name in NEEDED if name in there))
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # came with CPython 3.11.4
        archive.extractall(directory)
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["statewright"].partition(":")
    modules = [str(directory / "src"), str(directory / "packages" / "grpc-h2" / "src")]
    entry = f"import sys; sys.path[:0] = {modules!r}; sys.argv[0] = 'statewright'"
    return sys.executable, "-c", f"{entry}; from {module} import {function}; {function}()"


def _ask_git(*words: str) -> bytes:
    told = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)
    if told.returncode != 0:
        raise SourcesMissing(told.stderr.decode().strip())
    return told.stdout


def list_dumps() -> list[str]:
    """The commits of which there are dumps."""
    return sorted(path.name.removesuffix(".sql.xz") for path in DUMPS.glob("*.sql.xz"))


def write_dump(commit: str, sql: bytes, told: Json) -> None:
    """Keep a dump, and what the program that wrote it answered."""
    DUMPS.mkdir(parents=True, exist_ok=True)
    for suffix, content in ((".sql.xz", sql), (".json.xz", json.dumps(told, indent=0, sort_keys=True).encode())):
        (DUMPS / f"{commit}{suffix}").write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


def read_told(commit: str) -> Json:
    """What is known of a dump: ``known``, what was stored by the API, and ``answers``, by request."""
    return json.loads(lzma.decompress((DUMPS / f"{commit}.json.xz").read_bytes()))


async def restore(commit: str, database: str) -> None:
    """Fill an empty database with a dump."""
    sql = lzma.decompress((DUMPS / f"{commit}.sql.xz").read_bytes()).decode()
    async with connected(database) as connection:
        await connection.execute(sql)
