"""What can be done with one workflow: suspending it, and playing an entity through it without any effect
(docs/reference/operations.md#simulating-workflows).
"""

from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply, build_ops_call
from statewright.console.pages.model import build_model_path
from statewright.console.pages.model_acts import read_form_key, read_json
from statewright.console.pages.suspensions import MOVED, Suspendable, build_acts
from statewright.console.pages.workflow import build_workflow_path
from statewright.console.request import Action, ConsoleRequest, Form, InvalidField, Routes, build_problem
from statewright.console.views.entities import TreeNode, build_tree
from statewright.console.views.page import Crumb, Problem, View
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject
from statewright.operations.checks import SimulatedMove, Simulation

SIMULATION_TIMEOUT_S: Final = 30.0
"""A node plays one after the other."""
MAX_STEPS: Final = 200


class SimulationView(Struct, frozen=True, kw_only=True):
    """What would become of the entity, and the form again."""

    name: str
    version: int
    workflow: str
    document: str
    events: str
    stubs: str
    problem: Problem | None
    result: Simulation | None
    tree: TreeNode | None

    @property
    def steps(self) -> tuple[SimulatedMove, ...]:
        """The first transitions that would be made."""
        return self.result.path[:MAX_STEPS] if self.result is not None else ()

    @property
    def left_out(self) -> int:
        """How many there are beyond."""
        return max(0, len(self.result.path) - MAX_STEPS) if self.result is not None else 0


def _build_simulation(form: Form) -> ApiCall:
    """The workflows that are stored, and what was typed as it stands, so that numbers keep their digits."""
    name, version = read_form_key(form)
    document = read_json(form, "document")
    events = read_json(form, "events") if form.get("events").strip() else b"[]"
    if not isinstance(decode(events), list):
        raise InvalidField("events", 'is an array, such as [{"fire": "APPROVE"}]')
    stubs = read_json(form, "stubs") if form.get("stubs").strip() else b"{}"
    if not isinstance(decode(stubs), dict):
        raise InvalidField("stubs", "is no JSON object")
    body = b'{"start":{"document":%b},"events":%b,"stubs":%b}' % (document, events, stubs)
    return build_ops_call(
        "models", name, version, "workflow", "simulate", method="POST", body=body, timeout_s=SIMULATION_TIMEOUT_S
    )


async def _show_simulation(_request: ConsoleRequest, form: Form, reply: Reply) -> View:
    name, version = read_form_key(form)
    data = view_simulation(form, reply)
    crumbs = (
        Crumb("Models", "/console/models"),
        Crumb(f"{name}/{version}", build_model_path(name, version)),
        Crumb(data.workflow, build_workflow_path(name, version, data.workflow)),
    )
    status = 200 if reply.is_ok else reply.status
    return View(title="Simulation", data=data, crumbs=crumbs, status=status, template="pages/simulation.html")


def view_simulation(form: Form, reply: Reply) -> SimulationView:
    """The path that the entity would take, from the answer of the API."""
    name, version = read_form_key(form)
    result = reply.read_if_ok(Simulation)
    return SimulationView(
        name=name,
        version=version,
        workflow=form.require("workflow"),
        document=form.get("document"),
        events=form.get("events"),
        stubs=form.get("stubs"),
        problem=None if reply.is_ok else build_problem(reply),
        result=result,
        tree=None if result is None else build_tree(result.document),
    )


def follow_workflow(form: Form, _reply: Reply) -> str:
    """Back to the page of the workflow."""
    return build_workflow_path(*read_form_key(form), form.require("workflow"))


def _get_page(form: Form) -> str:
    return build_workflow_path(*read_form_key(form), form.require("workflow"))


def _read_target(form: Form) -> JsonObject:
    name, version = read_form_key(form)
    return {"scope": "WORKFLOW", "model": {"name": name, "version": version}, "workflow": form.require("workflow")}


def _describe(form: Form) -> str:
    name, version = read_form_key(form)
    return f"the workflow {form.require('workflow')} of {name}/{version}"


async def _tell_suspension(_request: ConsoleRequest, form: Form) -> tuple[str, tuple[str, ...]]:
    return _describe(form), ("Timers of its entities stop, and their transitions answer 409 until you resume.",)


ROUTES: Final[Routes] = (
    Action(
        name="simulate_workflow",
        label="Simulate",
        build=_build_simulation,
        follow=follow_workflow,
        show=_show_simulation,
    ),
    *build_acts(
        Suspendable(
            name="workflow",
            noun="workflow",
            read_target=_read_target,
            describe=_describe,
            get_page=_get_page,
            tell=_tell_suspension,
            timers=MOVED,
            is_dangerous=True,
        )
    ),
)
