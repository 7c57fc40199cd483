"""What each execution mode leaves behind when its processor succeeds, fails or vanishes
(docs/reference/workflows.md#execution-modes).
"""

import threading

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, a_processor, a_workflow, automated, manual
from tests.integration.transactions.conftest import connected
from tests.service import done, names, refused

NOTE = {"text": ""}


def a_flow(mode: str, *, then: list | None = None, **config):
    """NEW -GO-> DONE with one processor."""
    processors = [a_processor(mode=mode, **config), *(then or [])]
    return a_workflow(NEW=[manual("GO", to="DONE", processors=processors)], DONE=[])


@pytest.mark.parametrize("mode", ["SYNC", "ASYNC_SAME_TX", "COMMIT_BEFORE_DISPATCH"])
def test_the_document_a_processor_returns_replaces_the_entitys(api, serving, mode):
    node = Node(tags=["node"])
    node.processor("enrich")(lambda document: document | {"motivation": "changed"})
    serving(node)
    entity = api.create(model=api.a_model(a_flow(mode))).id
    api.update(entity, fire="GO")
    assert api.read(entity)["data"]["motivation"] == "changed"
    assert api.state(entity) == "DONE"


def test_async_new_tx_discards_the_returned_document_and_keeps_what_callbacks_wrote(api, serving, callback):
    api.a_model(model="note/1", sample=NOTE)
    node, note = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        note["id"] = callback(context).create({"text": "kept"}, model="note/1").id
        return document | {"motivation": "discarded"}

    serving(node)
    entity = api.create(model=api.a_model(a_flow("ASYNC_NEW_TX"))).id
    api.update(entity, fire="GO")
    assert api.read(entity)["data"]["motivation"] == SAMPLE["motivation"]
    assert api.read(note["id"])["data"]["text"] == "kept"


def test_async_new_tx_undoes_the_callbacks_of_a_failed_processor_and_goes_on(api, serving, callback):
    api.a_model(model="note/1", sample=NOTE)
    node, note = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        note["id"] = callback(context).create({"text": "lost"}, model="note/1").id
        raise ValueError("boom")

    serving(node)
    entity = api.create(model=api.a_model(a_flow("ASYNC_NEW_TX"))).id
    fired = api.update(entity, fire="GO")
    assert api.state(entity) == "DONE"
    assert api.get(f"/entity/{note['id']}").status_code == 404
    [result] = [e for e in api.events(entity, fired.transaction) if e["eventType"] == "STATE_PROCESS_RESULT"]
    assert result["data"] == {
        "success": False,
        "mode": "ASYNC_NEW_TX",
        "reason": "processor enrich failed: processor dispatch failed: boom",
    }


def test_async_new_tx_goes_on_without_any_member(api):
    entity = api.create(model=api.a_model(a_flow("ASYNC_NEW_TX", tags="nobody"))).id
    api.update(entity, fire="GO")
    assert api.state(entity) == "DONE"


def test_the_state_before_the_callout_is_public_while_it_runs(api, serving):
    node, seen = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        seen["envelope"] = api.read(context.entity_id)
        seen["token"], seen["transaction"] = context.tx_token, context.transaction_id
        return document | {"motivation": "after"}

    serving(node)
    entity = api.create(model=api.a_model(a_flow("COMMIT_BEFORE_DISPATCH"))).id
    fired = api.update(entity, SAMPLE | {"motivation": "submitted"}, fire="GO")
    during = seen["envelope"]
    assert (during["meta"]["state"], during["data"]["motivation"]) == ("NEW", "submitted")
    assert (seen["token"], seen["transaction"]) == (None, "")
    after = api.read(entity)
    assert (after["meta"]["state"], after["data"]["motivation"]) == ("DONE", "after")
    # The rows carry ids of their own; the one that the client was told names the outcome alone (decision W8).
    assert len({during["meta"]["transactionId"], after["meta"]["transactionId"], fired.transaction}) == 3
    assert api.read(entity, f"?transactionId={fired.transaction}") == after
    assert len(api.get(f"/entity/{entity}/changes").json()) == 3


def test_the_transaction_a_client_was_told_is_a_valid_if_match_after_a_segmented_run(api, serving):
    node = Node(tags=["node"])
    node.processor("enrich")(lambda document: None)
    serving(node)
    entity = api.create(model=api.a_model(a_flow("COMMIT_BEFORE_DISPATCH"))).id
    fired = api.update(entity, fire="GO")
    api.update(entity, If_Match=fired.transaction)
    refused(api.put(f"/entity/JSON/{entity}", SAMPLE, If_Match=fired.transaction), 412, "ENTITY_MODIFIED")


def test_a_stale_if_match_dispatches_nothing(api, serving):
    node, calls = Node(tags=["node"]), []
    node.processor("enrich")(lambda document: calls.append(document))
    serving(node)
    created = api.create(model=api.a_model(a_flow("COMMIT_BEFORE_DISPATCH")))
    api.update(created.id)
    stale = api.put(f"/entity/JSON/{created.id}/GO", SAMPLE, If_Match=created.transaction)
    refused(stale, 412, "ENTITY_MODIFIED")
    assert calls == []
    assert api.state(created.id) == "NEW"


def test_a_failed_callout_leaves_the_state_before_it_durable_and_its_failure_on_record(api, serving):
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document):
        raise ValueError("out of stock")

    serving(node)
    created = api.create(model=api.a_model(a_flow("COMMIT_BEFORE_DISPATCH")))
    entity = created.id
    answer = api.put(f"/entity/JSON/{entity}/GO", SAMPLE | {"motivation": "submitted"})
    problem = refused(answer, 400, "WORKFLOW_FAILED")
    assert problem["detail"].startswith("WORKFLOW_FAILED: processor enrich failed: processor dispatch failed: out of")
    envelope = api.read(entity)
    assert (envelope["meta"]["state"], envelope["data"]["motivation"]) == ("NEW", "submitted")
    items = reversed(done(api.get(f"/audit/entity/{entity}?eventType=StateMachine"))["items"])
    trail = [item for item in items if item["transactionId"] != created.transaction]
    assert names(trail) == ["STATE_MACHINE_START", "PAUSE_FOR_PROCESSING", "STATE_PROCESS_RESULT"]
    assert len({item["transactionId"] for item in trail}) == 1
    assert trail[-1]["data"] == {"success": False}


def test_without_a_member_the_state_before_the_callout_stays_and_the_client_may_retry(api):
    entity = api.create(model=api.a_model(a_flow("COMMIT_BEFORE_DISPATCH", tags="nobody"))).id
    problem = refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert problem["properties"]["retryable"] is True
    assert api.state(entity) == "NEW"


def test_a_late_answer_fails_the_run_with_its_cause(api, serving):
    node, hold = Node(tags=["node"]), threading.Event()
    node.processor("enrich")(lambda document: hold.wait(20) and None)
    serving(node)
    entity = api.create(model=api.a_model(a_flow("COMMIT_BEFORE_DISPATCH", responseTimeoutMs=100))).id
    problem = refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 400, "WORKFLOW_FAILED")
    hold.set()
    assert problem["properties"]["cause"] == "DISPATCH_TIMEOUT"
    assert api.state(entity) == "NEW"


def test_a_change_during_the_callout_wins_and_the_run_conflicts(api, serving):
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document, context):
        api.update(context.entity_id, SAMPLE | {"motivation": "meanwhile"})
        return document | {"motivation": "mine"}

    serving(node)
    entity = api.create(model=api.a_model(a_flow("COMMIT_BEFORE_DISPATCH"))).id
    problem = refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 409, "CONFLICT")
    assert problem["properties"]["retryable"] is True
    envelope = api.read(entity)
    assert (envelope["meta"]["state"], envelope["data"]["motivation"]) == ("NEW", "meanwhile")


def test_several_boundaries_in_one_run_each_continue_from_the_last(api, serving):
    node, seen = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        seen.append(api.read(context.entity_id)["data"]["motivation"])
        return document | {"motivation": f"{len(seen)}"}

    serving(node)
    flow = a_workflow(
        NEW=[automated("ONE", to="MID", processors=[a_processor(mode="COMMIT_BEFORE_DISPATCH")])],
        MID=[automated("TWO", to="DONE", processors=[a_processor(mode="COMMIT_BEFORE_DISPATCH")])],
        DONE=[],
    )
    created = api.create(model=api.a_model(flow))
    assert seen == [SAMPLE["motivation"], "1"]
    assert api.read(created.id)["data"]["motivation"] == "2"
    assert len(api.get(f"/entity/{created.id}/changes").json()) == 3
    trail = names(api.events(created.id, created.transaction))
    assert trail.count("STATE_PROCESS_RESULT") == 2
    assert trail[-1] == "STATE_MACHINE_FINISH"


def test_with_a_new_transaction_callbacks_commit_with_the_second_segment(api, serving, callback):
    api.a_model(model="note/1", sample=NOTE)
    node, note = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        note["id"] = callback(context).create({"text": "second"}, model="note/1").id
        note["visible"] = api.get(f"/entity/{note['id']}").status_code

    serving(node)
    flow = a_flow("COMMIT_BEFORE_DISPATCH", startNewTxOnDispatch=True)
    entity = api.create(model=api.a_model(flow)).id
    api.update(entity, fire="GO")
    assert note["visible"] == 404
    written = api.read(note["id"])["meta"]["transactionId"]
    assert written == api.read(entity)["meta"]["transactionId"]


def test_with_a_new_transaction_a_failure_undoes_the_callbacks_and_keeps_the_first_segment(api, serving, callback):
    api.a_model(model="note/1", sample=NOTE)
    node, note = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        note["id"] = callback(context).create({"text": "second"}, model="note/1").id
        raise ValueError("boom")

    serving(node)
    flow = a_flow("COMMIT_BEFORE_DISPATCH", startNewTxOnDispatch=True)
    entity = api.create(model=api.a_model(flow)).id
    refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE | {"motivation": "submitted"}), 400, "WORKFLOW_FAILED")
    assert api.get(f"/entity/{note['id']}").status_code == 404
    assert api.read(entity)["data"]["motivation"] == "submitted"


def test_a_failure_after_the_boundary_drops_the_second_segment_only(api, serving):
    node = Node(tags=["node"])
    node.processor("enrich")(lambda document: document | {"motivation": "lost"})

    @node.processor("refuse")
    def refuse(document):
        raise ValueError("no")

    serving(node)
    flow = a_flow("COMMIT_BEFORE_DISPATCH", then=[a_processor("refuse")])
    entity = api.create(model=api.a_model(flow)).id
    refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE | {"motivation": "submitted"}), 400, "WORKFLOW_FAILED")
    envelope = api.read(entity)
    assert (envelope["meta"]["state"], envelope["data"]["motivation"]) == ("NEW", "submitted")


def test_a_joined_request_must_not_segment(api, serving, callback):
    node, answers = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        answers.append(callback(context).post("/entity/JSON/segmenting/1", {"text": "x"}))

    serving(node)
    inner = a_workflow(
        NEW=[automated("GO", to="DONE", processors=[a_processor("slow", mode="COMMIT_BEFORE_DISPATCH")])], DONE=[]
    )
    api.a_model(inner, model="segmenting/1", sample=NOTE)
    entity = api.create(model=api.a_model(a_flow("SYNC"))).id
    api.update(entity, fire="GO")
    refused(answers[0], 400, "WORKFLOW_FAILED")
    assert api.state(entity) == "DONE"
    assert api.get("/entity/segmenting/1").json() == []


def test_fixed_retries_go_to_another_member_after_one_that_kept_silent(api, service, tenant, serving):
    hold, asked = threading.Event(), []

    def a_node(name: str, *, silent: bool) -> Node:
        node = Node(tags=["node"])

        @node.processor("enrich")
        def enrich(document):
            asked.append(name)
            if silent:
                hold.wait(20)
            return document | {"motivation": name}

        return node

    with connected(service, tenant, a_node("silent", silent=True)):
        serving(a_node("lively", silent=False))
        flow = a_flow("COMMIT_BEFORE_DISPATCH", retryPolicy="FIXED", responseTimeoutMs=800)
        model = api.a_model(flow)
        for _ in range(3):
            entity = api.create(model=model).id
            api.update(entity, fire="GO")
            assert api.read(entity)["data"]["motivation"] == "lively"
        hold.set()
    assert "silent" in asked
