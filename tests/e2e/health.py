"""How long a service takes to say that it is well.

A second process asks all the time. Its questions are due at fixed moments, so that an answer that keeps the next
questions waiting counts against them, too. That threads of the service, or the one that asks, wait for a processor does
not count: an attack keeps the service busy, and on a machine with other things to do it gets less than it could use.
The kernel tells for how long they waited (the second number of ``schedstat``).
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterable
from time import monotonic
from typing import Final

from tests.e2e.program import Program
from tests.service import eventually

ASK_FOR_HEALTH: Final = '''
import collections, http.client, json, pathlib, sys, time
port, threads = int(sys.argv[1]), [f"{process}/task/*/schedstat" for process in (sys.argv[2], "self")]

def look():
    """For how long each thread has waited for a processor."""
    seconds = {}
    for pattern in threads:
        for thread in pathlib.Path("/proc").glob(pattern):
            try:
                seconds[thread] = int(thread.read_text().split()[1]) / 1e9
            except OSError:  # it has ended
                pass
    return seconds

def waited(begin, end):
    """A request passes through three threads: ours, that of the server, that of the event loop."""
    return sum(sorted(seconds - begin.get(thread, 0.0) for thread, seconds in end.items())[-3:])

due = answered = time.monotonic()
before = collections.deque([(due, look())])
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
while True:
    due += 0.02
    time.sleep(max(0.0, due - time.monotonic()))
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
    before.append((answered, look()))
    while before[1][0] <= due:
        before.popleft()
    taken = answered - due - waited(before[0][1], before[-1][1])
    print(json.dumps([due, max(taken, 0.0), status]), flush=True)
'''


def _p99(seconds: Iterable[float]) -> float:
    """Of few values the second largest: the largest is the machine's."""
    ordered = sorted(seconds)
    if len(ordered) >= 100:
        return ordered[int(len(ordered) * 0.99)]
    return ordered[-2] if len(ordered) > 1 else 0.0


class Health:
    """How long the service has taken to say that it is well, by when it was asked."""

    def __init__(self, program: Program) -> None:
        service = str(program.ports["HTTP"]), str(program.process.pid)
        self._asker = subprocess.Popen(
            [sys.executable, "-c", ASK_FOR_HEALTH, *service], stdout=subprocess.PIPE, text=True
        )
        self._answers: list[tuple[float, float, bool]] = []
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._asker.stdout is not None
        for line in self._asker.stdout:
            self._answers.append(tuple(json.loads(line)))

    def p99_since(self, begun: float) -> float:
        """Seconds, without waiting for a processor. All questions until now must have been answered well."""
        now = monotonic()
        eventually(lambda: self._answers and self._answers[-1][0] > now)
        asked = [answer for answer in self._answers if answer[0] >= begun]
        assert all(is_well for _, _, is_well in asked)
        return _p99(taken for _, taken, _ in asked)

    def stop(self) -> None:
        self._asker.terminate()
        self._listener.join()
        self._asker.communicate()
