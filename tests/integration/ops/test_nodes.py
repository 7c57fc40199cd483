"""Nodes (docs/reference/operations.md#nodes)."""

import asyncio

from tests.integration.node import a_node
from tests.integration.ops.builders import ops_api, walk
from tests.service import PATIENCE_S, RunningService, done, eventually

OTHERS = """
    INSERT INTO cluster_node (id, name, address, machine, program, draining, revision, lease_until)
    SELECT 'other-' || n, 'sw-' || n, '127.0.0.1:1', 'elsewhere', '0.0.1', true, 0, now_us() + lease_us
      FROM unnest($1::int[], $2::bigint[]) AS node (n, lease_us)
"""


def enter(service: RunningService, *leases_us: int) -> None:
    """Rows of other nodes, as these would enter them."""

    async def run() -> None:
        async with service.parts.runtime.core.pool.connection() as connection:
            await connection.execute(OTHERS, [*range(len(leases_us))], leases_us)

    asyncio.run_coroutine_threadsafe(run(), service.loop).result(PATIENCE_S)


def remove(service: RunningService) -> None:
    async def run() -> None:
        async with service.parts.runtime.core.pool.connection() as connection:
            await connection.execute("DELETE FROM cluster_node WHERE id LIKE 'other-%'")

    asyncio.run_coroutine_threadsafe(run(), service.loop).result(PATIENCE_S)


def test_the_node_that_answers_is_listed_with_the_members_of_the_tenant(service: RunningService, tenant: str) -> None:
    ops = ops_api(service, tenant)

    def count_members(tenant_ops: object) -> int:
        assert isinstance(tenant_ops, type(ops))
        [node] = [node for node in done(tenant_ops.get("/nodes"))["items"] if node["id"] == service.parts.node.id]
        assert (node["draining"], node["startedAt"] < node["leaseUntil"]) == (False, True)
        assert node["version"]
        return int(node["members"])

    assert count_members(ops) == 0
    with a_node(service, tenant, "mail"):
        eventually(lambda: count_members(ops) == 1)
        assert count_members(ops_api(service, f"{tenant}-x")) == 0


def test_nodes_whose_lease_has_ended_are_left_out(service: RunningService, tenant: str) -> None:
    hour_us = 3_600_000_000
    enter(service, hour_us, hour_us, -1)
    try:
        ops = ops_api(service, tenant)
        listed = walk(ops, "/nodes", limit=1)
        assert {"other-0", "other-1", service.parts.node.id} <= {node["id"] for node in listed}
        assert "other-2" not in {node["id"] for node in listed}
        assert [node["id"] for node in listed] == sorted({node["id"] for node in listed})
        assert done(ops.get("/nodes?limit=1&count=true"))["total"] == len(listed)
        [other] = [node for node in listed if node["id"] == "other-1"]
        assert (other["name"], other["version"], other["draining"], other["members"]) == ("sw-1", "0.0.1", True, 0)
    finally:
        remove(service)
