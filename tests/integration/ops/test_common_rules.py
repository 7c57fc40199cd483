"""What all operations of ``/ops/v1`` have in common (docs/reference/operations.md)."""

import asyncio
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta
from uuid import uuid4

import pytest

from statewright.api.http.ops.routes import OPS_ROUTES
from statewright.entity import Actor
from statewright.ids import TenantId, uuid_to_ulid
from statewright.operations.service import Act
from statewright.operations.table import OPERATIONS
from statewright.services.ops.service import OpsAuditSweeper
from statewright.storage.connections import parse_database_url
from statewright.storage.ops.service import record_act
from statewright.storage.pool import Pool
from tests.builders import Json, a_workflow
from tests.database import Template
from tests.integration.ops.builders import ops_api, walk
from tests.service import Api, RunningService, a_token, done, eventually, hosted, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"


def record(service: RunningService, tenant: str, *acts: Act, actor: str = "ada") -> None:
    """Acts in the trail, as the operations that carry them out would record them."""

    async def run() -> None:
        async with service.parts.runtime.core.pool.connection() as connection:
            for act in acts:
                await record_act(connection, TenantId(tenant), Actor(actor, "user"), act)

    asyncio.run_coroutine_threadsafe(run(), service.loop).result()


def an_act(target: str = "e-1", action: str = "entity.restore") -> Act:
    return Act(action=action, target_kind="ENTITY", target_id=target, reason="because", details={"n": 1})


def test_the_api_says_what_it_offers_and_who_asks(service: RunningService, tenant: str) -> None:
    described = done(ops_api(service, tenant, "ROLE_OPERATOR").get(""))
    assert described["version"] == "1.0"
    assert described["principal"] == {"id": "alice", "kind": "user", "roles": ["ROLE_USER", "ROLE_OPERATOR"]}
    assert described["tenant"] == tenant
    assert "audit" in described["features"]


def test_strangers_learn_nothing(service: RunningService) -> None:
    for path in ("/ops/v1", "/ops/v1/audit", "/ops/v1/nowhere"):
        refused(Api(service.root).get(path), 401, "UNAUTHORIZED")


def test_unknown_paths_methods_and_parameters_are_refused(service: RunningService, tenant: str) -> None:
    ops = ops_api(service, tenant, "ROLE_OPERATOR")
    assert refused(ops.get("/nowhere"), 404, "NOT_FOUND")["instance"] == "/ops/v1/nowhere"
    refused(ops.post("/audit"), 405, "BAD_REQUEST")
    assert refused(ops.get("/audit?xyz=1"), 400, "BAD_REQUEST")["properties"]["parameter"] == "xyz"


@pytest.mark.parametrize("route", [route for route in OPS_ROUTES if route.allowed_roles], ids=lambda route: route.id)
def test_what_is_marked_wants_its_role(service: RunningService, tenant: str, route: object) -> None:
    assert isinstance(route, type(OPS_ROUTES[0]))
    path = route.path.removeprefix("/ops/v1").replace("{entityId}", UNKNOWN).replace("{memberId}", UNKNOWN)
    refused(ops_api(service, tenant).request(route.method, path), 403, "FORBIDDEN")
    assert ops_api(service, tenant, "ROLE_ADMIN").request(route.method, path).status_code != 403


@pytest.mark.parametrize("reason", ["a\0b", "\ud800"])
def test_texts_that_cannot_be_stored_are_refused(service: RunningService, tenant: str, reason: str) -> None:
    ops, body = ops_api(service, tenant, "ROLE_OPERATOR"), {"reason": reason}
    for path in ("suspensions", f"incidents/{uuid4()}/resolve", "models/prize/1/workflow/revisions/1/activate"):
        assert "at reason" in refused(ops.post(f"/{path}", body), 400, "BAD_REQUEST")["detail"]


def test_switched_off_there_is_no_such_api(database_template: Template) -> None:
    with hosted(database_template.clone(), ops_enabled=False) as service:
        response = ops_api(service, "t", "ROLE_ADMIN").get("/audit")
    assert (response.status_code, response.headers["content-type"]) == (404, "text/plain; charset=utf-8")


def test_acts_are_listed_newest_first(service: RunningService, tenant: str) -> None:
    record(service, tenant, an_act("e-1"), an_act("e-2", "member.drain"))
    newest, oldest = done(ops_api(service, tenant, "ROLE_OPERATOR").get("/audit"))["items"]
    assert (newest["target"], newest["action"]) == ({"kind": "ENTITY", "id": "e-2"}, "member.drain")
    assert oldest["actor"] == {"id": "ada", "kind": "user"}
    assert (oldest["reason"], oldest["details"]) == ("because", {"n": 1})
    assert newest["at"] > oldest["at"]


def test_acts_of_other_tenants_are_not_listed(service: RunningService, tenant: str) -> None:
    record(service, f"{tenant}-other", an_act())
    assert done(ops_api(service, tenant, "ROLE_OPERATOR").get("/audit")) == {"items": []}


def test_a_target_is_found_by_its_ulid_too(service: RunningService, tenant: str) -> None:
    entity = "01972c3e-4f00-7000-8000-00000000000a"
    record(service, tenant, an_act(entity), an_act("e-2"))
    found = done(ops_api(service, tenant, "ROLE_OPERATOR").get(f"/audit?targetId={uuid_to_ulid(entity)}"))["items"]
    assert [act["target"]["id"] for act in found] == [entity]


def test_filters_select_acts(service: RunningService, tenant: str) -> None:
    record(service, tenant, an_act("e-1"), an_act("e-2"), an_act("e-3", "member.drain"))
    record(service, tenant, an_act("e-1"), actor="bob")
    ops = ops_api(service, tenant, "ROLE_OPERATOR")

    def count(query: str) -> int:
        return len(done(ops.get(f"/audit?{query}"))["items"])

    assert count("targetId=e-1&targetId=e-2") == 3
    assert count("targetId=e-1&actor=bob") == 1
    assert count("action=member.drain") == 1
    second = done(ops.get("/audit?targetId=e-2"))["items"][0]["at"]
    assert (count(f"atFrom={second}"), count(f"atTo={second}")) == (3, 1)


def test_pages_follow_each_other_while_acts_are_added(service: RunningService, tenant: str) -> None:
    record(service, tenant, *(an_act(f"e-{number}") for number in range(5)))
    ops = ops_api(service, tenant, "ROLE_OPERATOR")
    first = done(ops.get("/audit?limit=2&count=true"))
    record(service, tenant, an_act("later"))
    rest = done(ops.get(f"/audit?limit=1000&count=true&cursor={first['nextCursor']}"))
    assert [item["target"]["id"] for item in (*first["items"], *rest["items"])] == [f"e-{n}" for n in (4, 3, 2, 1, 0)]
    assert (first["total"], rest["total"]) == (5, 6)
    assert "nextCursor" not in rest
    assert len(walk(ops, "/audit", limit=2)) == 6


@pytest.mark.parametrize("key", [[2**63], [-(2**63) - 1], ["x"], [], None])
def test_keys_that_no_row_has_are_no_cursors(service: RunningService, tenant: str, key: Json) -> None:
    """A client has made a cursor of its own out of one of ours."""
    ops, api = ops_api(service, tenant, "ROLE_OPERATOR"), service.api(tenant)
    ids = [api.create(model=api.a_model()).id, str(uuid4())]
    job = ops.post("/bulk-jobs", {"operation": "LOOPBACK", "ids": ids, "dryRun": True}).json()
    for path in (f"bulk-jobs/{job['id']}/items", "models/prize/1/workflow/revisions"):
        if path.endswith("revisions"):
            for name in ("one", "two"):
                api.import_workflows(a_workflow(name, NEW=[]))
        eventually(lambda path=path: "nextCursor" in done(ops.get(f"/{path}?limit=1")))  # its ids are frozen
        refuse_forged(ops, f"/{path}", key)


def test_texts_that_no_row_can_have_are_no_cursors(service: RunningService, tenant: str) -> None:
    api = service.api(tenant)
    for version in (1, 2):
        api.import_model(f"prize/{version}")
    ops = ops_api(service, tenant, "ROLE_OPERATOR")
    refuse_forged(ops, "/models", ["prize\0", 1])
    refuse_forged(ops, "/models", ["prize\\\0", 1])
    assert done(ops.get(f"/models?limit=1&cursor={forge(ops, '/models', ['prize' + chr(92) + 'u0000', 1])}"))


def refuse_forged(ops: Api, path: str, key: Json) -> None:
    refused(ops.get(f"{path}?limit=1&cursor={forge(ops, path, key)}"), 400, "BAD_REQUEST")


def forge(ops: Api, path: str, key: Json) -> str:
    """The cursor of a list with another key."""
    cursor = done(ops.get(f"{path}?limit=1"))["nextCursor"]
    digest, _ = json.loads(urlsafe_b64decode(f"{cursor}=="))
    return urlsafe_b64encode(json.dumps([digest, key]).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "path", [one.path for one in OPERATIONS if any(query.name == "count" for query in one.query)], ids=str
)
def test_a_list_that_offers_its_total_tells_it(service: RunningService, tenant: str, path: str) -> None:
    ops = Api(service.root, a_token(tenant, user_roles=["ROLE_OPERATOR"]))
    assert "total" not in done(ops.get(path))
    counted = done(ops.get(f"{path}?count=true"))
    assert counted["total"] == len(counted["items"])


def test_a_word_that_a_filter_does_not_know_is_told_the_others(service: RunningService, tenant: str) -> None:
    problem = refused(ops_api(service, tenant).get("/incidents?status=CLOSED"), 400, "BAD_REQUEST")
    assert problem["detail"].endswith("'status': OPEN, RESOLVED")


def test_cursors_belong_to_one_list(service: RunningService, tenant: str) -> None:
    ops = ops_api(service, tenant, "ROLE_OPERATOR")
    for name in ("a", "b"):
        target = {"url": "https://93.184.216.34/"}
        assert ops.post("/subscriptions", {"name": name, "target": target, "enabled": False}).status_code == 201
    cursor = done(ops.get("/subscriptions?limit=1"))["nextCursor"]
    assert refused(ops.get(f"/messages?cursor={cursor}"), 400, "BAD_REQUEST")["properties"]["parameter"] == "cursor"


def test_cursors_belong_to_a_tenant_and_its_filters(service: RunningService, tenant: str) -> None:
    other = f"{tenant}-other"
    for each in (tenant, other):
        record(service, each, an_act("e-1"), an_act("e-2"))
    ops = ops_api(service, tenant, "ROLE_OPERATOR")
    mine = done(ops.get("/audit?limit=1"))["nextCursor"]
    foreign = done(ops_api(service, other, "ROLE_OPERATOR").get("/audit?limit=1"))["nextCursor"]
    deep = urlsafe_b64encode(b'["x",' + b"[" * 20_000).decode()
    for query in (
        *(f"cursor={foreign}", f"cursor={mine}&action=x", f"cursor={mine[:-3]}"),
        *("cursor=%00", "cursor=é", f"cursor={deep}"),
    ):
        assert refused(ops.get(f"/audit?{query}"), 400, "BAD_REQUEST")["properties"]["parameter"] == "cursor", query


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "count=maybe", "atFrom=yesterday"])
def test_parameters_out_of_range_are_named(service: RunningService, tenant: str, query: str) -> None:
    problem = refused(ops_api(service, tenant, "ROLE_OPERATOR").get(f"/audit?{query}"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == query.partition("=")[0]


async def test_old_acts_are_swept(database: str) -> None:
    async with Pool(parse_database_url(database), size=1) as pool:
        async with pool.connection() as connection:
            for _ in range(3):
                await record_act(connection, TenantId("t"), Actor("ada", "user"), an_act())
            await connection.execute("UPDATE ops_audit SET at = 1 WHERE id IN (SELECT id FROM ops_audit LIMIT 2)")
        sweeper = OpsAuditSweeper(pool, retention=timedelta(days=400))
        await sweeper.removal.run()
        async with pool.connection() as connection:
            assert await connection.fetchval("SELECT count(*) FROM ops_audit") == 1
        assert sweeper.removal.removed == 2
