"""The service and PostgreSQL, killed again and again under mixed load: nothing acknowledged is lost, nothing is done
twice, and no precondition that was accepted overwrites what its client had not seen.

All writes of this test are conditional and append a *mark* to the document that their client knows under the id that
it demands. So marks never vanish: the marks of each version begin with those of the version before it. Clients use
every id that they come across, of versions in the middle of a run, too, and also after a while.

``STATEWRIGHT_TEST_KILLS=20,10`` kills the service twenty times and PostgreSQL ten times (about ten minutes); by default
it is once each.
"""

import asyncio
import json
import os
import random
import re
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from statewright.storage.embedded.server import run_embedded_server
from tests.builders import Json, a_processor, a_workflow, automated, manual
from tests.database import connected
from tests.e2e.faults import MODES, Stage
from tests.e2e.program import Lives
from tests.e2e.test_crashes import BROKEN_CHAINS, VERSIONS
from tests.e2e.test_database_faults import get_postmaster, list_backends, signal_all
from tests.service import done, eventually

SERVICE_KILLS, DATABASE_KILLS = map(int, os.environ.get("STATEWRIGHT_TEST_KILLS", "1,1").split(","))

CLIENTS = 10
ENTITIES = 6
"""At which clients meet."""

ACKNOWLEDGED_BETWEEN_KILLS = 8 * CLIENTS
SETTLED_WITHIN_S = 120.0

MARK = re.compile(r"<[0-9.]+>")

SAMPLE = {"marks": "", "calls": 0}

NODE = """
import random, time
from statewright.sdk import Node

node = Node(tags=["kills"])

@node.processor("work")
def work(document):
    time.sleep(random.random() / 20)
    return document | {"calls": document["calls"] + 1}
"""

SEGMENTED = {"COMMIT_BEFORE_DISPATCH", "COMMIT_BEFORE_DISPATCH+tx", "CHAIN"}
"""Transitions of which a failed run may leave the submitted document behind. Any write of an entity that a broken chain
left in LINK is such a run, too: it goes on by itself.
"""


def a_flow() -> Json:
    """A transition of ACTIVE for each mode, one into a chain of segments, and one that a timer undoes."""

    def work(mode: str) -> Json:
        return a_processor("work", tags="kills", responseTimeoutMs=10_000, **MODES[mode])

    modes = [manual(mode, to="ACTIVE", processors=[work(mode)]) for mode in MODES]
    chain = manual("CHAIN", to="LINK", processors=[work("COMMIT_BEFORE_DISPATCH"), work("SYNC")])
    link = automated("ON", to="ACTIVE", processors=[work("COMMIT_BEFORE_DISPATCH+tx")])
    wake = automated("WAKE", to="ACTIVE", schedule={"delayMs": 300})
    return a_workflow(ACTIVE=[*modes, chain, manual("SLEEP", to="ASLEEP")], LINK=[link], ASLEEP=[wake])


@dataclass
class Version:
    """What a client saw."""

    entity: str
    id: str
    state: str
    document: Json


@dataclass
class Ledger:
    """What clients were told, and what they have seen."""

    api_url: str
    model: str = "kill/1"
    over: threading.Event = field(default_factory=threading.Event)
    acknowledged: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    """Marks of what was not done, with path and answer."""
    open: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)
    seen: dict[tuple[str, str], Json] = field(default_factory=dict)
    recent: dict[str, "deque[Version]"] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, version: Version) -> None:
        with self._lock:
            known = self.seen.setdefault((version.entity, version.id), version.document)
            assert known == version.document, f"{version.id} names two versions of {version.entity}"
            self.recent.setdefault(version.entity, deque(maxlen=8)).append(version)

    def choose(self, chance: random.Random) -> Version | None:
        """A version of an entity at which clients meet; maybe not the current one."""
        with self._lock:
            if len(self.recent) < ENTITIES:
                return None
            versions = self.recent[chance.choice(list(self.recent)[:ENTITIES])]
            return versions[-1] if chance.random() < 0.5 else chance.choice(versions)

    def note(self, mark: str, answer: httpx.Response | None, *, segmented: bool) -> None:
        """What became of a write, as far as its client can know."""
        status = 0 if answer is None else answer.status_code
        retryable = status in {409, 503} and bool(answer and answer.json()["properties"].get("retryable"))
        certain = status in {400, 404, 412} or retryable
        with self._lock:
            self.answers[f"{status}{' retryable' if retryable else ''}"] += 1
            if status == 200:
                self.acknowledged.add(mark)
            elif certain and (status in {404, 412} or not segmented):
                assert answer is not None
                self.refused[mark] = f"{answer.request.url.path}: {answer.text}"
            else:
                self.open.add(mark)


class Client:
    """Reads and writes until it is over, whatever happens to the service."""

    def __init__(self, ledger: Ledger, number: int) -> None:
        self.ledger = ledger
        self.number = number
        self.chance = random.Random(number)
        self.writes = 0

    def work(self) -> None:
        with httpx.Client(base_url=self.ledger.api_url, timeout=60, trust_env=False) as http:
            while not self.ledger.over.is_set():
                try:
                    self._step(http)
                except httpx.TransportError:
                    time.sleep(0.05)  # the service is being started anew

    def _step(self, http: httpx.Client) -> None:
        base = self.ledger.choose(self.chance)
        if base is None or self.chance.random() < 0.1:
            self._create(http)
            return
        self._read(http, base.entity)
        self._write(http, self.ledger.choose(self.chance) or base)

    def _mark(self) -> str:
        self.writes += 1
        return f"<{self.number}.{self.writes}>"

    def _create(self, http: httpx.Client) -> None:
        mark = self._mark()
        answer = self._send(http, "POST", f"/entity/JSON/{self.ledger.model}", {**SAMPLE, "marks": mark}, mark)
        if answer.status_code == 200:
            [saved] = answer.json()
            self._read(http, saved["entityIds"][0])

    def _write(self, http: httpx.Client, base: Version) -> None:
        name = self.chance.choice(["", *MODES, "CHAIN", "SLEEP"])
        mark = self._mark()
        document = {**base.document, "marks": base.document["marks"] + mark}
        path = f"/entity/JSON/{base.entity}" + (f"/{name.replace('+', '%2B')}" if name else "")
        segmented = name in SEGMENTED or base.state == "LINK"
        answer = self._send(http, "PUT", path, document, mark, if_match=base.id, segmented=segmented)
        if answer.status_code == 200:
            self._read(http, base.entity, answer.json()["transactionId"])

    def _send(
        self,
        http: httpx.Client,
        method: str,
        path: str,
        document: Json,
        mark: str,
        *,
        if_match: str = "",
        segmented: bool = False,
    ) -> httpx.Response:
        headers = {"If-Match": if_match} if if_match else {}
        try:
            answer = http.request(method, path, json=document, headers=headers)
        except httpx.TransportError:
            self.ledger.note(mark, None, segmented=segmented)
            raise
        self.ledger.note(mark, answer, segmented=segmented)
        return answer

    def _read(self, http: httpx.Client, entity: str, transaction: str = "") -> None:
        answer = http.get(f"/entity/{entity}" + (f"?transactionId={transaction}" if transaction else ""))
        if answer.status_code == 503:
            return
        assert answer.status_code == 200, f"{transaction} names nothing: {answer.text}"
        version = answer.json()
        id_ = transaction or version["meta"]["transactionId"]
        self.ledger.keep(Version(entity, id_, version["meta"]["state"], version["data"]))


@contextmanager
def clients_of(ledger: Ledger) -> Iterator[None]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        tasks = [pool.submit(Client(ledger, number).work) for number in range(CLIENTS)]
        try:
            yield
        finally:
            ledger.over.set()
        for task in tasks:
            task.result()


def wait_for_progress(ledger: Ledger) -> None:
    target = len(ledger.acknowledged) + ACKNOWLEDGED_BETWEEN_KILLS
    eventually(lambda: len(ledger.acknowledged) >= target, within_s=SETTLED_WITHIN_S)


def kill_database(data: Path) -> None:
    """All its processes at once; whoever started it starts it again."""
    postmaster = get_postmaster(data)
    signal_all([postmaster, *list_backends(postmaster)], signal.SIGKILL)


def play(home: Path, data: Path, url: str) -> Ledger:
    """Everything between the first start of the service and its end."""
    kills = ["service"] * SERVICE_KILLS + ["database"] * DATABASE_KILLS
    random.Random(1).shuffle(kills)
    with closing(Lives(home, POSTGRES_URL=url, SUPPRESS_BANNER="true", SCHEDULER_REDISPATCH_BACKOFF="2s")) as service:
        api = service.program.api()
        ledger = Ledger(api.url)
        api.import_model(ledger.model, SAMPLE)
        api.lock(ledger.model)
        body = {"importMode": "REPLACE", "allowCycles": True, "workflows": [a_flow()]}
        done(api.post(f"/model/{ledger.model}/workflow/import", body))
        with Stage(service.program, url).node_program(home, "worker", NODE), clients_of(ledger):
            for kill in kills:
                wait_for_progress(ledger)
                service.kill() if kill == "service" else kill_database(data)
            wait_for_progress(ledger)
        eventually(lambda: not asyncio.run(fetch(url, ASLEEP)), within_s=SETTLED_WITHIN_S)
        assert service.program.terminate() == 0
    return ledger


async def fetch(url: str, query: str, *arguments: object) -> list[Any]:
    async with connected(url) as connection:
        return list(await connection.fetch(query, *arguments))


ASLEEP = "SELECT id FROM entity WHERE state = 'ASLEEP' UNION ALL SELECT entity::uuid FROM scheduled_task"

MARKS = """
    -- The marks and ids of all versions, in the order of each entity's life.
    SELECT id::text, transaction_id::text, entry_transaction_id::text AS entry, document
      FROM (SELECT id, transaction_id, entry_transaction_id, valid_from, document::text FROM entity_history
             UNION ALL
            SELECT id, transaction_id, entry_transaction_id, valid_from, document::text FROM entity) AS version
     ORDER BY id, valid_from
"""

TWICE = "SELECT id, transaction_id FROM version GROUP BY id, transaction_id HAVING count(*) > 1"

FIRED = """
    -- Entities that went to sleep more or less often than a timer woke them up.
    SELECT entity FROM (
        SELECT entity,
               count(*) FILTER (WHERE event ->> 'type' = 'TRANSITION_MAKE' AND event ->> 'details' LIKE '%→ ASLEEP')
                   AS slept,
               count(*) FILTER (WHERE event ->> 'type' = 'SCHEDULED_TRANSITION_FIRE') AS woken
          FROM entity_audit, jsonb_array_elements(events::jsonb) AS event
         GROUP BY entity) AS life
     WHERE slept <> woken
"""


async def check(url: str, ledger: Ledger) -> Counter[str]:
    """Hold what is stored against what clients were told and have seen; how much there was of it."""
    lives: dict[str, list[Any]] = {}
    for row in await fetch(url, MARKS):
        lives.setdefault(row["id"], []).append(row)
    stored: Counter[str] = Counter()
    for versions in lives.values():
        marks = [json.loads(version["document"])["marks"] for version in versions]
        assert all(after.startswith(before) for before, after in pairwise(marks)), f"an update is lost: {marks}"
        stored.update(MARK.findall(marks[-1]))
    assert max(stored.values()) == 1, "something was done twice"
    assert ledger.acknowledged - stored.keys() == set(), "something acknowledged is lost"
    undone = {mark: told for mark, told in ledger.refused.items() if mark in stored}
    assert undone == {}, "something was done that was said not to be"
    assert stored.keys() <= ledger.acknowledged | ledger.open
    for (entity, id_), document in ledger.seen.items():
        named = [json.loads(v["document"]) for v in lives[entity] if id_ in {v["transaction_id"], v["entry"]}]
        assert named == [document], f"{id_} names {named}, and was seen as {document}"
    async with connected(url) as connection:
        await connection.execute(VERSIONS)
        for defect in (BROKEN_CHAINS, TWICE, FIRED):
            assert await connection.fetch(defect) == []
    return ledger.answers + Counter({"entities": len(lives), "versions": sum(map(len, lives.values()))})


async def test_kills_under_mixed_load_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with run_embedded_server(data) as url:
        ledger = await asyncio.to_thread(play, tmp_path, data, url)
        found = await check(url, ledger)
    print(f"{SERVICE_KILLS} kills of the service, {DATABASE_KILLS} of PostgreSQL: {dict(found)}")  # noqa: T201
