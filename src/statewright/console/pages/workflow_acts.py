"""What can be done with one workflow: suspending it, and playing an entity through it without any effect
(docs/reference/operations.md#simulating-workflows).
"""

from typing import Final

from msgspec import Struct

from statewright.console.acts import lead_to, read_json, send
from statewright.console.calls import Reply
from statewright.console.pages.model import build_model_crumbs
from statewright.console.pages.model_acts import read_form_key
from statewright.console.pages.suspensions import MOVED, Suspendable, build_acts
from statewright.console.pages.workflow import ROOT
from statewright.console.request import Action, Form, InvalidField, PageContext, Routes, build_problem
from statewright.console.views.entities import TreeNode, build_tree
from statewright.console.views.page import Problem, View
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject
from statewright.operations.checks import Simulation

SIMULATION_TIMEOUT_S: Final = 30.0
"""A node plays one after the other."""


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


def _read_simulation(form: Form) -> bytes:
    """The workflows that are stored, and what was typed as it stands, so that numbers keep their digits."""
    document = read_json(form, "document")
    events = read_json(form, "events") if form.get("events").strip() else b"[]"
    if not isinstance(decode(events), list):
        raise InvalidField("events", 'is an array, such as [{"fire": "APPROVE"}]')
    stubs = read_json(form, "stubs") if form.get("stubs").strip() else b"{}"
    if not isinstance(decode(stubs), dict):
        raise InvalidField("stubs", "is no JSON object")
    return b'{"start":{"document":%b},"events":%b,"stubs":%b}' % (document, events, stubs)


async def _show_simulation(_request: PageContext, form: Form, reply: Reply) -> View:
    """The path that the entity would take, from the answer of the API."""
    (name, version), workflow = read_form_key(form), form.require("workflow")
    result = reply.read_if_ok(Simulation)
    data = SimulationView(
        name=name,
        version=version,
        workflow=workflow,
        document=form.get("document"),
        events=form.get("events"),
        stubs=form.get("stubs"),
        problem=None if reply.is_ok else build_problem(reply),
        result=result,
        tree=None if result is None else build_tree(result.document),
    )
    return View(
        title="Simulation",
        data=data,
        crumbs=build_model_crumbs(name, version, workflow),
        status=200 if reply.is_ok else reply.status,
        template="pages/simulation.html",
    )


def _read_target(form: Form) -> JsonObject:
    name, version = read_form_key(form)
    return {"scope": "WORKFLOW", "model": {"name": name, "version": version}, "workflow": form.require("workflow")}


ROUTES: Final[Routes] = (
    Action(
        "simulate_workflow",
        "Simulate",
        send(
            "POST",
            "/ops/v1/models/{name}/{version}/workflow/simulate",
            _read_simulation,
            timeout_s=SIMULATION_TIMEOUT_S,
        ),
        lead_to(ROOT),
        show=_show_simulation,
    ),
    *build_acts(
        Suspendable(
            name="workflow",
            noun="workflow",
            read_target=_read_target,
            subject="the workflow {workflow} of {name}/{version}",
            page=ROOT,
            effects=("Timers of its entities stop, and their transitions answer 409 until you resume.",),
            timers=MOVED,
            is_dangerous=True,
        )
    ),
)
