"""Incidents: by their cause, one by one, and those of one cause (docs/console.md#pages)."""

from typing import Final

from msgspec import Struct

from statewright.console.calls import (
    Reply,
    build_ops_call,
    build_path,
    build_problem_reply,
    get_flag,
    get_int,
    get_object,
    get_text,
)
from statewright.console.request import ConsoleRequest, Navigation, Page, Routes, build_part, build_problem
from statewright.console.views.page import Crumb, Problem, View, format_count
from statewright.jsonval.values import JsonObject

ROOT: Final = "/console/incidents"
PART: Final = "/console/part/incidents"
CRUMB: Final = Crumb("Incidents", ROOT)
STATUSES: Final = ("OPEN", "RESOLVED")
SEVERITIES: Final = ("", "ERROR", "WARNING")
KINDS: Final = (
    *("", "RUN_FAILED", "TIMER_FAILED", "TIMER_DEAD", "TIMER_EXPIRED"),
    *("JOB_FAILED", "INSTANCE_FAILED", "NO_WORKER", "CHAIN_FAILED", "POISONED"),
)
MAX_BADGE: Final = 99


class IncidentGroupRow(Struct, frozen=True, kw_only=True):
    """Open incidents of one cause."""

    fingerprint: str
    title: str
    kind: str
    open: int
    occurrences: int
    first: str
    last: str


class IncidentRow(Struct, frozen=True, kw_only=True):
    """An incident in a list. ``subject_href`` leads to what it is about, where there is such a page."""

    id: str
    title: str
    kind: str
    mark: str
    status: str
    occurrences: int
    first: str
    last: str
    subject: str
    subject_href: str | None


class IncidentGroupsView(Struct, frozen=True, kw_only=True):
    """The causes. ``last_at`` is when something last failed, also where nothing is open."""

    rows: tuple[IncidentGroupRow, ...]
    next: str | None
    first: str | None
    last_at: str | None


class IncidentListView(Struct, frozen=True, kw_only=True):
    """Incidents one by one, with the filters that are set."""

    rows: tuple[IncidentRow, ...]
    next: str | None
    first: str | None
    status: str
    kind: str
    severity: str
    model: str
    since: str
    is_filtered: bool
    problem: Problem | None


class IncidentGroupView(Struct, frozen=True, kw_only=True):
    """The incidents of one cause."""

    fingerprint: str
    title: str
    kind: str
    status: str
    total: str
    rows: tuple[IncidentRow, ...]
    next: str | None
    first: str | None
    is_retryable: bool


class BadgeView(Struct, frozen=True):
    """A number of the navigation; empty for none."""

    text: str


async def show_incidents(request: ConsoleRequest) -> View:
    """The causes of what is open, that of most incidents first."""
    groups, last = await request.call(
        build_ops_call(
            "incident-groups", query={"limit": request.query.size(), "cursor": request.query.get("after") or None}
        ),
        build_ops_call("incidents", query={"status": STATUSES, "limit": 1}),
    )
    return view_incident_groups(request, groups.require(), last)


def view_incident_groups(request: ConsoleRequest, groups: Reply, last: Reply) -> View:
    """The causes from the answers of the API."""
    data = IncidentGroupsView(
        rows=tuple(_build_group(item) for item in groups.items),
        next=find_next(request, groups),
        first=find_first(request),
        last_at=next((get_text(item, "lastAt") for item in last.items), None),
    )
    return View(title="Incidents", data=data)


async def show_incident_list(request: ConsoleRequest) -> View:
    """Incidents one by one, newest first."""
    query = request.query
    [found] = await request.call(
        build_ops_call(
            "incidents",
            query={
                "status": query.get_choice("status", STATUSES),
                "kind": query.get_choice("kind", KINDS) or None,
                "severity": query.get_choice("severity", SEVERITIES) or None,
                "model": query.get("model") or None,
                "lastFrom": query.get("since") or None,
                "limit": query.size(),
                "cursor": query.get("after") or None,
            },
        )
    )
    data = IncidentListView(
        rows=tuple(build_incident_row(item) for item in found.items),
        next=find_next(request, found),
        first=find_first(request),
        status=query.get_choice("status", STATUSES),
        kind=query.get("kind"),
        severity=query.get("severity"),
        model=query.get("model"),
        since=query.get("since"),
        is_filtered=any(query.get(name) for name in ("kind", "severity", "model", "since")),
        problem=None if found.is_ok else build_problem(found, retry=request.path + query.change()),
    )
    return View(title="Incidents, one by one", data=data, crumbs=(CRUMB,), status=200 if found.is_ok else found.status)


async def show_incident_group(request: ConsoleRequest) -> View:
    """The incidents of one cause."""
    fingerprint = request.params["fingerprint"]
    status = request.query.get_choice("status", STATUSES)
    found, sample = await request.call(
        build_ops_call(
            "incidents",
            query={
                "fingerprint": fingerprint,
                "status": status,
                "limit": request.query.size(),
                "cursor": request.query.get("after") or None,
                "count": True,
            },
        ),
        build_ops_call("incidents", query={"fingerprint": fingerprint, "status": STATUSES, "limit": 1}),
    )
    if not found.require().items and not sample.require().items and not request.query.get("after"):
        lost = build_problem_reply(sample.call, 404, "INCIDENT_NOT_FOUND", f"no incident has the cause {fingerprint}")
        lost.require()
    return view_incident_group(request, fingerprint, found, sample)


def view_incident_group(request: ConsoleRequest, fingerprint: str, found: Reply, sample: Reply) -> View:
    """The incidents of one cause from the answers of the API."""
    example = next(iter(found.items or sample.items), {})
    kind = get_text(example, "kind")
    data = IncidentGroupView(
        fingerprint=fingerprint,
        title=get_text(example, "title"),
        kind=kind,
        status=request.query.get_choice("status", STATUSES),
        total=format_count(
            get_int(found.document, "total"), is_lower_bound=get_flag(found.document, "totalIsLowerBound")
        ),
        rows=tuple(build_incident_row(item) for item in found.items),
        next=find_next(request, found),
        first=find_first(request),
        is_retryable=kind not in {"NO_WORKER", "CHAIN_FAILED", "TIMER_EXPIRED"},
    )
    return View(title="Incidents of one cause", data=data, crumbs=(CRUMB,))


async def show_incident_badge(request: ConsoleRequest) -> View:
    """How many incidents are open, for the navigation."""
    [found] = await request.call(build_ops_call("incidents", query={"limit": 1, "count": True}))
    total = get_int(found.require().document, "total")
    return View(data=BadgeView(format_badge(total)), template="parts/badge.html")


def format_badge(total: int) -> str:
    """A number of the navigation, which is no longer than three signs."""
    return "" if total == 0 else f"{MAX_BADGE}+" if total > MAX_BADGE else str(total)


def find_next(request: ConsoleRequest, found: Reply) -> str | None:
    """The address of the next page of a list; None on the last one."""
    cursor = get_text(found.document, "nextCursor")
    return request.query.change(after=cursor, done=None) if cursor else None


def find_first(request: ConsoleRequest) -> str | None:
    """The address of the start of a list; None on the first page."""
    return request.query.change(after=None, done=None) if request.query.get("after") else None


def build_incident_row(item: JsonObject) -> IncidentRow:
    """A line of a list."""
    subject = get_object(item, "subject")
    kind, id_ = get_text(subject, "kind"), get_text(subject, "id")
    return IncidentRow(
        id=get_text(item, "id"),
        title=get_text(item, "title"),
        kind=get_text(item, "kind"),
        mark=choose_mark(item),
        status=get_text(item, "status"),
        occurrences=get_int(item, "occurrences"),
        first=get_text(item, "firstAt"),
        last=get_text(item, "lastAt"),
        subject="a new entity" if kind == "NEW_ENTITY" else id_,
        subject_href=find_subject(kind, id_),
    )


def choose_mark(item: JsonObject) -> str:
    """The mark of an incident: what is closed is no alarm."""
    if get_text(item, "status") == "RESOLVED":
        return "ok"
    if get_text(item, "status") == "RETRYING":
        return "info"
    return "warn" if get_text(item, "severity") == "WARNING" else "bad"


def find_subject(kind: str, id_: str) -> str | None:
    """The page of what an incident is about."""
    match kind:
        case "ENTITY":
            return f"/console/entities{build_path(id_)}"
        case "INSTANCE":
            return f"/console/instances{build_path(id_)}"
        case "QUEUE":
            queue_kind, _, name = id_.partition("/")
            return f"/console/queues{build_path(queue_kind, name)}" if name else "/console/workers"
        case _:
            return None


def _build_group(item: JsonObject) -> IncidentGroupRow:
    return IncidentGroupRow(
        fingerprint=get_text(item, "fingerprint"),
        title=get_text(item, "title"),
        kind=get_text(item, "kind"),
        open=get_int(item, "open"),
        occurrences=get_int(item, "occurrences"),
        first=get_text(item, "firstAt"),
        last=get_text(item, "lastAt"),
    )


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
)
