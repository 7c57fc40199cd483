"""What is there for a program that was installed as `pip install statewright`, without the extra `server`."""

import re
import sys
import tomllib
import venv
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

SERVER_ONLY: list[str] = [
    re.split(r"[^A-Za-z0-9_-]", requirement, maxsplit=1)[0].replace("-", "_")
    for requirement in PROJECT["optional-dependencies"]["server"]
    if not requirement.startswith(("h11", "httpcore"))  # of httpx
]
"""Distributions of the extra, but for those that the client's part has anyhow."""


def without_server(directory: Path) -> Path:
    """The Python of an environment that has the client's part of the program, made of links to what is here."""
    venv.create(directory, with_pip=False, symlinks=True)
    [site] = directory.glob("lib/python*/site-packages")
    (site / "statewright").symlink_to(ROOT / "src" / "statewright")
    link_distributions(site, PROJECT["dependencies"])
    return directory / "bin" / Path(sys.executable).name


def link_distributions(site: Path, requirements: Sequence[str]) -> None:
    """Put links to what is required, and to what that requires in turn, into another environment."""
    for name in _close_over([*requirements]):
        for file in metadata.distribution(name).files or ():
            top = file.parts[0]
            source = Path(str(metadata.distribution(name).locate_file(top)))
            # What is installed from a checkout has a file of paths, which would lead out of the environment.
            if top not in ("..", "__pycache__") and not top.endswith(".pth") and not (site / top).exists():
                if top == "google":  # a namespace of several distributions
                    (site / top).mkdir()
                    for part in source.iterdir():
                        (site / top / part.name).symlink_to(part)
                else:
                    (site / top).symlink_to(source)


def _close_over(requirements: list[str]) -> Iterator[str]:
    """The distributions that are required, and what those require in turn."""
    waiting, known = list(requirements), set[str]()
    while waiting:
        requirement, _, marker = waiting.pop().partition(";")
        name = re.split(r"[^A-Za-z0-9_.-]", requirement.strip(), maxsplit=1)[0].lower()
        if name in known or "extra" in marker or not _is_installed(name):
            continue
        known.add(name)
        yield name
        waiting += metadata.requires(name) or []


def _is_installed(name: str) -> bool:
    """Markers of systems are not read: what is not here is not for this one."""
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
