"""Many pages of large entities, all at once, for clients that do not read: none of them is in memory as a whole."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import sleep
from typing import Any, Final

import httpx
import psutil
import pytest

from tests.builders import SAMPLE
from tests.database import connected
from tests.e2e.program import PATIENCE_S, Program, started
from tests.integration.grpc_rpcs.client import Rpcs
from tests.integration.search.finding import EVERYTHING
from tests.service import done, eventually

ENTITIES: Final = 400
DOCUMENT_BYTES: Final = 256 * 1024

READER_BYTES: Final = 12 * 1024 * 1024
"""For one reader: a portion as it comes from the database and as text (1 MiB and one document, twice), up to five parts
of a body (of 256 KiB and one document), and as much again that the allocator keeps for the next one. Its whole page is
100 MiB.
"""

ENLARGE = f"""
    -- What comes again after 8 KiB is too far away for the compression of PostgreSQL.
    UPDATE entity
       SET document = document || jsonb_build_object('motivation', repeat((
               SELECT string_agg(md5(n::text || entity.id), '') FROM generate_series(1, 256) AS n
           ), {DOCUMENT_BYTES // 8192}))
"""


@pytest.fixture
async def program(tmp_path: Path, database: str) -> Any:
    with started(tmp_path, POSTGRES_URL=database, SEARCH_TIMEOUT="2m") as program:
        api = program.ready().api()
        api.a_model()
        done(api.post("/entity/JSON/prize/1?transactionWindow=1000", [SAMPLE] * ENTITIES))
        async with connected(database) as connection:
            await connection.execute(ENLARGE)
        yield program


def open_requests(program: Program, job: str) -> Iterator[bytes]:
    """The bytes of requests for a page of everything, each of another kind."""
    condition = json.dumps(EVERYTHING).encode()
    for method, path in (
        ("GET", f"entity/prize/1?pageSize={ENTITIES}"),
        ("GET", f"entity/prize/1?pageSize={ENTITIES}&pointInTime=2999-01-01T00:00:00Z"),
        ("POST", "search/direct/prize/1"),
        ("POST", "search/direct/prize/1?sort=year"),
        ("POST", "search/prize/1"),
        ("GET", f"search/async/{job}"),
    ):
        body = condition if method == "POST" else b""
        yield (
            f"{method} /api/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )


def test_pages_of_large_entities_are_read_as_fast_as_their_clients_read_them(program: Program) -> None:
    api, rpcs, process = program.api(), Rpcs(program.grpc, None), psutil.Process(program.process.pid)
    job = done(api.post("/search/async/prize/1", EVERYTHING))
    eventually(lambda: done(api.get(f"/search/async/{job}/status"))["searchJobStatus"] == "SUCCESSFUL")
    model = {"name": "prize", "version": 1}
    before = most = process.memory_info().rss
    with ExitStack() as readers:
        for request in open_requests(program, job):
            client = readers.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
            client.settimeout(PATIENCE_S)
            client.connect(("127.0.0.1", program.ports["HTTP"]))
            client.sendall(request)
        calls = [
            rpcs.begun("EntityGetAllRequest", model=model, pageSize=ENTITIES),
            rpcs.begun("EntitySearchRequest", model=model, condition=EVERYTHING),
            rpcs.begun("SnapshotGetRequest", snapshotId=job, pageSize=ENTITIES),
        ]
        count = len(calls) + 6
        assert all(next(call) for call in calls)
        for _ in range(30):
            sleep(0.1)
            most = max(most, process.memory_info().rss)
        assert most - before < count * READER_BYTES
        for call in calls[1:]:
            call.cancel()
        assert sum(1 for _ in calls[0]) == ENTITIES - 1, "who reads gets everything"
    with httpx.stream("POST", f"{api.url}/search/direct/prize/1", json=EVERYTHING, timeout=PATIENCE_S) as answer:
        assert sum(1 for line in answer.iter_lines() if line) == ENTITIES
    assert process.memory_info().rss - before < count * READER_BYTES
