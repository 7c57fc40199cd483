"""Home: what is wrong first, then the models with their entities by state (docs/console.md#pages)."""

from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply, build_entity_call, build_ops_call
from statewright.console.pages.models import ModelRow, list_models
from statewright.console.problems import build_problem
from statewright.console.request import ConsoleRequest, Form
from statewright.console.route import Action, Navigation, Page, Routes, build_part
from statewright.console.values import get_flag, get_int, get_text
from statewright.console.views.page import Problem, View

MAX_MODELS: Final = 50
MAX_LINES: Final = 5


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


class HomeView(Struct, frozen=True, kw_only=True):
    """The first page."""

    models: tuple[ModelRow, ...]
    is_cut: bool
    models_problem: Problem | None
    status: "StatusView"
    examples: tuple[ApiCall, ...] = ()
    """What makes the first model and entity, one after the other."""


class StatusView(Struct, frozen=True, kw_only=True):
    """What is wrong now. Each source fails alone."""

    alerts: tuple[Alert, ...]
    problems: tuple[tuple[str, Problem], ...]
    """Sources that could not be asked, and why."""
    asked: tuple[str, ...]
    """What was looked at."""


async def show_home(request: ConsoleRequest) -> View:
    """The page, with its first status."""
    sources = _list_sources(request)
    models, *replies = await request.call(build_entity_call("model", ""), *(call for _, call in sources))
    rows = list_models(models) if models.is_ok else []
    status = view_status(tuple(zip((name for name, _ in sources), replies, strict=True)))
    data = HomeView(
        models=tuple(rows[:MAX_MODELS]),
        is_cut=len(rows) > MAX_MODELS,
        models_problem=None if models.is_ok else build_problem(models, retry="/console/"),
        status=status,
        examples=() if rows else EXAMPLES,
    )
    return View(title="Home", data=data)


async def show_status(request: ConsoleRequest) -> View:
    """The part that the page asks for again."""
    sources = _list_sources(request)
    replies = await request.call(*(call for _, call in sources))
    return View(data=view_status(tuple(zip((name for name, _ in sources), replies, strict=True))))


def _list_sources(request: ConsoleRequest) -> tuple[tuple[str, ApiCall], ...]:
    """What is asked, as far as the service has it."""
    known = {
        "queues": build_ops_call("queues", query={"withoutWorker": True, "limit": MAX_LINES}),
        "incidents": build_ops_call("incident-groups", query={"limit": MAX_LINES, "count": True}),
        "suspensions": build_ops_call("suspensions", query={"active": True, "limit": MAX_LINES, "count": True}),
    }
    return tuple((name, call) for name, call in known.items() if name in request.viewer.features)


def view_status(replies: tuple[tuple[str, Reply], ...]) -> StatusView:
    """Lines from the answers."""
    alerts: list[Alert] = []
    problems: list[tuple[str, Problem]] = []
    for name, reply in replies:
        if reply.is_ok:
            alerts += _READERS[name](reply)
        else:
            problems.append((name, build_problem(reply)))
    return StatusView(alerts=tuple(alerts), problems=tuple(problems), asked=tuple(name for name, _ in replies))


def _read_queues(reply: Reply) -> list[Alert]:
    return [
        Alert(
            mark="bad",
            text=f"«{get_text(queue, 'name')}»: {get_int(queue, 'depth')} jobs wait, and no worker takes them",
        )
        for queue in reply.items
        if get_int(queue, "depth")
    ]


def _read_incidents(reply: Reply) -> list[Alert]:
    total = get_int(reply.document, "total")
    if not total:
        return []
    bound = "+" if get_flag(reply.document, "totalIsLowerBound") else ""
    return [Alert(mark="bad", text=f"{total}{bound} groups of open incidents")]


def _read_suspensions(reply: Reply) -> list[Alert]:
    return [
        Alert(mark="warn", text=f"Suspended: {get_text(item, 'scope').lower()} ({get_text(item, 'reason')})")
        for item in reply.items
    ]


_READERS: Final = {"queues": _read_queues, "incidents": _read_incidents, "suspensions": _read_suspensions}


def _build_sample(_form: Form) -> ApiCall:
    return EXAMPLES[0]


def _follow_sample(_form: Form, _reply: Reply) -> str:
    return "/console/models/order/1"


ROUTES: Final[Routes] = (
    Page(name="home", path="/console/", show=show_home, navigation=Navigation("Data", "Home", "h")),
    build_part("status", "/status", show_status),
    Action(name="import_sample", label="Import a sample model", build=_build_sample, follow=_follow_sample),
)
