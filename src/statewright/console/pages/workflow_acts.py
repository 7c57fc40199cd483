"""What can be done with the workflows of a model: importing them, after a check that changes nothing; suspending one;
and playing an entity through it without any effect (docs/console.md#pages,
docs/reference/operations.md#simulating-workflows).
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.acts import MOVED, Suspendable, build_acts, lead_to, read_json, send
from statewright.console.calls import ApiCall, Reply, pick_members
from statewright.console.diagrams.diff import Sentence, compare_workflows, draw_diff
from statewright.console.diagrams.workflow import WorkflowExport, index_workflows
from statewright.console.pages.model import ROOT as MODEL_PAGE
from statewright.console.pages.model import build_model_crumbs, call_with_head, read_form_key
from statewright.console.pages.revisions import FEATURE, call_workflow
from statewright.console.pages.workflow import ROOT, call_export
from statewright.console.request import Action, Form, InvalidField, Page, PageContext, Routes, build_problem
from statewright.console.views.entities import TreeNode, build_tree
from statewright.console.views.page import Picture, Problem, View, build_picture
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.patches import PatchFailed, apply_json_patch
from statewright.jsonval.values import JsonObject
from statewright.operations.checks import Simulation, WorkflowCheck, WorkflowRevision

SIMULATION_TIMEOUT_S: Final = 30.0
"""A node plays one after the other."""


class SimulationView(Struct, frozen=True, kw_only=True):
    """What would become of the entity, and the form again."""

    name: str
    version: int
    workflow: str
    document: str
    events: str
    stubs: str
    problem: Problem | None
    result: Simulation | None
    tree: TreeNode | None


def _read_simulation(form: Form) -> bytes:
    """The workflows that are stored, and what was typed as it stands, so that numbers keep their digits."""
    document = read_json(form, "document")
    events = read_json(form, "events") if form.get("events").strip() else b"[]"
    if not isinstance(decode(events), list):
        raise InvalidField("events", 'is an array, such as [{"fire": "APPROVE"}]')
    stubs = read_json(form, "stubs") if form.get("stubs").strip() else b"{}"
    if not isinstance(decode(stubs), dict):
        raise InvalidField("stubs", "is no JSON object")
    return b'{"start":{"document":%b},"events":%b,"stubs":%b}' % (document, events, stubs)


async def _show_simulation(_request: PageContext, form: Form, reply: Reply) -> View:
    """The path that the entity would take, from the answer of the API."""
    (name, version), workflow = read_form_key(form), form.require("workflow")
    result = reply.read_if_ok(Simulation)
    data = SimulationView(
        name=name,
        version=version,
        workflow=workflow,
        document=form.get("document"),
        events=form.get("events"),
        stubs=form.get("stubs"),
        problem=None if reply.is_ok else build_problem(reply),
        result=result,
        tree=None if result is None else build_tree(result.document),
    )
    return View(
        title="Simulation",
        data=data,
        crumbs=build_model_crumbs(name, version, workflow),
        status=200 if reply.is_ok else reply.status,
        template="pages/simulation.html",
    )


def _read_target(form: Form) -> JsonObject:
    name, version = read_form_key(form)
    return {"scope": "WORKFLOW", "model": {"name": name, "version": version}, "workflow": form.require("workflow")}


AS_WRITTEN: Final = "as written"
MODES: Final = (
    (AS_WRITTEN, "As the file says; MERGE where it says nothing."),
    ("MERGE", "A workflow of the same name is replaced, others stay."),
    ("REPLACE", "The workflows of the file, and no others."),
    ("ACTIVATE", "Like MERGE; workflows that are not in the file become inactive."),
)
IMPORT_TIMEOUT_S: Final = 30.0
MAX_PICTURES: Final = 4


class ChangedWorkflow(Struct, frozen=True, kw_only=True):
    """A workflow that the import adds, changes or removes."""

    name: str
    change: str
    sentences: tuple[Sentence, ...] = ()
    picture: Picture | None = None


class ImportView(Struct, frozen=True, kw_only=True):
    """The form: a file or text, and a mode; and what the import would come to."""

    name: str
    version: int
    text: str = ""
    mode: str = AS_WRITTEN
    modes: tuple[tuple[str, str], ...] = MODES
    problem: Problem | None = None
    told: WorkflowCheck | None = None
    workflows: tuple[ChangedWorkflow, ...] = ()
    question: str = ""
    revision: int | None = None
    """That of the workflows with which it was compared, 0 for none; None where it is not known."""

    @property
    def severities(self) -> Mapping[str, int]:
        """How many findings there are of each."""
        return Counter(each.severity for each in self.told.findings) if self.told is not None else {}

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """The fields that both forms of the page have."""
        return ("name", self.name), ("version", str(self.version))


async def show_import(request: PageContext) -> View:
    """The form."""
    head, _ = await call_with_head(request)
    return View(
        title=f"Import workflows into {head.name}/{head.version}",
        data=ImportView(name=head.name, version=head.version),
        crumbs=build_model_crumbs(head.name, head.version),
    )


def read_import(form: Form) -> bytes:
    """The body of an import: the text as it was given, or with another mode. Raises ``InvalidField``."""
    if form.get("needs_acceptance") and not form.get("accepted"):
        raise InvalidField("accepted", "says that the warnings were read")
    raw = read_json(form, "document")
    mode = form.get_choice("mode", [mode for mode, _ in MODES])
    document = decode(raw)
    if not isinstance(document, dict) or pick_members(document, WorkflowExport).workflows is None:
        raise InvalidField("document", 'is an object with "workflows"')
    return raw if mode == AS_WRITTEN else encode(document | {"importMode": mode})


async def _show_check(request: PageContext, form: Form, reply: Reply) -> View | None:
    name, version = read_form_key(form)
    if reply.status == HTTPStatus.NOT_FOUND:
        return None
    revisions = (
        [call_workflow(name, version, "revisions", query={"limit": 1})] if FEATURE in request.viewer.features else []
    )
    export, *newest = await request.call(call_export(name, version), *revisions)
    data = await asyncio.to_thread(view_check, form, reply, export, *newest)
    title = f"Check of an import into {name}/{version}"
    return View(title=title, data=data, crumbs=build_model_crumbs(name, version))


def view_check(form: Form, check: Reply, export: Reply, newest: Reply | None = None) -> ImportView:
    """Findings, differences and entities concerned, from the answers of the API. ``newest`` is the list with the
    revision that is in force.
    """
    name, version = read_form_key(form)
    told = check.read_if_ok(WorkflowCheck)
    workflows = () if told is None else _list_changes(told, read_import(form), export)
    total = None if told is None or told.affected is None else told.affected.total
    return ImportView(
        name=name,
        version=version,
        text=form.get("document"),
        mode=form.get("mode", AS_WRITTEN),
        problem=None if check.is_ok else build_problem(check),
        told=told,
        workflows=workflows,
        question=_ask(name, version, workflows, total),
        revision=None if newest is None or not newest.is_ok else _read_revision(newest),
    )


def _read_revision(newest: Reply) -> int:
    return next((each.revision for each in newest.read_items(WorkflowRevision)), 0)


_import_document = send("POST", "/model/{name}/{version}/workflow/import", read_import, timeout_s=IMPORT_TIMEOUT_S)


def build_import(form: Form) -> ApiCall:
    """The import of what was checked, while the model has the revision that it was compared with, and with a note."""
    headers: list[tuple[str, str]] = []
    if form.get("revision"):
        headers.append(("If-Match", f'"{form.get_number("revision")}"'))
    if note := " ".join(form.get("note").split()):
        headers.append(("X-Import-Note", note.encode().decode("latin-1")))
    return replace(_import_document(form), headers=tuple(headers))


def _list_changes(told: WorkflowCheck, body: bytes, export: Reply) -> tuple[ChangedWorkflow, ...]:
    incoming, stored = index_workflows(decode(body)), index_workflows(export.value if export.is_ok else None)
    changes: list[ChangedWorkflow] = []
    for item in told.diff.workflows if told.diff is not None else ():
        name, change = item.name, item.change.lower()
        before = stored.get(name)
        after = None if change == "removed" else incoming.get(name)
        if change == "changed" and before is not None:
            after = _apply(before, item.patch) or after
        compared = compare_workflows(before, after)
        picture = (
            build_picture(
                draw_diff(compared),
                picture_id=f"difference-{len(changes)}",
                label=f"Diagram of what changes in {name}",
            )
            if len(changes) < MAX_PICTURES
            else None
        )
        changes.append(ChangedWorkflow(name=name, change=change, sentences=compared.sentences, picture=picture))
    return tuple(changes)


def _apply(stored: JsonObject, patch: Sequence[JsonObject]) -> "JsonObject | None":
    """The workflow as it would be stored: compared with what was written, every default that is left out would count as
    a change. None if somebody has imported another one between the two calls.
    """
    try:
        after = apply_json_patch(stored, list(patch))
    except PatchFailed:
        return None
    return after if isinstance(after, dict) else None


def _ask(name: str, version: int, workflows: tuple[ChangedWorkflow, ...], total: int | None) -> str:
    counts = Counter(each.change for each in workflows)
    parts = [
        f"{counts[change]} {'workflow is' if counts[change] == 1 else 'workflows are'} {change}"
        for change in ("added", "changed", "removed")
        if counts[change]
    ]
    told = "; ".join(parts) if parts else "nothing changes"
    entities = "" if total is None else f" The model has {total} entities now."
    return f"Import into {name}/{version}? {told[:1].upper()}{told[1:]}.{entities}"


ACTS: Final[Routes] = (
    Page(name="import", path=f"{MODEL_PAGE}/import", show=show_import),
    Action(
        "check_import",
        "Check an import",
        send("POST", "/ops/v1/models/{name}/{version}/workflow/check", read_import, timeout_s=IMPORT_TIMEOUT_S),
        lead_to(MODEL_PAGE),
        show=_show_check,
    ),
    Action(
        "import_workflows",
        "Import workflows",
        build_import,
        lead_to(MODEL_PAGE),
    ),
)


ROUTES: Final[Routes] = (
    Action(
        "simulate_workflow",
        "Simulate",
        send(
            "POST",
            "/ops/v1/models/{name}/{version}/workflow/simulate",
            _read_simulation,
            timeout_s=SIMULATION_TIMEOUT_S,
        ),
        lead_to(ROOT),
        show=_show_simulation,
    ),
    *build_acts(
        Suspendable(
            name="workflow",
            noun="workflow",
            read_target=_read_target,
            subject="the workflow {workflow} of {name}/{version}",
            page=ROOT,
            effects=("Timers of its entities stop, and their transitions answer 409 until you resume.",),
            timers=MOVED,
            is_dangerous=True,
        )
    ),
    *ACTS,
)
