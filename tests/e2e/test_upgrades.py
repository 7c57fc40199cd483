"""Databases of earlier states (tests/data/upgrades), started by the program as it is now (docs/guides/upgrade.md)."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders import Json
from tests.database import connected
from tests.e2e.program import Program, started
from tests.service import Api, done, eventually, refused
from tests.upgrades.comparing import find_differences
from tests.upgrades.earlier import list_dumps, read_told, restore
from tests.upgrades.filling import ORDER, do_jobs, succeed
from tests.upgrades.reading import read_everything

AGES = "876000h"
"""As long as results of searches must be kept to be there whenever this test runs."""


@contextmanager
def upgraded(tmp_path: Path, database: str) -> Iterator[Program]:
    """The present program, which has just migrated the database."""
    with started(tmp_path, POSTGRES_URL=database, SEARCH_SNAPSHOT_TTL=AGES) as program:
        yield program.ready()
        assert program.errors == []
        assert program.terminate() == 0


@pytest.mark.parametrize("commit", list_dumps())
async def test_a_database_of_an_earlier_state_goes_on(tmp_path: Path, empty_database: str, commit: str) -> None:
    await restore(commit, empty_database)
    told = read_told(commit)
    with upgraded(tmp_path, empty_database) as program:
        api, v1 = program.api(), program.api(context_path="")
        if "suspension" in told["known"]:  # the new node has yet to say that it knows of it
            await asyncio.to_thread(eventually, lambda: knows_suspension(v1, told["known"]["suspension"]))
        found = await asyncio.to_thread(read_everything, api, v1, told["known"])
        assert find_differences(told["answers"], found) == []
        await make_timers_due(empty_database)
        await asyncio.to_thread(finish_instances, v1, told["known"]["instances"])
        if "flows" in told["known"]:
            await asyncio.to_thread(finish_later, v1, told["known"])
        armed = told["known"]["armed"]
        await asyncio.to_thread(eventually, lambda: {api.state(entity) for entity in armed} == {"Lapsed"})
        refused(api.post("/entity/JSON/order/1", ORDER | {"no": 100}), 409, "UNIQUE_VIOLATION")
        created = api.create(ORDER | {"no": 5_000}, model="order/1").id
        api.update(created, ORDER | {"no": 5_000, "total": 1}, fire="APPROVE")
        assert api.state(created) == "Approved"


def knows_suspension(v1: Api, suspension: str) -> bool:
    """Whether every node that lives holds a suspension."""
    return bool(done(v1.get(f"/ops/v1/suspensions/{suspension}"))["effective"])


async def make_timers_due(database: str) -> None:
    """Let the time pass that armed timers wait for."""
    async with connected(database) as connection:
        for statement in ("UPDATE scheduled_task SET fire_at = armed_at", "UPDATE process_timer SET fire_at = 0"):
            assert await connection.execute(statement) != "UPDATE 0", statement


def finish_instances(v1: Api, instances: Mapping[str, Json]) -> None:
    """Do what each instance waits for, timers apart; only what was cancelled does not complete."""
    for instance in instances["join"]:
        succeed(v1.post(f"/v1/instances/{instance}/user-tasks/right/complete", {"completedBy": "grace"}))
    for instance in instances["signal"]:
        succeed(v1.post(f"/v1/instances/{instance}/signals/rest", {"signalled": True}))
    for instance in instances["broken"]:
        succeed(v1.post(f"/v1/instances/{instance}/steps/do/retry", {"variables": {}}))
    for kind in ("upgrade-work", "upgrade-broken"):
        do_jobs(v1, kind, 3)

    def list_unfinished() -> list[str]:
        others = [instance for place, ids in instances.items() if place != "dropped" for instance in ids]
        return [one for one in others if done(v1.get(f"/v1/instances/{one}"))["status"] != "COMPLETED"]

    eventually(lambda: list_unfinished() == [])


def finish_later(v1: Api, known: Json) -> None:
    """The same for flows and executions of playbooks; what is suspended stays so until it is resumed."""
    do_jobs(v1, "upgrade-flow", 2)
    succeed(v1.post("/v1/flows/events", {"event": "arrived", "fields": {}, "output": {"a": 1}}))
    do_jobs(v1, "arrived", 2)
    do_jobs(v1, "upgrade-held", 0)
    succeed(v1.post(f"/ops/v1/suspensions/{known['suspension']}/resume", {}))
    do_jobs(v1, "upgrade-held", 2)
    for execution in known["executions"]:
        succeed(v1.post(f"/v1/executions/{execution}/patch", {"ctx": {"approved": True}}))
    paths = [f"/v1/flows/instances/{flow}" for flows in known["flows"].values() for flow in flows]
    paths += [f"/v1/executions/{execution}" for execution in known["executions"]]
    eventually(lambda: {done(v1.get(path))["status"].lower() for path in paths} <= {"completed", "success"})
