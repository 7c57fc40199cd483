"""The seed's loan chain over REST, done by a worker of the SDK, with time in the test's hands
(docs/reference/steps.md).

All rows of "Expected terminal states" are played one after the other against one node, each under a key of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from statewright.api.http.application import HttpApplication
from statewright.api.http.dialects import PROCESS_APIS, build_process_dialect
from statewright.api.http.server import HttpLimits, serve_http
from statewright.auth import MockAuthenticator
from statewright.jsonval.values import JsonObject
from statewright.loop.background import ShutdownBudget
from statewright.network.sockets import bind_listening_socket
from statewright.sdk.endpoint import parse_address
from statewright.sdk.functions import Function
from statewright.sdk.http import HttpTransport
from statewright.sdk.jobs import Job, JobWorker
from statewright.sdk.rest_jobs import RestJobs
from statewright.sdk.tokens import make_token_source
from tests.builders import Json
from tests.integration.steps.conftest import PATIENCE_S, Host
from tests.integration.steps.conftest import host as host
from tests.unit.steps.test_loan_chain import APPLICANT, ROWS, WORKERS
from tests.unit.steps.test_loan_chain import __file__ as beside

APPLICATION, DISBURSEMENT = "LOS::loan-application-full", "LOS::loan-disbursement-workflow"
DEFINITIONS = Path(beside).parent / "loan_chain"


async def test_every_row_of_the_table_ends_where_it_says(host: Host) -> None:
    async with rest_of(host) as api, worker_of(api):
        for name in ("disbursement", "application"):
            answer = await api.post("/v1/definitions", content=(DEFINITIONS / f"{name}.json").read_bytes())
            assert answer.status_code == 201
        for row in ROWS:
            values: Json = row.values
            score, fraud, amount, people, expected = values
            bureau = {"score": score, "fraud": float(fraud), "amount": amount}
            assert await played(host, api, str(row.id), bureau, people) == expected, row.id


async def played(
    host: Host, api: httpx.AsyncClient, key: str, bureau: Json, people: Mapping[str, JsonObject]
) -> list[str]:
    """Start an application, decide what people are asked, let time pass where nobody decides; the ENDs it reached."""
    variables = {**APPLICANT, "loanAmount": bureau["amount"], "bureau": bureau}
    body = {"definitionId": APPLICATION, "variables": variables, "businessKey": key}
    assert (await api.post("/v1/instances", json=body)).status_code == 201
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await instances(api, key)
            match found[0]["status"]:
                case "WAITING":
                    await decided(host, api, found[0], people)
                case "COMPLETED" if await host.chain() == 0:
                    return [await end_of(api, one["id"]) for one in reversed(found)]
                case "FAILED":
                    raise AssertionError(found[0]["failureReason"])
            await asyncio.sleep(0.005)


async def decided(host: Host, api: httpx.AsyncClient, instance: Json, people: Mapping[str, JsonObject]) -> None:
    """What is asked of people is answered, or comes to be overdue."""
    task, *escalation = instance["currentStepIds"]
    if task not in people:
        if not escalation:
            await host.after(hours=48)
        return
    path = f"/v1/instances/{instance['id']}/user-tasks/{task}/complete"
    assert (await api.post(path, json={"variables": people[task]})).status_code == 204


async def instances(api: httpx.AsyncClient, key: str) -> list[Json]:
    """The application and what followed it, the newest first."""
    return list((await api.get(f"/v1/instances?{urlencode({'businessKey': key})}")).json()["items"])


async def end_of(api: httpx.AsyncClient, instance: str) -> str:
    lines = (await api.get(f"/v1/instances/{instance}/history")).json()["items"]
    [end] = [line["stepId"] for line in lines if line["stepType"] == "END"]
    return str(end)


@asynccontextmanager
async def rest_of(host: Host) -> AsyncIterator[httpx.AsyncClient]:
    """The REST dialect of a node, on a port."""
    authenticator = MockAuthenticator(host.caller.principal)
    steps = build_process_dialect(PROCESS_APIS[-1], authenticator, origins=None, observe=lambda *_observed: None)
    listener = bind_listening_socket("127.0.0.1", 0)
    grace = ShutdownBudget(timedelta(seconds=5))
    async with (
        serve_http(
            HttpApplication([steps], host.runtime), listener, asyncio.Event(), HttpLimits(), grace=grace
        ) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, trust_env=False) as client,
    ):
        yield client


@asynccontextmanager
async def worker_of(api: httpx.AsyncClient) -> AsyncIterator[None]:
    """A worker of the SDK with handlers for the whole chain."""
    handlers = {type_: Function("job", type_, handler_of(type_), context=Job) for type_ in WORKERS}
    leave = asyncio.Event()
    transport = HttpTransport(parse_address(str(api.base_url)), make_token_source(None))
    worker = JobWorker(RestJobs(transport), handlers, wait=timedelta(seconds=5))
    working = asyncio.create_task(worker.serve(leave, grace=PATIENCE_S))
    try:
        yield
    finally:
        leave.set()
        await working
        await transport.close_async()


def handler_of(type_: str) -> Callable[[dict[str, Any]], object]:
    """What a worker of the seed returns, with the numbers of the row."""

    async def handle(variables: dict[str, Any]) -> object:
        bureau = variables["bureau"]
        own = {
            "credit-score": {"creditScore": bureau["score"]},
            "fraud-screen": {"fraudScore": bureau["fraud"]},
            "validate-application": {**APPLICANT, "loanAmount": bureau["amount"]},
        }
        return own.get(type_, WORKERS[type_])

    return handle
