"""Playing an entity through a workflow without any effect (docs/reference/operations.md#simulating-workflows)."""

from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply, build_ops_call, get_int, get_object, get_objects, get_text
from statewright.console.pages.model import build_model_path
from statewright.console.pages.model_acts import read_form_key, read_json
from statewright.console.pages.workflow import build_workflow_path
from statewright.console.request import Action, ConsoleRequest, Form, InvalidField, Routes, build_problem
from statewright.console.views.entities import TreeNode, build_tree
from statewright.console.views.page import Crumb, Problem, View
from statewright.jsonval.codec import decode

SIMULATION_TIMEOUT_S: Final = 30.0
"""A node plays one after the other."""
MAX_STEPS: Final = 200


class SimulatedStep(Struct, frozen=True, kw_only=True):
    """A transition that would be made."""

    event: int
    at: str
    source: str
    transition: str
    target: str
    processors: tuple[str, ...]
    failure: str


class SimulationView(Struct, frozen=True, kw_only=True):
    """What would become of the entity, and the form again."""

    name: str
    version: int
    workflow: str
    document: str
    events: str
    stubs: str
    problem: Problem | None
    outcome: str
    state: str
    failure: str
    steps: tuple[SimulatedStep, ...]
    left_out: int
    timers: tuple[tuple[str, str], ...]
    findings: tuple[str, ...]
    tree: TreeNode | None


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
    result = reply.document
    path = get_objects(result, "path")
    return SimulationView(
        name=name,
        version=version,
        workflow=form.require("workflow"),
        document=form.get("document"),
        events=form.get("events"),
        stubs=form.get("stubs"),
        problem=None if reply.is_ok else build_problem(reply),
        outcome=get_text(result, "outcome"),
        state=get_text(result, "state"),
        failure=get_text(get_object(result, "failure"), "message") or get_text(result, "failure"),
        steps=tuple(
            SimulatedStep(
                event=get_int(each, "event"),
                at=get_text(each, "at"),
                source=get_text(each, "from"),
                transition=get_text(each, "transition"),
                target=get_text(each, "to"),
                processors=tuple(get_text(processor, "name") for processor in get_objects(each, "processors")),
                failure=get_text(get_object(each, "failure"), "message") or get_text(each, "failure"),
            )
            for each in path[:MAX_STEPS]
        ),
        left_out=max(0, len(path) - MAX_STEPS),
        timers=tuple((get_text(each, "transition"), get_text(each, "dueAt")) for each in get_objects(result, "timers")),
        findings=tuple(
            f"{get_text(each, 'code')}: {get_text(each, 'message')}" for each in get_objects(result, "findings")
        ),
        tree=build_tree(result["document"]) if "document" in result else None,
    )


def _follow_workflow(form: Form, _reply: Reply) -> str:
    return build_workflow_path(*read_form_key(form), form.require("workflow"))


ROUTES: Final[Routes] = (
    Action(
        name="simulate_workflow",
        label="Simulate",
        build=_build_simulation,
        follow=_follow_workflow,
        show=_show_simulation,
    ),
)
