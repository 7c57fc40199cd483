"""Home: what is wrong first, then the models with their entities by state (docs/console.md#pages)."""

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
    get_int,
    get_object,
    get_objects,
    get_text,
)
from statewright.console.pages.models import ModelRow, build_models_call, list_models
from statewright.console.process_languages import MODELS
from statewright.console.request import (
    Action,
    ConsoleRequest,
    Form,
    Navigation,
    Page,
    Routes,
    build_part,
    build_problem,
)
from statewright.console.views.page import Problem, View, format_count, format_duration
from statewright.jsonval.values import JsonObject

MAX_MODELS: Final = 50
MAX_LINES: Final = 5
MAX_IDLE: Final = 8
BAR_STEPS: Final = 10


SAMPLE: Final = b'{"customer": "Ada", "amount": 120.50, "lines": [{"sku": "A-1", "count": 2}]}'

EXAMPLES: Final = (
    build_entity_call("model", "import", "JSON", "SAMPLE_DATA", "order", 1, method="POST", body=SAMPLE),
    build_entity_call("model", "order", 1, "lock", method="PUT"),
    build_entity_call("entity", "JSON", "order", 1, method="POST", body=SAMPLE),
)


class Alert(Struct, frozen=True, kw_only=True):
    """A line of what is wrong. ``href`` leads to it, where there is such a page."""

    mark: str
    text: str
    href: str | None = None
    newest: str = ""
    """When the last of it happened, where that is told."""


class StatusView(Struct, frozen=True, kw_only=True):
    """What is wrong now. Each source fails alone."""

    alerts: tuple[Alert, ...]
    problems: tuple[tuple[str, Problem], ...]
    """Sources that could not be asked, and why."""
    calm: str
    """What is said when there is nothing: what was looked at."""


class IdleRow(Struct, frozen=True, kw_only=True):
    """An entity to which nothing has happened for long, though it could still move."""

    id: str
    model: str
    state: str
    since: str


class IdleView(Struct, frozen=True, kw_only=True):
    """The oldest of them. ``scanned``: of so many, where not all were looked at."""

    rows: tuple[IdleRow, ...] = ()
    scanned: int | None = None
    problem: Problem | None = None


class NodeRow(Struct, frozen=True, kw_only=True):
    """A process of the installation."""

    name: str
    version: str
    started: str
    members: int
    is_draining: bool


class ActivityView(Struct, frozen=True, kw_only=True):
    """Nodes, and what was written in the last hour. ``bars`` are versions per minute in tenths of the largest."""

    nodes: tuple[NodeRow, ...] = ()
    nodes_problem: Problem | None = None
    has_rates: bool = False
    transactions: int = 0
    versions: int = 0
    bars: tuple[int, ...] = ()
    rates_problem: Problem | None = None


class HomeView(Struct, frozen=True, kw_only=True):
    """The first page."""

    models: tuple[ModelRow, ...]
    of_processes: tuple[ModelRow, ...]
    """The models in which the service keeps definitions and instances of processes."""
    is_cut: bool
    models_problem: Problem | None
    status: StatusView
    activity: ActivityView
    has_idle: bool
    examples: tuple[ApiCall, ...] = ()
    """What makes the first model and entity, one after the other."""


Named = tuple[str, ApiCall]


async def show_home(request: ConsoleRequest) -> View:
    """The page, with its first status."""
    alerts, activity = _list_alert_calls(request), _list_activity_calls(request)
    calls = [call for _, call in (*alerts, *activity)]
    models, *replies = await request.call(build_models_call(), *calls)
    rows = list_models(models) if models.is_ok else []
    own = [row for row in rows if row.name not in MODELS]
    data = HomeView(
        models=tuple(own[:MAX_MODELS]),
        of_processes=tuple(row for row in rows if row.name in MODELS),
        is_cut=len(own) > MAX_MODELS,
        models_problem=None if models.is_ok else build_problem(models, retry="/console/"),
        status=view_status(_name_replies(alerts, replies), request.page_paths),
        activity=view_activity(dict(_name_replies(activity, replies[len(alerts) :]))),
        has_idle=bool(rows) and "idle-entities" in request.viewer.features,
        examples=() if own else EXAMPLES,
    )
    return View(title="Home", data=data)


async def show_status(request: ConsoleRequest) -> View:
    """What is wrong; the page asks for it again."""
    alerts = _list_alert_calls(request)
    replies = await request.call(*(call for _, call in alerts))
    return View(data=view_status(_name_replies(alerts, list(replies)), request.page_paths))


async def show_activity(request: ConsoleRequest) -> View:
    """Nodes and rates; the page asks for them again."""
    activity = _list_activity_calls(request)
    replies = await request.call(*(call for _, call in activity))
    return View(data=view_activity(dict(_name_replies(activity, list(replies)))))


async def show_idle(request: ConsoleRequest) -> View:
    """The oldest entities that could still move: looked for after the page, because that may take a second."""
    reply = await request.call_one(build_ops_call("idle-entities", query={"limit": MAX_IDLE}))
    return View(data=view_idle(reply))


def _list_alert_calls(request: ConsoleRequest) -> tuple[Named, ...]:
    """What is asked for alerts, as far as the service has it."""
    known = {
        "queues": build_ops_call("queues", query={"withoutWorker": True, "limit": MAX_LINES}),
        "incidents": build_ops_call("incidents", query={"status": "OPEN", "limit": 1, "count": True}),
        "tasks": build_ops_call("tasks", query={"due": "OVERDUE", "limit": 1, "count": True}),
        "suspensions": build_ops_call("suspensions", query={"active": True, "limit": MAX_LINES}),
    }
    return tuple((name, call) for name, call in known.items() if name in request.viewer.features)


def _list_activity_calls(request: ConsoleRequest) -> tuple[Named, ...]:
    known = {"nodes": build_ops_call("nodes", query={"limit": 50}), "rates": build_ops_call("rates")}
    return tuple((name, call) for name, call in known.items() if name in request.viewer.features)


def _name_replies(named: tuple[Named, ...], replies: list[Reply]) -> tuple[tuple[str, Reply], ...]:
    return tuple((name, reply) for (name, _), reply in zip(named, replies, strict=False))


def view_status(replies: tuple[tuple[str, Reply], ...], pages: frozenset[str]) -> StatusView:
    """Lines from the answers. ``pages`` are the paths of those that there are."""
    alerts: list[Alert] = []
    problems: list[tuple[str, Problem]] = []
    for name, reply in replies:
        if reply.is_ok:
            alerts += _READERS[name](reply, pages)
        else:
            problems.append((name, build_problem(reply)))
    calm = ", ".join(_CALM[name] for name, _ in replies)
    return StatusView(alerts=tuple(alerts), problems=tuple(problems), calm=f"Nothing is wrong: {calm}." if calm else "")


def _read_queues(reply: Reply, pages: frozenset[str]) -> list[Alert]:
    has_page = "/console/queues/{kind}/{queue}" in pages
    return [
        Alert(
            mark="bad",
            text=_describe_queue(queue),
            href=build_path("console", "queues", get_text(queue, "kind"), get_text(queue, "name"))
            if has_page
            else None,
        )
        for queue in reply.items
        if get_int(queue, "depth")
    ]


def _describe_queue(queue: JsonObject) -> str:
    depth, age = get_int(queue, "depth"), get_int(queue, "oldestAgeSeconds")
    kind = "call" if get_text(queue, "kind") == "TAG" else "job"
    waits = f"1 {kind} waits" if depth == 1 else f"{format_count(depth)} {kind}s wait"
    return f"«{get_text(queue, 'name')}»: {waits}, the oldest for {format_duration(age)}, and there is no worker"


def _read_incidents(reply: Reply, pages: frozenset[str]) -> list[Alert]:
    total = get_int(reply.document, "total")
    if not total:
        return []
    bound = get_flag(reply.document, "totalIsLowerBound")
    words = "incident" if total == 1 else "incidents"
    return [
        Alert(
            mark="bad",
            text=f"{format_count(total, is_lower_bound=bound)} open {words}",
            href="/console/incidents" if "/console/incidents" in pages else None,
            newest=get_text(reply.items[0], "lastAt") if reply.items else "",
        )
    ]


def _read_tasks(reply: Reply, pages: frozenset[str]) -> list[Alert]:
    total = get_int(reply.document, "total")
    if not total:
        return []
    bound = get_flag(reply.document, "totalIsLowerBound")
    href = "/console/tasks" if "/console/tasks" in pages else None
    return [Alert(mark="warn", text=f"{format_count(total, is_lower_bound=bound)} tasks overdue", href=href)]


def _read_suspensions(reply: Reply, _pages: frozenset[str]) -> list[Alert]:
    return [_describe_suspension(item) for item in reply.items]


def _describe_suspension(item: JsonObject) -> Alert:
    model = get_object(item, "model")
    name, version = get_text(model, "name"), get_int(model, "version")
    scope = get_text(item, "scope").replace("_", " ").lower()
    of = f" {name}/{version}" if name else f" {get_text(item, 'name')}" if get_text(item, "name") else ""
    href = build_path("console", "models", name, version) if name else None
    return Alert(mark="warn", text=f"Suspended: {scope}{of} ({get_text(item, 'reason')})", href=href)


_CALM: Final = {
    "queues": "no queue without a worker",
    "incidents": "no open incident",
    "tasks": "no task overdue",
    "suspensions": "nothing suspended",
}
_READERS: Final = {
    "queues": _read_queues,
    "incidents": _read_incidents,
    "tasks": _read_tasks,
    "suspensions": _read_suspensions,
}


def view_activity(replies: Mapping[str, Reply]) -> ActivityView:
    """Nodes and rates from the answers, as far as they were asked."""
    nodes, rates = replies.get("nodes"), replies.get("rates")
    versions = [get_int(item, "versions") for item in get_objects(rates.document, "minutes")] if rates else []
    largest = max(versions, default=0)
    return ActivityView(
        nodes=tuple(_read_node(item) for item in nodes.items) if nodes else (),
        nodes_problem=build_problem(nodes) if nodes and not nodes.is_ok else None,
        has_rates=rates is not None and rates.is_ok,
        transactions=get_int(rates.document, "transactions") if rates else 0,
        versions=get_int(rates.document, "versions") if rates else 0,
        bars=tuple(-(-BAR_STEPS * count // largest) if largest else 0 for count in versions),
        rates_problem=build_problem(rates) if rates and not rates.is_ok else None,
    )


def _read_node(item: JsonObject) -> NodeRow:
    return NodeRow(
        name=get_text(item, "name"),
        version=get_text(item, "version"),
        started=get_text(item, "startedAt"),
        members=get_int(item, "members"),
        is_draining=get_flag(item, "draining"),
    )


def view_idle(reply: Reply) -> IdleView:
    """The oldest entities from the answer."""
    if not reply.is_ok:
        return IdleView(problem=build_problem(reply))
    rows = []
    for item in reply.items:
        model = get_object(item, "model")
        rows.append(
            IdleRow(
                id=get_text(item, "entityId"),
                model=f"{get_text(model, 'name')}/{get_int(model, 'version')}",
                state=get_text(item, "state"),
                since=get_text(item, "since") or get_text(item, "writtenAt"),
            )
        )
    is_complete = get_flag(reply.document, "complete")
    return IdleView(rows=tuple(rows), scanned=None if is_complete else get_int(reply.document, "scanned"))


def _build_sample(_form: Form) -> ApiCall:
    return EXAMPLES[0]


def _follow_sample(_form: Form, _reply: Reply) -> str:
    return "/console/models/order/1"


ROUTES: Final[Routes] = (
    Page(name="home", path="/console/", show=show_home, navigation=Navigation("Data", "Home", "h")),
    build_part("status", "/status", show_status),
    build_part("activity", "/activity", show_activity),
    build_part("idle", "/idle", show_idle, feature="idle-entities"),
    Action(name="import_sample", label="Import a sample model", build=_build_sample, follow=_follow_sample),
)
