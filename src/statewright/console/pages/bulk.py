"""Bulk jobs: the list, one with its progress, what can be done to it, and a new one that acts on all that a list shows
(docs/console.md#pages).
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from statewright.console.acts import ask, lead_to, read_number, read_object, send
from statewright.console.calls import Reply, build_ops_call
from statewright.console.pages.listing import ListView, build_list
from statewright.console.request import (
    OPERATOR,
    Action,
    Form,
    InvalidField,
    Navigation,
    Page,
    PageContext,
    Query,
    Routes,
    build_part,
    parse_version,
)
from statewright.console.views.entities import write_text
from statewright.console.views.page import Crumb, View, encode_segment
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.bulk_jobs import (
    ARGUMENTS,
    OF_INCIDENTS,
    OF_INSTANCES,
    OPERATIONS,
    BulkItem,
    BulkJob,
    BulkOperation,
)

ROOT: Final = "/console/bulk"
CRUMB: Final = Crumb("Bulk jobs", ROOT)
FEATURE: Final = "bulk-jobs"

QUIET_TIMEOUT_S: Final = 40.0
"""A pause waits for what is under way, for half a minute at most."""

MARKS: Final = {
    "FREEZING": "info",
    "READY": "warn",
    "RUNNING": "info",
    "PAUSED": "warn",
    "STOPPED": "bad",
    "COMPLETED": "ok",
    "CANCELLED": "off",
}
SHOWN: Final = ("FAILED", "SKIPPED", "SUCCEEDED", "ALL")
"""Which items of a job are listed."""

ANY_STATE: Final = '{"type": "lifecycle", "field": "state", "operatorType": "NOT_NULL"}'

INSTANCE_MODELS: Final = {
    "steps": ("StepWorkflowInstance/1", "$.definitionId"),
    "flow": ("FlowInstance/1", "$.definitionId"),
    "playbook": ("PlaybookExecution/1", "$.path"),
}
"""By the code of the language: the model of its instances, and where these have the id of their definition."""


class BulkRow(Struct, frozen=True):
    """A job as lists and its page show it."""

    job: BulkJob

    @property
    def mark(self) -> str:
        """What goes with the status."""
        return MARKS.get(self.job.status, "off")

    @property
    def done(self) -> int:
        """Items that have a result."""
        totals = self.job.totals
        return totals.succeeded + totals.skipped + totals.failed if self.job.status != "READY" else 0

    @property
    def is_working(self) -> bool:
        """Whether there is something to watch."""
        return self.job.status in {"FREEZING", "RUNNING"}


class BulkJobView(Struct, frozen=True, kw_only=True):
    """One job, and a page of those of its items that are looked at."""

    row: BulkRow
    shown: str
    list: ListView[BulkItem]


class NewBulkJobView(Struct, frozen=True, kw_only=True):
    """The form of a job. Entities and instances are those of a ``model`` that satisfy a condition; incidents, without a
    model, those that filters choose. Both are the ``selection``, as JSON.
    """

    model: str
    selection: str
    operations: tuple[BulkOperation, ...]
    back: str

    @property
    def arguments(self) -> frozenset[str]:
        """What any of the operations can be told."""
        return frozenset(name for each in self.operations for name in ARGUMENTS.get(each, ()))


async def show_bulk_jobs(request: PageContext) -> View:
    """A page of the list."""
    found = await request.call_one(build_ops_call("bulk-jobs", query=request.query.read_page()))
    rows = tuple(map(BulkRow, found.require().read_items(BulkJob)))
    return View(title="Bulk jobs", data=build_list(request.query, found, rows))


async def show_bulk_job(request: PageContext) -> View:
    """One job with its items."""
    id_, query = request.params["id"], request.query
    shown = query.get_choice("items", SHOWN)
    statuses = () if shown == "ALL" else (shown,)
    job, items = await request.call(
        build_ops_call("bulk-jobs", id_),
        build_ops_call("bulk-jobs", id_, "items", query={"status": statuses, **query.read_page()}),
    )
    row = BulkRow(job.read(BulkJob))
    listed = build_list(query, items, items.require().read_items(BulkItem))
    return View(title=f"Bulk job {id_}", data=BulkJobView(row=row, shown=shown, list=listed), crumbs=(CRUMB,))


async def show_bulk_status(request: PageContext) -> View:
    """How far it is; the page asks for it again."""
    found = await request.call_one(build_ops_call("bulk-jobs", request.params["id"]))
    return View(data=BulkRow(found.read(BulkJob)))


async def show_new_bulk_job(request: PageContext) -> View:
    """The form, filled with what a list showed."""
    return View(title="New bulk job", data=fill_form(request.query), crumbs=(CRUMB,))


def fill_form(query: Query) -> NewBulkJobView:
    """What the address of a list says: a ``model`` with a condition ``q``, a ``language``, or filters of incidents.
    Raises ``InvalidField``.
    """
    if query.get("of") == "incidents":
        names = {"kind": "kind", "severity": "severity", "model": "model", "fingerprint": "fingerprint"}
        chosen: JsonObject = {name: [query.get(each)] for each, name in names.items() if query.get(each)}
        if query.get("since"):
            chosen["lastFrom"] = query.get("since")
        return NewBulkJobView(
            model="", selection=write_text(chosen), operations=OF_INCIDENTS, back="/console/incidents"
        )
    if language := query.get("language"):
        if language not in INSTANCE_MODELS:
            raise InvalidField("language", f"is none of {', '.join(INSTANCE_MODELS)}")
        model, path = INSTANCE_MODELS[language]
        return NewBulkJobView(
            model=model,
            selection=write_text(_select_instances(query, path)),
            operations=OF_INSTANCES,
            back="/console/instances",
        )
    return NewBulkJobView(
        model=query.get("model"),
        selection=query.get("q") or ANY_STATE,
        operations=tuple(each for each in OPERATIONS if each not in OF_INCIDENTS and not each.endswith("_INSTANCES")),
        back=ROOT,
    )


def _select_instances(query: Query, definition: str) -> JsonValue:
    asked = {definition: query.get("definition"), "$.businessKey": query.get("businessKey")}
    parts: list[JsonValue] = [
        {"type": "simple", "jsonPath": path, "operatorType": "EQUALS", "value": value}
        for path, value in asked.items()
        if value
    ]
    if status := query.get("status"):
        parts.append({"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": status})
    elif not parts:
        parts.append({"type": "lifecycle", "field": "state", "operatorType": "NOT_NULL"})
    return parts[0] if len(parts) == 1 else {"type": "group", "operator": "AND", "conditions": parts}


def write_order(form: Form) -> bytes:
    """The order of a form, as a trial: its set is frozen, and its start asks how many there are. Raises
    ``InvalidField``.
    """
    operation = form.get_choice("operation", OPERATIONS)
    wanted: JsonObject = {"transition": form.get("transition") or None, "force": form.get("force") == "yes" or None}
    if form.get("mergePatch").strip():
        wanted["mergePatch"] = read_object(form, "mergePatch")
    body: JsonObject = {
        "operation": operation,
        "dryRun": True,
        "arguments": {name: value for name, value in wanted.items() if value is not None},
    }
    selection = read_object(form, "selection")
    if model := form.get("model"):
        name, _, version = model.rpartition("/")
        body |= {"model": {"name": name, "version": parse_version(version)}, "condition": selection}
    else:
        body["incidents"] = selection
    if form.get("ratePerSecond"):
        body["ratePerSecond"] = form.get_number("ratePerSecond")
    if form.get("reason"):
        body["reason"] = form.get("reason")
    return encode(body)


def lead_to_job(_form: Form, reply: Reply) -> str:
    """The page of the job that the API answers with."""
    return f"{ROOT}/{encode_segment(reply.read(BulkJob).id)}"


def _build_act(word: str, label: str, question: str, *details: str, follow: Callable[[Form, Reply], str]) -> Action:
    return Action(
        f"{word.replace('-', '_')}_bulk_job",
        label,
        send("POST", f"/ops/v1/bulk-jobs/{{job}}/{word}", {}, timeout_s=QUIET_TIMEOUT_S),
        follow,
        ask(question, *details, back=f"{ROOT}/{{job}}"),
        role=OPERATOR,
        is_dangerous=word == "cancel",
    )


_SAME: Final = lead_to(f"{ROOT}/{{job}}")

ROUTES: Final[Routes] = (
    Page(
        name="bulk",
        path=ROOT,
        show=show_bulk_jobs,
        navigation=Navigation("Work", "Bulk jobs", role=OPERATOR),
        feature=FEATURE,
    ),
    Page(name="new_bulk_job", path=f"{ROOT}/new", show=show_new_bulk_job, feature=FEATURE),
    Page(name="bulk_job", path=f"{ROOT}/{{id}}", show=show_bulk_job, feature=FEATURE),
    build_part("bulk_status", "/bulk/{id}", show_bulk_status, feature=FEATURE),
    Action(
        "create_bulk_job", "Find and judge", send("POST", "/ops/v1/bulk-jobs", write_order), lead_to_job, role=OPERATOR
    ),
    Action(
        "start_bulk_job",
        "Start",
        send("POST", "/ops/v1/bulk-jobs/{job}/start", {"expectedCount": read_number}),
        _SAME,
        role=OPERATOR,
    ),
    _build_act("pause", "Pause", "Pause this job?", "What is under way is finished.", follow=_SAME),
    _build_act("resume", "Resume", "Let this job go on?", "It goes on as you, with your roles.", follow=_SAME),
    _build_act("cancel", "Cancel", "Cancel this job?", "What is done stays; it cannot go on.", follow=_SAME),
    _build_act(
        "retry-failed",
        "Retry what failed",
        "Make a new job of the items that failed?",
        "It begins at once.",
        follow=lead_to_job,
    ),
)
