"""Home: what is wrong first, then the models with their entities by state (docs/console.md#pages)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from statewright.console.acts import lead_to
from statewright.console.calls import (
    ApiCall,
    Reply,
    build_entity_call,
    build_ops_call,
    build_path,
)
from statewright.console.pages.incidents import IncidentLine
from statewright.console.pages.model import build_models_call, list_models
from statewright.console.process_languages import MODELS
from statewright.console.request import Action, Navigation, Page, PageContext, Routes, build_part, build_problem
from statewright.console.views.page import Problem, View, format_count, format_duration, format_model
from statewright.console.views.records import ModelRow
from statewright.jsonval.values import JsonValue
from statewright.operations.incidents import Incident
from statewright.operations.listings import IdleEntities
from statewright.operations.queues import QueueView, Rates, ServiceNode
from statewright.operations.records import Listed
from statewright.operations.suspensions import SuspensionView

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


class IdleView(Struct, frozen=True, kw_only=True):
    """The entities to which nothing has happened for longest, though they could still move."""

    found: IdleEntities | None = None
    problem: Problem | None = None


class ActivityView(Struct, frozen=True, kw_only=True):
    """Nodes, and what was written in the last hour. ``bars`` are versions per minute in tenths of the largest."""

    nodes: tuple[ServiceNode, ...] = ()
    nodes_problem: Problem | None = None
    rates: Rates | None = None
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


async def show_home(request: PageContext) -> View:
    """The page, with its first status."""
    alerts, activity = _list_calls(request, ALERTS), _list_calls(request, ACTIVITY)
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


async def show_status(request: PageContext) -> View:
    """What is wrong; the page asks for it again."""
    alerts = _list_calls(request, ALERTS)
    replies = await request.call(*(call for _, call in alerts))
    return View(data=view_status(_name_replies(alerts, replies), request.page_paths))


async def show_activity(request: PageContext) -> View:
    """Nodes and rates; the page asks for them again."""
    activity = _list_calls(request, ACTIVITY)
    replies = await request.call(*(call for _, call in activity))
    return View(data=view_activity(dict(_name_replies(activity, replies))))


async def show_idle(request: PageContext) -> View:
    """The oldest entities that could still move: looked for after the page, because that may take a second."""
    reply = await request.call_one(build_ops_call("idle-entities", query={"limit": MAX_IDLE}))
    return View(data=view_idle(reply))


def _list_calls(request: PageContext, known: Mapping[str, ApiCall]) -> tuple[Named, ...]:
    """What is asked, as far as the service has it."""
    return tuple((name, call) for name, call in known.items() if name in request.viewer.features)


def _name_replies(named: tuple[Named, ...], replies: Sequence[Reply]) -> tuple[tuple[str, Reply], ...]:
    return tuple((name, reply) for (name, _), reply in zip(named, replies, strict=False))


def view_status(replies: tuple[tuple[str, Reply], ...], pages: frozenset[str]) -> StatusView:
    """Lines from the answers. ``pages`` are the paths of those that there are."""
    alerts: list[Alert] = []
    problems: list[tuple[str, Problem]] = []
    for name, reply in replies:
        if reply.is_ok:
            alerts += SOURCES[name].read(reply, pages)
        else:
            problems.append((name, build_problem(reply)))
    calm = ", ".join(SOURCES[name].calm for name, _ in replies)
    return StatusView(alerts=tuple(alerts), problems=tuple(problems), calm=f"Nothing is wrong: {calm}." if calm else "")


def _read_queues(reply: Reply, pages: frozenset[str]) -> list[Alert]:
    has_page = "/console/queues/{kind}/{queue}" in pages
    return [
        Alert(
            mark="bad",
            text=_describe_queue(queue),
            href=build_path("console", "queues", queue.kind, queue.name) if has_page else None,
        )
        for queue in reply.read_items(QueueView)
        if queue.depth
    ]


def _describe_queue(queue: QueueView) -> str:
    kind = "call" if queue.kind == "TAG" else "job"
    waits = f"1 {kind} waits" if queue.depth == 1 else f"{format_count(queue.depth)} {kind}s wait"
    age = format_duration(queue.oldest_age_seconds or 0)
    return f"«{queue.name}»: {waits}, the oldest for {age}, and there is no worker"


def _read_incidents(reply: Reply, pages: frozenset[str]) -> list[Alert]:
    found = reply.read(Listed[Incident])
    if not found.total:
        return []
    words = "incident" if found.total == 1 else "incidents"
    return [
        Alert(
            mark="bad",
            text=f"{format_count(found.total, is_lower_bound=found.total_is_lower_bound)} open {words}",
            href="/console/incidents" if "/console/incidents" in pages else None,
            newest=next((each.last_at for each in found.items), ""),
        )
    ]


def _read_stranded(reply: Reply, _pages: frozenset[str]) -> list[Alert]:
    return [
        Alert(mark="bad", text=f"{each.subject.model}: {each.message}", href=IncidentLine(each).href)
        for each in reply.read_items(Incident)
    ]


def _read_tasks(reply: Reply, pages: frozenset[str]) -> list[Alert]:
    found = reply.read(Listed[JsonValue])
    if not found.total:
        return []
    text = f"{format_count(found.total, is_lower_bound=found.total_is_lower_bound)} tasks overdue"
    return [Alert(mark="warn", text=text, href="/console/tasks" if "/console/tasks" in pages else None)]


def _read_suspensions(reply: Reply, _pages: frozenset[str]) -> list[Alert]:
    return [_describe_suspension(each) for each in reply.read_items(SuspensionView)]


def _describe_suspension(item: SuspensionView) -> Alert:
    scope = item.scope.replace("_", " ").lower()
    of = format_model(item.model) or item.name
    href = build_path("console", "models", item.model.name, item.model.version) if item.model is not None else None
    return Alert(mark="warn", text=f"Suspended: {scope}{f' {of}' if of else ''} ({item.reason})", href=href)


class Source(Struct, frozen=True):
    """Where alerts come from. ``calm`` is said where there are none; ``read`` is told which pages there are."""

    call: ApiCall
    calm: str
    read: Callable[[Reply, frozenset[str]], list[Alert]]


SOURCES: Final = {
    "queues": Source(
        build_ops_call("queues", query={"withoutWorker": True, "limit": MAX_LINES}),
        "no queue without a worker",
        _read_queues,
    ),
    "incidents": Source(
        build_ops_call("incidents", query={"status": "OPEN", "limit": 1, "count": True}),
        "no open incident",
        _read_incidents,
    ),
    "workflow-revisions": Source(
        build_ops_call("incidents", query={"kind": "STATE_UNKNOWN", "limit": MAX_LINES}),
        "no entity in an unknown state",
        _read_stranded,
    ),
    "tasks": Source(
        build_ops_call("tasks", query={"due": "OVERDUE", "limit": 1, "count": True}), "no task overdue", _read_tasks
    ),
    "suspensions": Source(
        build_ops_call("suspensions", query={"active": True, "limit": MAX_LINES}),
        "nothing suspended",
        _read_suspensions,
    ),
}
ALERTS: Final = {name: source.call for name, source in SOURCES.items()}
ACTIVITY: Final = {"nodes": build_ops_call("nodes", query={"limit": 50}), "rates": build_ops_call("rates")}


def view_activity(replies: Mapping[str, Reply]) -> ActivityView:
    """Nodes and rates from the answers, as far as they were asked."""
    nodes, rates = (replies.get(name) for name in ACTIVITY)
    written = rates.read_if_ok(Rates) if rates else None
    versions = [each.versions for each in written.minutes] if written else []
    largest = max(versions, default=0)
    return ActivityView(
        nodes=nodes.read_items(ServiceNode) if nodes else (),
        nodes_problem=build_problem(nodes) if nodes and not nodes.is_ok else None,
        rates=written,
        bars=tuple(-(-BAR_STEPS * count // largest) if largest else 0 for count in versions),
        rates_problem=build_problem(rates) if rates and not rates.is_ok else None,
    )


def view_idle(reply: Reply) -> IdleView:
    """The oldest entities from the answer."""
    found = reply.read_if_ok(IdleEntities)
    return IdleView(found=found, problem=build_problem(reply) if found is None else None)


ROUTES: Final[Routes] = (
    Page(name="home", path="/console/", show=show_home, navigation=Navigation("Data", "Home", "h")),
    build_part("status", "/status", show_status),
    build_part("activity", "/activity", show_activity),
    build_part("idle", "/idle", show_idle, feature="idle-entities"),
    Action("import_sample", "Import a sample model", lambda _form: EXAMPLES[0], lead_to("/console/models/order/1")),
)
