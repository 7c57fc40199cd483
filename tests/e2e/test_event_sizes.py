"""Events at the sizes that are promised (docs/reference/operations.md#events-out): by hand, since they take long.

``STATEWRIGHT_TEST_EVENTS=10000`` sends so many commits to three nodes, of which half are rolled back, while nodes are
killed; then as much to readers that read nothing. What was found is on stderr.
"""

import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import quantiles
from typing import Final

import httpx
import psutil
import pytest

from tests.builders import Json, a_workflow, manual
from tests.database import Template, kept_open
from tests.e2e.nodes import query, run_nodes
from tests.e2e.program import started
from tests.e2e.test_bulk_kills import build_api
from tests.receiver import Receiver
from tests.receiver import receiver as receiver
from tests.service import Api, done, eventually

COMMITS: Final = int(os.environ.get("STATEWRIGHT_TEST_EVENTS", "0"))
CLIENTS: Final = 8
MEBIBYTE: Final = 1024 * 1024
KILL_INTERVAL_S: Final = 3.0
INSIDE: Final = {"WEBHOOK_ALLOW_HTTP": "true", "WEBHOOK_ALLOW_PRIVATE_NETWORKS": "true"}
READERS: Final = 20
MAX_GROWTH_BYTES: Final = 64 * MEBIBYTE

VERSIONS: Final = """
    SELECT transaction_id || ':' || id AS event, id::text FROM (
        SELECT tenant, transaction_id, id, valid_from FROM entity
         UNION ALL SELECT tenant, transaction_id, id, valid_from FROM entity_history) AS version
     WHERE valid_from > (SELECT since FROM event_recording)
     ORDER BY valid_from
"""

pytestmark = pytest.mark.skipif(not COMMITS, reason="STATEWRIGHT_TEST_EVENTS names no number of commits")


@pytest.fixture
def url(database_template: Template) -> Iterator[str]:
    with kept_open(database_template.clone()) as url:
        yield url


def test_events_are_those_of_the_commits_though_half_are_rolled_back_and_nodes_are_killed(
    tmp_path: Path, url: str, receiver: Receiver
) -> None:
    with run_nodes(tmp_path, 3, POSTGRES_URL=url, NODE_LEASE="2s", **INSIDE) as nodes:
        apis = [build_api(program, "/api") for program in nodes.programs]
        ops = build_api(nodes.programs[0], "/ops/v1")
        apis[0].import_model(sample={"n": 1})
        done(apis[0].put("/model/prize/1/unique-keys", {"uniqueKeys": [{"id": "n", "fields": ["$.n"]}]}))
        apis[0].import_workflows(a_workflow(NEW=[manual("GO", to="NEW")]))
        apis[0].lock()
        assert ops.post("/subscriptions", {"name": "x", "target": {"url": receiver.url}}).status_code == 201
        answers: Counter[int] = Counter()
        taken = threading.Semaphore(COMMITS)

        def work(seed: int) -> None:
            chance, ids = random.Random(seed), list[str]()
            while taken.acquire(blocking=False):
                api, number = chance.choice(apis), chance.randrange(COMMITS // 2)
                with suppress(httpx.TransportError):
                    if ids and chance.random() < 0.5:
                        answer = api.put(f"/entity/JSON/{chance.choice(ids)}/GO", {"n": number})
                    else:
                        answer = api.post("/entity/JSON/prize/1", {"n": number})
                    answers[answer.status_code] += 1
                    if answer.status_code == 200:
                        ids += [id_ for each in _list_results(answer.json()) for id_ in each["entityIds"]]

        with ThreadPoolExecutor() as clients:
            load = [clients.submit(work, seed) for seed in range(CLIENTS)]
            chance, killed, kills = random.Random(7), time.monotonic(), 0
            while not all(one.done() for one in load):
                time.sleep(0.1)
                if time.monotonic() - killed >= KILL_INTERVAL_S:
                    killed, kills = time.monotonic(), kills + 1
                    nodes.kill(chance.randrange(3))
            for one in load:
                one.result()
        made = query(url, VERSIONS)
        expected = [str(event) for event, _ in made]
        eventually(lambda: {str(event["id"]) for event in receiver.events} >= set(expected), within_s=120)
        told = [str(event["id"]) for event in receiver.events]
        repeated = len(told) - len(set(told))
        sys.stderr.write(f"{dict(answers)}, {kills} kills, {len(expected)} versions, {repeated} repeated\n")
        assert set(told) == set(expected)
        by_entity: dict[str, list[str]] = {}
        for event in dict.fromkeys(told):
            by_entity.setdefault(event.partition(":")[2], []).append(event)
        for entity, events in by_entity.items():
            assert events == [str(event) for event, id_ in made if id_ == entity]
        assert repeated <= len(expected) / 100


def _list_results(answer: Json) -> list[Json]:
    return answer if isinstance(answer, list) else [answer]


def test_readers_that_read_nothing_cost_neither_memory_nor_time(tmp_path: Path, url: str) -> None:
    with started(tmp_path, POSTGRES_URL=url) as program, ExitStack() as sockets:
        api, ops = build_api(program.ready(), "/api"), build_api(program, "/ops/v1")
        api.a_model(a_workflow(NEW=[manual("GO", to="NEW")]), sample={"text": "x"})
        done(ops.put("/events/recording", {"enabled": True}))
        process = psutil.Process(program.process.pid)
        write(api, COMMITS // 10)
        alone, before = write(api, COMMITS // 10), process.memory_info().rss
        for _ in range(READERS):
            silent = sockets.enter_context(socket.socket())
            silent.connect(("127.0.0.1", program.ports["HTTP"]))
            head = f"GET /ops/v1/events?includeBody=AFTER HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ops.token}\r\n"
            silent.sendall(f"{head}Accept: text/event-stream\r\n\r\n".encode())
        beside, most = write(api, COMMITS // 10), process.memory_info().rss
        sys.stderr.write(
            f"{READERS} readers: {before // MEBIBYTE} MiB before, {most // MEBIBYTE} behind;"
            f" a create {alone * 1000:.1f} ms (p99) alone, {beside * 1000:.1f} beside\n"
        )
        assert most - before < MAX_GROWTH_BYTES


def write(api: Api, count: int) -> float:
    """The time of a create that 99 % do not exceed."""
    took, body = [], json.dumps({"text": "x" * 20_000})
    for _ in range(count):
        began = time.perf_counter()
        api.create(body)
        took.append(time.perf_counter() - began)
    return quantiles(took, n=100)[98]
