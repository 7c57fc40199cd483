"""examples/playbooks and its demo: playbooks that survive the death of the service."""

import os
import subprocess
from pathlib import Path

from tests.e2e.program import EXECUTABLE

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_demo_survives_the_death_of_the_service(tmp_path: Path) -> None:
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    told = subprocess.run(
        [EXECUTABLE.with_name("python"), EXAMPLES / "demo_playbooks.py"],
        env={**environment, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert "Every claim ended as it should, and nothing counted twice." in told.stdout
