"""Pipelines whose workers are not heard of any more (docs/reference/executions.md#task-kinds)."""

from tests.integration.playbooks.node import a_playbook_node

TASK = """
workflow:
- step: only
  tool: {kind: compute}
  next: {arcs: [{step: lost, when: "event.name == 'step.failed'"}]}
- step: lost
  tool: {kind: noop}
"""


async def test_a_pipeline_begins_again_three_times_and_then_fails(database: str):
    async with a_playbook_node(database) as node:
        execution = await node.run(TASK)
        for again in range(3):
            await node.claim(worker=f"w{again}")
            assert await node.host.sweep(seconds=31) == 1
        await node.claim(worker="w3")
        assert (await node.read(execution)).outcome == "running"
        assert await node.host.sweep(seconds=31) == 0, "it is not handed out again"
        assert (await node.read(execution)).outcome == "success", "the failure is routed"
        [failed] = await node.events(execution, "step.failed")
        assert failed["payload"]["error"]["kind"] == "lease_lost"  # type: ignore[index,call-overload]
        assert await node.host.claim("playbook:compute") == ()
        assert await node.host.sweep(seconds=31) == 0


async def test_an_answer_that_comes_before_the_limit_is_found_exceeded_counts(database: str):
    async with a_playbook_node(database) as node:
        execution = await node.run(TASK)
        for _ in range(3):
            await node.claim()
            assert await node.host.sweep(seconds=31) == 1
        job = await node.claim()
        await node.complete(job, {"status": "ok", "result": 7})
        assert await node.host.sweep(seconds=31) == 0
        assert (await node.read(execution)).outcome == "success"
        assert await node.events(execution, "step.failed") == []
