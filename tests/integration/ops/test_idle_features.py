"""Whoever uses nothing of the operations API is served as if it were not there: the same statements, rows and callouts
(docs/reference/operations.md). And what its operations have in common: ids of other tenants are unknown ids, and pages
neither repeat nor miss rows that are there all the time.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.ops.routes import OPS_ROUTES
from statewright.operations.service import Act
from statewright.storage.pool import DatabaseConnection
from tests.builders import SAMPLE, Json, a_processor, a_workflow, manual
from tests.database import connected
from tests.integration.node import a_node
from tests.integration.ops.builders import ops_api
from tests.integration.ops.test_common_rules import record
from tests.integration.steps_http.conftest import definition, polled, step, uploaded
from tests.service import Api, RunningService, a_token, done, eventually

# Statements, rows and callouts.


PRESENCE = ("worker_seen", "callout_queue", "tag_seen", "commit_rate", "queue_rate", "workflow_survey")
"""Tables that a background duty writes every few seconds, or for every minute, whatever is asked for meanwhile."""

COUNTS = ("entity_count", "entity_count_change")
"""Triggers note in the one what is counted, and a duty merges it into the other at any moment (ADR 30)."""


@contextmanager
def counted(service: RunningService, tenant: str) -> Iterator[list[str]]:
    """The statements that the service sends for a tenant during the block, by their text; but for those that read
    definitions, and those of background duties.
    """
    seen: list[str] = []

    def log(sent: Any) -> None:
        if any(name in sent.query for name in (*PRESENCE, *COUNTS)):
            return
        if tenant in repr(sent.args) and "FROM model" not in sent.query:  # caches look again when they hear of a change
            seen.append(sent.query)

    def change(*, adds: bool) -> None:
        for each in list_connections(service):
            (each.add_query_logger if adds else each.remove_query_logger)(log)

    def run(change: Callable[[], None]) -> None:
        async def call() -> None:
            change()

        asyncio.run_coroutine_threadsafe(call(), service.loop).result()

    run(partial(change, adds=True))
    try:
        yield seen
    finally:
        run(partial(change, adds=False))


def list_connections(service: RunningService) -> list[DatabaseConnection]:
    """Those that are open for requests."""
    runtime = service.parts.runtime
    pools = (runtime.core.pool, runtime.core.reader.pool, runtime.core.commits._pool)
    return [each for pool in pools for each in (*(idle for _, idle in pool._idle), *pool._leased)]


def rows_of(service: RunningService, tenant: str) -> Counter[str]:
    """How many rows of a tenant there are, by table."""

    async def count() -> Counter[str]:
        async with connected(service.database) as connection:
            tables = await connection.fetch(
                "SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_name)"
                " WHERE column_name = 'tenant' AND table_type = 'BASE TABLE'"
            )
            return Counter(
                {
                    table: await connection.fetchval(f"SELECT count(*) FROM {table} WHERE tenant = $1", tenant)
                    for (table,) in tables
                    if table not in (*PRESENCE, *COUNTS)
                }
            )

    return asyncio.run(count())


LIFE = a_workflow(
    HERE=[manual("GO", to="THERE"), manual("ASK", to="THERE", processors=[a_processor(responseTimeoutMs=60_000)])],
    THERE=[manual("BACK", to="HERE")],
)


def warm(api: Api) -> str:
    """An entity of a model that is cached, over connections that are open."""
    api.a_model(LIFE)
    saved = [api.create() for _ in range(4)][-1]
    api.update(saved.id, fire="GO")
    api.update(saved.id, fire="BACK")
    return saved.id


def test_a_create_is_one_statement_and_two_rows(api: Api, service: RunningService, tenant: str) -> None:
    warm(api)
    before = rows_of(service, tenant)
    with counted(service, tenant) as statements:
        api.create()
    assert len(statements) == 1
    assert "idempotency" not in statements[0]
    assert rows_of(service, tenant) - before == Counter({"entity": 1, "entity_audit": 1})


def test_a_transition_is_two_statements_and_two_rows(api: Api, service: RunningService, tenant: str) -> None:
    entity = warm(api)
    before = rows_of(service, tenant)
    with counted(service, tenant) as statements:
        api.update(entity, fire="GO")
    assert len(statements) == 2
    assert not any("idempotency" in statement for statement in statements)
    assert rows_of(service, tenant) - before == Counter({"entity_history": 1, "entity_audit": 1})


def test_a_processor_is_called_once_and_costs_no_statement(api: Api, service: RunningService, tenant: str) -> None:
    entity = warm(api)
    with a_node(service, tenant, "node") as node, counted(service, tenant) as statements:
        moving = asyncio.run_coroutine_threadsafe(
            asyncio.to_thread(api.update, entity, SAMPLE, fire="ASK"), service.loop
        )
        node.answer_next()
        moving.result()
        assert node.is_idle
    # What is done for a member that has joined, such as to look for its jobs, may come a little later.
    about_entities = [text for text in statements if "cluster_" not in text and "process_job" not in text]
    assert len(about_entities) == 2


def test_a_cycle_of_a_job_has_its_statements_and_rows(service: RunningService, tenant: str) -> None:
    v1 = Api(service.root, a_token(tenant))
    uploaded(v1, definition("chain", step("a", "SERVICE_TASK", "b", jobType="t"), step("b", "WAIT", "end")))

    def cycle() -> None:
        done_or_empty = v1.post("/v1/instances", {"definitionId": "chain"})
        assert done_or_empty.status_code == 201
        [job] = polled(v1, "t")
        assert v1.post(f"/v1/jobs/{job['id']}/complete", {"workerId": "w-1"}).status_code == 204

    cycle()
    before = rows_of(service, tenant)
    with counted(service, tenant) as statements:
        cycle()
        eventually(lambda: any("pg_notify" in text for text in statements))  # other nodes hear of the job a while later
    assert len(statements) == JOB_CYCLE_STATEMENTS, [" ".join(text.split())[:90] for text in statements]
    assert rows_of(service, tenant) - before == JOB_CYCLE_ROWS


JOB_CYCLE_STATEMENTS = 4
"""One fewer than before there was an operations API: a start does not ask for the version that is remembered."""

JOB_CYCLE_ROWS = Counter(
    {"entity": 1, "entity_history": 1, "entity_audit": 2, "process_instance": 1, "process_execution": 2}
)


# What belongs to another tenant is answered as if it did not exist.


@pytest.fixture
def own(service: RunningService, api: Api, tenant: str) -> Json:
    """Ids of things that the tenant has, by the names of path parameters."""
    api.a_model(LIFE)
    saved = done(api.post("/entity/JSON/prize/1", SAMPLE, Idempotency_Key="mine"))[0]
    v1 = Api(service.root, a_token(tenant))
    uploaded(v1, definition("form", step("wait", "WAIT", "end")))
    instance = v1.post("/v1/instances", {"definitionId": "form"}).json()["id"]
    return {
        "entityId": saved["entityIds"][0],
        "transactionId": saved["transactionId"],
        "instanceId": instance,
        "key": "mine",
    }


PARAMETERIZED = [route for route in OPS_ROUTES if "{" in route.path]


@pytest.mark.parametrize("route", PARAMETERIZED, ids=lambda route: route.id)
def test_ids_of_other_tenants_are_unknown(service: RunningService, tenant: str, own: Json, route: OpsRoute) -> None:
    other = ops_api(service, f"{tenant}-x", "ROLE_ADMIN")
    foreign, unknown = (fill(route.path, ids) for ids in (own, {}))
    answers = [other.request(route.method, path) for path in (foreign, unknown)]
    assert answers[0].status_code == answers[1].status_code
    assert answers[0].status_code != 500
    texts = [answer.text.replace(path, "PATH") for answer, path in zip(answers, (foreign, unknown), strict=True)]
    assert len({blank_ids(text, [*own.values()]) for text in texts}) == 1 or answers[0].status_code == 200


def fill(path: str, ids: Json) -> str:
    """A path below ``/ops/v1`` with these ids, or with some that nothing has."""
    parts = path.removeprefix("/ops/v1").split("/")
    return "/".join(str(ids.get(part[1:-1], UNKNOWN)) if part.startswith("{") else part for part in parts)


UNKNOWN = str(uuid4())


def blank_ids(text: str, ids: list[str]) -> str:
    for each in (*ids, UNKNOWN):
        text = text.replace(each, "ID")
    return text


# Paging while rows come and go.


def add_act(service: RunningService, api: Api, tenant: str) -> None:
    record(
        service,
        tenant,
        Act(action="entity.restore", target_kind="ENTITY", target_id=str(uuid4()), reason="r", details={}),
    )


def add_version(service: RunningService, api: Api, tenant: str) -> None:
    [entity] = done(api.get("/entity/prize/1"))
    api.update(entity["meta"]["id"])


def add_queue(service: RunningService, api: Api, tenant: str) -> None:
    v1, name = Api(service.root, a_token(tenant)), uuid4().hex
    uploaded(v1, definition(name, step("a", "SERVICE_TASK", "end", jobType=name)))
    assert v1.post("/v1/instances", {"definitionId": name}).status_code == 201


Add = Callable[[RunningService, Api, str], None]
LISTS: list[tuple[str, Add, Callable[[Json], str]]] = [
    ("/audit", add_act, lambda item: str(item["id"])),
    ("/entities/{entity}/versions", add_version, lambda item: str(item["transactionId"])),
    ("/queues", add_queue, lambda item: str(item["name"])),
]


@pytest.mark.parametrize(("path", "add", "key"), LISTS, ids=lambda value: value if isinstance(value, str) else "")
def test_pages_neither_repeat_nor_miss_what_is_there(
    api: Api, service: RunningService, tenant: str, path: str, add: Add, key: Callable[[Json], str]
) -> None:
    api.a_model(LIFE)
    path = path.replace("{entity}", api.create().id)
    ops = ops_api(service, tenant, "ROLE_OPERATOR")
    for _ in range(6):
        add(service, api, tenant)
    steady = [key(item) for item in done(ops.get(f"{path}?limit=100"))["items"]]
    seen, cursor = list[str](), ""
    while True:
        page = done(ops.get(f"{path}?limit=2{cursor}"))
        seen += [key(item) for item in page["items"]]
        if "nextCursor" not in page:
            break
        cursor = f"&cursor={page['nextCursor']}"
        if len(seen) < 20:
            add(service, api, tenant)
    assert len(seen) == len(set(seen))
    assert set(steady) <= set(seen)
