"""SIGKILL while the step engine works: every instance ends once, no job is lost, no result counts twice.

Workers and starters speak ``/v1`` only. What they were told before a kill must hold after the restart; what they were
not told may have happened or not, but never twice. 200 chains, or as many as ``STATEWRIGHT_TEST_CHAINS`` says.
"""

import asyncio
import os
import random
import ssl
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx

from tests.builders import Json
from tests.database import connected
from tests.e2e.crashes import Completions
from tests.e2e.program import Program, started
from tests.e2e.test_crashes import database_of

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CHAINS = int(os.environ.get("STATEWRIGHT_TEST_CHAINS", "200"))
KILLS = 4
STARTERS, WORKERS = 4, 8
PATIENCE_S = 300.0
"""For everything to end; a job whose worker was killed comes back after its lease of five seconds."""

STEPS = ("a", "b", "c")
"""Of the first workflow; its successor has one step, ``d``."""


def a_task(name: str, then: str) -> Json:
    return {"id": name, "name": name, "type": "SERVICE_TASK", "jobType": name, "nextStep": then}


END = {"id": "end", "name": "end", "type": "END"}
FIRST = {
    "id": "first",
    "name": "first",
    "steps": [a_task("a", "b"), a_task("b", "c"), a_task("c", "end"), END],
    "autoStartNextWorkflow": True,
    "nextWorkflowId": "second",
}
SECOND = {"id": "second", "name": "second", "steps": [a_task("d", "end"), END]}


@dataclass
class Memory(Completions):
    """What was asked for, what was told, what was delivered."""

    wanted: list[str] = field(default_factory=lambda: [f"K-{n}" for n in range(CHAINS)])
    unsure: set[str] = field(default_factory=set)
    """Keys of instances whose start was not answered."""
    started: dict[str, str] = field(default_factory=dict)
    """Instance by key, of answered starts."""
    tokens: defaultdict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """What workers sent as results, by instance and step."""
    accepted: dict[tuple[str, str], str] = field(default_factory=dict)
    """The first result of which a worker was told that it was taken."""


async def a_starter(http: httpx.AsyncClient, memory: Memory) -> None:
    """Starts instances that are wanted; one of which it is not sure it looks up before."""
    while memory.wanted:
        key = memory.wanted.pop()
        try:
            if key in memory.unsure:
                found = (await http.get("/v1/instances", params={"businessKey": key, "definitionId": "first"})).json()
                if found["total"]:
                    memory.started[key] = found["items"][0]["id"]
                    memory.unsure.discard(key)
                    continue
            memory.unsure.add(key)
            body = {"definitionId": "first", "businessKey": key, "variables": {"key": key}}
            answer = await http.post("/v1/instances", json=body)
            assert answer.status_code == 201, answer.text
            memory.started[key] = answer.json()["id"]
            memory.unsure.discard(key)
        except BaseException:
            memory.wanted.append(key)
            raise


async def a_worker(http: httpx.AsyncClient, memory: Memory, name: str) -> None:
    """Claims and completes until the service is gone, or it is stopped."""
    while True:
        poll = {"workerId": name, "jobTypes": [*STEPS, "d"], "maxJobs": 8, "leaseSeconds": 5, "waitSeconds": 5}
        answer = await http.post("/v1/jobs/poll", json=poll)
        assert answer.status_code == 200, answer.text
        for job in answer.json()["jobs"]:
            token, place = uuid4().hex, (job["instanceId"], job["stepId"])
            memory.tokens[place].add(token)
            body = {"workerId": name, "variables": {job["stepId"]: token}}
            done = await http.post(f"/v1/jobs/{job['id']}/complete", json=body)
            assert done.status_code == 204, done.text
            memory.accepted.setdefault(place, token)
            memory.complete()


async def until_it_is_gone(url: str, memory: Memory, number: int) -> None:
    async with httpx.AsyncClient(base_url=url, verify=NO_TLS, trust_env=False, timeout=30) as http:
        with suppress(httpx.TransportError):
            if number < STARTERS:
                await a_starter(http, memory)
            else:
                await a_worker(http, memory, f"w-{number}-{uuid4().hex[:4]}")


async def a_round(program: Program, memory: Memory, completions: int) -> None:
    """Let everybody work, and kill the service after so many more completions."""
    memory.expect(completions)
    async with asyncio.TaskGroup() as group:
        for number in range(STARTERS + WORKERS):
            group.create_task(until_it_is_gone(program.root, memory, number))
        async with asyncio.timeout(PATIENCE_S):
            await memory.reached.wait()
        program.process.kill()
        await asyncio.to_thread(program.ended)


async def to_the_end(program: Program, memory: Memory) -> None:
    """Let everybody work until every instance and every successor has ended."""
    async with httpx.AsyncClient(base_url=program.root, verify=NO_TLS, trust_env=False, timeout=30) as http:
        tasks = [
            asyncio.create_task(until_it_is_gone(program.root, memory, number)) for number in range(STARTERS + WORKERS)
        ]
        try:
            for _ in range(int(PATIENCE_S / 0.1)):
                if await _completed(http) == 2 * CHAINS:
                    break
                await asyncio.sleep(0.1)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            assert task.cancelled() or task.exception() is None, task


async def _completed(http: httpx.AsyncClient) -> int:
    answer = await http.get("/v1/instances", params={"status": "COMPLETED", "pageSize": 1})
    return int(answer.json()["total"])


VERSIONS = """
    -- How many versions there are of each instance: one for its start and one for each job.
    SELECT process_instance.definition_id, count(*) AS instances, min(versions.n) AS least, max(versions.n) AS most
      FROM process_instance
     CROSS JOIN LATERAL (
            SELECT 1 + (SELECT count(*) FROM entity_history
                         WHERE entity_history.tenant = process_instance.tenant
                           AND entity_history.id = process_instance.id)
                   AS n) AS versions
     GROUP BY 1 ORDER BY 1
"""

LEFTOVERS = """
    SELECT (SELECT count(*) FROM process_job) + (SELECT count(*) FROM process_child)
         + (SELECT count(*) FROM process_timer) + (SELECT count(*) FROM unique_claim)
"""


async def assert_everything_happened_once(program: Program, data: Path, memory: Memory) -> None:
    async with connected(database_of(data)) as connection:
        rows = [tuple(row) for row in await connection.fetch(VERSIONS)]
        assert rows == [("first", CHAINS, 4, 4), ("second", CHAINS, 2, 2)]
        assert await connection.fetchval(LEFTOVERS) == 0
    async with httpx.AsyncClient(base_url=program.root, verify=NO_TLS, trust_env=False, timeout=30) as http:
        instances: list[Json] = []
        while len(instances) < 2 * CHAINS:
            query = {"page": len(instances) // 1000, "pageSize": 1000}
            instances += (await http.get("/v1/instances", params=query)).json()["items"]
        for instance in instances:
            names = STEPS if instance["definitionId"] == "first" else ("d",)
            history = (await http.get(f"/v1/instances/{instance['id']}/history")).json()["items"]
            assert [(line["stepId"], line["status"], line["attemptNumber"]) for line in history] == [
                (name, "COMPLETED", 1) for name in (*names, "end")
            ]
            for name in names:
                place, token = (instance["id"], name), instance["variables"][name]
                assert token in memory.tokens[place], "a result that nobody sent"
                if len(memory.tokens[place]) == 1:
                    assert memory.accepted.get(place, token) == token
    by_key = defaultdict(list)
    for instance in instances:
        by_key[instance["businessKey"]].append(instance["definitionId"])
    assert {key: sorted(found) for key, found in by_key.items()} == {
        f"K-{n}": ["first", "second"] for n in range(CHAINS)
    }
    for key, instance_id in memory.started.items():
        assert any(one["id"] == instance_id and one["businessKey"] == key for one in instances), "an answered start"


async def test_kills_in_the_middle_of_many_chains_lose_no_job_and_count_none_twice(tmp_path: Path) -> None:
    dice, memory, data = random.Random(6), Memory(), tmp_path / "data"
    share = 4 * CHAINS // (KILLS + 1)
    for number in range(KILLS + 1):
        settings = {"DATA_DIRECTORY": str(data), "SUPPRESS_BANNER": "true", "STEPS_SWEEP_INTERVAL": "200ms"}
        with started(tmp_path, **settings) as program:
            await asyncio.to_thread(program.ready)
            if number == 0:
                for document in (SECOND, FIRST):
                    assert Program.api(program, context_path="").post("/v1/definitions", document).status_code == 201
            if number < KILLS:
                await a_round(program, memory, dice.randint(share // 2, share))
            else:
                await to_the_end(program, memory)
                await assert_everything_happened_once(program, data, memory)
                assert program.terminate() == 0
