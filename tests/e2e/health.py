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
from urllib.parse import urlsplit

from tests.e2e.program import Program
from tests.service import eventually

ASK_FOR_HEALTH: Final = '''
import collections, http.client, json, pathlib, sys, time
port, path, token, is_fresh = int(sys.argv[1]), sys.argv[3], sys.argv[4], sys.argv[5] == "fresh"
body, database = sys.argv[6].encode(), sys.argv[7]
headers = {"Authorization": f"Bearer {token}"} if token else {}
groups = [("self/task/*/schedstat", 1), (f"{sys.argv[2]}/task/*/schedstat", 2)]
"""Threads, and through how many of them a request passes: ours, that of the server and that of the event loop."""
sessions, looks = [], 0

def find_sessions():
    """The processes of the database that serve it; there are others from time to time."""
    for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if (text := line.read_bytes()).startswith(b"postgres:") and database.encode() in text:
                yield line.with_name("schedstat")
        except OSError:  # it has ended
            pass

def look():
    """For how long each thread has waited for a processor, by group; sessions of the database are one, too."""
    global looks, sessions
    if database and looks % 50 == 0:
        sessions = [*find_sessions()]
    looks += 1
    threads = [(pathlib.Path("/proc").glob(pattern), passes) for pattern, passes in groups]
    return [(dict(read_waits(group)), passes) for group, passes in (*threads, (sessions, 1))]

def read_waits(files):
    for file in files:
        try:
            yield file, int(file.read_text().split()[1]) / 1e9
        except OSError:  # it has ended
            pass

def waited(begin, end):
    total = 0.0
    for (before, _), (after, passes) in zip(begin, end):
        total += sum(sorted(seconds - before.get(thread, seconds) for thread, seconds in after.items())[-passes:])
    return total

due = answered = time.monotonic()
before = collections.deque([(due, look())])
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
while True:
    due += 0.02
    time.sleep(max(0.0, due - time.monotonic()))
    try:
        connection.request("POST" if body else "GET", path, body or None, headers)
        response = connection.getresponse()
        response.read()
        status = response.status
    except OSError:
        status = 0
        connection.close()
    except http.client.HTTPException:
        status = 0
        connection.close()
    answered = time.monotonic()
    if is_fresh:
        connection.close()
    before.append((answered, look()))
    while before[1][0] <= due:
        before.popleft()
    taken = answered - due
    print(json.dumps([due, max(taken - waited(before[0][1], before[-1][1]), 0.0), status, taken]), flush=True)
'''


def _p99(seconds: Iterable[float]) -> float:
    """Of few values the second largest: the largest is the machine's."""
    ordered = sorted(seconds)
    if len(ordered) >= 100:
        return ordered[int(len(ordered) * 0.99)]
    return ordered[-2] if len(ordered) > 1 else 0.0


class Health:
    """How long the service has taken to say that it is well, by when it was asked. ``fresh``: each time on another
    connection. Whatever else is answered with 200 may be asked for, too, and sent by POST if there is a ``body``; what
    asks a ``database``, by its URL, may wait for that to get a processor.
    """

    def __init__(
        self,
        program: Program,
        path: str = "/api/health",
        *,
        port: str = "HTTP",
        token: str = "",
        fresh: bool = False,
        body: str = "",
        database: str = "",
    ) -> None:
        service = str(program.ports[port]), str(program.process.pid)
        asked = path, token, "fresh" if fresh else "kept", body
        self._asker = subprocess.Popen(
            [sys.executable, "-c", ASK_FOR_HEALTH, *service, *asked, urlsplit(database).path.strip("/")],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answers: list[tuple[float, float, int, float]] = []
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._asker.stdout is not None
        for line in self._asker.stdout:
            self._answers.append(tuple(json.loads(line)))

    def p99_since(self, begun: float) -> float:
        """Seconds, without waiting for a processor. All questions until now must have been answered well."""
        asked = self.list_since(begun)
        assert [each for each in asked if each[1] != 200] == []
        return _p99(taken for taken, _ in asked)

    def wall_p99_since(self, begun: float) -> float:
        """Seconds, with what was waited for a processor."""
        return _p99(taken for due, _, _, taken in self._answers if due >= begun)

    def list_since(self, begun: float) -> list[tuple[float, int]]:
        """Seconds and status of each answer to what was asked since then; 0: there was none."""
        now = monotonic()
        eventually(lambda: self._answers and self._answers[-1][0] > now)
        return [(taken, status) for due, taken, status, _ in self._answers if due >= begun]

    def stop(self) -> None:
        self._asker.terminate()
        self._listener.join()
        self._asker.communicate()
