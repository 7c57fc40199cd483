"""Bulk jobs at the sizes that are promised (docs/reference/operations.md#bulk-jobs): by hand, since they take long.

``STATEWRIGHT_TEST_BULK=1000000`` has a job move so many entities (twenty minutes at a million), another a tenth of them
while nodes are killed every ten seconds, a third keep its rate for half a minute, and a fourth over two nodes that are
killed. What they took is on stderr.
"""

import os
import random
import re
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

import httpx
import psutil
import pytest

from statewright.loop.background import LEASE_TIMEOUT
from statewright.services.ops.bulk_runs import LOOK_INTERVAL
from tests.builders import Json, a_workflow, manual
from tests.database import Template, kept_open
from tests.e2e.nodes import Nodes, query, run_nodes
from tests.e2e.program import Program, started
from tests.e2e.test_bulk_kills import build_api
from tests.service import Api, done

ITEMS: Final = int(os.environ.get("STATEWRIGHT_TEST_BULK", "0"))
COLLECTION: Final = 10_000
READS: Final = 10_000
KILL_INTERVAL_S: Final = 10.0
MEBIBYTE: Final = 1024 * 1024

MAX_GROWTH_BYTES: Final = 32 * MEBIBYTE
"""Of the service while a job runs: the ids of a million entities are 16 MiB as bytes, and 100 MiB as texts."""

ITEMS_DONE: Final = re.compile(r'^statewright_bulk_items_total{.*result="SUCCEEDED".*} (\S+)', re.MULTILINE)

NEW: Final = {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "NEW"}
ORDER: Final[Json] = {
    "operation": "TRANSITION",
    "arguments": {"transition": "GO"},
    "model": {"name": "prize", "version": 1},
    "condition": NEW,
    "ratePerSecond": 1000,
    "concurrency": 32,
}

pytestmark = pytest.mark.skipif(not ITEMS, reason="STATEWRIGHT_TEST_BULK names no number of items")


@pytest.fixture
def url(database_template: Template) -> Iterator[str]:
    with kept_open(database_template.clone()) as url:
        yield url


def make_entities(program: Program, count: int) -> None:
    api = build_api(program, "/api")
    api.a_model(a_workflow(NEW=[manual("GO", to="DONE")], DONE=[manual("GO", to="TWICE")], TWICE=[]), sample={"n": 1})
    for at in range(0, count, COLLECTION):
        documents = [{"n": 1}] * min(COLLECTION, count - at)
        done(api.post("/entity/JSON/prize/1?transactionWindow=1000", documents))


def begin(ops: Api, **members: Json) -> str:
    return str(ops.post("/bulk-jobs", ORDER | members).json()["id"])


def read(ops: Api, job: str) -> Json:
    """The job, whose totals add up."""
    found = done(ops.get(f"/bulk-jobs/{job}"))
    counts = dict(found["totals"])
    assert counts.pop("total") == sum(counts.values()), found
    return found


def is_over(found: Json) -> bool:
    return found["status"] not in {"FREEZING", "RUNNING"}


def check_result(url: str, found: Json, count: int) -> None:
    assert (found["status"], found["totals"]["succeeded"]) == ("COMPLETED", count), found
    assert query(url, "SELECT state, count(*) FROM entity GROUP BY state") == [("DONE", count)]
    [(versions,)] = query(url, "SELECT count(*) FROM entity_history")
    assert versions == count


def test_a_job_needs_no_memory_for_its_items_and_its_totals_always_add_up(tmp_path: Path, url: str) -> None:
    with started(tmp_path, POSTGRES_URL=url) as program, ThreadPoolExecutor() as watchers:
        make_entities(program.ready(), ITEMS)
        ops, process = build_api(program, "/ops/v1"), psutil.Process(program.process.pid)
        before, reads, began = process.memory_info().rss, 0, time.monotonic()
        is_watched = [True]

        def watch_memory() -> int:
            most = 0
            while is_watched[0]:
                most = max(most, process.memory_info().rss)
                time.sleep(0.2)
            return most

        watching, job = watchers.submit(watch_memory), begin(ops)
        while not is_over(found := read(ops, job)):
            reads += 1
            time.sleep(0.02 if reads < READS else 1.0)
        is_watched[0] = False
        took_s, most = time.monotonic() - began, watching.result()
        sys.stderr.write(
            f"{ITEMS} items in {took_s:.0f} s, {reads} reads;"
            f" {before // MEBIBYTE} MiB before, {most // MEBIBYTE} at most\n"
        )
        check_result(url, found, ITEMS)
        assert most - before < MAX_GROWTH_BYTES


def test_each_item_is_done_once_though_nodes_are_killed_all_the_time(tmp_path: Path, url: str) -> None:
    count, chance, kills = ITEMS // 10, random.Random(7), 0
    with run_nodes(tmp_path, 3, POSTGRES_URL=url) as nodes:
        make_entities(nodes.programs[0], count)
        ops = [build_api(program, "/ops/v1") for program in nodes.programs]
        job = begin(ops[0])
        began = killed = time.monotonic()
        while True:
            with suppress(httpx.TransportError):
                if is_over(found := read(chance.choice(ops), job)):
                    break
            time.sleep(0.1)
            if time.monotonic() - killed >= KILL_INTERVAL_S:
                killed, kills = time.monotonic(), kills + 1
                nodes.kill(chance.randrange(3))
        took_s = time.monotonic() - began
        sys.stderr.write(f"{count} items in {took_s:.0f} s, {kills} nodes killed\n")
        check_result(url, found, count)


def test_the_default_rate_is_kept_within_a_tenth(tmp_path: Path, url: str) -> None:
    with started(tmp_path, POSTGRES_URL=url) as program:
        make_entities(program.ready(), 1_500)
        ops = build_api(program, "/ops/v1")
        job = begin(ops, ratePerSecond=50, concurrency=4)
        while not is_over(found := read(ops, job)):
            time.sleep(0.1)
        check_result(url, found, 1_500)
        times = [datetime.fromisoformat(found[name]).timestamp() for name in ("startedAt", "finishedAt")]
        rate = 1_499 / (times[1] - times[0])
        sys.stderr.write(f"{rate:.2f} items a second\n")
        assert 45 <= rate <= 55


RATE: Final = 50
WINDOW_S: Final = 10
TAKE_OVER_S: Final = (LEASE_TIMEOUT + 2 * LOOK_INTERVAL).total_seconds()


def test_the_rate_holds_though_the_node_that_runs_the_job_is_killed_twice(tmp_path: Path, url: str) -> None:
    count = 2_500
    with run_nodes(tmp_path, 3, POSTGRES_URL=url) as nodes:
        make_entities(nodes.programs[0], count)
        job = begin(build_api(nodes.programs[0], "/ops/v1"), ratePerSecond=RATE, concurrency=4)
        for share in (count // 3, 2 * count // 3):
            while count_moved(url) < share:
                time.sleep(0.1)
            nodes.kill(find_runner(nodes))
        while not is_over(found := read(build_api(nodes.programs[0], "/ops/v1"), job)):
            time.sleep(0.1)
        check_result(url, found, count)
    times = [float(at) / 1e6 for (at,) in query(url, "SELECT valid_from FROM entity ORDER BY valid_from")]  # type: ignore[arg-type]
    pauses = sorted(later - earlier for earlier, later in pairwise(times))
    most = max(bisect_left(times, at + WINDOW_S) - place for place, at in enumerate(times))
    sys.stderr.write(
        f"{count} items in {times[-1] - times[0]:.1f} s, the longest pauses {pauses[-3:]};"
        f" {most / WINDOW_S:.1f} a second in the fullest {WINDOW_S} s\n"
    )
    assert most <= RATE * WINDOW_S * 1.1
    assert pauses[-2] <= pauses[-1] <= TAKE_OVER_S
    assert times[-1] - times[0] <= count / RATE * 1.1 + sum(pauses[-2:])


def count_moved(url: str) -> int:
    [(moved,)] = query(url, "SELECT count(*) FROM entity WHERE state = 'DONE'")
    return int(str(moved))


def find_runner(nodes: Nodes) -> int:
    """The node whose items become more."""
    before = [count_items(program) for program in nodes.programs]
    while True:
        time.sleep(0.2)
        for n, program in enumerate(nodes.programs):
            if count_items(program) > before[n]:
                return n


def count_items(program: Program) -> float:
    found = ITEMS_DONE.search(program.admin.get("/metrics").text)
    return float(found[1]) if found else 0.0
