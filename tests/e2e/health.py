"""How long a service takes to say that it is well.

A second process asks all the time. Its questions are due at fixed moments, so that an answer that keeps the next
questions waiting counts against them, too.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterable
from time import monotonic
from typing import Final

from tests.service import eventually

ASK_FOR_HEALTH: Final = """
import http.client, json, subprocess, sys, time
due = answered = time.monotonic()
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
while True:
    due += 0.02
    time.sleep(max(0.0, due - time.monotonic()))
    other.stdin.write(b"x")
    other.stdout.read(1)
    noise = time.monotonic() - max(due, answered)
    try:
        connection.request("GET", "/api/health")
        status = connection.getresponse().read() == b'{"status":"UP"}\\n'
    except OSError:
        status = False
        connection.close()
    except http.client.HTTPException:
        status = False
        connection.close()
    answered = time.monotonic()
    print(json.dumps([due, answered - due, noise, status]), flush=True)
"""


def _p99(seconds: Iterable[float]) -> float:
    """Of few values the second largest: the largest is the machine's."""
    ordered = sorted(seconds)
    if len(ordered) >= 100:
        return ordered[int(len(ordered) * 0.99)]
    return ordered[-2] if len(ordered) > 1 else 0.0


class Health:
    """How long the service has taken to say that it is well, by when it was asked."""

    def __init__(self, port: int) -> None:
        self._asker = subprocess.Popen(
            [sys.executable, "-c", ASK_FOR_HEALTH, str(port)], stdout=subprocess.PIPE, text=True
        )
        self._answers: list[tuple[float, float, float, bool]] = []
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._asker.stdout is not None
        for line in self._asker.stdout:
            self._answers.append(tuple(json.loads(line)))

    def p99_since(self, begun: float) -> float:
        """Seconds, without what the machine takes. All questions until now must have been answered well."""
        now = monotonic()
        eventually(lambda: self._answers and self._answers[-1][0] > now)
        asked = [answer for answer in self._answers if answer[0] >= begun]
        assert all(is_well for _, _, _, is_well in asked)
        return _p99(taken for _, taken, _, _ in asked) - _p99(noise for _, _, noise, _ in asked)

    def stop(self) -> None:
        self._asker.terminate()
        self._listener.join()
        self._asker.communicate()
