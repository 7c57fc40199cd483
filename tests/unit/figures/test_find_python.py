"""What ``make setup`` makes .venv of (scripts/find_python.sh)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "find_python.sh"


def find_python(directory: Path, **told: str) -> str:
    """What is chosen where these are the only interpreters; each tells minor version and time, as the real ones do."""
    for name, words in told.items():
        program = directory / name.replace("_", ".")
        program.write_text(f"#!/bin/sh\n{words}\n")
        program.chmod(0o755)
    tools = ("bash", "sort", "awk", "cat")
    for tool in tools:
        found = next(path for path in os.get_exec_path() if (Path(path) / tool).exists())
        (directory / tool).symlink_to(Path(found) / tool)
    done = subprocess.run(
        [SCRIPT], env={"PATH": str(directory)}, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("told", "chosen"),
    [
        ({"python3_12": "echo 12 1000 /p/12", "python3_13": "echo 13 1100 /p/13"}, "/p/13"),
        ({"python3_12": "echo 12 1000 /p/12", "python3_13": "echo 13 1300 /p/13"}, "/p/12"),
        ({"python3_11": "echo 11 1000 /p/11", "python3": "echo 11 1000 /p/11"}, "/p/11"),
        ({"python3_11": "echo 11 1000 /q/11", "python3": "echo 11 1100 /p/11"}, "/q/11"),
        ({"python3_11": "echo 11 1000 /a path/11"}, "/a path/11"),
        ({"python3_13": "exit 127", "python3": "echo 11 1000 /p/11"}, "/p/11"),
        ({"python3": ":"}, ""),
        ({}, ""),
    ],
    ids=["newest", "faster", "twice", "same version", "blank", "broken", "too old", "none"],
)
def test_the_newest_of_those_that_are_about_as_fast_as_the_fastest(tmp_path: Path, told: dict[str, str], chosen: str):
    assert find_python(tmp_path, **told) == chosen


def test_a_real_one_tells_its_path(tmp_path: Path):
    found = find_python(tmp_path, python3=f'exec {sys.executable} "$@"')
    assert Path(found) == Path(sys.executable).resolve()
