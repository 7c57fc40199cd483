"""Importing workflows: first a check that changes nothing, then the same body for good (docs/console.md#pages)."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from statewright.console.calls import (
    ApiCall,
    Reply,
    build_entity_call,
    build_ops_call,
    get_objects,
    get_text,
)
from statewright.console.diagrams.diff import compare_workflows, draw_diff
from statewright.console.pages.model import (
    ROOT,
    ModelHead,
    build_model_path,
    list_head_calls,
    read_key,
    view_head,
)
from statewright.console.pages.model_acts import read_form_key, read_json
from statewright.console.pages.workflow_diff import SentenceView, list_sentences
from statewright.console.pages.workflow_parts import Finding, view_findings
from statewright.console.request import Action, ConsoleRequest, Form, InvalidField, Page, Routes, build_problem
from statewright.console.views.page import Crumb, Picture, Problem, View, build_picture
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.patches import PatchFailed, apply_json_patch
from statewright.jsonval.values import JsonObject
from statewright.operations.checks import WorkflowChanges, WorkflowCheck

AS_WRITTEN: Final = "as written"
MODES: Final = (
    (AS_WRITTEN, "As the file says; MERGE where it says nothing."),
    ("MERGE", "A workflow of the same name is replaced, others stay."),
    ("REPLACE", "The workflows of the file, and no others."),
    ("ACTIVATE", "Like MERGE; workflows that are not in the file become inactive."),
)
IMPORT_TIMEOUT_S: Final = 30.0
MAX_PICTURES: Final = 4


class ImportView(Struct, frozen=True, kw_only=True):
    """The form: a file or text, and a mode."""

    head: ModelHead
    text: str = ""
    mode: str = AS_WRITTEN
    modes: tuple[tuple[str, str], ...] = MODES


class ChangedWorkflow(Struct, frozen=True, kw_only=True):
    """A workflow that the import adds, changes or removes."""

    name: str
    change: str
    sentences: tuple[SentenceView, ...] = ()
    picture: Picture | None = None


class ImportCheckView(Struct, frozen=True, kw_only=True):
    """What the import would come to."""

    name: str
    version: int
    text: str
    mode: str
    modes: tuple[tuple[str, str], ...] = MODES
    problem: Problem | None = None
    told: WorkflowCheck | None = None
    findings: tuple[Finding, ...] = ()
    workflows: tuple[ChangedWorkflow, ...] = ()
    question: str = ""

    @property
    def errors(self) -> int:
        """Findings for which it cannot be imported."""
        return sum(each.told.severity == "ERROR" for each in self.findings)

    @property
    def warnings(self) -> int:
        """Findings that ask to be read."""
        return sum(each.told.severity == "WARNING" for each in self.findings)

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """The fields that both forms of the page have."""
        return ("name", self.name), ("version", str(self.version))


async def show_import(request: ConsoleRequest) -> View:
    """The form."""
    name, version = read_key(request)
    head = view_head(name, version, await request.call(*list_head_calls(request, name)))
    return View(
        title=f"Import workflows into {name}/{version}", data=ImportView(head=head), crumbs=_list_crumbs(name, version)
    )


def read_import(form: Form) -> bytes:
    """The body of an import: the text as it was given, or with another mode. Raises ``InvalidField``."""
    raw = read_json(form, "document")
    mode = form.get_choice("mode", [mode for mode, _ in MODES])
    document = decode(raw)
    if not isinstance(document, dict) or not isinstance(document.get("workflows"), list):
        raise InvalidField("document", 'is an object with "workflows"')
    return raw if mode == AS_WRITTEN else encode(document | {"importMode": mode})


def _build_check(form: Form) -> ApiCall:
    name, version = read_form_key(form)
    return build_ops_call(
        "models", name, version, "workflow", "check", method="POST", body=read_import(form), timeout_s=IMPORT_TIMEOUT_S
    )


def _build_import(form: Form) -> ApiCall:
    name, version = read_form_key(form)
    if form.get("needs_acceptance") and not form.get("accepted"):
        raise InvalidField("accepted", "says that the warnings were read")
    body = read_import(form)
    return build_entity_call(
        "model", name, version, "workflow", "import", method="POST", body=body, timeout_s=IMPORT_TIMEOUT_S
    )


def _follow_import(form: Form, _reply: Reply) -> str:
    return build_model_path(*read_form_key(form))


async def _show_check(request: ConsoleRequest, form: Form, reply: Reply) -> View | None:
    name, version = read_form_key(form)
    if reply.status == HTTPStatus.NOT_FOUND:
        return None
    export = await request.call_one(build_entity_call("model", name, version, "workflow", "export"))
    data = await asyncio.to_thread(view_check, form, reply, export)
    return View(title=f"Check of an import into {name}/{version}", data=data, crumbs=_list_crumbs(name, version))


def view_check(form: Form, check: Reply, export: Reply) -> ImportCheckView:
    """Findings, differences and entities concerned, from the answers of the API."""
    name, version = read_form_key(form)
    text, mode = form.get("document"), form.get("mode", AS_WRITTEN)
    told = check.read_if_ok(WorkflowCheck)
    if told is None:
        return ImportCheckView(name=name, version=version, text=text, mode=mode, problem=build_problem(check))
    workflows = _list_changes(told.diff, read_import(form), export)
    return ImportCheckView(
        name=name,
        version=version,
        text=text,
        mode=mode,
        told=told,
        findings=view_findings(check).findings,
        workflows=workflows,
        question=_ask(name, version, workflows, None if told.affected is None else told.affected.total),
    )


def _list_changes(diff: WorkflowChanges | None, body: bytes, export: Reply) -> tuple[ChangedWorkflow, ...]:
    incoming = _index_workflows(decode(body))
    stored = _index_workflows(export.value if export.is_ok else {})
    changes: list[ChangedWorkflow] = []
    for item in diff.workflows if diff is not None else ():
        name, change = item.name, item.change.lower()
        before = stored.get(name)
        after = None if change == "removed" else incoming.get(name)
        if change == "changed" and before is not None:
            after = _apply(before, item.patch) or after
        compared = compare_workflows(before, after)
        label = f"Diagram of what changes in {name}"
        picture = (
            build_picture(draw_diff(compared), picture_id=f"difference-{len(changes)}", label=label)
            if len(changes) < MAX_PICTURES
            else None
        )
        changes.append(
            ChangedWorkflow(name=name, change=change, sentences=tuple(list_sentences(compared)), picture=picture)
        )
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


def _index_workflows(document: object) -> dict[str, JsonObject]:
    listed = get_objects(document, "workflows") if isinstance(document, dict) else []
    return {get_text(each, "name"): each for each in listed}


def _ask(name: str, version: int, workflows: tuple[ChangedWorkflow, ...], total: int | None) -> str:
    parts = []
    for change in ("added", "changed", "removed"):
        count = sum(each.change == change for each in workflows)
        if count:
            parts.append(f"{count} {'workflow is' if count == 1 else 'workflows are'} {change}")
    told = "; ".join(parts) if parts else "nothing changes"
    entities = "" if total is None else f" The model has {total} entities now."
    return f"Import into {name}/{version}? {told[:1].upper()}{told[1:]}.{entities}"


def _list_crumbs(name: str, version: int) -> tuple[Crumb, ...]:
    return Crumb("Models", "/console/models"), Crumb(f"{name}/{version}", build_model_path(name, version))


ROUTES: Final[Routes] = (
    Page(name="import", path=f"{ROOT}/import", show=show_import),
    Action(name="check_import", label="Check an import", build=_build_check, follow=_follow_import, show=_show_check),
    Action(name="import_workflows", label="Import workflows", build=_build_import, follow=_follow_import),
)
