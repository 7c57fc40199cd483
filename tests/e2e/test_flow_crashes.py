"""SIGKILL while flows run: every result of a task counts once, and every flow ends as it would have without kills.

Workers and starters speak ``/v1`` only. 40 flows and three kills; ``STATEWRIGHT_TEST_KILLS=30`` kills thirty times over
300 flows.
"""

import asyncio
import os
import random
import ssl
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx

from statewright.net import ulid_to_uuid, uuid_to_ulid
from tests.builders import Json
from tests.database import connected
from tests.e2e.program import Program, started

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
KILLS = int(os.environ.get("STATEWRIGHT_TEST_KILLS", "3").split(",")[0])
FLOWS = 40 if KILLS <= 3 else 10 * KILLS
WORKERS = 6
PATIENCE_S = 300.0
"""For everything to end; a job whose worker was killed comes back after its lease of five seconds."""

TEXT = """
A → * { B → C } → > D → :again E :done → ? `$[?(@.n<2)]` F → :again ;
:done → G
"""
"""An iteration with a subflow, a merge, a loop that ends by its guard, and a result that is what its last pass says."""

TASKS = Counter({"A.1": 1, "B.3": 3, "C.4": 3, "D.6": 1, "E.7": 2, "F.8": 1, "G.9": 2})
"""How often each is done in an instance, however often it is begun."""


def answer(task: Json, token: str) -> Json:
    """What a worker makes of a task; the token tells its answers from all others."""
    given = task["input"]
    match task["name"]:
        case "A":
            return [{"i": i, "key": given["key"]} for i in range(3)]
        case "B":
            return {"b": given["i"], "key": given["key"], "by": token}
        case "C":
            return {f"c{given['b']}": True, "key": given["key"], "by": token}
        case "D":
            return {"n": 0, "key": given["key"], "seen": sorted(given), "by": token}
        case "E":
            return {**given, "n": given["n"] + 1, "by": token}
        case _:
            return {**given, "by": token}


@dataclass
class Ledger:
    """What was asked for, what was sent, and what workers were told was taken."""

    wanted: list[str] = field(default_factory=lambda: [f"K-{n}" for n in range(FLOWS)])
    sent: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Tokens by job."""
    taken: dict[str, str] = field(default_factory=dict)
    """The token by job, of the first answer that was acknowledged."""
    completions: int = 0
    goal: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    def expect(self, completions: int) -> None:
        self.goal = self.completions + completions
        self.reached.clear()

    def complete(self) -> None:
        self.completions += 1
        if self.completions >= self.goal:
            self.reached.set()


async def start_flows(http: httpx.AsyncClient, ledger: Ledger) -> None:
    """One instance for each key; the key tells whether a start that was not answered was carried out."""
    while ledger.wanted:
        key = ledger.wanted.pop()
        try:
            found = (await http.get("/v1/flows/instances", params={"businessKey": key})).json()
            if not found["total"]:
                body = {"definitionId": "kills", "businessKey": key, "input": {"key": key}}
                begun = await http.post("/v1/flows/instances", json=body)
                assert begun.status_code == 201, begun.text
        except BaseException:
            ledger.wanted.append(key)
            raise


async def do_tasks(http: httpx.AsyncClient, ledger: Ledger, name: str) -> None:
    """Claim and complete until the service is gone."""
    types = [task.partition(".")[0] for task in TASKS]
    while True:
        poll = {"workerId": name, "jobTypes": types, "maxJobs": 8, "leaseSeconds": 5, "waitSeconds": 5}
        claimed = await http.post("/v1/jobs/poll", json=poll)
        assert claimed.status_code == 200, claimed.text
        for job in claimed.json()["jobs"]:
            token = uuid4().hex
            ledger.sent[job["id"]].add(token)
            body = {"workerId": name, "variables": answer(job["variables"], token)}
            told = await http.post(f"/v1/jobs/{job['id']}/complete", json=body)
            assert told.status_code == 204, told.text
            ledger.taken.setdefault(job["id"], token)
            ledger.complete()


async def work_until_it_is_gone(url: str, ledger: Ledger, number: int) -> None:
    async with httpx.AsyncClient(base_url=url, verify=NO_TLS, trust_env=False, timeout=30) as http:
        with suppress(httpx.TransportError):
            if number == 0:
                await start_flows(http, ledger)
            await do_tasks(http, ledger, f"w-{number}-{uuid4().hex[:4]}")


async def work_and_kill(program: Program, ledger: Ledger, completions: int) -> None:
    """Let everybody work, and kill the service after so many more completions."""
    ledger.expect(completions)
    async with asyncio.TaskGroup() as group:
        for number in range(WORKERS):
            group.create_task(work_until_it_is_gone(program.root, ledger, number))
        async with asyncio.timeout(PATIENCE_S):
            await ledger.reached.wait()
        program.process.kill()
        await asyncio.to_thread(program.ended)


async def work_to_the_end(program: Program, ledger: Ledger) -> None:
    """Let everybody work until every flow has ended."""
    async with httpx.AsyncClient(base_url=program.root, verify=NO_TLS, trust_env=False, timeout=30) as http:
        tasks = [asyncio.create_task(work_until_it_is_gone(program.root, ledger, n)) for n in range(WORKERS)]
        try:
            for _ in range(int(PATIENCE_S / 0.1)):
                if await count_completed(http) == FLOWS:
                    break
                await asyncio.sleep(0.1)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            assert task.cancelled() or task.exception() is None, task


async def count_completed(http: httpx.AsyncClient) -> int:
    answered = await http.get("/v1/flows/instances", params={"status": "COMPLETED", "pageSize": 1})
    return int(answered.json()["total"])


LEFTOVERS = """
    SELECT (SELECT count(*) FROM process_job) + (SELECT count(*) FROM process_timer)
         + (SELECT count(*) FROM unique_claim)
"""
JOBS = "SELECT id::text AS execution, work::text AS job FROM process_execution WHERE work IS NOT NULL"


async def check(program: Program, database: str, ledger: Ledger) -> None:
    """Hold what is stored against what was sent."""
    async with connected(database) as connection:
        assert await connection.fetchval(LEFTOVERS) == 0
        jobs = {row["execution"]: uuid_to_ulid(row["job"]) for row in await connection.fetch(JOBS)}
    async with httpx.AsyncClient(base_url=program.root, verify=NO_TLS, trust_env=False, timeout=30) as http:
        instances = (await http.get("/v1/flows/instances", params={"pageSize": 1000})).json()["items"]
        assert sorted(one["businessKey"] for one in instances) == sorted(f"K-{n}" for n in range(FLOWS))
        for instance in instances:
            history = await http.get(f"/v1/flows/instances/{instance['id']}/history", params={"pageSize": 1000})
            check_instance(instance, history.json()["items"], jobs, ledger)


def check_instance(instance: Json, lines: list[Json], jobs: dict[str, str], ledger: Ledger) -> None:
    """It ended as without kills, and each task was done as often as without, with an answer that was sent for it."""
    result = {name: value for name, value in instance["result"].items() if name != "by"}
    assert result == {"n": 2, "key": instance["businessKey"], "seen": ["by", "c0", "c1", "c2", "key"]}
    done = [line for line in lines if str(ulid_to_uuid(line["id"])) in jobs]
    assert Counter(line["name"] for line in done) == TASKS
    assert {line["status"] for line in done} == {"COMPLETED"}
    for line in done:
        job = jobs[str(ulid_to_uuid(line["id"]))]
        assert job in ledger.sent
        if isinstance(line["output"], dict):
            assert line["output"]["by"] in ledger.sent[job]
            if len(ledger.sent[job]) == 1:
                assert ledger.taken.get(job, line["output"]["by"]) == line["output"]["by"]


async def test_kills_in_the_middle_of_flows_lose_no_result_and_count_none_twice(tmp_path: Path, database: str) -> None:
    dice, ledger = random.Random(6), Ledger()
    share = FLOWS * sum(TASKS.values()) // (KILLS + 1)
    settings = {"POSTGRES_URL": database, "SUPPRESS_BANNER": "true", "STEPS_SWEEP_INTERVAL": "200ms"}
    for number in range(KILLS + 1):
        with started(tmp_path, **settings) as program:
            await asyncio.to_thread(program.ready)
            if number == 0:
                body = {"id": "kills", "source": TEXT, "settings": {"concurrency": 2}}
                stored = Program.api(program, context_path="").post("/v1/flows/definitions", body)
                assert stored.status_code == 201, stored.text
            if number < KILLS:
                await work_and_kill(program, ledger, dice.randint(share // 2, share))
            else:
                await work_to_the_end(program, ledger)
                await check(program, database, ledger)
                assert program.terminate() == 0
