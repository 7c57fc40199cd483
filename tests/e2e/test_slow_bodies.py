"""Thousands of slow requests at 1,024 files: nobody else is kept out (docs/guides/tls-and-proxies.md#slow-clients).

With ``STATEWRIGHT_TEST_SLOW_BODIES=all`` every attack has its full size, and its connections are opened again for a
while: for a machine that does nothing else. What each question took is printed (``pytest -s``).
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import Final

import pytest

from tests.e2e.health import Health
from tests.e2e.program import EXECUTABLE, Program, started
from tests.service import a_token, eventually, signing_key_pem

LIMITED: Final = "sh", "-c", 'ulimit -n 1024; exec "$@"', "sh", EXECUTABLE
CONNECTIONS: Final = 384
"""What HTTP has of so many files."""

GRACE_S: Final = 3.0
MAX_HEALTH_S: Final = 0.25
MAX_READINESS_S: Final = 1.0
"""It asks the database, as other principals do, whose waiting for a processor is not known."""
MAX_HEALTH_WITHOUT_HEADS_S: Final = 1.0
"""While connections come without heads: each stays for a moment before it has to make room."""
IS_FULL: Final = os.environ.get("STATEWRIGHT_TEST_SLOW_BODIES") == "all"
CONNECTIONS_OF_ATTACK: Final = 2000 if IS_FULL else 500
REOPENED: Final = 6000
"""Connections of each attacker that have been opened when it has gone on for long enough."""
ROOT: Final = Path(__file__).parent.parent.parent


class Attacker:
    """A process that holds slow requests, and what it has said last."""

    def __init__(self, program: Program, *options: str) -> None:
        command = [sys.executable, "-m", "tests.e2e.slow_bodies", str(program.ports["HTTP"]), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.says: dict[str, int] = {}
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.says = json.loads(line)

    def stop(self) -> None:
        self._process.kill()
        self._listener.join()
        self._process.communicate()


@pytest.fixture
def program(tmp_path: Path, database: str) -> Iterator[Program]:
    settings = {
        "POSTGRES_URL": database,
        "IAM_MODE": "jwt",
        "JWT_SIGNING_KEY": signing_key_pem(),
        "HTTP_BODY_GRACE": f"{GRACE_S:g}s",
    }
    with started(tmp_path, ports=None, executable=LIMITED, **settings) as program:
        yield program.ready()
        assert program.terminate() == 0
        assert program.errors == []
        assert "Traceback" not in program.log


@contextmanager
def all_served(
    program: Program, within_s: float = MAX_HEALTH_S, served_within_s: float | None = None
) -> Iterator[None]:
    """A block in which probes and another principal are answered in time, each time on another connection."""
    with ExitStack() as stack:
        asked = {
            "health": Health(program, fresh=True),
            "admin": Health(program, "/livez", port="ADMIN", fresh=True),
            "other principal": Health(program, "/api/model/", token=a_token("other"), fresh=True),
            "readiness": Health(program, "/readyz", fresh=True),
        }
        for each in asked.values():
            stack.callback(each.stop)
        begun = monotonic()
        yield
        seconds = {name: each.p99_since(begun) for name, each in asked.items()}
        for name, each in asked.items():
            taken = sorted(taken for taken, _ in each.list_since(begun))
            wall = each.wall_p99_since(begun)
            sys.stdout.write(
                f"{name}: p99 {seconds[name] * 1000:.0f} ms, max {taken[-1] * 1000:.0f} ms of {len(taken)}; "
                f"with what was waited for a processor p99 {wall * 1000:.0f} ms\n"
            )
        assert seconds.pop("readiness") < MAX_READINESS_S, seconds
        assert seconds.pop("other principal") < (served_within_s or within_s), seconds
        assert max(seconds.values()) < within_s, seconds


@contextmanager
def attacked(program: Program, *attacks: tuple[str, ...]) -> Iterator[list[Attacker]]:
    with ExitStack() as stack:
        attackers = [Attacker(program, *attack) for attack in attacks]
        for each in attackers:
            stack.callback(each.stop)
        yield attackers


def test_slow_bodies_of_one_principal_and_of_strangers_keep_nobody_out(program: Program) -> None:
    token, other = a_token("attacker"), program.api(a_token("other"))
    with all_served(program), attacked(program, ("--token", token), ()) as (known, strangers):
        eventually(lambda: known.says.get("opened", 0) >= 2000 and strangers.says.get("opened", 0) >= 2000)
        eventually(lambda: known.says.get("429", 0) > 0 and strangers.says.get("401", 0) > 0)
        eventually(lambda: known.says["open"] <= CONNECTIONS // 2)
        other.a_model()
        eventually(lambda: known.says.get("408", 0) > 0)


def test_slow_forms_and_heads_without_end_keep_nobody_out(program: Program) -> None:
    form = ("--path", "/api/oauth/token", "--connections", str(CONNECTIONS_OF_ATTACK))
    head = ("--headless", "--connections", str(CONNECTIONS_OF_ATTACK))
    with all_served(program, MAX_HEALTH_WITHOUT_HEADS_S), attacked(program, form, head) as (forms, heads):
        wanted = CONNECTIONS_OF_ATTACK
        eventually(lambda: forms.says.get("opened", 0) >= wanted and heads.says.get("opened", 0) >= wanted)
        eventually(lambda: forms.says.get("503", 0) > 0)
        eventually(lambda: forms.says["open"] <= CONNECTIONS // 4 and heads.says["open"] <= CONNECTIONS // 2)
        program.api(a_token("other")).a_model()
        eventually(lambda: forms.says.get("408", 0) > 0)


@pytest.mark.skipif(not IS_FULL, reason="takes a quiet machine: STATEWRIGHT_TEST_SLOW_BODIES=all")
def test_slow_bodies_that_are_sent_again_and_again_keep_nobody_out(program: Program) -> None:
    token, other = a_token("attacker"), program.api(a_token("other"))
    other.a_model()
    served = all_served(program, served_within_s=MAX_READINESS_S)
    with served, attacked(program, ("--token", token), ()) as attackers:
        known, strangers = attackers
        eventually(lambda: all(each.says.get("opened", 0) >= 2000 for each in attackers))
        eventually(lambda: known.says.get("429", 0) > 0 and strangers.says.get("401", 0) > 0)
        while not all(each.says["opened"] >= REOPENED for each in attackers):
            assert other.create().id
