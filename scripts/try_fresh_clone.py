"""Clones the repository and does what the README begins with, as a machine that has nothing: an empty home, no cache of
packages, no environment. Says how long ``make run`` took until the service was ready; ``make fresh-clone`` runs it.

It is no test of every run, since it fetches all packages anew.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from tests.e2e.program import free_ports
from tests.quick_start import run_readme_commands
from tests.service import Api, eventually

ROOT = Path(__file__).resolve().parents[1]
READY_WITHIN_S = 600.0


def main() -> None:
    ports = free_ports("HTTP", "GRPC", "ADMIN")
    with tempfile.TemporaryDirectory(prefix="statewright-clone-") as directory:
        clone, home = Path(directory, "statewright"), Path(directory, "home")
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)  # noqa: S603, S607
        settings = {f"STATEWRIGHT_{name}_PORT": str(port) for name, port in ports.items()}
        system = os.environ["PATH"].replace(f"{Path(sys.executable).parent}:", "")
        began = time.monotonic()
        service = subprocess.Popen(
            ["make", "run"],  # noqa: S607
            cwd=clone,
            env={"PATH": system, "HOME": str(home), "PIP_NO_CACHE_DIR": "1", **settings},
            start_new_session=True,
        )
        try:
            admin = Api(f"http://127.0.0.1:{ports['ADMIN']}")
            eventually(lambda: service.poll() is not None or is_ready(admin), within_s=READY_WITHIN_S)
            took_s = time.monotonic() - began
            run_readme_commands(ports["HTTP"])
        finally:
            os.killpg(service.pid, signal.SIGINT)  # as Ctrl-C does
            service.wait(60)
    sys.stdout.write(f"make run was ready after {took_s:.0f} s, and the lines of the README did what it says\n")


def is_ready(admin: Api) -> bool:
    try:
        return admin.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    main()
