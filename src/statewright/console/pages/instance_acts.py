"""What can be done to an instance: one call of the API each (docs/console.md#pages)."""

from collections.abc import Callable
from typing import Final

from statewright.console.calls import ApiCall, Reply, build_ops_call, build_root_call, get_object, get_text
from statewright.console.pages.instances import build_instance_path
from statewright.console.pages.suspensions import Suspendable, build_acts
from statewright.console.process_languages import find_language
from statewright.console.request import Action, ConsoleRequest, Form, InvalidField, Routes
from statewright.console.views.page import Confirmation
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonObject
from statewright.operations.explanations import ExplainedInstance

MAX_VALUE_CHARS: Final = 10 * 1024 * 1024
"""It is answered when all nodes act by it."""


def read_object(form: Form, name: str) -> JsonObject:
    """A field with a JSON object, empty where nothing was typed. Raises ``InvalidField``."""
    text = form.get(name).strip() or "{}"
    if len(text) > MAX_VALUE_CHARS:
        raise InvalidField(name, "is longer than 10 MiB")
    try:
        value = decode(text.encode())
    except (MalformedJson, UnicodeEncodeError) as malformed:
        raise InvalidField(name, f"is no JSON: {malformed}") from malformed
    if not isinstance(value, dict):
        raise InvalidField(name, "is a JSON object, such as {}")
    return value


def follow_instance(form: Form, _reply: Reply) -> str:
    """Back to the instance."""
    return build_instance_path(form.require("instance"))


def _build_move(move: str, *, has_reason: bool = False) -> Callable[[Form], ApiCall]:
    """A call of the instance that takes nothing, or a reason."""

    def build(form: Form) -> ApiCall:
        body = encode({"reason": form.require("reason")}) if has_reason else b"{}"
        language = find_language(form.require("language"))
        return language.call_instances(form.require("instance"), move, method="POST", body=body)

    return build


def _build_retry(form: Form) -> ApiCall:
    body = encode({"variables": read_object(form, "variables")})
    path = ("v1", "instances", form.require("instance"), "steps", form.require("step"), "retry")
    return build_root_call(*path, method="POST", body=body)


def _build_signal(form: Form) -> ApiCall:
    body = encode(read_object(form, "variables"))
    path = ("v1", "instances", form.require("instance"), "signals", form.require("step"))
    return build_root_call(*path, method="POST", body=body)


def _build_input_change(form: Form) -> ApiCall:
    node = form.require("node")
    if not node.isascii() or not node.isdigit() or len(node) > 6:
        raise InvalidField("node", "is the number of a node")
    text = form.require("input")
    try:
        value = decode(text.encode())
    except (MalformedJson, UnicodeEncodeError) as malformed:
        raise InvalidField("input", f"is no JSON: {malformed}") from malformed
    body = encode({"node": int(node), "input": value})
    return build_root_call("v1", "flows", "instances", form.require("instance"), "change", method="POST", body=body)


def _build_patch(form: Form) -> ApiCall:
    body: JsonObject = {"ctx": read_object(form, "ctx")}
    if form.get("reason"):
        body["reason"] = form.get("reason")
    return build_root_call("v1", "executions", form.require("instance"), "patch", method="POST", body=encode(body))


def _build_token(form: Form) -> ApiCall:
    body = encode({"step": form.require("step"), "args": read_object(form, "args")})
    return build_root_call("v1", "executions", form.require("instance"), "tokens", method="POST", body=body)


async def _confirm_cancel(request: ConsoleRequest, form: Form) -> Confirmation:
    instance = form.require("instance")
    language = find_language(form.require("language"))
    explained = (await request.call_one(build_ops_call("instances", instance, "explain"))).read(ExplainedInstance)
    return Confirmation(
        question=f"Cancel instance {instance} of {explained.definition_id}?",
        details=(describe_withdrawn(explained), "It cannot be taken back."),
        back=build_instance_path(instance),
        needs_reason=language.code == "steps",
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


async def _confirm_restart(request: ConsoleRequest, form: Form) -> Confirmation:
    instance = form.require("instance")
    explained = (await request.call_one(build_ops_call("instances", instance, "explain"))).require()
    failure = get_text(get_object(explained.document, "failure"), "reason")
    return Confirmation(
        question=f"Restart instance {instance}?",
        details=(
            *((f"It failed: {failure}",) if failure else ()),
            "What failed begins again with the same input; what is done is not done again.",
        ),
        back=build_instance_path(instance),
    )


async def _confirm_terminate(_request: ConsoleRequest, form: Form) -> Confirmation:
    instance = form.require("instance")
    return Confirmation(
        question=f"Terminate instance {instance}?",
        details=(
            "Tasks that run are left to end, and no other begins. It can be restarted. Once more stops it at once.",
        ),
        back=build_instance_path(instance),
    )


async def _tell_suspension(request: ConsoleRequest, form: Form) -> tuple[str, tuple[str, ...]]:
    instance = form.require("instance")
    explained = (await request.call_one(build_ops_call("instances", instance, "explain"))).read(ExplainedInstance)
    timers = len(explained.timers)
    return f"instance {instance} of {explained.definition_id}", (
        f"{timers} timers stop. " if timers else "It has no timer.",
        "Its jobs are not handed out. Results of jobs that a worker has already count, and lead no further.",
    )


ROUTES: Final[Routes] = (
    Action(
        name="cancel_instance",
        label="Cancel instance",
        build=lambda form: _build_move("cancel", has_reason=form.get("language") == "steps")(form),
        follow=follow_instance,
        confirm=_confirm_cancel,
        is_dangerous=True,
    ),
    Action(
        name="terminate_instance",
        label="Terminate instance",
        build=_build_move("terminate"),
        follow=follow_instance,
        confirm=_confirm_terminate,
        is_dangerous=True,
    ),
    Action(
        name="restart_instance",
        label="Restart instance",
        build=_build_move("restart"),
        follow=follow_instance,
        confirm=_confirm_restart,
    ),
    Action(name="evaluate_tokens", label="Look at tokens", build=_build_move("evaluate"), follow=follow_instance),
    Action(name="retry_step", label="Retry step", build=_build_retry, follow=follow_instance),
    Action(name="signal_instance", label="Signal instance", build=_build_signal, follow=follow_instance),
    Action(name="change_node_input", label="Change input", build=_build_input_change, follow=follow_instance),
    Action(name="patch_context", label="Change context", build=_build_patch, follow=follow_instance),
    Action(name="inject_token", label="Put in a token", build=_build_token, follow=follow_instance),
    *build_acts(
        Suspendable(
            name="instance",
            noun="instance",
            read_target=lambda form: {"scope": "INSTANCE", "id": form.require("instance")},
            describe=lambda form: f"instance {form.require('instance')}",
            get_page=lambda form: build_instance_path(form.require("instance")),
            tell=_tell_suspension,
        )
    ),
)
