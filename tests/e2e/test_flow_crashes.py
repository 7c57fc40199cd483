"""SIGKILL while flows run: every result of a task counts once, and every flow ends as it would have without kills."""

from collections import Counter
from pathlib import Path

import httpx

from statewright.net import ulid_to_uuid, uuid_to_ulid
from tests.builders import Json
from tests.database import connected
from tests.e2e.crashes import INSTANCES, LEFTOVERS, NO_TLS, Ledger, Scene
from tests.e2e.program import Program

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


SCENE = Scene(
    instances="/v1/flows/instances",
    state="status",
    build_start=lambda key: {"definitionId": "kills", "input": {"key": key}},
    types=[task.partition(".")[0] for task in TASKS],
    answer=answer,
    tasks=sum(TASKS.values()),
)

JOBS = "SELECT id::text AS execution, work::text AS job FROM process_execution WHERE work IS NOT NULL"


def upload(program: Program) -> None:
    body = {"id": "kills", "source": TEXT, "settings": {"concurrency": 2}}
    stored = Program.api(program, context_path="").post("/v1/flows/definitions", body)
    assert stored.status_code == 201, stored.text


async def check(program: Program, database: str, ledger: Ledger) -> None:
    """Hold what is stored against what was sent."""
    async with connected(database) as connection:
        assert await connection.fetchval(LEFTOVERS) == 0
        jobs = {row["execution"]: uuid_to_ulid(row["job"]) for row in await connection.fetch(JOBS)}
    async with httpx.AsyncClient(base_url=program.root, verify=NO_TLS, trust_env=False, timeout=30) as http:
        instances = (await http.get(SCENE.instances, params={"pageSize": 1000})).json()["items"]
        assert sorted(one["businessKey"] for one in instances) == sorted(f"K-{n}" for n in range(INSTANCES))
        for instance in instances:
            history = await http.get(f"{SCENE.instances}/{instance['id']}/history", params={"pageSize": 1000})
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
    await SCENE.kill_often(tmp_path, database, upload, lambda program, ledger: check(program, database, ledger))
