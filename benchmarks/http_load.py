"""A lean HTTP/1.1 load process: callbacks on raw sockets, no tasks, no client library, so that the server dominates.

    python -m benchmarks.http_load HOST PORT

Each connection is one client. It joins prepared pieces to a request, and looks at no more of the answer than its
status and length. Entities are dealt out to the connections, so no two of them move the same entity at a time.
"""

import asyncio
import json
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import cycle, repeat
from typing import Protocol, cast
from uuid import uuid4

from benchmarks.jobs import Job, Outcome, percentiles, serve
from benchmarks.workload import MODEL, MODES, PROCESSES, VERSION, Process, documents, search_condition

STALLED_S = 30.0
"""A job that has not ended so long after its time is given up."""

HEADERS = b" HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer bench\r\n"


def with_body(document: bytes) -> bytes:
    """The end of a request, from behind its path."""
    return HEADERS + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(document), document)


TAILS = tuple(map(with_body, documents()))
CREATIONS = tuple(b"POST /api/entity/JSON/%b/%d%b" % (MODEL.encode(), VERSION, tail) for tail in TAILS)
LAST_HEADER = b"Content-Type: application/json\r\n"
"""Of requests with a body: behind it a key can stand."""

MOVES = {"transition": {True: b"/close", False: b"/reopen"}} | {
    operation: {True: b"/%b-close" % operation.encode(), False: b"/%b-reopen" % operation.encode()}
    for operation in MODES
}
SEARCH = b"POST /api/search/direct/%b/%d?limit=1000%b" % (MODEL.encode(), VERSION, with_body(search_condition()))


class Subject(Protocol):
    """What the requests of a client are about."""

    def move(self, answer: bytes, /) -> None:
        """A request has succeeded."""


class Prize:
    """An entity that exists on the server. ``tail`` ends each request that writes it."""

    __slots__ = ("id", "is_open", "tail")

    def __init__(self, entity_id: bytes, tail: bytes) -> None:
        self.id = entity_id
        self.is_open = True
        self.tail = tail

    def move(self, _answer: bytes) -> None:
        """Its transition has succeeded."""
        self.is_open = not self.is_open


class Worker:
    """Starts instances and does their jobs, over and over; the jobs may be of instances that others have started.

    It begins with one start more than its jobs need, so that polls seldom find nothing because others are faster.
    """

    def __init__(self, process: Process, number: int, *, only_starts: bool) -> None:
        poll = {"workerId": f"bench-{number}", "jobTypes": sorted({*process.job_types}), "maxJobs": 1}
        self._poll = b"POST /v1/jobs/poll%b" % with_body(json.dumps(poll).encode())
        self._start = b"POST %b%b" % (process.started_at.encode(), with_body(process.start))
        self._done = with_body(process.result)
        self._jobs_of_a_start = 0 if only_starts else len(process.job_types)
        self._next = self._start
        self._to_do = -1
        """Jobs to be done before the next start."""

    def requests(self) -> Iterator[tuple[bytes, Subject]]:
        """The endless requests, each made when the one before has succeeded."""
        while True:
            yield self._next, self

    def move(self, answer: bytes) -> None:
        if self._next is self._poll:
            if jobs := json.loads(answer)["jobs"]:  # else polls again
                self._next = b"POST /v1/jobs/%b/complete%b" % (jobs[0]["id"].encode(), self._done)
            return
        if self._next is self._start:
            self._to_do = 0 if self._to_do < 0 else self._jobs_of_a_start
        else:
            self._to_do -= 1
        self._next = self._poll if self._to_do else self._start


class Client(asyncio.Protocol):
    """One connection. ``answered`` is called when an answer is complete, with its status and its text."""

    def __init__(self, requests: Iterator[tuple[bytes, Subject | None]]) -> None:
        self._requests = requests
        self._rest = b""
        self.answered: Callable[[Client, int, bytes], None]
        self.lost: Callable[[Exception | None], None] = lambda _error: None
        self.subject: Subject | None = None
        """What the request under way moves."""
        self.sent_at = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's own class, which does not derive from it

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost(exc)

    def send(self) -> None:
        """Send the next request."""
        data, self.subject = next(self._requests)
        self.sent_at = time.perf_counter_ns()
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        end = data.find(b"\r\n\r\n")
        at = data.find(b"content-length: ", 0, end)
        is_empty = end >= 0 and data[9:12] == b"204"
        if not is_empty and (end < 0 or at < 0 or len(data) < end + 4 + int(data[at + 16 : data.index(b"\r", at)])):
            self._rest = data
            return
        self._rest = b""
        self.answered(self, int(data[9:12]), data[end + 4 :])


class Load:
    """One job under way: counts answers, takes their times, and says when it is over."""

    def __init__(self, job: Job, clients: list[Client]) -> None:
        self._job = job
        self._clients = clients
        self._latencies: array[int] = array("q")
        self._left = sys.maxsize if job.limit is None else job.limit
        self._running = len(clients)
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._succeeded = self._failed = 0
        self._first_failure: str | None = None
        self.created: list[bytes] = []

    async def run(self) -> Outcome:
        """Drive the clients until the job is over and all have their answers."""
        cpu = time.process_time()
        self._begin = time.perf_counter_ns() + int(self._job.warm_up * 1e9)
        self._end = self._begin + int(self._job.seconds * 1e9) if self._job.limit is None else sys.maxsize
        for client in self._clients:
            client.answered, client.lost = self._answered, self._lost
            self._left -= 1
            client.send()
        async with asyncio.timeout(self._job.warm_up + self._job.seconds + STALLED_S):
            await self._done
        p50, p95, p99 = percentiles(self._latencies)
        return Outcome(
            rate=len(self._latencies) / (self._job.seconds or (time.perf_counter_ns() - self._begin) / 1e9),
            p50=p50,
            p95=p95,
            p99=p99,
            succeeded=self._succeeded,
            failed=self._failed,
            first_failure=self._first_failure,
            cpu=time.process_time() - cpu,
        )

    def _answered(self, client: Client, status: int, body: bytes) -> None:
        now = time.perf_counter_ns()
        if 200 <= status < 300:
            self._succeeded += 1
            if client.subject is not None:
                client.subject.move(body)
            if self._begin <= now < self._end:
                self._latencies.append(now - client.sent_at)
            if self._job.limit is not None:
                self.created.append(_entity_id(body))
        else:
            self._failed += 1
            self._first_failure = self._first_failure or f"{status} {body[:300].decode(errors='replace')}"
        if now < self._end and self._left > 0:
            self._left -= 1
            client.send()
            return
        self._running -= 1
        if not self._running:
            self._done.set_result(None)

    def _lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(ConnectionError(f"the server closed a connection: {error}"))


def _entity_id(body: bytes) -> bytes:
    begin = body.index(b'"entityIds":["') + 14
    return body[begin : begin + 36]


class Server:
    """The server under load, and what this process knows to exist there."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._prizes: list[Prize] = []

    async def work(self, job: Job) -> Outcome:
        loop = asyncio.get_running_loop()
        clients: list[Client] = []
        try:
            for number in range(job.clients):
                client = Client(self._requests(job, number))
                await loop.create_connection(lambda client=client: client, self._host, self._port)  # type: ignore[misc]
                clients.append(client)
            load = Load(job, clients)
            outcome = await load.run()
        finally:
            for client in clients:
                client.transport.close()
        self._prizes += map(Prize, load.created, cycle(TAILS))
        return outcome

    def _requests(self, job: Job, number: int) -> Iterator[tuple[bytes, Subject | None]]:
        """The endless requests of one of the job's clients."""
        if process := PROCESSES.get(job.operation):
            return Worker(process, number, only_starts=job.operation == "start").requests()
        mine = cycle(self._prizes[number :: job.clients])
        if job.operation == "create":
            return ((data, None) for data in cycle(CREATIONS[number:] + CREATIONS[:number]))
        if job.operation == "keyed":
            run = uuid4().hex.encode()
            return ((self._add_key(data, b"%b-%d" % (run, n)), None) for n, data in enumerate(cycle(CREATIONS)))
        if job.operation == "search":
            return repeat((SEARCH, None))
        if job.operation == "get":
            return ((b"GET /api/entity/%b%b\r\n" % (prize.id, HEADERS), None) for prize in mine)
        moves = MOVES[job.operation]
        return ((b"PUT /api/entity/JSON/" + prize.id + moves[prize.is_open] + prize.tail, prize) for prize in mine)

    @staticmethod
    def _add_key(request: bytes, key: bytes) -> bytes:
        return request.replace(LAST_HEADER, b"%bIdempotency-Key: %b\r\n" % (LAST_HEADER, key), 1)


if __name__ == "__main__":
    serve(Server(sys.argv[1], int(sys.argv[2])).work)
