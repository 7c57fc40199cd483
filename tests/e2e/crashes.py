"""SIGKILL while instances of a language run: what the crash tests of flows and of playbooks share.

Workers and starters speak ``/v1`` only. 40 instances and three kills; ``STATEWRIGHT_TEST_KILLS=30`` kills thirty times
over 300.
"""

import asyncio
import os
import random
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx

from tests.builders import Json
from tests.e2e.program import Program, started

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
KILLS = int(os.environ.get("STATEWRIGHT_TEST_KILLS", "3").split(",")[0])
INSTANCES = 40 if KILLS <= 3 else 10 * KILLS
WORKERS = 6
PATIENCE_S = 300.0
"""For everything to end; a job whose worker was killed comes back after its lease of five seconds."""

LEFTOVERS = """
    SELECT (SELECT count(*) FROM process_job) + (SELECT count(*) FROM process_timer)
         + (SELECT count(*) FROM unique_claim)
         + (SELECT count(*) FROM process_child) + (SELECT count(*) FROM process_child_end)
"""


@dataclass
class Completions:
    """How many there were, and were waited for."""

    completions: int = 0
    goal: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    def expect(self, completions: int) -> None:
        """``reached`` is set after so many more completions."""
        self.goal = self.completions + completions
        self.reached.clear()

    def complete(self) -> None:
        """A worker was told that its result was taken."""
        self.completions += 1
        if self.completions >= self.goal:
            self.reached.set()


@dataclass
class Ledger(Completions):
    """What was asked for, what was sent, and what workers were told was taken."""

    wanted: list[str] = field(default_factory=lambda: [f"K-{n}" for n in range(INSTANCES)])
    sent: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Tokens by job."""
    taken: dict[str, str] = field(default_factory=dict)
    """The token by job, of the first answer that was acknowledged."""


@dataclass(frozen=True)
class Scene:
    """What runs while the service is killed."""

    instances: str
    """Where instances are started and listed."""
    state: str
    """The filter of the list for their state."""
    build_start: Callable[[str], Json]
    """The body that starts an instance with a business key."""
    types: list[str]
    answer: Callable[[Json, str], Json]
    """What a worker makes of the variables of a job; the token tells its answers from all others."""
    tasks: int
    """How often tasks are done in an instance."""
    report: Callable[[Json], Json] = lambda variables: None
    """What a worker reports of a job before it is done, from its variables; None: nothing."""
    filters: Mapping[str, str] = field(default_factory=dict)
    """Of the list, for the instances that are started here, where they start others."""

    async def start_all(self, http: httpx.AsyncClient, ledger: Ledger) -> None:
        """One instance for each key; the key tells whether a start that was not answered was carried out."""
        while ledger.wanted:
            key = ledger.wanted.pop()
            try:
                found = (await http.get(self.instances, params={"businessKey": key})).json()
                if not found["total"]:
                    begun = await http.post(self.instances, json={**self.build_start(key), "businessKey": key})
                    assert begun.status_code == 201, begun.text
            except BaseException:
                ledger.wanted.append(key)
                raise

    async def do_tasks(self, http: httpx.AsyncClient, ledger: Ledger, name: str) -> None:
        """Claim and complete until the service is gone."""
        while True:
            poll = {"workerId": name, "jobTypes": self.types, "maxJobs": 8, "leaseSeconds": 5, "waitSeconds": 5}
            claimed = await http.post("/v1/jobs/poll", json=poll)
            assert claimed.status_code == 200, claimed.text
            for job in claimed.json()["jobs"]:
                token = uuid4().hex
                ledger.sent[job["id"]].add(token)
                if (progress := self.report(job["variables"])) is not None:
                    body = {"workerId": name, "progress": progress}
                    heard = await http.post(f"/v1/jobs/{job['id']}/progress", json=body)
                    assert heard.status_code in (200, 409), heard.text  # its lease may have ended
                body = {"workerId": name, "variables": self.answer(job["variables"], token)}
                told = await http.post(f"/v1/jobs/{job['id']}/complete", json=body)
                assert told.status_code == 204, told.text
                ledger.taken.setdefault(job["id"], token)
                ledger.complete()

    async def work_until_it_is_gone(self, url: str, ledger: Ledger, number: int) -> None:
        async with httpx.AsyncClient(base_url=url, verify=NO_TLS, trust_env=False, timeout=30) as http:
            with suppress(httpx.TransportError):
                if number == 0:
                    await self.start_all(http, ledger)
                await self.do_tasks(http, ledger, f"w-{number}-{uuid4().hex[:4]}")

    async def work_and_kill(self, program: Program, ledger: Ledger, completions: int) -> None:
        """Let everybody work, and kill the service after so many more completions."""
        ledger.expect(completions)
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self.work_until_it_is_gone(program.root, ledger, number))
            async with asyncio.timeout(PATIENCE_S):
                await ledger.reached.wait()
            program.process.kill()
            await asyncio.to_thread(program.ended)

    async def work_to_the_end(self, program: Program, ledger: Ledger) -> None:
        """Let everybody work until every instance has ended."""
        async with httpx.AsyncClient(base_url=program.root, verify=NO_TLS, trust_env=False, timeout=30) as http:
            tasks = [asyncio.create_task(self.work_until_it_is_gone(program.root, ledger, n)) for n in range(WORKERS)]
            try:
                for _ in range(int(PATIENCE_S / 0.1)):
                    if await self.count_completed(http) == INSTANCES:
                        break
                    await asyncio.sleep(0.1)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
            for task in tasks:
                assert task.cancelled() or task.exception() is None, task

    async def count_completed(self, http: httpx.AsyncClient) -> int:
        answered = await http.get(self.instances, params={**self.filters, self.state: "COMPLETED", "pageSize": 1})
        return int(answered.json()["total"])

    async def kill_often(
        self,
        path: Path,
        database: str,
        prepare: Callable[[Program], None],
        check: Callable[[Program, Ledger], Awaitable[None]],
    ) -> None:
        """All of it: ``prepare`` what is started, work and kill, and ``check`` what is there in the end."""
        dice, ledger = random.Random(6), Ledger()
        share = INSTANCES * self.tasks // (KILLS + 1)
        settings = {"POSTGRES_URL": database, "SUPPRESS_BANNER": "true", "STEPS_SWEEP_INTERVAL": "200ms"}
        for number in range(KILLS + 1):
            with started(path, **settings) as program:
                await asyncio.to_thread(program.ready)
                if number == 0:
                    prepare(program)
                if number < KILLS:
                    await self.work_and_kill(program, ledger, dice.randint(share // 2, share))
                else:
                    await self.work_to_the_end(program, ledger)
                    await check(program, ledger)
                    assert program.terminate() == 0
