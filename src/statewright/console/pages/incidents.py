"""Incidents: by their cause, one by one, and those of one cause (docs/console.md#pages)."""

from typing import Final

from msgspec import Struct

from statewright.console.calls import Reply, build_ops_call, build_path, build_problem_reply
from statewright.console.pages.listing import Filter, ListView, build_list
from statewright.console.request import ConsoleRequest, Navigation, Page, Routes, build_part
from statewright.console.views.page import Crumb, View, format_count
from statewright.operations.incidents import INCIDENT_KINDS, Incident, IncidentGroup
from statewright.operations.records import Listed

ROOT: Final = "/console/incidents"
PART: Final = "/console/part/incidents"
CRUMB: Final = Crumb("Incidents", ROOT)
STATUSES: Final = ("OPEN", "RESOLVED")
SEVERITIES: Final = ("", "ERROR", "WARNING")
FILTERS: Final = tuple(map(Filter, ("kind", "severity", "model", "since")))
MAX_BADGE: Final = 99


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
        list=build_list(request.query, groups, groups.read_items(IncidentGroup)),
        last_at=next((item.last_at for item in last.read_items(Incident)), None),
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
                "kind": query.get_choice("kind", ("", *INCIDENT_KINDS)) or None,
                "severity": query.get_choice("severity", SEVERITIES) or None,
                "model": query.get("model") or None,
                "lastFrom": query.get("since") or None,
                "limit": query.size(),
                "cursor": query.get("after") or None,
            },
        )
    )
    data = build_list(query, found, read_rows(found), filters=FILTERS, retry=request.path + query.change())
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
    example = next(iter(found.read_items(Incident) or sample.read_items(Incident)), None)
    kind = example.kind if example is not None else ""
    data = IncidentGroupView(
        fingerprint=fingerprint,
        title=example.title if example is not None else "",
        kind=kind,
        status=request.query.get_choice("status", STATUSES),
        total=format_count(found.total, is_lower_bound=found.read(Listed[Incident]).total_is_lower_bound),
        list=build_list(request.query, found, read_rows(found)),
        is_retryable=kind not in {"NO_WORKER", "CHAIN_FAILED", "TIMER_EXPIRED"},
    )
    return View(title="Incidents of one cause", data=data, crumbs=(CRUMB,))


async def show_incident_badge(request: ConsoleRequest) -> View:
    """How many incidents are open, for the navigation."""
    [found] = await request.call(build_ops_call("incidents", query={"limit": 1, "count": True}))
    return View(data=BadgeView(format_badge(found.require().total)), template="parts/badge.html")


def format_badge(total: int) -> str:
    """A number of the navigation, which is no longer than three signs."""
    return "" if total == 0 else f"{MAX_BADGE}+" if total > MAX_BADGE else str(total)


def read_rows(found: Reply) -> tuple[IncidentLine, ...]:
    """The lines of a list."""
    return tuple(map(IncidentLine, found.read_items(Incident)))


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
