"""What can be done to one workflow: one call of the API each."""

from typing import Final

from statewright.console.calls import ApiCall, Reply, build_ops_call
from statewright.console.pages.model_acts import read_form_key
from statewright.console.pages.workflow import build_workflow_path
from statewright.console.request import OPERATOR, Action, ConsoleRequest, Form, Routes
from statewright.console.views.page import Choice, Confirmation
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject

SUSPENSION_TIMEOUT_S: Final = 15.0
"""All nodes are waited for, for ten seconds at most."""


def _build_suspension(form: Form) -> ApiCall:
    name, version = read_form_key(form)
    body: JsonObject = {
        "scope": "WORKFLOW",
        "model": {"name": name, "version": version},
        "workflow": form.require("workflow"),
        "reason": form.require("reason"),
    }
    return build_ops_call("suspensions", method="POST", body=encode(body), timeout_s=SUSPENSION_TIMEOUT_S)


def _build_resumption(form: Form) -> ApiCall:
    body: JsonObject = {"timers": form.get_choice("timers", ("FIRE", "SHIFT")), "reason": form.require("reason")}
    suspension = form.require("suspension")
    return build_ops_call(
        "suspensions", suspension, "resume", method="POST", body=encode(body), timeout_s=SUSPENSION_TIMEOUT_S
    )


def follow_workflow(form: Form, _reply: Reply) -> str:
    """Back to the page of the workflow."""
    return build_workflow_path(*read_form_key(form), form.require("workflow"))


async def _confirm_suspension(request: ConsoleRequest, form: Form) -> Confirmation:
    name, version = read_form_key(form)
    workflow = form.require("workflow")
    return Confirmation(
        question=f"Suspend the workflow {workflow} of {name}/{version}?",
        details=("Timers of its entities stop, and their transitions answer 409 until you resume.",),
        back=build_workflow_path(name, version, workflow),
        needs_reason=True,
    )


async def _confirm_resumption(_request: ConsoleRequest, form: Form) -> Confirmation:
    name, version = read_form_key(form)
    workflow = form.require("workflow")
    options = (("FIRE", "fire what came due meanwhile"), ("SHIFT", "move all timers by the length of the pause"))
    return Confirmation(
        question=f"Resume the workflow {workflow} of {name}/{version}?",
        back=build_workflow_path(name, version, workflow),
        needs_reason=True,
        choices=(Choice("timers", "Timers", options),),
    )


ROUTES: Final[Routes] = (
    Action(
        name="suspend_workflow",
        label="Suspend workflow",
        build=_build_suspension,
        follow=follow_workflow,
        confirm=_confirm_suspension,
        role=OPERATOR,
        is_dangerous=True,
    ),
    Action(
        name="resume_workflow",
        label="Resume workflow",
        build=_build_resumption,
        follow=follow_workflow,
        confirm=_confirm_resumption,
        role=OPERATOR,
    ),
)
