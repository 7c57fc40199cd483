"""Tasks as requests to calculation members (docs/reference/executions.md#calculation-members)."""

from typing import Final

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.pipeline import ToolCall
from statewright.playbooks.policies import Outcome, fail
from statewright.playbooks.tasks import COMPUTE

DEFAULT_TIMEOUT_MS: Final = 60_000
MAX_TIMEOUT_MS: Final = 600_000
MAX_TAGS: Final = 20


class MemberCall(Struct, frozen=True, kw_only=True):
    """What a member is asked for."""

    name: str
    """Of the processor."""
    tags: tuple[str, ...]
    """All of which the member offers; none: any member."""
    timeout_ms: int
    context: str
    """Text for the processor."""
    data: JsonValue
    run: JsonObject
    """Which task of which run asks, and of one that attaches it what the run can see."""


def build_member_call(call: ToolCall, dispatch: Dispatch) -> "MemberCall | Outcome":
    """The request of a task; the outcome of one whose fields make none.

    A ``compute`` task says whom it asks for what. Of any other kind members that offer the kind as a tag are asked for
    the processor of that name, and given all fields.
    """
    run: JsonObject = {
        "execution": dispatch.execution_id,
        "step": dispatch.step,
        "stepRun": dispatch.step_run,
        "task": call.label,
        "kind": call.kind,
        "attempt": call.attempt,
        "element": None if dispatch.element is None else dispatch.element.index,
    }
    if call.kind != COMPUTE:
        return MemberCall(
            name=call.kind, tags=(call.kind,), timeout_ms=DEFAULT_TIMEOUT_MS, context="", data=call.fields, run=run
        )
    fields = call.fields
    tags, timeout_ms = _read_tags(fields.get("tags", COMPUTE)), fields.get("timeout_ms", DEFAULT_TIMEOUT_MS)
    name, context, attaches = (
        fields.get("processor", call.label),
        fields.get("context", ""),
        fields.get("attach", False),
    )
    if tags is None:
        return _refuse(f"tags must be a text with commas or a list of texts, of {MAX_TAGS} tags at most")
    if not isinstance(timeout_ms, int) or isinstance(timeout_ms, bool) or not 1 <= timeout_ms <= MAX_TIMEOUT_MS:
        return _refuse(f"timeout_ms must be a number from 1 to {MAX_TIMEOUT_MS}")
    if not isinstance(name, str) or not name:
        return _refuse("processor must be a text")
    if not isinstance(context, str):
        return _refuse("context must be a text")
    if not isinstance(attaches, bool):
        return _refuse("attach must be true or false")
    if attaches:
        run |= {
            "workload": dispatch.workload,
            "ctx": dispatch.ctx,
            "args": dispatch.args,
            "results": dispatch.results,
        }
    return MemberCall(
        name=name, tags=tags, timeout_ms=timeout_ms, context=context, data=fields.get("input", {}), run=run
    )


def _read_tags(given: JsonValue) -> "tuple[str, ...] | None":
    listed = given.replace(";", ",").split(",") if isinstance(given, str) else given
    if not isinstance(listed, list):
        return None
    tags = [tag.strip() for tag in listed if isinstance(tag, str)]
    if len(tags) != len(listed) or len(tags) > MAX_TAGS or any("," in tag or ";" in tag for tag in tags):
        return None
    return tuple(tag for tag in tags if tag)


def _refuse(message: str) -> Outcome:
    return fail("member_request", message, retryable=False)
