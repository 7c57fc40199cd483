"""``now()`` in executions that the service keeps (docs/reference/playbooks.md#time)."""

from tests.integration.playbooks.conftest import Playbooks, run_pipeline
from tests.integration.playbooks.node import a_playbook_node
from tests.integration.playbooks.test_pauses import answer_with_fields
from tests.service import eventually

TASK = """
workflow:
- step: only
  set: {ctx.ended: '{{ now() }}', ctx.same: '{{ now() == event.timestamp }}'}
  tool: [{kind: compute, at: '{{ now() }}'}, {kind: compute, at: '{{ now() }}'}]
"""


async def test_another_worker_gets_the_instant_that_the_first_one_got(database: str):
    async with a_playbook_node(database) as node:
        execution = await node.run(TASK)
        lost = await node.claim(worker="w0")
        assert await node.host.sweep(seconds=31) == 1
    async with a_playbook_node(database, node.host.caller.tenant) as restarted:
        job = await restarted.claim(worker="w1")
        assert job.variables["at"] == lost.variables["at"]
        assert [job.variables["at"]] == await restarted.instants(execution, "step.scheduled")
        await restarted.complete(job, run_pipeline(job.variables, answer_with_fields))
        ended = await restarted.read(execution)
        [done] = await restarted.instants(execution, "step.done")
        assert ended.marking.data["ctx"] == {"ended": done, "same": True}
        assert ended.marking.data["results"]["only"]["at"] == job.variables["at"]  # type: ignore[index,call-overload]


def test_the_service_has_one_instant_for_all_tasks_of_a_run(playbooks: Playbooks):
    sets = "spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {%s: '{{ now() }}'}}}}]}}"
    first, last = (f"{{kind: noop, {sets % name}}}" for name in ("first", "last"))
    execution = playbooks.run(f"workflow: [{{step: only, tool: [{first}, {{kind: wait, seconds: 1.1}}, {last}]}}]")
    eventually(lambda: playbooks.read(execution)["status"] == "success")
    [scheduled] = [one for one in playbooks.events(execution) if one["event_type"] == "step.scheduled"]
    assert playbooks.read(execution)["ctx"] == dict.fromkeys(("first", "last"), scheduled["timestamp"])
