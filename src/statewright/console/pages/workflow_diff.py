"""What differs between two workflows: of a model, or of two versions of it (docs/console.md#diagrams)."""

import asyncio
from typing import Final

from msgspec import Struct

from statewright.console.diagrams.diff import SIGNS as DIFF_SIGNS
from statewright.console.diagrams.diff import WorkflowDiff, compare_workflows, draw_diff
from statewright.console.live import ModelCounts
from statewright.console.pages.model import build_model_path, read_key
from statewright.console.pages.workflow import ROOT, build_workflow_path, call_export, find_workflow
from statewright.console.request import ConsoleRequest, InvalidField, Page, Routes
from statewright.console.views.entities import fits_page, write_text
from statewright.console.views.page import Crumb, Picture, View, build_picture, format_count
from statewright.jsonval.values import JsonObject


class SentenceView(Struct, frozen=True, kw_only=True):
    """A change in words, with its sign and the entities in the state that it concerns."""

    change: str
    sign: str
    text: str
    state: str
    count: str


class DiffView(Struct, frozen=True, kw_only=True):
    """Two workflows compared."""

    left: str
    right: str
    picture: Picture
    sentences: tuple[SentenceView, ...]
    counts: ModelCounts
    texts: tuple[str, str] | None
    back: str


async def show_workflow_diff(request: ConsoleRequest) -> View:
    """A workflow beside another one: of the same model, or of another version of it."""
    name, version = read_key(request)
    workflow = request.params["workflow"]
    other_workflow = request.query.get("workflow", workflow)
    other_version = _read_version(request, version)
    versions = dict.fromkeys((version, other_version))
    exports = await request.call(*(call_export(name, each) for each in versions))
    counts = await request.counts.count(request.client, request.viewer.tenant, name, other_version)
    old, new = find_workflow(exports[0], workflow), find_workflow(exports[-1], other_workflow)
    sides = (f"{workflow} of {name}/{version}", f"{other_workflow} of {name}/{other_version}")
    back = build_workflow_path(name, version, workflow)
    data = await asyncio.to_thread(view_diff, old, new, counts, sides=sides, back=back)
    crumbs = (
        Crumb("Models", "/console/models"),
        Crumb(f"{name}/{version}", build_model_path(name, version)),
        Crumb(workflow, data.back),
    )
    return View(title=f"Compare {workflow}", data=data, crumbs=crumbs)


def _read_version(request: ConsoleRequest, default: int) -> int:
    text = request.query.get("version", str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise InvalidField("version", "is a whole number")
    return int(text)


def view_diff(old: JsonObject, new: JsonObject, counts: ModelCounts, *, sides: tuple[str, str], back: str) -> DiffView:
    """What leads from one document to the other; ``sides`` says what they are."""
    diff = compare_workflows(old, new)
    return DiffView(
        left=sides[0],
        right=sides[1],
        picture=draw_difference(diff),
        sentences=tuple(list_sentences(diff, counts)),
        counts=counts,
        texts=(write_text(old), write_text(new)) if fits_page(old) and fits_page(new) else None,
        back=back,
    )


def draw_difference(diff: WorkflowDiff) -> Picture:
    """One diagram of both."""
    return build_picture(draw_diff(diff), label="Diagram of both workflows", picture_id="difference")


def list_sentences(diff: WorkflowDiff, counts: ModelCounts | None = None) -> list[SentenceView]:
    """The changes in words; with ``counts``, the entities that are in the states concerned."""
    return [
        SentenceView(
            change=each.change,
            sign=DIFF_SIGNS[each.change],
            text=each.text,
            state=each.state,
            count=format_count(counts.get(each.state)) if counts is not None and each.state else "",
        )
        for each in diff.sentences
    ]


ROUTES: Final[Routes] = (Page(name="workflow_diff", path=f"{ROOT}/diff", show=show_workflow_diff),)
