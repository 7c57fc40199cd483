"""One incident: what failed, what was asked for, what is there now, and doing it again (docs/console.md#pages)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, convert

from statewright.console.acts import read_json
from statewright.console.calls import (
    ApiCall,
    Reply,
    build_entity_call,
    build_ops_call,
    build_path,
    get_text,
)
from statewright.console.pages.incidents import CRUMB, ROOT, IncidentLine
from statewright.console.request import (
    OPERATOR,
    Action,
    ConsoleRequest,
    Form,
    InvalidField,
    Page,
    Routes,
    build_problem,
)
from statewright.console.views.entities import TreeNode, build_tree, fits_page, write_text
from statewright.console.views.page import Confirmation, Crumb, Problem, View
from statewright.console.views.records import Envelope
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.patches import build_json_patch
from statewright.jsonval.values import JsonObject
from statewright.operations.history import Difference
from statewright.operations.incidents import Incident, IncidentSubject
from statewright.operations.records import Record, Value

RETRY_TIMEOUT_S: Final = 60.0
"""A retry waits for what it does again, with the processors that take part in it."""
STALE: Final = "INCIDENT_STALE"
MAX_CHANGES: Final = 200
MAX_VALUE_CHARS: Final = 500
EDITED: Final = ("document", "variables")
RETRYABLE: Final[Mapping[str, str]] = {
    "RUN_FAILED": "The same create, update or transition is done again, as the caller of then.",
    "TIMER_FAILED": "The timer is due now, and may fail as often as a new one.",
    "TIMER_DEAD": "The timer is due now, and may fail as often as a new one.",
    "JOB_FAILED": "The failed step is done again.",
    "INSTANCE_FAILED": "The failed step is done again.",
    "POISONED": "The parked work is due now, and has its attempts again. Closing the incident gives the work up.",
}
"""Kinds of incidents that can be done again, and what that comes to."""


class Change(Struct, frozen=True):
    """A difference between two documents: what was done at a place, and the new value as JSON."""

    op: str
    path: str
    value: str


class IncidentView(Struct, frozen=True, kw_only=True):
    """One incident."""

    row: IncidentLine
    facts: tuple[tuple[str, str], ...]
    payload: "PayloadView | None"
    now: "SubjectNow | None"
    retry_effect: str | None
    """What a retry does; None where there is none."""
    edited: str | None
    """The member that a retry with edited data takes."""
    edit_text: str
    call: ApiCall


class AskedFor(Record, frozen=True, kw_only=True):
    """What was asked for, as an incident has it."""

    document: Value = None
    transition: str | None = None
    if_match: str | None = None


class PayloadView(Struct, frozen=True, kw_only=True):
    """What was asked for."""

    asked: AskedFor
    tree: TreeNode
    text: str | None


class SubjectNow(Struct, frozen=True, kw_only=True):
    """The entity as it is: what is different from what was asked for, and whether it was written since."""

    state: str
    is_written_since: bool
    changes: tuple[Change, ...]
    is_cut: bool
    problem: Problem | None = None


class StaleRetryView(Struct, frozen=True, kw_only=True):
    """A retry that was refused because the entity was written since."""

    incident: str
    problem: Problem
    entity: str
    changes: tuple[Change, ...]
    is_cut: bool
    comparison: Problem | None
    fields: tuple[tuple[str, str], ...]


async def show_incident(request: ConsoleRequest) -> View:
    """One incident, with the entity that it is about."""
    id_ = request.params["id"]
    [found] = await request.call(build_ops_call("incidents", id_))
    subject = found.read(Incident).subject
    now: Reply | None = None
    if subject.kind == "ENTITY":
        [now] = await request.call(build_entity_call("entity", subject.id))
    return await asyncio.to_thread(view_incident, found, now)


def view_incident(found: Reply, now: Reply | None) -> View:
    """One incident from the answers of the API. ``now`` is the envelope of its entity, where it is about one."""
    item = found.read(Incident)
    kind, is_open = item.kind, item.status == "OPEN"
    asked = convert(item.payload, AskedFor) if isinstance(item.payload, dict) else None
    edited = "document" if kind == "RUN_FAILED" else "variables" if kind in {"JOB_FAILED", "INSTANCE_FAILED"} else None
    data = IncidentView(
        row=IncidentLine(item),
        facts=_list_facts(item),
        payload=None if asked is None else _build_payload(asked),
        now=None if now is None else _compare(item.subject, asked, now),
        retry_effect=RETRYABLE.get(kind) if is_open else None,
        edited=edited if is_open else None,
        edit_text=_write_edit(asked, edited),
        call=build_ops_call("incidents", item.id, "retry", method="POST", body=b"{}"),
    )
    return View(title=f"Incident {item.id}", data=data, crumbs=(CRUMB,))


def _list_facts(item: Incident) -> tuple[tuple[str, str], ...]:
    facts = {
        "Model": item.subject.model,
        "State": item.subject.state,
        "Workflow": item.workflow,
        "Transition": item.transition,
        "Step": item.step,
        "Component": item.component,
        "Asked by": item.principal.id,
        "Trace": item.trace_id,
    }
    return tuple((name, value) for name, value in facts.items() if value)


def _build_payload(asked: AskedFor) -> PayloadView:
    text = write_text(asked.document) if fits_page(asked.document) else None
    return PayloadView(asked=asked, tree=build_tree(asked.document), text=text)


def _write_edit(asked: AskedFor | None, edited: str | None) -> str:
    if edited != "document" or asked is None or asked.document is None:
        return "{}"
    return write_text(asked.document) if fits_page(asked.document) else ""


def _compare(subject: IncidentSubject, asked: AskedFor | None, now: Reply) -> SubjectNow:
    entity = now.read_if_ok(Envelope)
    if entity is None:
        return SubjectNow(state="", is_written_since=False, changes=(), is_cut=False, problem=build_problem(now))
    patch = build_json_patch(asked.document, entity.data) if asked is not None and asked.document is not None else []
    changes, is_cut = read_changes(patch)
    return SubjectNow(
        state=entity.meta.state,
        is_written_since=entity.meta.transaction_id != subject.transaction_id,
        changes=changes,
        is_cut=is_cut,
    )


def read_changes(patch: Sequence[JsonObject]) -> tuple[tuple[Change, ...], bool]:
    """The first operations of a JSON Patch as they are shown, and whether there are more."""
    changes = tuple(
        Change(get_text(each, "op"), get_text(each, "path") or "/", _write_value(each)) for each in patch[:MAX_CHANGES]
    )
    return changes, len(patch) > MAX_CHANGES


def _write_value(operation: JsonObject) -> str:
    if "value" not in operation:
        return ""
    text = encode(operation["value"]).decode()
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


def build_retry(form: Form) -> ApiCall:
    """The call that does it again, with other data where some were typed."""
    members = [f'"{name}":{_read_object(form, name)}' for name in EDITED if form.get(name)]
    if form.get("force"):
        members.append('"force":true')
    body = f"{{{','.join(members)}}}".encode()
    return build_ops_call(
        "incidents", form.require("incident"), "retry", method="POST", body=body, timeout_s=RETRY_TIMEOUT_S
    )


def _read_object(form: Form, name: str) -> str:
    raw = read_json(form, name)
    if not isinstance(decode(raw), dict):
        raise InvalidField(name, "is no JSON object")
    return raw.decode()


def _build_resolution(form: Form) -> ApiCall:
    body = encode({"reason": form.require("reason")})
    return build_ops_call("incidents", form.require("incident"), "resolve", method="POST", body=body)


async def _show_stale(request: ConsoleRequest, form: Form, reply: Reply) -> View | None:
    """What has changed meanwhile, and the same retry with force; None for every other answer."""
    problem = build_problem(reply)
    if problem.code != STALE:
        return None
    id_ = form.require("incident")
    [found] = await request.call(build_ops_call("incidents", id_))
    subject = found.read(Incident).subject
    query = {"from": subject.transaction_id, "to": "current"}
    [compared] = await request.call(build_ops_call("entities", subject.id, "diff", query=query))
    difference = compared.read_if_ok(Difference)
    changes, is_cut = read_changes(difference.patch if difference is not None else ())
    data = StaleRetryView(
        incident=id_,
        problem=problem,
        entity=subject.id,
        changes=changes,
        is_cut=is_cut,
        comparison=None if compared.is_ok else build_problem(compared),
        fields=tuple(pair for pair in form.pairs if pair[0] in {"incident", "group", *EDITED}),
    )
    crumbs = (CRUMB, Crumb("Incident", build_incident_path(id_)))
    return View(
        title="It was written since", data=data, status=reply.status, crumbs=crumbs, template="pages/stale_retry.html"
    )


def build_incident_path(id_: str) -> str:
    """The page of an incident."""
    return ROOT + build_path(id_)


def _find_way_back(form: Form) -> str:
    """The page of the incident, or of its cause where that is where the button stood."""
    group = form.get("group")
    return f"{ROOT}/groups{build_path(group)}" if group else build_incident_path(form.require("incident"))


def _follow_incident(form: Form, _reply: Reply) -> str:
    return _find_way_back(form)


async def _confirm_retry(request: ConsoleRequest, form: Form) -> Confirmation:
    item = await _load(request, form)
    effect = RETRYABLE.get(item.kind, "What failed is done again.")
    return Confirmation(
        question="Do again what failed?",
        details=(item.title, effect, "The incident stays open until that has succeeded."),
        back=_find_way_back(form),
    )


async def _confirm_resolution(request: ConsoleRequest, form: Form) -> Confirmation:
    item = await _load(request, form)
    return Confirmation(
        question="Close this incident?",
        details=(item.title, "Nothing is done again. Should it fail again, there is a new incident."),
        back=build_incident_path(form.require("incident")),
        needs_reason=True,
    )


async def _load(request: ConsoleRequest, form: Form) -> Incident:
    [found] = await request.call(build_ops_call("incidents", form.require("incident")))
    return found.read(Incident)


ROUTES: Final[Routes] = (
    Page(name="incident", path=f"{ROOT}/{{id}}", show=show_incident, feature="incidents"),
    Action(
        name="retry_incident",
        label="Retry",
        build=build_retry,
        follow=_follow_incident,
        confirm=_confirm_retry,
        show=_show_stale,
        role=OPERATOR,
    ),
    Action(
        name="resolve_incident",
        label="Resolve",
        build=_build_resolution,
        follow=_follow_incident,
        confirm=_confirm_resolution,
        role=OPERATOR,
    ),
)
