"""One incident: what failed, what was asked for, what is there now, and doing it again (docs/console.md#pages)."""

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from statewright.console.calls import (
    ApiCall,
    Reply,
    build_entity_call,
    build_ops_call,
    build_path,
    get_flag,
    get_instant,
    get_int,
    get_object,
    get_objects,
    get_text,
)
from statewright.console.pages.incidents import CRUMB, ROOT, choose_mark, find_subject
from statewright.console.pages.model_acts import read_json
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
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.patches import build_json_patch
from statewright.jsonval.values import JsonObject

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


class Attempt(Struct, frozen=True, kw_only=True):
    """One of the attempts that failed; ``at`` is in microseconds since 1970."""

    at: int | None
    member: str
    error: str


class Change(Struct, frozen=True):
    """A difference between two documents: what was done at a place, and the new value as JSON."""

    op: str
    path: str
    value: str


class IncidentView(Struct, frozen=True, kw_only=True):
    """One incident."""

    id: str
    title: str
    kind: str
    mark: str
    severity: str
    status: str
    fingerprint: str
    first: str
    last: str
    occurrences: int
    facts: tuple[tuple[str, str], ...]
    code: str
    message: str
    subject: str
    subject_kind: str
    subject_href: str | None
    attempts: tuple[Attempt, ...]
    resolution: "ResolutionView | None"
    payload: "PayloadView | None"
    payload_omitted: bool
    now: "SubjectNow | None"
    retry_effect: str | None
    """What a retry does; None where there is none."""
    edited: str | None
    """The member that a retry with edited data takes."""
    edit_text: str
    call: ApiCall


class ResolutionView(Struct, frozen=True, kw_only=True):
    """How an incident was closed."""

    by: str
    at: str
    how: str
    reason: str


class PayloadView(Struct, frozen=True, kw_only=True):
    """What was asked for."""

    transition: str
    if_match: str
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
    subject = get_object(found.require().document, "subject")
    now: Reply | None = None
    if get_text(subject, "kind") == "ENTITY":
        [now] = await request.call(build_entity_call("entity", get_text(subject, "id")))
    return await asyncio.to_thread(view_incident, found, now)


def view_incident(found: Reply, now: Reply | None) -> View:
    """One incident from the answers of the API. ``now`` is the envelope of its entity, where it is about one."""
    item = found.document
    subject, kind, status = get_object(item, "subject"), get_text(item, "kind"), get_text(item, "status")
    payload = item.get("payload")
    asked = payload if isinstance(payload, dict) else None
    edited = "document" if kind == "RUN_FAILED" else "variables" if kind in {"JOB_FAILED", "INSTANCE_FAILED"} else None
    id_ = get_text(item, "id")
    data = IncidentView(
        id=id_,
        title=get_text(item, "title"),
        kind=kind,
        mark=choose_mark(item),
        severity=get_text(item, "severity"),
        status=status,
        fingerprint=get_text(item, "fingerprint"),
        first=get_text(item, "firstAt"),
        last=get_text(item, "lastAt"),
        occurrences=get_int(item, "occurrences"),
        facts=_list_facts(item, subject),
        code=get_text(item, "code"),
        message=get_text(item, "message"),
        subject=get_text(subject, "id"),
        subject_kind=get_text(subject, "kind"),
        subject_href=find_subject(get_text(subject, "kind"), get_text(subject, "id")),
        attempts=tuple(
            Attempt(at=_read_instant(each), member=get_text(each, "member"), error=get_text(each, "error"))
            for each in get_objects(item, "attempts")
        ),
        resolution=_read_resolution(item),
        payload=None if asked is None else _build_payload(asked),
        payload_omitted=get_flag(item, "payloadOmitted"),
        now=None if now is None else _compare(subject, asked, now),
        retry_effect=RETRYABLE.get(kind) if status == "OPEN" else None,
        edited=edited if status == "OPEN" else None,
        edit_text=_write_edit(asked, edited),
        call=build_ops_call("incidents", id_, "retry", method="POST", body=b"{}"),
    )
    return View(title=f"Incident {id_}", data=data, crumbs=(CRUMB,))


def _list_facts(item: JsonObject, subject: JsonObject) -> tuple[tuple[str, str], ...]:
    principal = get_object(item, "principal")
    facts = {
        "Model": get_text(subject, "model"),
        "State": get_text(subject, "state"),
        "Workflow": get_text(item, "workflow"),
        "Transition": get_text(item, "transition"),
        "Step": get_text(item, "step"),
        "Component": get_text(item, "component"),
        "Asked by": get_text(principal, "id"),
        "Trace": get_text(item, "traceId"),
    }
    return tuple((name, value) for name, value in facts.items() if value)


def _read_instant(attempt: JsonObject) -> int | None:
    return get_int(attempt, "at") or get_instant(attempt, "at")


def _read_resolution(item: JsonObject) -> ResolutionView | None:
    resolution = get_object(item, "resolution")
    if not resolution:
        return None
    return ResolutionView(
        by=get_text(get_object(resolution, "by"), "id"),
        at=get_text(resolution, "at"),
        how=get_text(resolution, "how"),
        reason=get_text(resolution, "reason"),
    )


def _build_payload(payload: JsonObject) -> PayloadView:
    document = payload.get("document")
    return PayloadView(
        transition=get_text(payload, "transition"),
        if_match=get_text(payload, "ifMatch"),
        tree=build_tree(document),
        text=write_text(document) if fits_page(document) else None,
    )


def _write_edit(payload: "JsonObject | None", edited: str | None) -> str:
    document = None if payload is None else payload.get("document")
    if edited != "document" or document is None:
        return "{}"
    return write_text(document) if fits_page(document) else ""


def _compare(subject: JsonObject, payload: "JsonObject | None", now: Reply) -> SubjectNow:
    if not now.is_ok:
        return SubjectNow(state="", is_written_since=False, changes=(), is_cut=False, problem=build_problem(now))
    meta = get_object(now.document, "meta")
    changes: tuple[Change, ...] = ()
    is_cut = False
    asked = None if payload is None else payload.get("document")
    if asked is not None:
        changes, is_cut = read_changes(build_json_patch(asked, now.document.get("data")))
    return SubjectNow(
        state=get_text(meta, "state"),
        is_written_since=get_text(meta, "transactionId") != get_text(subject, "transactionId"),
        changes=changes,
        is_cut=is_cut,
    )


def read_changes(patch: list[JsonObject]) -> tuple[tuple[Change, ...], bool]:
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
    subject = get_object(found.document, "subject")
    entity = get_text(subject, "id")
    query = {"from": get_text(subject, "transactionId"), "to": "current"}
    [compared] = await request.call(build_ops_call("entities", entity, "diff", query=query))
    changes, is_cut = read_changes(get_objects(compared.document, "patch"))
    data = StaleRetryView(
        incident=id_,
        problem=problem,
        entity=entity,
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
    effect = RETRYABLE.get(get_text(item, "kind"), "What failed is done again.")
    return Confirmation(
        question="Do again what failed?",
        details=(get_text(item, "title"), effect, "The incident stays open until that has succeeded."),
        back=_find_way_back(form),
    )


async def _confirm_resolution(request: ConsoleRequest, form: Form) -> Confirmation:
    item = await _load(request, form)
    return Confirmation(
        question="Close this incident?",
        details=(get_text(item, "title"), "Nothing is done again. Should it fail again, there is a new incident."),
        back=build_incident_path(form.require("incident")),
        needs_reason=True,
    )


async def _load(request: ConsoleRequest, form: Form) -> JsonObject:
    [found] = await request.call(build_ops_call("incidents", form.require("incident")))
    return found.require().document


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
