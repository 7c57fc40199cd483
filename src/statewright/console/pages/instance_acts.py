"""What can be done to an instance: one call of the API each (docs/console.md#pages)."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import UNSET, UnsetType

from statewright.console.acts import (
    Read,
    ask,
    fill_path,
    lead_to,
    read_number,
    read_object,
    read_text,
    read_text_if_any,
    read_value,
    send,
)
from statewright.console.calls import ApiCall, build_ops_call, pick_members
from statewright.console.pages.suspensions import Suspendable, build_acts
from statewright.console.process_languages import STEPS, find_language
from statewright.console.request import Action, Form, PageContext, Routes
from statewright.console.views.page import Confirmation
from statewright.console.views.records import InstanceFailure
from statewright.jsonval.codec import encode
from statewright.operations.explanations import ExplainedInstance

PAGE: Final = "/console/instances/{instance}"


def _move(move: str, **body: Read) -> Callable[[Form], ApiCall]:
    """A call of the instance, in whatever language it is."""

    def build(form: Form) -> ApiCall:
        language = find_language(form.require("language"))
        return send("POST", f"{language.nouns.instances_path}/{{instance}}/{move}", body)(form)

    return build


def _read_reason(form: Form, name: str) -> str | UnsetType:
    """Of JSON steps alone one is kept."""
    return form.require(name) if form.get("language") == STEPS.code else UNSET


async def _explain(request: PageContext, form: Form) -> ExplainedInstance:
    reply = await request.call_one(build_ops_call("instances", form.require("instance"), "explain"))
    return reply.read(ExplainedInstance)


async def _confirm_cancel(request: PageContext, form: Form) -> Confirmation:
    explained = await _explain(request, form)
    return Confirmation(
        question=f"Cancel instance {form.require('instance')} of {explained.definition_id}?",
        details=(describe_withdrawn(explained), "It cannot be taken back."),
        back=fill_path(PAGE, form),
        needs_reason=find_language(form.require("language")) is STEPS,
    )


def describe_withdrawn(explained: ExplainedInstance) -> str:
    """What a cancellation takes away, in a sentence."""
    kinds = [token.waits_for for token in explained.tokens]
    counted = (
        (kinds.count("JOB"), "job", "jobs"),
        (kinds.count("USER_TASK"), "task", "tasks"),
        (kinds.count("SIGNAL"), "wait for a signal", "waits for signals"),
        (len(explained.timers), "timer", "timers"),
    )
    parts = [f"{count} {one if count == 1 else many}" for count, one, many in counted if count]
    if not parts:
        return "Nothing of it is under way."
    total = sum(count for count, _, _ in counted)
    words = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"{words} {'is' if total == 1 else 'are'} withdrawn."


async def _tell_failure(request: PageContext, form: Form) -> Mapping[str, str]:
    failure = pick_members((await _explain(request, form)).failure, InstanceFailure)
    return {"failure": f"It failed: {failure.reason}" if failure.reason else ""}


async def _tell_suspension(request: PageContext, form: Form) -> Mapping[str, str]:
    explained = await _explain(request, form)
    timers = len(explained.timers)
    return {
        "subject": f"instance {form.require('instance')} of {explained.definition_id}",
        "timers": f"{timers} timers stop." if timers else "It has no timer.",
    }


ROUTES: Final[Routes] = (
    Action(
        "cancel_instance",
        "Cancel instance",
        _move("cancel", reason=_read_reason),
        lead_to(PAGE),
        _confirm_cancel,
        is_dangerous=True,
    ),
    Action(
        "terminate_instance",
        "Terminate instance",
        _move("terminate"),
        lead_to(PAGE),
        ask(
            "Terminate instance {instance}?",
            "Tasks that run are left to end, and no other begins. It can be restarted. Once more stops it at once.",
            back=PAGE,
        ),
        is_dangerous=True,
    ),
    Action(
        "restart_instance",
        "Restart instance",
        _move("restart"),
        lead_to(PAGE),
        ask(
            "Restart instance {instance}?",
            "{failure}",
            "What failed begins again with the same input; what is done is not done again.",
            back=PAGE,
            tell=_tell_failure,
        ),
    ),
    Action("evaluate_tokens", "Look at tokens", _move("evaluate"), lead_to(PAGE)),
    Action(
        "retry_step",
        "Retry step",
        send("POST", "/v1/instances/{instance}/steps/{step}/retry", {"variables": read_object}),
        lead_to(PAGE),
    ),
    Action(
        "signal_instance",
        "Signal instance",
        send("POST", "/v1/instances/{instance}/signals/{step}", lambda form: encode(read_object(form, "variables"))),
        lead_to(PAGE),
    ),
    Action(
        "change_node_input",
        "Change input",
        send("POST", "/v1/flows/instances/{instance}/change", {"node": read_number, "input": read_value}),
        lead_to(PAGE),
    ),
    Action(
        "patch_context",
        "Change context",
        send("POST", "/v1/executions/{instance}/patch", {"ctx": read_object, "reason": read_text_if_any}),
        lead_to(PAGE),
    ),
    Action(
        "inject_token",
        "Put in a token",
        send("POST", "/v1/executions/{instance}/tokens", {"step": read_text, "args": read_object}),
        lead_to(PAGE),
    ),
    *build_acts(
        Suspendable(
            name="instance",
            noun="instance",
            read_target=lambda form: {"scope": "INSTANCE", "id": form.require("instance")},
            subject="instance {instance}",
            page=PAGE,
            effects=(
                "{timers}",
                "Its jobs are not handed out. Results of jobs that a worker has already count, and lead no further.",
            ),
            tell=_tell_suspension,
        )
    ),
)
