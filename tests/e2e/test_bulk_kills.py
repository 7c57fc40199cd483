"""The node that works on a bulk job is killed (docs/reference/operations.md#bulk-jobs)."""

import asyncio
import signal
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tests.builders import SAMPLE, a_workflow, manual
from tests.database import Template, connected
from tests.e2e.program import Program, started
from tests.service import Api, a_token, done, eventually

ITEMS = 400


def build_api(program: Program, path: str) -> Api:
    token = a_token("bulk", "olga", user_roles=["ROLE_USER", "ROLE_OPERATOR"])
    return Api(f"http://127.0.0.1:{program.ports['HTTP']}{path}", token)


async def fetch(url: str, statement: str) -> list[tuple[object, ...]]:
    async with connected(url) as connection:
        return [tuple(row) for row in await connection.fetch(statement)]


def test_each_transition_is_taken_once_though_the_node_is_killed(tmp_path: Path, database_template: Template) -> None:
    with asyncio.Runner() as runner, ExitStack() as stack:
        clone = database_template.clone()
        url = runner.run(clone.__aenter__())
        stack.callback(lambda: runner.run(clone.__aexit__(None, None, None)))
        nodes = [stack.enter_context(started(tmp_path, POSTGRES_URL=url, NODE_LEASE="2s")).ready() for _ in range(2)]
        api, ops = build_api(nodes[0], "/api"), build_api(nodes[0], "/ops/v1")
        api.a_model(a_workflow(NEW=[manual("GO", to="NEW")]))
        created = done(api.post("/entity/JSON/prize/1", [SAMPLE] * ITEMS))
        ids = [id_ for each in created for id_ in each["entityIds"]]
        order = {"operation": "TRANSITION", "arguments": {"transition": "GO"}, "ids": ids, "ratePerSecond": 100}
        job = ops.post("/bulk-jobs", order | {"concurrency": 16}).json()
        look = f"SELECT succeeded, worker, status FROM bulk_job WHERE id = '{job['id']}'"
        eventually(lambda: runner.run(fetch(url, look))[0][0] >= 50)  # type: ignore[operator] # a number
        [(_, worker, status)] = runner.run(fetch(url, look))
        assert status == "RUNNING"
        nodes[0].process.send_signal(signal.SIGKILL)
        other = replace(ops, url=f"http://127.0.0.1:{nodes[1].ports['HTTP']}/ops/v1")
        eventually(lambda: runner.run(fetch(url, look))[0][1] != worker)
        eventually(lambda: done(other.get(f"/bulk-jobs/{job['id']}"))["status"] == "COMPLETED")
        totals = done(other.get(f"/bulk-jobs/{job['id']}"))["totals"]
        assert totals == dict.fromkeys(totals, 0) | {"total": ITEMS, "succeeded": ITEMS}
        versions = runner.run(fetch(url, "SELECT id FROM entity UNION ALL SELECT id FROM entity_history"))
        assert {count for (id_,), count in Counter(versions).items() if str(id_) in ids} == {2}
