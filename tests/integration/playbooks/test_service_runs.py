"""Runs that the service does itself, once nobody wants them any more (docs/reference/executions.md#task-kinds)."""

import asyncio

import pytest

from statewright.services.playbooks import service_runs
from tests.integration.playbooks.conftest import Playbooks
from tests.service import RunningService, eventually


def list_runs(service: RunningService) -> set[asyncio.Task[object]]:
    """Runs under way in the service."""
    return {task for task in asyncio.all_tasks(service.loop) if task.get_name() == "service-run"}


def test_the_run_of_a_cancelled_execution_stops(
    playbooks: Playbooks, service: RunningService, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service_runs, "RENEW_INTERVAL_S", 0.05)
    before = list_runs(service)
    again = "{policy: {rules: [{then: {do: retry, delay: 250}}]}}"
    execution = playbooks.run(f"workflow: [{{step: only, tool: {{kind: noop, spec: {again}}}}}]")
    eventually(lambda: list_runs(service) - before)
    [run] = list_runs(service) - before
    playbooks.do(execution, "cancel")
    eventually(run.done)
    assert run.cancelled()
    assert playbooks.read(execution)["status"] == "cancelled"
