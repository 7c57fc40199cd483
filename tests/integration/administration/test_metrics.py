"""Metrics: what is served is documented, and counts what happens (docs/reference/service.md#metrics)."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.builders import SAMPLE, a_processor, a_workflow, automated, judged_by, manual
from tests.database import Template
from tests.integration.node import a_node
from tests.service import Api, RunningService, done, eventually, hosted, refused

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


@pytest.fixture(scope="module")
def measured(database_template: Template) -> Iterator[RunningService]:
    """A service that nobody else uses and that scans often."""

    with hosted(database_template.clone(), scheduler_scan_interval=timedelta(milliseconds=50)) as running:
        yield running


ABSENT = ("where OpenTelemetry is on |", "absent without TLS |")
"""How the rows end of metrics that the service here does not have."""


def figures(service: RunningService) -> dict[str, float]:
    """All samples by name and labels."""
    families = text_string_to_metric_families(Api(service.admin).get("/metrics").text)
    return {
        f"{sample.name}{{{','.join(f'{name}={value}' for name, value in sorted(sample.labels.items()))}}}": sample.value
        for family in families
        for sample in family.samples
    }


def test_every_metric_of_ours_is_documented_and_the_other_way_round(measured: RunningService) -> None:
    families = list(text_string_to_metric_families(Api(measured.admin).get("/metrics").text))
    served = {f"{each.name}_total" if each.type == "counter" else each.name for each in families}
    ours = {name for name in served if name.startswith(("statewright_", "cyoda_", "oidc_"))}
    rows = (row for row in PAGE.read_text().splitlines() if not row.endswith(ABSENT))
    assert {found[1] for row in rows if (found := re.match(r"\| `(\w+)`", row))} == ours


def test_commits_conflicts_and_callouts_are_counted(measured: RunningService) -> None:
    api = measured.api("tenant-commits")
    go = manual("GO", to="DONE", criterion=judged_by("ripe"), processors=[a_processor()])
    entity = api.create(model=api.a_model(a_workflow(NEW=[go], DONE=[]))).id
    before = figures(measured)
    with a_node(measured, "tenant-commits", "node") as node, ThreadPoolExecutor() as pool:
        firing = pool.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
        node.answer_next(matches=True)
        request = node.next()
        assert figures(measured)["cyoda_tx_active{}"] == 1
        api.update(entity)
        node.answer(request)
        refused(firing.result(), 409, "CONFLICT")
    after = figures(measured)

    def more(name: str) -> float:
        return after[name] - before[name]

    assert more("cyoda_dispatch_count_total{type=processor}") == 1
    assert more("cyoda_dispatch_duration_seconds_count{type=criteria}") == 1
    assert more("cyoda_tx_conflicts_total{}") == 1
    assert more("cyoda_tx_duration_seconds_count{op=begin}") == 2
    assert more("cyoda_tx_duration_seconds_count{op=commit}") == 2
    assert more("cyoda_tx_duration_seconds_count{op=rollback}") == 1
    assert after["cyoda_tx_active{}"] == 0


def test_timers_are_counted_when_they_are_committed(measured: RunningService) -> None:
    api = measured.api("tenant-timers")
    lapse = automated("LAPSE", to="LAPSED", schedule={"delayMs": 1})
    late = automated("LATE", to="LAPSED", schedule={"delayMs": 3_600_000})
    fails = manual("FAIL", to="LAPSED", processors=[a_processor(tags="nobody")])
    flow = a_workflow(NEW=[late, fails, manual("GO", to="SOON")], SOON=[lapse], LAPSED=[])
    before = figures(measured)
    entity = api.create(model=api.a_model(flow)).id
    refused(api.put(f"/entity/JSON/{entity}/FAIL", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    api.update(entity, fire="GO")
    eventually(lambda: api.state(entity) == "LAPSED")
    eventually(lambda: figures(measured)["statewright_scheduler_under_way{}"] == 0)
    after = figures(measured)
    counted = {event: f"statewright_timers_total{{event={event}}}" for event in ("armed", "cancelled", "fired")}
    assert {event: after[name] - before[name] for event, name in counted.items()} == {
        "armed": 2,
        "cancelled": 1,
        "fired": 1,
    }
    fired = "statewright_scheduler_runs_total{outcome=fired}"
    assert after[fired] - before[fired] == 1
    lateness = "statewright_scheduler_lateness_seconds"
    assert after[f"{lateness}_count{{}}"] - before[f"{lateness}_count{{}}"] == 1


def test_a_scheduled_run_that_fails_is_counted_as_such(measured: RunningService) -> None:
    api = measured.api("tenant-failing")
    hopeless = automated("LAPSE", to="LAPSED", schedule={"delayMs": 1}, processors=[a_processor(tags="nobody")])
    failed = "statewright_scheduler_runs_total{outcome=failed}"
    before = figures(measured)[failed]
    api.create(model=api.a_model(a_workflow(NEW=[hopeless], LAPSED=[])))
    eventually(lambda: figures(measured)[failed] > before)


def test_transitions_and_callouts_are_told_apart_by_the_names_that_workflows_give(measured: RunningService) -> None:
    api = measured.api("tenant-runs")
    go = manual("GO", to="DONE", processors=[a_processor("price", tags="billing,night")])
    fails = manual("FAIL", to="DONE", processors=[a_processor("lonely", tags="nobody")])
    entity = api.create(model=api.a_model(a_workflow(NEW=[go, fails], DONE=[]), model="runs/1")).id
    refused(api.put(f"/entity/JSON/{entity}/FAIL", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    with a_node(measured, "tenant-runs", "billing", "night") as node, ThreadPoolExecutor() as pool:
        firing = pool.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
        node.answer_next(success=False)
        refused(firing.result(), 400, "WORKFLOW_FAILED")
        firing = pool.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
        node.answer_next()
        done(firing.result())
    found = figures(measured)
    price = "kind=processor,model=runs/1,name=price"
    assert found["statewright_transitions_total{model=runs/1,transition=GO}"] == 1
    assert found[f"statewright_callout_seconds_count{{{price},tags=billing,night}}"] == 2
    assert found[f"statewright_callout_failures_total{{{price},reason=refused,tags=billing,night}}"] == 1
    lonely = "kind=processor,model=runs/1,name=lonely,reason=no_member,tags=nobody"
    assert found[f"statewright_callout_failures_total{{{lonely}}}"] >= 1


def test_the_process_says_what_it_is(measured: RunningService) -> None:
    [(name, value)] = [(name, value) for name, value in figures(measured).items() if name.startswith("target_info")]
    assert value == 1
    assert f"service_instance_id={measured.parts.node.id}" in name
    assert "service_name=statewright" in name


def test_executions_of_playbooks_are_counted_with_their_steps_tokens_and_events(measured: RunningService) -> None:
    api = measured.api("tenant-playbooks")
    gate = "{policy: {admit: {rules: [{when: ctx.open, then: {allow: true}}, {else: {then: {allow: false}}}]}}}"
    text = f"metadata: {{name: gated}}\nworkflow: [{{step: gate, spec: {gate}, tool: {{kind: noop}}}}]"
    root = Api(measured.root, api.token)
    assert root.post("/v1/playbooks", text.encode()).status_code == 201
    begun = root.post("/v1/executions", {"path": "gated"}).json()["id"]
    denied = {
        "statewright_process_instances_started_total{language=playbooks}": 1,
        "statewright_process_events_total{event=token.created,language=playbooks,status=success}": 1,
        "statewright_process_events_total{event=policy.admit.evaluated,language=playbooks,status=paused}": 1,
        "statewright_process_pending_tokens_total{change=added,language=playbooks}": 1,
    }
    found = figures(measured)
    assert {name: found.get(name) for name in denied} == denied
    assert "statewright_process_pending_tokens_total{change=removed,language=playbooks}" not in found
    done(root.post(f"/v1/executions/{begun}/patch", {"ctx": {"open": True}}))
    ended = {
        "statewright_process_instances_ended_total{language=playbooks,outcome=completed}": 1,
        "statewright_process_nodes_entered_total{language=playbooks,node_type=step}": 1,
        "statewright_process_events_total{event=step.done,language=playbooks,status=success}": 1,
        "statewright_process_events_total{event=workflow.finished,language=playbooks,status=success}": 1,
        "statewright_process_pending_tokens_total{change=removed,language=playbooks}": 1,
    }
    found = figures(measured)
    assert {name: found.get(name) for name in ended} == ended
