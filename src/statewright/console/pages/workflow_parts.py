"""Parts of the page of a workflow: live counts and incidents, and what a check finds (docs/console.md#diagrams)."""

import asyncio
from typing import Final

from msgspec import Struct

from statewright.console.calls import Reply, build_ops_call
from statewright.console.diagrams.plan import write_marks
from statewright.console.diagrams.workflow import (
    Overlay,
    mark_workflow,
    read_workflow,
)
from statewright.console.live import ModelCounts
from statewright.console.pages.model import read_key
from statewright.console.pages.workflow import ROWS, call_export, find_workflow
from statewright.console.request import ConsoleRequest, Routes, build_part, build_problem
from statewright.console.views.page import Problem, View, format_count
from statewright.jsonval.codec import encode
from statewright.operations.checks import CheckFinding, WorkflowCheck
from statewright.operations.incidents import Incident

PART: Final = "/models/{name}/{version}/workflows/{workflow}"
MAX_INCIDENTS: Final = 200
MAX_FINDINGS: Final = 100


class MarksView(Struct, frozen=True, kw_only=True):
    """Live counts and incidents of a workflow; ``marks`` is JSON for the script of the page, ``path`` that of the part,
    which asks for itself again.
    """

    path: str
    marks: str
    counts: ModelCounts
    states: tuple[tuple[str, str, str], ...]
    """Of each state that has either: its name, its entities and its incidents."""
    left_out: int
    problem: Problem | None


class Finding(Struct, frozen=True):
    """What the check of workflows says."""

    told: CheckFinding

    @property
    def mark(self) -> str:
        """What goes with the severity."""
        return {"ERROR": "bad", "WARNING": "warn"}.get(self.told.severity, "info")

    @property
    def place(self) -> str:
        """The place within the only workflow of the check, or among all."""
        return self.told.path.removeprefix("/workflows/0")


class FindingsView(Struct, frozen=True, kw_only=True):
    """The findings, the worst first."""

    findings: tuple[Finding, ...]
    left_out: int
    problem: Problem | None


async def show_workflow_marks(request: ConsoleRequest) -> View:
    """Live counts and incidents, put on the diagram."""
    name, version = read_key(request)
    workflow = request.params["workflow"]
    export, incidents = await request.call(
        call_export(name, version),
        build_ops_call("incidents", query={"model": f"{name}/{version}", "limit": MAX_INCIDENTS}),
    )
    counts = await request.counts.count(request.client, request.viewer.tenant, name, version)
    return await asyncio.to_thread(view_marks, request.path, workflow, export, counts, incidents)


def view_marks(path: str, workflow: str, export: Reply, counts: ModelCounts, incidents: Reply) -> View:
    """The marks from the answers of the API. Raises ``CallFailed`` where there is no such workflow."""
    graph = read_workflow(find_workflow(export, workflow))
    known = frozenset(graph.states)
    counted = {each.state: format_count(each.count) for each in counts.states if each.state in known}
    troubled: dict[str, int] = {}
    listed_incidents = incidents.read_items(Incident)
    for item in listed_incidents:
        if item.subject.state in known:
            troubled[item.subject.state] = troubled.get(item.subject.state, 0) + 1
    bounded = len(listed_incidents) >= MAX_INCIDENTS
    shown = {state: format_count(count, is_lower_bound=bounded) for state, count in troubled.items()}
    listed = [state for state in graph.states if state in counted or state in shown]
    data = MarksView(
        path=path,
        marks=write_marks(mark_workflow(graph, Overlay(counts=counted, incidents=shown))),
        counts=counts,
        states=tuple((state, counted.get(state, "0"), shown.get(state, "")) for state in listed[:ROWS]),
        left_out=max(0, len(listed) - ROWS),
        problem=build_problem(counts.failed) if counts.failed is not None else None,
    )
    return View(data=data)


async def show_workflow_findings(request: ConsoleRequest) -> View:
    """What a check of the stored workflow finds."""
    name, version = read_key(request)
    export = await request.call_one(call_export(name, version))
    document = find_workflow(export, request.params["workflow"])
    body = encode({"importMode": "MERGE", "workflows": [document]})
    check = await request.call_one(
        build_ops_call("models", name, version, "workflow", "check", method="POST", body=body)
    )
    return View(data=view_findings(check))


def view_findings(check: Reply) -> FindingsView:
    """The findings of a check."""
    told = check.read_if_ok(WorkflowCheck)
    findings = tuple(map(Finding, told.findings)) if told is not None else ()
    return FindingsView(
        findings=findings[:MAX_FINDINGS],
        left_out=max(0, len(findings) - MAX_FINDINGS),
        problem=None if check.is_ok else build_problem(check),
    )


ROUTES: Final[Routes] = (
    build_part("workflow_marks", f"{PART}/marks", show_workflow_marks),
    build_part("workflow_findings", f"{PART}/findings", show_workflow_findings),
)
