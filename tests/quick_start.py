"""The first minutes that the README promises."""

import re
import subprocess
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def run_readme_commands(port: int) -> str:
    """Every line of the README's second shell block, against a service on that port; what they printed."""
    blocks = re.findall(r"```bash\n(.*?)```", README.read_text(), re.DOTALL)
    script = next(block for block in blocks if "curl" in block)
    moved = script.replace("localhost:8080", f"127.0.0.1:{port}").replace("curl ", "curl -sSf ")
    told = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", moved], capture_output=True, text=True, timeout=60, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert '"state":"APPROVED"' in told.stdout
    assert '"eventType":"TRANSITION_MAKE"' in told.stdout
    return told.stdout
