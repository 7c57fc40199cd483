"""What a database of an earlier state has in it, stored by its public API: the calls every state understands."""

from collections.abc import Sequence
from typing import Final

import httpx

from tests.builders import Json, a_workflow, automated, manual, when
from tests.service import Api, done, eventually

FAR_MS: Final = 90 * 86_400_000
ORDER: Final = {
    "no": 1,
    "customer": {"name": "Ada", "city": "Zürich"},
    "total": 12.5,
    "lines": [{"sku": "a", "qty": 1}],
}
PRIZE: Final = {"category": "physics", "year": 2024, "share": 0.25}
MODELS: Final = ("order/1", "prize/1", "note/1", "draft/1")
ORDERS, PRIZES, NOTES = 300, 220, 80


def scheduled(name: str, to: str) -> Json:
    return {"name": name, "next": to, "manual": False, "schedule": {"delayMs": FAR_MS}}


def fill(api: Api, v1: Api) -> Json:
    """Store it all; the ids of what was stored."""
    _make_models(api)
    entities = _make_entities(api)
    known: dict[str, Json] = {"models": list(MODELS), "entities": entities, "armed": entities[100:120]}
    known["messages"] = [
        done(api.post(f"/message/new/greeting-{number}", {"payload": {"n": number}}, Content_Type="application/json"))[
            0
        ]["entityIds"][0]
        for number in range(5)
    ]
    known["searches"] = [_search(api, "order/1"), _search(api, "prize/1")]
    known["definitions"], known["instances"] = _make_instances(v1)
    # What came after 982cdd4, by the state that has all of it.
    return known | (_make_later(v1) if v1.get("/v1/playbooks").is_success else {})


def _make_models(api: Api) -> None:
    api.import_model("order/1", ORDER)
    done(api.put("/model/order/1/unique-keys", {"uniqueKeys": [{"id": "by-no", "fields": ["$.no"]}]}))
    api.import_workflows(
        a_workflow(
            New=[manual("APPROVE", to="Approved"), manual("HOLD", to="Held"), manual("EDIT", to="New")],
            Approved=[],
            Held=[scheduled("LAPSE", "Lapsed"), manual("APPROVE", to="Approved")],
            Lapsed=[],
        ),
        model="order/1",
    )
    api.lock("order/1")
    validated = automated("VALIDATE", to="VALIDATED", criterion=when("$.year", "GREATER_THAN", 2000))
    api.a_model(
        a_workflow(NEW=[validated, manual("APPROVE", to="APPROVED")], VALIDATED=[], APPROVED=[]),
        model="prize/1",
        sample=PRIZE,
    )
    api.import_model("note/1", {"text": "a", "weight": 1})
    done(api.post("/model/note/1/changeLevel/STRUCTURAL"))
    api.lock("note/1")
    api.import_model("draft/1", {"title": "not locked", "tags": ["a"]})


def _make_entities(api: Api) -> list[str]:
    """Orders first: those from 100 to 120 wait for a schedule."""
    orders = _create_all(api, "order/1", [ORDER | {"no": n, "total": n + 0.125} for n in range(ORDERS)])
    prizes = _create_all(api, "prize/1", [PRIZE | {"year": 1900 + n, "share": 10**-20 + n} for n in range(PRIZES)])
    notes = [
        api.create({"text": f"ünïcode {n}", "weight": 10**25 + n, f"grown{n % 7}": [n]}, model="note/1").id
        for n in range(NOTES)
    ]
    for number, order in enumerate(orders[:60]):
        api.update(order, ORDER | {"no": number, "total": 1000 - number}, fire="EDIT")
    for number, order in enumerate(orders[:40]):
        api.update(order, ORDER | {"no": number, "customer": {"name": "Grace", "city": "Bern"}}, fire="APPROVE")
    for number, order in enumerate(orders[100:120], 100):
        api.update(order, ORDER | {"no": number}, fire="HOLD")
    for number, prize in enumerate(prizes[:30]):
        api.update(prize, PRIZE | {"year": 1900 + number, "category": "peace"}, fire="APPROVE")
    for order in (*orders[280:], *notes[70:]):
        done(api.delete(f"/entity/{order}"))
    return [*orders, *prizes, *notes]


def _create_all(api: Api, model: str, documents: Sequence[Json]) -> list[str]:
    made: list[str] = []
    for start in range(0, len(documents), 50):
        for result in done(api.post(f"/entity/JSON/{model}", documents[start : start + 50])):
            made += result["entityIds"]
    return made


def _search(api: Api, model: str) -> str:
    condition = {"type": "lifecycle", "field": "state", "operatorType": "NOT_EQUAL", "value": "New"}
    job = str(done(api.post(f"/search/async/{model}", condition)))
    eventually(lambda: done(api.get(f"/search/async/{job}/status"))["searchJobStatus"] == "SUCCESSFUL")
    return job


def step(name: str, kind: str, then: str = "", **members: Json) -> Json:
    return {"id": name, "name": name, "type": kind, **({"nextStep": then} if then else {}), **members}


def timer(target: str) -> Json:
    return {"boundaryEvents": [{"type": "TIMER", "duration": "P90D", "interrupting": True, "targetStepId": target}]}


END: Final = step("end", "END")
LATE: Final = step("late", "END")
DEFINITIONS: Final = {
    "work": [step("do", "SERVICE_TASK", "end", jobType="upgrade-work", retryCount=2), END],
    "decide": [step("ask", "USER_TASK", "end", **timer("late")), END, LATE],
    "signal": [step("rest", "WAIT", "end"), END],
    "timer": [step("rest", "WAIT", "end", **timer("late")), END, LATE],
    "join": [
        step("split", "PARALLEL_GATEWAY", parallelNextSteps=["left", "right"], joinStep="meet"),
        step("left", "SERVICE_TASK", "meet", jobType="upgrade-left"),
        step("right", "USER_TASK", "meet"),
        step("meet", "JOIN_GATEWAY", "end"),
        END,
    ],
    "done": [step("sum", "TRANSFORMATION", "end", transformations={"double": "${amount * 2}"}), END],
    "broken": [step("do", "SERVICE_TASK", "end", jobType="upgrade-broken", retryCount=0), END],
    "dropped": [step("rest", "WAIT", "end"), END],
}
"""Where instances stand, and how they come there."""


def _make_instances(v1: Api) -> tuple[list[str], dict[str, list[str]]]:
    instances: dict[str, list[str]] = {}
    for place, steps in DEFINITIONS.items():
        succeed(v1.post("/v1/definitions", {"id": f"upgrade-{place}", "name": f"Stands at {place}", "steps": steps}))
        started = [
            {"definitionId": f"upgrade-{place}", "variables": {"amount": number}, "businessKey": f"{place}-{number}"}
            for number in range(3)
        ]
        instances[place] = [str(succeed(v1.post("/v1/instances", body))["id"]) for body in started]
    for job in poll(v1, "upgrade-left", 3):
        succeed(v1.post(f"/v1/jobs/{job['id']}/complete", {"workerId": "w", "variables": {"left": True}}))
    for job in poll(v1, "upgrade-broken", 3):
        body = {"workerId": "w", "errorMessage": "out of paper", "retryable": False}
        succeed(v1.post(f"/v1/jobs/{job['id']}/fail", body))
    for instance in instances["dropped"]:
        succeed(v1.post(f"/v1/instances/{instance}/cancel", {"reason": "not needed"}))
    return [f"upgrade-{place}" for place in DEFINITIONS], instances


PLAYBOOK: Final = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: upgrade}
workflow:
- step: ask
  tool: {kind: noop}
  next: {arcs: [{step: act}]}
- step: act
  spec: {policy: {admit: {rules: [{when: "{{ ctx.approved }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
  tool: {kind: noop}
"""


def _make_later(v1: Api) -> dict[str, Json]:
    """Flows at a task, at an event and at a task whose type is suspended, executions of a playbook that wait for leave,
    and what operators see of it.
    """
    flows: dict[str, list[str]] = {}
    sources = {
        "work": "upgrade-first → upgrade-flow",
        "event": "@task arrival = wait:event (- event: arrived -)\narrival → arrived",
        "held": "upgrade-held",
    }
    for place, source in sources.items():
        succeed(v1.post("/v1/flows/definitions", {"id": f"upgrade-{place}", "source": source, "settings": {}}))
        body = {"definitionId": f"upgrade-{place}", "input": {"amount": 1}}
        flows[place] = [str(succeed(v1.post("/v1/flows/instances", body))["id"]) for _ in range(2)]
    do_jobs(v1, "upgrade-first", 2)
    held = {"scope": "JOB_TYPE", "name": "upgrade-held", "reason": "new printers"}
    suspension = str(succeed(v1.post("/ops/v1/suspensions", held))["id"])
    succeed(v1.post("/v1/playbooks", PLAYBOOK.encode(), Content_Type="application/yaml"))
    executions = [str(succeed(v1.post("/v1/executions", {"path": "upgrade"}))["id"]) for _ in range(2)]
    paths = ["/v1/flows/definitions", "/v1/flows/instances", "/v1/playbooks", "/v1/executions"]
    paths += ["/ops/v1/incidents", "/ops/v1/audit", f"/ops/v1/suspensions/{suspension}"]
    paths += [f"/v1/flows/instances/{one}{of}" for ids in flows.values() for one in ids for of in ("", "/history")]
    paths += [f"/v1/executions/{one}{of}" for one in executions for of in ("", "/events")]
    return {"paths": paths, "flows": flows, "suspension": suspension, "executions": executions}


def do_jobs(v1: Api, kind: str, count: int) -> None:
    """Complete that many jobs of a type, no more and no fewer."""
    jobs = poll(v1, kind, count + 1)
    assert len(jobs) == count, kind
    for job in jobs:
        succeed(v1.post(f"/v1/jobs/{job['id']}/complete", {"workerId": "w", "variables": {"done": True}}))


def poll(v1: Api, kind: str, count: int) -> list[Json]:
    """At most that many jobs of a type, locked for ``w``."""
    body = {"workerId": "w", "jobTypes": [kind], "maxJobs": count}
    return list(done(v1.post("/v1/jobs/poll", body))["jobs"])


def succeed(response: httpx.Response) -> Json:
    """What a step API answered; None where it says nothing."""
    assert response.is_success, f"{response.status_code}: {response.text}"
    return response.json() if response.content else None
