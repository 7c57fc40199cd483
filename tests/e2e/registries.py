"""Programs and packages that tests have from the machine and the registries of their languages, or do without."""

import shutil
import subprocess
from pathlib import Path

import pytest

INSTALLED_WITHIN_S = 60.0
COMPILED_WITHIN_S = 300.0


def find_program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def install(*command: str, within: Path) -> None:
    """Skips where a registry does not give the packages."""
    try:
        run(*command, within=within, timeout=INSTALLED_WITHIN_S)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"no packages: {str(error)[:500]}")


def run(*command: str, within: Path, timeout: float = COMPILED_WITHIN_S, stdin: str | None = None) -> str:
    """What a command writes to stdout."""
    ran = subprocess.run(command, cwd=within, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    assert ran.returncode == 0, f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr}{ran.stdout}"
    return ran.stdout
