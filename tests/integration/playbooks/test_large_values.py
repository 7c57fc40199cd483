"""Large values of the event log (docs/reference/executions.md#event-log)."""

from statewright.jsonval.codec import encode
from statewright.playbooks import compile_playbook
from statewright.playbooks.compiling import compile_net
from statewright.playbooks.events import LogEvent
from statewright.services.playbooks.dialect import PLAYBOOK_DIALECT
from statewright.services.processes import event_log
from statewright.services.processes.writing import to_entity_id
from tests.builders import Json
from tests.integration.flows.conftest import done
from tests.integration.playbooks.conftest import HEADER, Playbooks, an_error
from tests.integration.playbooks.node import PlaybookNode, a_playbook_node
from tests.unit.playbooks.replay import replay, sort_tokens

LARGE: Json = ["x" * 60_000, "y" * 60_000]
TEXT = """
workflow:
- step: first
  tool: {kind: compute}
  next: {arcs: [{step: second}]}
- step: second
  tool: {kind: compute}
"""


async def read_log(node: PlaybookNode, execution: str) -> list[LogEvent]:
    """The whole log, with the values that it names."""
    host = node.host
    return [await to_log_event(host.runtime, host.caller, execution, event) for event in await node.events(execution)]


async def to_log_event(runtime: Json, caller: Json, execution: str, event: Json) -> LogEvent:
    payload: dict[str, Json] = dict(event["payload"])
    for name, reference in event.get("references", {}).items():
        assert payload[name] is None
        payload[name] = await event_log.read_value(
            PLAYBOOK_DIALECT.find_host(runtime.processes), caller, execution, reference["value"]
        )
        assert len(encode(payload[name])) == reference["bytes"]
    known: dict[str, Json] = {name: event.get(name) for name in ("step", "step_run_id", "iteration", "attempt")}
    return LogEvent(
        type=str(event["event_type"]),
        entity_type=event["entity_type"],
        entity_id=str(event["entity_id"]),
        payload=payload,
        **known,
    )


async def test_large_values_are_beside_the_log_which_still_gives_the_state(database: str):
    async with a_playbook_node(database) as node:
        execution = await node.run(TEXT, workload={"large": LARGE})
        patches: Json = [{"path": ["large"], "value": LARGE}]
        await node.complete(await node.claim(), {"status": "ok", "result": LARGE, "patches": patches})
        events: list[Json] = [*await node.events(execution)]
        assert max(len(encode(event)) for event in events) < 70_000
        kinds = {str(event["event_type"]) for event in events if "references" in event}
        assert kinds == {"playbook.started", "ctx.patched", "step.done"}
        stored = "SELECT count(*) FROM process_part WHERE instance = $1 AND name LIKE 'log/%'"
        count = await node.host.count(stored, to_entity_id(execution))
        names = {each["value"] for one in events for each in one.get("references", {}).values()}
        assert count == len(names)
        compiled = compile_net(compile_playbook(HEADER + TEXT))
        again = replay(compiled, await read_log(node, execution))
        assert sort_tokens(again) == sort_tokens((await node.read(execution)).marking)


def test_a_large_value_is_read_by_its_name(playbooks: Playbooks, other: Playbooks):
    execution = playbooks.run(TEXT)
    [job] = playbooks.poll()
    playbooks.complete(job, {"status": "ok", "result": LARGE})
    [ended] = [event for event in playbooks.events(execution) if event["event_type"] == "step.done"]
    assert (ended["payload"]["result"], ended["payload"]["reason"]) == (None, None)
    [name] = {reference["value"] for reference in ended["references"].values()}
    assert set(ended["references"]) == {"result", "output"}
    path = f"/v1/executions/{execution['id']}/values"
    assert done(playbooks.api.get(f"{path}/{name}"))["value"] == LARGE
    for unknown in ("0" * 32, "..%2Fx", "iterations"):
        an_error(playbooks.api.get(f"{path}/{unknown}"), 404, "not-found")
    an_error(other.api.get(f"{path}/{name}"), 404, "not-found")
