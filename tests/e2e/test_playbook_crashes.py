"""SIGKILL while playbooks run, with parallel loops of tasks and of other playbooks, joins and tokens that wait for
admission: every run of a step counts once, and every execution ends as it would have without kills.
"""

from collections import Counter
from pathlib import Path

import httpx

from tests.builders import Json
from tests.database import connected
from tests.e2e.crashes import INSTANCES, LEFTOVERS, NO_TLS, Ledger, Scene
from tests.e2e.program import Program

TEXT = """
metadata: {name: kills}
workflow:
- step: begin
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: items}, {step: others}, {step: flag}, {step: gate}]}
- step: items
  loop: {in: [0, 1, 2], iterator: item, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: work}
  next: {arcs: [{step: meet, args: {items: "{{ results.items }}"}}]}
- step: others
  loop: {in: [0, 1], iterator: item, spec: {mode: parallel}}
  tool: {kind: playbook, path: inner, args: {n: "{{ item }}"}}
- step: flag
  tool: {kind: work, before: "{{ ctx.count }}"}
- step: gate
  spec: {policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
  tool: {kind: work}
  next: {arcs: [{step: meet, args: {gate: "{{ results.gate }}"}}]}
- step: meet
  spec: {join: {mode: all, steps: [items, gate]}}
  tool: {kind: work, of: "{{ args }}"}
"""
"""A parallel loop beside a token that is admitted once another branch has set a flag, and a join of both."""
INNER = "metadata: {name: inner}\nworkflow: [{step: inside, tool: {kind: work, n: '{{ workload.n }}'}}]"

RUNS = {"begin": 1, "items": 1, "others": 1, "flag": 1, "gate": 1, "meet": 1}


def count(dispatch: Json) -> Json:
    """A patch that counts one more if it is made twice."""
    return {"path": ["count"], "value": dispatch["ctx"].get("count", 0) + 1, "at": 0}


def report(dispatch: Json) -> Json:
    """What a worker tells of a run before its end, between which the service may be killed."""
    return {"patches": [count(dispatch)]} if dispatch["step"] == "flag" else None


def answer(dispatch: Json, token: str) -> Json:
    """What a worker reports of a run."""
    match dispatch["step"]:
        case "items":
            return {"status": "ok", "result": {"item": dispatch["loop"]["element"], "by": token}}
        case "inside":
            return {"status": "ok", "result": {"n": dispatch["workload"]["n"], "by": token}}
        case "flag":
            return {"status": "ok", "patches": [count(dispatch), {"path": ["open"], "value": True, "at": 0}]}
        case "gate":
            return {"status": "ok", "result": "passed"}
        case _:
            items = [result["item"] for result in dispatch["args"]["items"]]
            return {"status": "ok", "result": {"items": items, "gate": dispatch["args"]["gate"], "by": token}}


SCENE = Scene(
    instances="/v1/executions",
    state="state",
    build_start=lambda key: {"path": "kills", "workload": {"key": key}},
    types=["playbook:work"],
    answer=answer,
    tasks=8,
    report=report,
    filters={"path": "kills"},
)


def upload(program: Program) -> None:
    for text in (INNER, TEXT):
        stored = Program.api(program, context_path="").post("/v1/playbooks", text.encode())
        assert stored.status_code == 201, stored.text


async def check(program: Program, database: str, ledger: Ledger) -> None:
    """Hold what is stored against what was sent."""
    async with connected(database) as connection:
        assert await connection.fetchval(LEFTOVERS) == 0
    async with httpx.AsyncClient(base_url=program.root, verify=NO_TLS, trust_env=False, timeout=30) as http:
        executions = (await http.get(SCENE.instances, params={**SCENE.filters, "pageSize": 1000})).json()["items"]
        assert sorted(one["businessKey"] for one in executions) == sorted(f"K-{n}" for n in range(INSTANCES))
        inner = (await http.get(SCENE.instances, params={"path": "inner", "pageSize": 1000})).json()
        assert inner["total"] == 2 * INSTANCES
        for execution in executions:
            log = await http.get(f"{SCENE.instances}/{execution['id']}/events", params={"limit": 1000})
            check_execution(execution, log.json()["items"], ledger)


def check_execution(execution: Json, log: list[Json], ledger: Ledger) -> None:
    """It ended as without kills; each run began once and ended once, with an answer that was sent."""
    assert (execution["status"], execution["ctx"]) == ("success", {"count": 1, "open": True})
    results = execution["results"]
    assert [one["item"] for one in results["items"]] == [0, 1, 2]
    assert (results["gate"], results["meet"]["items"], results["meet"]["gate"]) == ("passed", [0, 1, 2], "passed")
    assert [one["n"] for one in results["others"]] == [0, 1]
    tokens = {token for sent in ledger.sent.values() for token in sent}
    assert {results["meet"]["by"], *(one["by"] for one in [*results["items"], *results["others"]])} <= tokens
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    for kind in ("step.scheduled", ("step.done", "loop.done")):
        wanted = (kind,) if isinstance(kind, str) else kind
        assert Counter(event["step"] for event in log if event["event_type"] in wanted) == RUNS
    elements = [(event["step"], event["iteration"]) for event in log if event["event_type"] == "loop.iteration.done"]
    assert sorted(elements) == [*(("items", n) for n in range(3)), *(("others", n) for n in range(2))]
    patches = [event["payload"]["changes"] for event in log if event["event_type"] == "ctx.patched"]
    assert patches == [{"count": 1}, {"open": True}], "each had its effect once, also where its run began again"


async def test_kills_in_the_middle_of_executions_lose_nothing_and_count_nothing_twice(
    tmp_path: Path, database: str
) -> None:
    await SCENE.kill_often(tmp_path, database, upload, lambda program, ledger: check(program, database, ledger))
