"""Models, workflows, messages and the step engine through the client of applications (docs/guides/client.md)."""

from uuid import uuid4

import pytest

from statewright import Client, Conflicting, Invalid, Missing
from tests.builders import a_workflow, manual

SAMPLE = {"sku": "A-1", "qty": 1}
LIFE = a_workflow("life", OPEN=[manual("CLOSE", to="CLOSED")], CLOSED=[])


def test_a_model_is_imported_locked_and_deleted(client: Client) -> None:
    model_id = client.models.import_sample("order", 1, SAMPLE)
    [found] = client.models.list()
    assert (found.id, found.name, found.version, found.state) == (model_id, "order", 1, "UNLOCKED")
    client.models.lock("order", 1)
    with pytest.raises(Conflicting, match="MODEL_ALREADY_LOCKED"):
        client.models.import_sample("order", 1, SAMPLE)
    client.models.unlock("order", 1)
    client.models.delete("order", 1)
    assert client.models.list() == []


def test_a_schema_that_was_exported_can_be_imported(client: Client) -> None:
    client.models.import_sample("order", 1, SAMPLE)
    exported = client.models.export_schema("order", 1)
    client.models.import_schema("order", 2, exported)
    assert client.models.export_schema("order", 2)["model"] == exported["model"]
    simple = client.models.export_schema("order", 1, form="SIMPLE_VIEW")
    client.models.import_schema("order", 3, simple, form="SIMPLE_VIEW")


def test_a_document_is_held_against_its_model(client: Client) -> None:
    client.models.import_sample("order", 1, SAMPLE)
    assert client.models.validate("order", 1, {"qty": 2}).success
    verdict = client.models.validate("order", 1, {"qty": "two"})
    assert not verdict.success
    assert "qty" in verdict.message


def test_a_model_grows_up_to_its_change_level(client: Client) -> None:
    client.models.import_sample("order", 1, SAMPLE)
    client.models.lock("order", 1)
    with pytest.raises(Invalid):
        client.create("order", 1, {"colour": "red"})
    client.models.set_change_level("order", 1, "STRUCTURAL")
    client.create("order", 1, {"colour": "red"})


def test_names_of_models_may_have_any_character(client: Client) -> None:
    name = "a/b c?#ü"
    client.models.import_sample(name, 1, SAMPLE)
    client.models.lock(name, 1)
    made = client.create(name, 1, SAMPLE)
    assert client.get(made.id).model == name
    assert client.count(name, 1) == 1


def test_workflows_that_were_exported_can_be_imported(client: Client) -> None:
    for version in (1, 2):
        client.models.import_sample("order", version, SAMPLE)
    client.workflows.import_("order", 1, [LIFE], mode="REPLACE")
    exported = client.workflows.export("order", 1)
    client.workflows.import_("order", 1, exported)
    del exported["modelVersion"]
    client.workflows.import_("order", 2, exported)
    assert client.workflows.export("order", 2)["workflows"] == exported["workflows"]


def test_a_workflow_that_is_wrong_is_refused(client: Client) -> None:
    client.models.import_sample("order", 1, SAMPLE)
    with pytest.raises(Invalid, match="VALIDATION_FAILED"):
        client.workflows.import_("order", 1, [a_workflow("w", OPEN=[manual("GO", to="NOWHERE")])])
    with pytest.raises(Missing, match="WORKFLOW_NOT_FOUND"):
        client.workflows.export("order", 1)


def test_messages_are_kept_until_they_are_deleted(client: Client) -> None:
    sent = client.messages.send(
        "dock.arrivals", {"plate": "AB-1"}, metadata={"source": "gate"}, correlation_id="c-1", recipient="yard"
    )
    found = client.messages.get(sent)
    assert (found.content, found.metadata) == ({"plate": "AB-1"}, {"source": "gate"})
    assert (found.header["subject"], found.header["correlationId"]) == ("dock.arrivals", "c-1")
    client.messages.delete(sent)
    with pytest.raises(Missing):
        client.messages.get(sent)


def test_a_process_runs_from_its_upload_to_its_end(client: Client) -> None:
    name = f"hire-{uuid4().hex[:8]}"
    definition = {
        "id": name,
        "name": "Hire",
        "steps": [
            {"id": "ask", "name": "Ask", "type": "USER_TASK", "jobType": "interview", "nextStep": "hold"},
            {"id": "hold", "name": "Hold", "type": "WAIT", "nextStep": "end"},
            {"id": "end", "name": "End", "type": "END"},
        ],
    }
    assert client.steps.upload(definition).version == 1
    assert client.steps.definition(name)["steps"][1]["id"] == "hold"
    assert [one.id for one in client.steps.definitions(keyword=name)] == [name]

    started = client.steps.start(name, {"who": "Ada"}, business_key="E-1")
    assert (started.status, started.steps, started.variables) == ("WAITING", ("ask",), {"who": "Ada"})
    with pytest.raises(Conflicting) as taken:
        client.steps.start(name, business_key="E-1")
    assert (taken.value.code, taken.value.status) == ("conflict", 409)

    [task] = client.steps.user_tasks(definition_id=name)
    assert (task.instance_id, task.job_type, task.payload) == (started.id, "interview", {"who": "Ada"})
    client.steps.complete_task(task.id, {"score": 7}, completed_by="grace")
    client.steps.signal(started.id, "hold", {"badge": 12})
    done = client.steps.wait(started.id)
    assert (done.status, done.variables) == ("COMPLETED", {"who": "Ada", "score": 7, "badge": 12})
    assert [entry.step_id for entry in client.steps.history(started.id)] == ["ask", "hold", "end"]
    assert [one.id for one in client.steps.instances(definition_id=name, status="COMPLETED")] == [started.id]


def test_an_instance_can_be_cancelled(client: Client) -> None:
    name = f"wait-{uuid4().hex[:8]}"
    steps = [
        {"id": "hold", "name": "Hold", "type": "WAIT", "nextStep": "end"},
        {"id": "end", "name": "End", "type": "END"},
    ]
    client.steps.upload({"id": name, "name": "Wait", "steps": steps})
    started = [client.steps.start(name) for _ in range(3)]
    assert len(list(client.steps.instances(definition_id=name, size=2))) == 3
    ended = client.steps.cancel(started[0].id, "changed our mind")
    assert (ended.status, ended.failure_reason) == ("CANCELLED", "changed our mind")
    with pytest.raises(Conflicting, match="terminal"):
        client.steps.cancel(started[0].id)
    with pytest.raises(Conflicting):
        client.steps.retry(started[1].id, "hold")


def test_any_other_request_can_be_made(client: Client) -> None:
    assert client.request("GET", "/health") == {"status": "UP"}
    client.models.import_sample("order", 1, SAMPLE)
    client.models.lock("order", 1)
    with pytest.raises(Invalid, match="pageSize"):
        client.request("GET", "/entity/order/1", query={"pageSize": "many"})
    assert client.request("GET", "/v1/definitions", query={"keyword": "nosuch"}, at_root=True)["items"] == []


def test_a_flow_runs_from_its_upload_to_its_end(client: Client) -> None:
    name = f"weigh-{uuid4().hex[:8]}"
    text = f"@flow {name}\nwait:delay (- duration: 0 -)"
    assert client.flows.check(text) == []
    with pytest.raises(Invalid, match="unexpected"):
        client.flows.check("weigh →")
    assert client.flows.upload(text).version == 1
    assert client.flows.definition(name, version=1)["source"] == text
    assert [one.id for one in client.flows.definitions(keyword=name)] == [name]

    started = client.flows.start(name, {"kg": 2}, business_key="P-1")
    done = client.flows.wait(started.id)
    assert (done.status, done.input, done.result, done.business_key) == ("COMPLETED", {"kg": 2}, {"kg": 2}, "P-1")
    assert {line.kind for line in client.flows.history(started.id, size=1)} == {"start", "task", "end"}
    assert [one.id for one in client.flows.instances(definition_id=name, status="COMPLETED")] == [started.id]


def test_flows_wait_for_events_and_counters(client: Client) -> None:
    waiting = "wait:event (- {event: arrived, match: input} -)"
    text = f"wait:acquire (- name: hall -) → {waiting} → wait:release (- name: hall -)"
    client.flows.upload(text, id="arrivals")
    started = client.flows.start("arrivals", {"truck": "T-1"})
    assert (client.flows.counter("hall"), client.flows.send_event("arrived", {"truck": "T-2"}).tasks) == (1, 0)
    sent = client.flows.send_event("arrived", {"truck": "T-1"}, {"dock": 3})
    assert [(one.instance_id, one.node) for one in sent.receipts] == [(started.id, 2)]
    assert client.flows.instance(started.id).result == {"truck": "T-1", "dock": 3}
    assert client.flows.counter("hall") == 0


def test_a_flow_can_be_stopped_and_go_on(client: Client) -> None:
    name = f"hold-{uuid4().hex[:8]}"
    client.flows.upload("nobody-does-this", id=name)
    started = [client.flows.start(name) for _ in range(3)]
    assert len(list(client.flows.instances(definition_id=name, size=2))) == 3
    assert client.flows.terminate(started[0].id).status == "TERMINATING"
    assert client.flows.terminate(started[0].id).status == "TERMINATED"
    assert client.flows.restart(started[0].id).status == "RUNNING"
    assert client.flows.cancel(started[0].id, "changed our mind").status == "CANCELLED"
    with pytest.raises(Conflicting):
        client.flows.restart(started[1].id)


def test_the_input_of_a_failed_task_is_changed_before_a_restart(client: Client) -> None:
    name = f"mend-{uuid4().hex[:8]}"
    client.flows.upload("wait:event (- event: 'paid-{input[order]}' -)", id=name)
    failed = client.flows.start(name, {"orderr": 1})
    assert (failed.status, failed.failed_nodes[0].node) == ("FAILED", 1)
    changed = client.flows.change(failed.id, 1, {"order": 1}, reason="mistyped")
    assert changed.status == "FAILED"
    assert client.flows.restart(failed.id).status == "RUNNING"
    assert client.flows.send_event("paid-1").tasks == 1


GATED = """
metadata: {name: NAME, tags: [gates]}
workload: {pages: [1, 2]}
workflow:
- step: gate
  spec: {policy: {admit: {rules: [{when: ctx.open, then: {allow: true}}, {else: {then: {allow: false}}}]}}}
  loop: {in: "{{ workload.pages }}", iterator: page}
  tool: {kind: noop}
"""


def test_a_playbook_runs_from_its_upload_to_its_end(client: Client) -> None:
    path = f"gates-{uuid4().hex[:8]}"
    text = GATED.replace("NAME", path)
    assert client.playbooks.check(text) == []
    with pytest.raises(Invalid, match="workflow"):
        client.playbooks.check(text.replace("workflow", "workflows"))
    assert client.playbooks.upload(text).version == 1
    assert client.playbooks.definition(path, version=1)["source"] == text
    assert [one.path for one in client.playbooks.definitions(keyword=path)] == [path]

    begun = client.playbooks.start(path, {"pages": [1, 2, 3]}, ctx={"who": "Ada"}, business_key="G-1")
    assert (begun.status, begun.state, begun.pending_steps) == ("waiting", "WAITING", ("gate",))
    assert client.playbooks.wait(begun.id, until=["WAITING"]).ctx == {"who": "Ada"}
    with pytest.raises(Conflicting):
        client.playbooks.start(path, business_key="G-1")
    assert client.playbooks.evaluate(begun.id).state == "WAITING"
    assert client.playbooks.patch(begun.id, {"open": True}, "said so").ctx == {"who": "Ada", "open": True}
    ended = client.playbooks.wait(begun.id)
    assert (ended.status, ended.workload, ended.results["gate"]) == ("success", {"pages": [1, 2, 3]}, [None] * 3)
    assert (ended.result, ended.failures, ended.business_key) == ([None] * 3, (), "G-1")
    assert [run.step for run in client.playbooks.history(begun.id, size=1) if run.element is None] == ["gate"]
    assert [one.id for one in client.playbooks.executions(path=path, state="COMPLETED")] == [begun.id]


def test_a_large_value_of_the_log_is_fetched_on_demand(client: Client) -> None:
    path = f"large-{uuid4().hex[:8]}"
    client.playbooks.upload(GATED.replace("NAME", path))
    begun = client.playbooks.start(path, ctx={"large": "x" * 70_000})
    [event] = [event for event in client.playbooks.events(begun.id) if event.references]
    assert (event.type, event.payload["data"]) == ("playbook.started", None)
    data = client.playbooks.get_value(begun.id, event.references["data"])
    assert isinstance(data, dict)
    assert data["ctx"] == {"large": "x" * 70_000}
    with pytest.raises(Missing):
        client.playbooks.get_value(begun.id, "0" * 32)


def test_the_events_of_an_execution_are_listed_and_followed(client: Client) -> None:
    path = f"logs-{uuid4().hex[:8]}"
    client.playbooks.upload(GATED.replace("NAME", path))
    begun = client.playbooks.start(path)
    listed = list(client.playbooks.events(begun.id, size=2))
    assert [event.number for event in listed] == list(range(1, len(listed) + 1))
    assert listed[-1].type == "workflow.waiting"
    assert listed[-1].details["execution_id"] == begun.id
    assert client.playbooks.cancel(begun.id, "changed our mind").status == "cancelled"
    behind = list(client.playbooks.follow(begun.id, after=listed[-1].number))
    assert behind[0].number == listed[-1].number + 1
    assert behind == list(client.playbooks.events(begun.id, after=listed[-1].number))
    with pytest.raises(Missing):
        list(client.playbooks.follow("01JABC3V9E6K8M2Q4S6T8W0Y2Z"))


def test_a_failed_execution_is_restarted_and_gets_tokens_from_outside(client: Client) -> None:
    path = f"again-{uuid4().hex[:8]}"
    work = 'workflow: [{step: s, loop: {in: "{{ ctx.n / ctx.by }}", iterator: i}, tool: {kind: noop}}]'
    client.playbooks.upload(f"metadata: {{name: {path}}}\n{work}")
    failed = client.playbooks.start(path, ctx={"n": 1, "by": 0})
    assert (failed.status, failed.failures[0]["step"]) == ("failed", "s")
    with pytest.raises(Conflicting):
        client.playbooks.inject(failed.id, "s")
    assert client.playbooks.restart(failed.id).status == "failed"
