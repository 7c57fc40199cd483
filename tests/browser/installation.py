"""A running program, and what there is to look at in it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import asyncpg

from tests.builders import Json, a_workflow, automated, manual, when
from tests.e2e.program import Program
from tests.service import Api

ORDER = {"customer": "Ada", "amount": 120.5, "lines": [{"sku": "A-1", "count": 2}], "paid": False}
ORDERS = 60

FULFILMENT = a_workflow(
    "fulfilment",
    NEW=[
        manual("PAY", to="PAID"),
        manual("APPROVE", to="APPROVED", criterion=when("$.amount", "GREATER_THAN", 10_000)),
    ],
    PAID=[automated("SHIP", to="SHIPPED", criterion=when("$.paid", "EQUALS", True)), manual("CANCEL", to="CANCELLED")],
    APPROVED=[],
    SHIPPED=[],
    CANCELLED=[],
)

HOSTILE = '<script>alert(1)</script> "><img src=x onerror=alert(2)> {{7*7}} \u202e../?#%'
"""Text of a user who means harm."""


ONBOARDING = {
    "id": "HR::onboarding",
    "name": "Onboarding",
    "steps": [
        {"id": "fork", "name": "Both", "type": "PARALLEL_GATEWAY", "parallelNextSteps": ["ask", "mail"],
         "joinStep": "meet"},
        {"id": "ask", "name": "Ask the boss", "type": "USER_TASK", "nextStep": "meet"},
        {"id": "mail", "name": "Wait for mail", "type": "WAIT", "nextStep": "meet", "boundaryEvents": [
            {"type": "TIMER", "duration": "P1D", "interrupting": False, "targetStepId": "end"}]},
        {"id": "meet", "name": "Together", "type": "JOIN_GATEWAY", "nextStep": "account"},
        {"id": "account", "name": "Open an account", "type": "SERVICE_TASK", "jobType": "create-account",
         "nextStep": "fee"},
        {"id": "fee", "name": "Fee", "type": "TRANSFORMATION", "transformations": {"fee": "${amount * 2}"},
         "nextStep": "end"},
        {"id": "end", "name": "End", "type": "END"},
    ],
}  # fmt: skip
"""Steps with two branches, of which one waits for a person and one for a signal."""

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: import-orders}
workflow:
- step: fetch
  tool: {kind: noop}
  next:
    arcs:
    - step: gate
- step: gate
  spec: {policy: {admit: {rules: [{when: ctx.approved == true, then: {allow: true}}, {else: {then: {allow: false}}}]}}}
  tool: {kind: noop}
"""
"""A playbook whose second step admits no token until the context says so."""


DATE_BACK = "UPDATE entity SET valid_from = valid_from - $2 WHERE id = $1::uuid"


class Installation:
    """A program in mock mode. ``orders`` are the ids of its orders, oldest first; ``instance`` is one of a process."""

    def __init__(self, program: Program, database: str) -> None:
        self.program = program
        self._database = database
        self.orders: list[str] = []
        self.own_parameters: dict[str, dict[str, str]] = {}
        """By the path of a page, the parameters that are others than those of all pages."""
        self.instance = ""

    @property
    def root(self) -> str:
        return self.program.root

    @property
    def parameters(self) -> dict[str, str]:
        """A value for each parameter of the paths of pages, by name."""
        return (
            {"name": "order", "version": "1", "workflow": "fulfilment", "id": self.orders[0]}
            | PROCESSES
            | {"instance": self.instance}
        )

    def date_back(self, entity: str, days: int) -> None:
        """Have the present version of an entity be that much older."""

        async def change() -> None:
            connection = await asyncpg.connect(self._database)
            try:
                await connection.execute(DATE_BACK, entity, days * 86_400_000_000)
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as pool:  # Playwright keeps an event loop running in this thread
            pool.submit(asyncio.run, change()).result()

    @property
    def api(self) -> Api:
        return self.program.api()

    @property
    def processes(self) -> Api:
        """The API of processes, which is beside the context path."""
        return self.program.api(context_path="/v1")


PROCESSES = {"definition": "HR::onboarding", "flow": "orders", "playbook": "import-orders"}
"""Which definition the filled installation has of each process language."""


def fill(installation: Installation) -> None:
    """Orders in three states, a model without a workflow, and one with hostile names and values."""
    api = installation.api
    api.a_model(FULFILMENT, model="order/1", sample=ORDER)
    api.a_model(FULFILMENT, model="sale/1", sample=ORDER)  # for tests that write: those of orders are counted
    installation.orders = [api.create(ORDER | {"amount": 100 + n}, model="order/1").id for n in range(ORDERS)]
    for order in installation.orders[:5]:
        api.update(order, ORDER, fire="PAY")
    api.a_model(model="invoice/2", sample={"number": "R-1", "total": 12.50})
    api.import_model("draft/1", {"text": ""})
    api.a_model(model="note/1", sample={"text": HOSTILE})
    api.create({"text": HOSTILE}, model="note/1")
    installation.instance = fill_processes(installation.processes)


def fill_processes(api: Api) -> str:
    """A definition in each process language, and an instance of the first one, whose id is returned."""
    store(api, "/definitions", ONBOARDING)
    store(api, "/flows/definitions", "@flow orders\nload → [charge | pack] → ship", content_type="text/plain")
    store(api, "/playbooks", PLAYBOOK, content_type="application/yaml")
    started = store(api, "/instances", {"definitionId": "HR::onboarding", "businessKey": "E-1"})
    return str(started["id"])


def store(api: Api, path: str, body: Json, **headers: str) -> Json:
    """What the API of processes answers to a request that has to succeed; nothing where it answers nothing."""
    response = api.post(path, body, **headers)
    assert response.is_success, f"{response.status_code}: {response.text}"
    return response.json() if response.content else None
