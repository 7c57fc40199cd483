"""Playbooks that nobody awaits any more are cancelled, by whichever node (docs/reference/executions.md#children)."""

from uuid import uuid4

import pytest

from statewright.jsonval.values import JsonObject
from statewright.playbooks.source import PlaybookSource
from statewright.services.playbooks.dialect import PLAYBOOK_DIALECT
from statewright.services.processes import dialects
from statewright.services.processes.dialects import InstanceQuery
from tests.integration.playbooks.node import PlaybookNode
from tests.integration.steps.conftest import a_node

CHILD = "metadata: {name: child}\nworkflow: [{step: work, tool: {kind: compute}}]"
PARENT = (
    "workflow: [{step: all, loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: 2}},"
    " tool: {kind: playbook, path: child}}]"
)


async def list_children(node: PlaybookNode) -> list[str]:
    """The statuses of the executions of the child."""
    wanted = InstanceQuery(definition_id="child")
    found = await dialects.list_instances(PLAYBOOK_DIALECT, node.host.runtime.processes, node.host.caller, wanted)
    return sorted([(await node.read(one.id)).outcome for one in found.items])


@pytest.mark.parametrize(
    ("completion", "status"),
    [({"status": "ok"}, "success"), ({"status": "error", "error": {"kind": "x"}}, "failed")],
    ids=["success", "failed"],
)
async def test_elements_that_are_playbooks_are_cancelled_by_the_node_that_comes_after(
    database: str, completion: JsonObject, status: str
):
    """One child runs, one has ended and stays as it is, and one element has not begun at the cancellation."""
    tenant = f"tenant-{uuid4().hex[:8]}"
    async with a_node(database, tenant) as host:
        first = PlaybookNode(host)
        source = PlaybookSource(text=CHILD)
        await dialects.upload_definition(PLAYBOOK_DIALECT, host.runtime.processes, host.caller, source)
        parent = await first.run(PARENT)
        assert await host.chain() == 2
        assert await list_children(first) == ["running"] * 2
        [job] = await host.claim("playbook:compute", most=1)
        await first.complete(job, completion)
        await dialects.ask(PLAYBOOK_DIALECT, host.runtime.processes, host.caller, parent, "cancel", {})
    async with a_node(database, tenant) as host:
        second = PlaybookNode(host)
        assert await host.chain() >= 1
        assert await list_children(second) == ["cancelled", status]
        assert await host.claim("playbook:compute") == ()
        assert (await second.read(parent)).outcome == "cancelled"
        assert await host.chain() == 0, "nothing is left to be done"
