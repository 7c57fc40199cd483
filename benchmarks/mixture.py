"""Traffic of all kinds, in turns by chance: what ``benchmarks.soak`` has a service do for an hour.

Each act is one use of the service as a client makes it, from entities and searches to instances of the three process
languages, pages of the console and requests that are refused. Refusals that an act expects are no failures.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from random import Random
from typing import Any, Final, TypeAlias
from uuid import uuid4

import httpx

from benchmarks.workload import MODEL, VERSION, documents

Act: TypeAlias = "Callable[[Mixture], Awaitable[None]]"

MAX_REMEMBERED: Final = 5_000
"""Entities that later acts may choose from."""
WORKER: Final = "soak"
STEPS: Final = {
    "id": "soak-steps",
    "name": "soak-steps",
    "steps": [
        {"id": "price", "name": "price", "type": "SERVICE_TASK", "jobType": "soak-price", "nextStep": "decide"},
        {
            "id": "decide",
            "name": "decide",
            "type": "DECISION",
            "conditionalNextSteps": {"amount > 500": "ask"},
            "nextStep": "done",
        },
        {
            "id": "ask",
            "name": "ask",
            "type": "SERVICE_TASK",
            "jobType": "soak-ask",
            "nextStep": "done",
        },
        {"id": "done", "name": "done", "type": "END"},
    ],
}
FLOW: Final = "@flow soak-flow\nsoak-load → * { soak-mark } → soak-total"
PLAYBOOK: Final = """
metadata: {name: soak}
workflow:
- {step: a, tool: {kind: soak}, next: {arcs: [{step: b, args: {n: 1}}]}}
- {step: b, tool: {kind: noop}, set: {ctx.n: '{{ args.n + workload.amount }}'}, next: {arcs: [{step: c, when: '{{ ctx.n > 0 }}'}]}}
- {step: c, tool: {kind: soak}}
"""
JOB_TYPES: Final = ["soak-price", "soak-ask", "soak-load", "soak-mark", "soak-total", "playbook:soak"]
PAGES: Final = ("/console/", "/console/models", "/console/incidents", "/console/workers", "/console/instances")


class Mixture:
    """Clients of one service. ``done`` counts acts, ``failed`` answers that no act expects."""

    def __init__(self, base_url: str, *, seed: int = 1) -> None:
        self.base_url = base_url
        self.client = _connect(base_url)
        self.random = Random(seed)
        self.documents = [json.loads(document) for document in documents()]
        self.entities: deque[str] = deque(maxlen=MAX_REMEMBERED)
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    async def prepare(self) -> None:
        """Store the definitions that acts start."""
        await self.ask("POST", "/v1/definitions", json=STEPS, expected={201})
        plain = {"Content-Type": "text/plain; charset=utf-8"}
        await self.ask("POST", "/v1/flows/definitions", content=FLOW.encode(), headers=plain, expected={201})
        await self.ask("POST", "/v1/playbooks", content=PLAYBOOK.encode(), headers=plain, expected={201})
        for _ in range(20):
            await create(self)

    async def run(self, seconds: float, clients: int) -> None:
        """Let so many clients act at a time, for so long."""
        ends = asyncio.get_running_loop().time() + seconds
        acts, weights = zip(*ACTS.items(), strict=True)

        async def act() -> None:
            while asyncio.get_running_loop().time() < ends:
                chosen: Act = self.random.choices(acts, weights)[0]
                await chosen(self)
                self.done[chosen.__name__] += 1

        await asyncio.gather(*(act() for _ in range(clients)))

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()

    async def ask(
        self, method: str, path: str, *, expected: Collection[int] | None = None, **request: Any
    ) -> httpx.Response:
        """Send a request, and count an answer that is not as ``expected``: 2xx, if nothing else is said."""
        answer = await self.client.request(method, path, **request)
        if answer.status_code not in expected if expected is not None else not answer.is_success:
            self.failed[
                f"{method} {path.split('?')[0].rsplit('/', 1)[0]}: {answer.status_code} {answer.text[:200]}"
            ] += 1
        return answer

    def choose_entity(self) -> str:
        """One of the entities that were made last."""
        return self.random.choice(self.entities)

    def make_document(self) -> dict[str, Any]:
        """A document of the model, whose texts and numbers vary."""
        document = self.random.choice(self.documents)
        return {**document, "prizeAmount": self.random.randrange(10_000_000), "overallMotivation": uuid4().hex}


def _connect(base_url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=base_url, headers={"Authorization": "Bearer soak"}, timeout=60.0)


MODEL_PATH: Final = f"{MODEL}/{VERSION}"
CHANGED: Final = {HTTPStatus.OK, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST}
"""What acts on an entity that others change or delete meanwhile may come to."""
FOUND: Final = {HTTPStatus.OK, HTTPStatus.NOT_FOUND}


async def create(mixture: Mixture) -> None:
    answer = await mixture.ask("POST", f"/api/entity/JSON/{MODEL_PATH}", json=mixture.make_document())
    if answer.is_success:
        mixture.entities.append(answer.json()[0]["entityIds"][0])


async def create_with_key(mixture: Mixture) -> None:
    document, headers = mixture.make_document(), {"Idempotency-Key": uuid4().hex}
    for _ in range(2):
        await mixture.ask("POST", f"/api/entity/JSON/{MODEL_PATH}", json=document, headers=headers)


async def create_collection(mixture: Mixture) -> None:
    items = [
        {"model": {"name": MODEL, "version": VERSION}, "payload": json.dumps(mixture.make_document())}
        for _ in range(20)
    ]
    await mixture.ask("POST", "/api/entity/JSON", json=items)


async def get(mixture: Mixture) -> None:
    await mixture.ask("GET", f"/api/entity/{mixture.choose_entity()}", expected=FOUND)


async def get_past(mixture: Mixture) -> None:
    at = datetime.now(UTC) - timedelta(seconds=mixture.random.randrange(60))
    query = {"pointInTime": at.isoformat()}
    await mixture.ask("GET", f"/api/entity/{mixture.choose_entity()}", params=query, expected=FOUND)


async def update(mixture: Mixture) -> None:
    path = f"/api/entity/JSON/{mixture.choose_entity()}"
    await mixture.ask("PUT", path, json=mixture.make_document(), expected=CHANGED)


async def patch(mixture: Mixture) -> None:
    path = f"/api/entity/JSON/{mixture.choose_entity()}"
    headers = {"Content-Type": "application/merge-patch+json"}
    await mixture.ask("PATCH", path, content='{"year": "1999"}', headers=headers, expected={*CHANGED, 412, 428})


async def transition(mixture: Mixture) -> None:
    name = mixture.random.choice(("close", "reopen", "dispatch-close", "dispatch-reopen"))
    path = f"/api/entity/JSON/{mixture.choose_entity()}/{name}"
    await mixture.ask("PUT", path, json=mixture.make_document(), expected=CHANGED)


async def delete(mixture: Mixture) -> None:
    await mixture.ask("DELETE", f"/api/entity/{mixture.choose_entity()}", expected=CHANGED)


async def search(mixture: Mixture) -> None:
    leaf = {
        "type": "simple",
        "jsonPath": mixture.random.choice(("$.year", "$.category", "$.overallMotivation", "$.laureates[*].surname")),
        "operatorType": mixture.random.choice(("EQUALS", "CONTAINS", "STARTS_WITH")),
        "value": mixture.random.choice(("1999", "physics", uuid4().hex[:8])),
    }
    path = f"/api/search/direct/{MODEL_PATH}?limit=20"
    await mixture.ask("POST", path, json=leaf, expected={200, 400})  # too many, or not of the field's type


async def run_search_job(mixture: Mixture) -> None:
    leaf = {"type": "simple", "jsonPath": "$.year", "operatorType": "EQUALS", "value": "1999"}
    job = (await mixture.ask("POST", f"/api/search/async/{MODEL_PATH}", json=leaf)).json()
    await mixture.ask("GET", f"/api/search/async/{job}/status")


async def read_audit(mixture: Mixture) -> None:
    await mixture.ask("GET", f"/api/audit/entity/{mixture.choose_entity()}", expected=FOUND)
    await mixture.ask("GET", f"/api/entity/{mixture.choose_entity()}/changes", expected=FOUND)
    await mixture.ask("GET", f"/ops/v1/entities/{mixture.choose_entity()}/explain", expected=FOUND)


async def exchange_message(mixture: Mixture) -> None:
    content = {"payload": {"text": uuid4().hex * mixture.random.randrange(1, 200)}, "metaData": {}}
    headers = {"Content-Type": "application/json"}
    sent = await mixture.ask("POST", "/api/message/new/soak", json=content, headers=headers)
    if sent.is_success:
        id_ = sent.json()[0]["entityIds"][0]
        await mixture.ask("GET", f"/api/message/{id_}")
        await mixture.ask("DELETE", f"/api/message/{id_}")


async def change_model(mixture: Mixture) -> None:
    model = f"soak-{mixture.random.randrange(50)}/1"
    sample = {uuid4().hex[:2]: 1, "nested": {uuid4().hex[:1]: [1, "a"]}}
    await mixture.ask("POST", f"/api/model/import/JSON/SAMPLE_DATA/{model}", json=sample, expected=CHANGED)
    await mixture.ask("GET", f"/api/model/export/SIMPLE_VIEW/{model}", expected=CHANGED)


async def be_refused(mixture: Mixture) -> None:
    await mixture.ask("POST", f"/api/entity/JSON/{MODEL_PATH}", content='{"year": ', expected={400})
    await mixture.ask("GET", f"/api/entity/{uuid4()}", expected={404})
    await mixture.ask("GET", f"/api/nowhere/{uuid4()}", expected={404})
    await mixture.ask("GET", f"/api/search/direct/{uuid4().hex}/1", expected={404, 405})
    await mixture.ask("POST", f"/api/entity/JSON/{uuid4().hex}/1", json={}, expected={404})


async def connect_anew(mixture: Mixture) -> None:
    async with _connect(mixture.base_url) as client:
        await client.get("/api/health")


async def start_steps(mixture: Mixture) -> None:
    variables = {"amount": mixture.random.randrange(1000), "note": uuid4().hex}
    await mixture.ask("POST", "/v1/instances", json={"definitionId": STEPS["id"], "variables": variables})


async def start_flow(mixture: Mixture) -> None:
    await mixture.ask("POST", "/v1/flows/instances", json={"definitionId": "soak-flow", "input": {"a": uuid4().hex}})


async def start_playbook(mixture: Mixture) -> None:
    await mixture.ask("POST", "/v1/executions", json={"path": "soak", "workload": {"amount": 3, "b": uuid4().hex}})


async def work(mixture: Mixture) -> None:
    asked = {"workerId": WORKER, "jobTypes": JOB_TYPES, "maxJobs": 10}
    for job in (await mixture.ask("POST", "/v1/jobs/poll", json=asked)).json()["jobs"]:
        kind = job["jobType"]
        result: Any = [1, 2, 3] if kind == "soak-load" else {"n": mixture.random.random()}
        variables = {"status": "ok", "result": {"n": 1}} if kind.startswith("playbook:") else result
        done = {"workerId": WORKER, "variables": variables}
        await mixture.ask("POST", f"/v1/jobs/{job['id']}/complete", json=done)


async def look_at_console(mixture: Mixture) -> None:
    await mixture.ask("GET", mixture.random.choice(PAGES))
    await mixture.ask("GET", f"/console/entities/{mixture.choose_entity()}", expected=FOUND)


ACTS: Final[dict[Act, int]] = {
    create: 20,
    create_with_key: 3,
    create_collection: 1,
    get: 20,
    get_past: 5,
    update: 10,
    patch: 3,
    transition: 20,
    delete: 2,
    search: 5,
    run_search_job: 1,
    read_audit: 3,
    exchange_message: 3,
    change_model: 1,
    be_refused: 3,
    connect_anew: 2,
    start_steps: 5,
    start_flow: 2,
    start_playbook: 2,
    work: 10,
    look_at_console: 1,
}
"""How often each is chosen, beside the others."""
