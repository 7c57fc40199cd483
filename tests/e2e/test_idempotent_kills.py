"""Two nodes, killed in turn under a load of requests with idempotency keys, whose clients repeat each until it is
answered: every key has its effect exactly once, and all answers to a key are equal
(docs/reference/operations.md#idempotent-requests).

``STATEWRIGHT_TEST_KEYS=50,10000`` kills fifty times under ten thousand keys (about ten minutes); by default it is once
under a few.
"""

import asyncio
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from statewright.storage.embedded.server import run_embedded_server
from tests.builders import Json, a_processor, a_workflow, automated
from tests.database import connected
from tests.e2e.faults import Stage
from tests.e2e.program import Lives
from tests.service import PATIENCE_S, eventually

KILLS, KEYS = map(int, os.environ.get("STATEWRIGHT_TEST_KEYS", "1,150").split(","))

CLIENTS = 12
ANSWERED_WITHIN_S = 120.0
"""Longest time in which a client repeats one request."""

NODE = """
import random, time
from statewright.sdk import Node

node = Node(tags=["keys"])

@node.processor("work")
def work(document):
    time.sleep(random.random() / 50)
"""

MODES = {"plain/1": None, "sync/1": "SYNC", "segmented/1": "COMMIT_BEFORE_DISPATCH"}
"""Models, and how their entities call a member as they are created."""


@dataclass
class Keys:
    """Which keys were answered, and how."""

    urls: list[str]
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(KEYS)))
    answers: dict[int, httpx.Response] = field(default_factory=dict)
    tries: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self, seed: int) -> None:
        """Send one request after the other, each until it is answered."""
        chance = random.Random(seed)
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as http:
            while True:
                with self.lock:
                    number = next(self.numbers, None)
                if number is None:
                    return
                self.answers[number] = self.insist(http, number, chance)
                if chance.random() < 0.1:  # the answer was lost after all
                    again = self.insist(http, number, chance)
                    assert (again.status_code, again.content) == (
                        self.answers[number].status_code,
                        self.answers[number].content,
                    )

    def insist(self, http: httpx.Client, number: int, chance: random.Random) -> httpx.Response:
        """The answer to the request with a key, from whichever node gives it."""
        until = time.monotonic() + ANSWERED_WITHIN_S
        while time.monotonic() < until:
            try:
                answer = http.post(
                    f"{chance.choice(self.urls)}/entity/JSON/{model_of(number)}",
                    json={"key": number},
                    headers={"Idempotency-Key": f"key-{number}"},
                )
            except httpx.TransportError:
                self.tries["no answer"] += 1
                time.sleep(0.05)
                continue
            code = "" if answer.status_code == 200 else answer.json()["properties"]["errorCode"]
            self.tries[f"{answer.status_code} {code} {answer.headers.get('idempotency-replayed', '')}"] += 1
            if answer.status_code == 200 or code == "IDEMPOTENCY_INTERRUPTED" or "transactionId" in told(answer):
                return answer
            time.sleep(0.05)
        raise AssertionError(f"key {number} was not answered: {answer.text}")


def told(answer: httpx.Response) -> Json:
    """What a problem says of a run of which something is durable."""
    properties: Json = answer.json()["properties"]
    return properties


def model_of(number: int) -> str:
    return list(MODES)[number % len(MODES)]


def play(home: Path, url: str) -> Keys:
    """Everything between the first start of the nodes and their end."""
    with ExitStack() as stack:
        settings = {"POSTGRES_URL": url, "SUPPRESS_BANNER": "true", "NODE_LEASE": "2s"}
        homes = [home / "one", home / "two"]
        for each in homes:
            each.mkdir(exist_ok=True)
        nodes = [stack.enter_context(closing(Lives(each, **settings))) for each in homes]
        api = nodes[0].program.api()
        for model, mode in MODES.items():
            processors = [] if mode is None else [a_processor(tags="keys", mode=mode, responseTimeoutMs=10_000)]
            processors = [{**each, "name": "work"} for each in processors]
            flow = a_workflow(NEW=[automated("GO", to="DONE", processors=processors)], DONE=[])
            api.a_model(flow, model=model, sample={"key": 1})
        for number, node in enumerate(nodes):
            worker = home / f"worker-{number}"
            worker.mkdir()
            stack.enter_context(Stage(node.program, url).node_program(worker, f"worker{number}", NODE))
        keys = Keys([node.program.api().url for node in nodes])
        crowd = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        working = [crowd.submit(keys.work, seed) for seed in range(CLIENTS)]
        for kill in range(KILLS):
            wanted = (kill + 1) * KEYS // (KILLS + 2)
            eventually(lambda wanted=wanted: len(keys.answers) >= wanted, within_s=ANSWERED_WITHIN_S)
            nodes[kill % 2].kill()
        for each in working:
            each.result()
    return keys


EFFECTS = "SELECT (document ->> 'key')::int AS key, id::text, state FROM entity"


async def test_every_key_has_its_effect_exactly_once(tmp_path: Path) -> None:
    async with run_embedded_server(tmp_path / "data") as url:
        keys = await asyncio.to_thread(play, tmp_path, url)
        async with connected(url) as connection:
            rows = await connection.fetch(EFFECTS)
    stored = {row["key"]: row["id"] for row in rows}
    assert len(rows) == len(stored) == KEYS, "something was done twice, or not at all"
    for number, answer in keys.answers.items():
        if answer.status_code == 200:
            assert answer.json()[0]["entityIds"] == [stored[number]]
        else:
            assert model_of(number) == "segmented/1", answer.text
            assert told(answer).get("entityIds", [stored[number]]) == [stored[number]]
    print(f"{KILLS} kills under {KEYS} keys: {dict(keys.tries)}")  # noqa: T201
