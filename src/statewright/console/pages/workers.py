"""Queues and who takes from them, drains and suspensions (docs/console.md#pages)."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from statewright.console.acts import Suspendable, build_acts, lead_to
from statewright.console.calls import ApiCall, Reply, build_ops_call, build_path
from statewright.console.pages.listing import ListView, RowT, build_list
from statewright.console.request import (
    NOTHING_ASKED,
    OPERATOR,
    Action,
    Form,
    InvalidField,
    Navigation,
    Page,
    PageContext,
    Routes,
    build_part,
)
from statewright.console.views.page import Choice, Confirmation, Crumb, View, format_duration
from statewright.jsonval.values import JsonObject
from statewright.operations.queues import MemberView, QueueView
from statewright.operations.suspensions import SuspensionView

ROOT: Final = "/console/workers"
CRUMB: Final = Crumb("Workers and queues", ROOT)
KINDS: Final = ("JOB_TYPE", "TAG")
MAX_SHOWN: Final = 500
ALL_WORKERS: Final = 1000
CALL_WORKERS: Final = build_ops_call("members", query={"limit": ALL_WORKERS})
CALL_SUSPENSIONS: Final = build_ops_call("suspensions", query={"active": True, "scope": KINDS, "limit": MAX_SHOWN})
DRAINS: Final = (("PT5M", "5 minutes"), ("PT1M", "1 minute"), ("PT30M", "30 minutes"), ("PT6H", "6 hours"))
TIMERS: Final = Choice(
    "timers",
    "Timers",
    (
        ("FIRE", "Timers that came due meanwhile fire now"),
        ("SHIFT", "All timers are later by the time of the suspension"),
    ),
)


class QueueRow(Struct, frozen=True):
    """What waits."""

    queue: QueueView

    @property
    def href(self) -> str | None:
        """Its page."""
        return build_queue_path(self.queue.kind, self.queue.name)

    @property
    def oldest(self) -> str:
        """How long that waits which waits longest; empty where nothing waits."""
        age = self.queue.oldest_age_seconds
        return "" if age is None else format_duration(age)

    @property
    def is_unserved(self) -> bool:
        """Whether something waits and nobody is there, though nothing is suspended."""
        return self.queue.depth > 0 and self.queue.workers == 0 and not self.queue.suspended


class WorkerRow(Struct, frozen=True):
    """Who can be given work. Its calls are counted since it connected."""

    member: MemberView

    @property
    def serves(self) -> tuple[str, ...]:
        """The tags that it declares, or the types of jobs that it polls."""
        return (self.member.tags if self.member.kind == "STREAM" else self.member.job_types) or ()


class WorkSuspension(Struct, frozen=True):
    """A suspended job type or tag."""

    item: SuspensionView

    @property
    def name(self) -> str:
        """That of the job type or tag."""
        return self.item.name or ""

    @property
    def href(self) -> str:
        """The page of the queue."""
        return build_queue_path(self.item.scope, self.name) or ROOT


class WorkersView(Struct, frozen=True, kw_only=True):
    """Queues with trouble first, then workers. Each list fails alone."""

    tag: str
    queues: ListView[QueueRow]
    workers: ListView[WorkerRow]
    suspensions: ListView[WorkSuspension]


class WorkerView(Struct, frozen=True, kw_only=True):
    """One worker; None where it is gone."""

    id: str
    row: WorkerRow | None


class QueuePage(Struct, frozen=True, kw_only=True):
    """One queue, with those who serve it and what is suspended of it."""

    row: QueueRow
    names: tuple[str, ...]
    """What can be suspended: the job type, or each of the tags."""
    workers: ListView[WorkerRow]
    suspensions: ListView[WorkSuspension]


async def show_workers(request: PageContext) -> View:
    """All queues and workers; also the part by which the page renews itself."""
    tag = request.query.get("tag")
    replies = await request.call(
        build_ops_call("queues", query={"limit": MAX_SHOWN}),
        build_ops_call("members", query={"limit": MAX_SHOWN, "tag": tag or None}),
        CALL_SUSPENSIONS,
    )
    return view_workers(tag, *replies)


def view_workers(tag: str, queues: Reply, members: Reply, suspensions: Reply) -> View:
    """Queues and workers from the answers of the API."""
    data = WorkersView(
        tag=tag,
        queues=_build_list(queues, sorted(map(QueueRow, queues.read_items(QueueView)), key=_rank_queue)),
        workers=_build_list(members, map(WorkerRow, members.read_items(MemberView))),
        suspensions=_build_list(suspensions, map(WorkSuspension, suspensions.read_items(SuspensionView))),
    )
    return View(title="Workers and queues", data=data)


def _build_list(found: Reply, rows: Iterable[RowT]) -> ListView[RowT]:
    return build_list(NOTHING_ASKED, found, tuple(rows), retry=ROOT)


async def show_worker(request: PageContext) -> View:
    """One worker; of itself the API has no call, so it is looked for in the list."""
    members = await request.call_one(CALL_WORKERS)
    return view_worker(request.params["worker"], members.require())


def view_worker(id_: str, members: Reply) -> View:
    """One worker from the list of all."""
    found = _find_worker(members, id_)
    data = WorkerView(id=id_, row=None if found is None else WorkerRow(found))
    return View(title=f"Worker {id_}", data=data, crumbs=(CRUMB,), status=404 if found is None else 200)


async def show_queue(request: PageContext) -> View:
    """One queue, which may be empty."""
    kind, name = request.params["kind"], request.params["queue"]
    if kind not in KINDS:
        raise InvalidField("kind", f"one of {', '.join(KINDS)}")
    tags = name.split(",") if kind == "TAG" else ()
    queue, members, suspensions = await request.call(
        build_ops_call("queues", kind, name),
        build_ops_call("members", query={"limit": ALL_WORKERS, "tag": tags or None}),
        CALL_SUSPENSIONS,
    )
    return view_queue(queue.require(), members, suspensions)


def view_queue(queue: Reply, members: Reply, suspensions: Reply) -> View:
    """One queue from the answers of the API."""
    found = queue.read(QueueView)
    names = tuple(found.name.split(",")) if found.kind == "TAG" else (found.name,)
    workers = map(WorkerRow, members.read_items(MemberView))
    suspended = map(WorkSuspension, suspensions.read_items(SuspensionView))
    held = (each for each in suspended if each.item.scope == found.kind and each.name in names)
    data = QueuePage(
        row=QueueRow(found),
        names=names,
        workers=_build_list(members, (each for each in workers if set(names) <= set(each.serves))),
        suspensions=_build_list(suspensions, held),
    )
    return View(title=f"Queue {found.name}", data=data, crumbs=(CRUMB,))


def _find_worker(members: Reply, id_: str) -> MemberView | None:
    return next((each for each in members.read_items(MemberView) if each.id == id_), None)


def build_queue_path(kind: str, name: str) -> str | None:
    """The page of a queue; None for that of callouts which any member may take."""
    return f"/console/queues{build_path(kind, name)}" if name else None


def _rank_queue(row: QueueRow) -> tuple[bool, bool, int, str, str]:
    """Those with trouble first, then those where most waits."""
    queue = row.queue
    return not row.is_unserved, not queue.suspended, -queue.depth, queue.kind, queue.name


def _build_drain(form: Form) -> ApiCall:
    within = form.get_choice("within", tuple(value for value, _ in DRAINS))
    return build_ops_call("members", form.require("worker"), "drain", method="POST", query={"within": within})


async def _confirm_drain(request: PageContext, form: Form) -> Confirmation:
    id_ = form.require("worker")
    found = _find_worker((await request.call_one(CALL_WORKERS)).require(), id_)
    in_flight = found.in_flight or 0 if found is not None else 0
    calls = f"{in_flight} {'call ends' if in_flight == 1 else 'calls end'} first, then its stream."
    return Confirmation(
        question=f"Drain worker {id_}?",
        details=(f"It gets nothing new; {calls}", "Most workers then stop for good; to stop one is not to replace it."),
        back=f"{ROOT}{build_path(id_)}",
        choices=(Choice("within", "At the latest, whatever is still under way", DRAINS),),
    )


def _read_queue(form: Form) -> tuple[str, str]:
    return form.get_choice("scope", KINDS), form.require("queue")


def _read_target(form: Form) -> JsonObject:
    scope, name = _read_queue(form)
    return {"scope": scope, "name": name}


def _describe(form: Form) -> str:
    scope, name = _read_queue(form)
    return f"{'job type' if scope == 'JOB_TYPE' else 'tag'} «{name}»"


def _tell_suspension(form: Form) -> str:
    return (
        "Its jobs are not handed out until you resume. Those that workers have come to their end."
        if form.get_choice("scope", KINDS) == "JOB_TYPE"
        else "Callouts that need it answer 409 until you resume. Jobs pushed to members with it wait."
    )


ROUTES: Final[Routes] = (
    Page(name="workers", path=ROOT, show=show_workers, navigation=Navigation("Work", "Workers"), feature="queues"),
    Page(name="worker", path=f"{ROOT}/{{worker}}", show=show_worker, feature="members"),
    Page(name="queue", path="/console/queues/{kind}/{queue}", show=show_queue, feature="queues"),
    build_part("worker_lists", "/workers", show_workers, feature="queues"),
    build_part("queue_status", "/queues/{kind}/{queue}", show_queue, feature="queues"),
    Action(
        "drain_worker",
        "Drain worker",
        _build_drain,
        lead_to(f"{ROOT}/{{worker}}"),
        _confirm_drain,
        role=OPERATOR,
        is_dangerous=True,
    ),
    *build_acts(
        Suspendable(
            name="queue",
            read_target=_read_target,
            subject=_describe,
            page=lambda form: build_queue_path(*_read_queue(form)) or ROOT,
            effects=(_tell_suspension,),
            resumed=("What waits is handed out again.",),
            timers=TIMERS,
            is_dangerous=True,
        )
    ),
)
