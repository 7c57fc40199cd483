"""Incidents: by their cause, one by one, those of one cause, and one of them: what failed, what was asked for, what is
there now, and doing it again (docs/console.md#pages).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType, convert

from statewright.console.acts import ask, lead_to, read_json, read_text, send
from statewright.console.calls import (
    ApiCall,
    Reply,
    build_entity_call,
    build_ops_call,
    build_path,
    build_problem_reply,
    pick_members,
)
from statewright.console.pages.bulk import lead_to_job
from statewright.console.pages.listing import Filter, ListView, build_list
from statewright.console.request import (
    OPERATOR,
    Action,
    Form,
    InvalidField,
    Navigation,
    Page,
    PageContext,
    Routes,
    build_part,
    build_problem,
)
from statewright.console.views.entities import Document, build_document, cut_json
from statewright.console.views.page import Confirmation, Crumb, Problem, View, format_count
from statewright.console.views.records import Envelope
from statewright.jsonval.codec import decode
from statewright.jsonval.patches import build_json_patch
from statewright.jsonval.values import JsonObject
from statewright.operations.history import Difference
from statewright.operations.incidents import INCIDENT_KINDS, Incident, IncidentGroup, IncidentSubject
from statewright.operations.records import Listed, Record, Value

ROOT: Final = "/console/incidents"
PART: Final = "/console/part/incidents"
CRUMB: Final = Crumb("Incidents", ROOT)
STATUSES: Final = ("OPEN", "RESOLVED")
SEVERITIES: Final = ("", "ERROR", "WARNING")
FILTERS: Final = tuple(map(Filter, ("kind", "severity", "model", "since")))
MAX_BADGE: Final = 99
OF_WEBHOOKS: Final = {"WEBHOOK_FAILED", "SUBSCRIPTION_DISABLED"}


class IncidentLine(Struct, frozen=True):
    """An incident as lists and its page show it."""

    item: Incident

    @property
    def mark(self) -> str:
        """What is closed is no alarm."""
        if self.item.status == "RESOLVED":
            return "ok"
        if self.item.status == "RETRYING":
            return "info"
        return "warn" if self.item.severity == "WARNING" else "bad"

    @property
    def subject(self) -> str:
        """What it is about."""
        return "a new entity" if self.item.subject.kind == "NEW_ENTITY" else self.item.subject.id

    @property
    def href(self) -> str | None:
        """The page of what it is about, where there is such a page."""
        id_ = self.item.subject.id
        match self.item.subject.kind:
            case "ENTITY":
                return f"/console/entities{build_path(id_)}"
            case "INSTANCE":
                return f"/console/instances{build_path(id_)}"
            case "QUEUE":
                queue_kind, _, name = id_.partition("/")
                return f"/console/queues{build_path(queue_kind, name)}" if name else "/console/workers"
            case "MODEL":
                return f"/console/models{build_path(*id_.rsplit('/', 1), 'revisions')}"
            case _:
                return None


class IncidentGroupsView(Struct, frozen=True, kw_only=True):
    """The causes. ``last_at`` is when something last failed, also where nothing is open."""

    list: ListView[IncidentGroup]
    last_at: str | None


class IncidentGroupView(Struct, frozen=True, kw_only=True):
    """The incidents of one cause."""

    fingerprint: str
    title: str
    kind: str
    status: str
    total: str
    list: ListView[IncidentLine]
    is_retryable: bool


class BadgeView(Struct, frozen=True):
    """A number of the navigation; empty for none."""

    text: str


async def show_incidents(request: PageContext) -> View:
    """The causes of what is open, that of most incidents first."""
    groups, last = await request.call(
        build_ops_call("incident-groups", query=request.query.read_page()),
        build_ops_call("incidents", query={"status": STATUSES, "limit": 1}),
    )
    data = IncidentGroupsView(
        list=build_list(request.query, groups.require(), groups.read_items(IncidentGroup)),
        last_at=next((item.last_at for item in last.read_items(Incident)), None),
    )
    return View(title="Incidents", data=data)


async def show_incident_list(request: PageContext) -> View:
    """Incidents one by one, newest first."""
    query = request.query
    wanted = {
        "status": query.get_choice("status", STATUSES),
        "kind": query.get_choice("kind", ("", *INCIDENT_KINDS)) or None,
        "severity": query.get_choice("severity", SEVERITIES) or None,
        "model": query.get("model") or None,
        "lastFrom": query.get("since") or None,
    }
    found = await request.call_one(build_ops_call("incidents", query={**wanted, **query.read_page()}))
    data = build_list(query, found, read_rows(found), filters=FILTERS, retry=request.path + query.change())
    return View(title="Incidents, one by one", data=data, crumbs=(CRUMB,), status=200 if found.is_ok else found.status)


async def show_incident_group(request: PageContext) -> View:
    """The incidents of one cause."""
    fingerprint, query = request.params["fingerprint"], request.query
    status, cause = query.get_choice("status", STATUSES), {"fingerprint": fingerprint}
    found, sample = await request.call(
        build_ops_call("incidents", query={**cause, "status": status, "count": True, **query.read_page()}),
        build_ops_call("incidents", query={**cause, "status": STATUSES, "limit": 1}),
    )
    counted = found.read(Listed[Incident])
    example = next(iter(counted.items or sample.read_items(Incident)), None)
    if example is None and sample.is_ok and not query.get("after"):
        lost = build_problem_reply(sample.call, 404, "INCIDENT_NOT_FOUND", f"no incident has the cause {fingerprint}")
        lost.require()
    kind = example.kind if example is not None else ""
    data = IncidentGroupView(
        fingerprint=fingerprint,
        title=example.title if example is not None else "",
        kind=kind,
        status=status,
        total=format_count(found.total, is_lower_bound=counted.total_is_lower_bound),
        list=build_list(query, found, read_rows(found)),
        is_retryable=kind not in {"NO_WORKER", "STATE_UNKNOWN", "CHAIN_FAILED", "TIMER_EXPIRED"} | OF_WEBHOOKS,
    )
    return View(title="Incidents of one cause", data=data, crumbs=(CRUMB,))


async def show_incident_badge(request: PageContext) -> View:
    """How many incidents are open, for the navigation."""
    found = await request.call_one(build_ops_call("incidents", query={"limit": 1, "count": True}))
    return View(data=BadgeView(format_badge(found.require().total)), template="parts/badge.html")


def format_badge(total: int) -> str:
    """A number of the navigation, which is no longer than three signs."""
    return "" if total == 0 else f"{MAX_BADGE}+" if total > MAX_BADGE else str(total)


def read_rows(found: Reply) -> tuple[IncidentLine, ...]:
    """The lines of a list."""
    return tuple(map(IncidentLine, found.read_items(Incident)))


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


class PatchOperation(Record, frozen=True, kw_only=True):
    """An operation of a JSON Patch (RFC 6902)."""

    op: str = ""
    path: str = ""
    value: Value | UnsetType = UNSET


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


class PayloadView(Struct, frozen=True):
    """What was asked for."""

    asked: AskedFor
    document: Document


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


async def show_incident(request: PageContext) -> View:
    """One incident, with the entity that it is about."""
    found = await request.call_one(build_ops_call("incidents", request.params["id"]))
    subject = found.read(Incident).subject
    is_entity = subject.kind == "ENTITY"
    now = await request.call_one(build_entity_call("entity", subject.id)) if is_entity else None
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
        payload=None if asked is None else PayloadView(asked, build_document(asked.document)),
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


def _write_edit(asked: AskedFor | None, edited: str | None) -> str:
    if edited != "document" or asked is None or asked.document is None:
        return "{}"
    return build_document(asked.document).text or ""


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
    return tuple(map(_read_change, patch[:MAX_CHANGES])), len(patch) > MAX_CHANGES


def _read_change(operation: JsonObject) -> Change:
    told = pick_members(operation, PatchOperation)
    value = "" if told.value is UNSET else cut_json(told.value, MAX_VALUE_CHARS)
    return Change(told.op, told.path or "/", value)


def _write_retry(form: Form) -> bytes:
    """Does it again, with other data where some were typed."""
    members = [f'"{name}":{_read_object(form, name)}' for name in EDITED if form.get(name)]
    if form.get("force"):
        members.append('"force":true')
    return f"{{{','.join(members)}}}".encode()


def _read_object(form: Form, name: str) -> str:
    raw = read_json(form, name)
    if not isinstance(decode(raw), dict):
        raise InvalidField(name, "is no JSON object")
    return raw.decode()


async def _show_stale(request: PageContext, form: Form, reply: Reply) -> View | None:
    """What has changed meanwhile, and the same retry with force; None for every other answer."""
    problem = build_problem(reply)
    if problem.code != STALE:
        return None
    id_ = form.require("incident")
    subject = (await _load(request, id_)).subject
    query = {"from": subject.transaction_id, "to": "current"}
    compared = await request.call_one(build_ops_call("entities", subject.id, "diff", query=query))
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


async def _confirm_retry(context: PageContext, form: Form) -> Confirmation:
    item = await _load(context, form.require("incident"))
    effect = RETRYABLE.get(item.kind, "What failed is done again.")
    details = (item.title, effect, "The incident stays open until that has succeeded.")
    return Confirmation(question="Do again what failed?", details=details, back=_find_way_back(form))


async def _confirm_resolution(context: PageContext, form: Form) -> Confirmation:
    item = await _load(context, form.require("incident"))
    details = (item.title, "Nothing is done again. Should it fail again, there is a new incident.")
    back = build_incident_path(item.id)
    return Confirmation(question="Close this incident?", details=details, back=back, needs_reason=True)


async def _load(context: PageContext, id_: str) -> Incident:
    return (await context.call_one(build_ops_call("incidents", id_))).read(Incident)


ROUTES: Final[Routes] = (
    Page(
        name="incidents",
        path=ROOT,
        show=show_incidents,
        navigation=Navigation("Work", "Incidents", "i", badge=f"{PART}/count"),
        feature="incidents",
    ),
    Page(name="incident_list", path=f"{ROOT}/list", show=show_incident_list, feature="incidents"),
    Page(name="incident_group", path=f"{ROOT}/groups/{{fingerprint}}", show=show_incident_group, feature="incidents"),
    build_part("incident_badge", "/incidents/count", show_incident_badge, feature="incidents"),
    Page(name="incident", path=f"{ROOT}/{{id}}", show=show_incident, feature="incidents"),
    Action(
        "retry_incident",
        "Retry",
        send("POST", "/ops/v1/incidents/{incident}/retry", _write_retry, timeout_s=RETRY_TIMEOUT_S),
        lead_to(_find_way_back),
        _confirm_retry,
        show=_show_stale,
        role=OPERATOR,
    ),
    Action(
        "resolve_incident",
        "Resolve",
        send("POST", "/ops/v1/incidents/{incident}/resolve", {"reason": read_text}),
        lead_to(_find_way_back),
        _confirm_resolution,
        role=OPERATOR,
    ),
    Action(
        "retry_incident_group",
        "Retry all",
        send("POST", "/ops/v1/incident-groups/{group}/retry", {}),
        lead_to_job,
        ask("Retry all open incidents of this cause?", "A bulk job does so, as you.", back=f"{ROOT}/groups/{{group}}"),
        role=OPERATOR,
    ),
    Action(
        "resolve_incident_group",
        "Resolve all",
        send("POST", "/ops/v1/incident-groups/{group}/resolve", {"reason": read_text}),
        lead_to_job,
        ask(
            "Close all open incidents of this cause?",
            "Nothing is done again.",
            back=f"{ROOT}/groups/{{group}}",
            needs_reason=True,
        ),
        role=OPERATOR,
    ),
)
