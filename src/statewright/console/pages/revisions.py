"""The workflows that a model has and has had: a list, two compared, one brought back; and where the entities are
(docs/console.md#pages).
"""

import asyncio
from typing import Final

from msgspec import Struct

from statewright.console.acts import ask, lead_to, read_number, read_text, send
from statewright.console.calls import ApiCall, Reply, build_ops_call
from statewright.console.pages.listing import ListView, build_list
from statewright.console.pages.model import (
    ROOT,
    ModelHead,
    build_model_crumbs,
    build_model_path,
    build_model_view,
    call_with_head,
    read_key,
)
from statewright.console.request import OPERATOR, Action, Page, PageContext, Query, Routes, build_problem
from statewright.console.views.entities import ChangedMember, list_differences
from statewright.console.views.page import Crumb, Problem, View
from statewright.operations.checks import Population, PopulationItem, WholeRevision, WorkflowRevision

FEATURE: Final = "workflow-revisions"
MAX_ITEMS: Final = 200
"""Lines of the table of entities."""


class RevisionsView(Struct, frozen=True, kw_only=True):
    """Revisions, newest first, and the entities by workflow, state and revision, those first that nothing moves.
    ``current`` is empty on pages without the current one.
    """

    head: ModelHead
    list: ListView[WorkflowRevision]
    current: str
    total: int
    stranded: int
    items: tuple[PopulationItem, ...]
    is_cut: bool
    problem: Problem | None

    @property
    def path(self) -> str:
        """That of the page."""
        return build_model_path(self.head.name, self.head.version, "revisions")


class RevisionDiff(Struct, frozen=True, kw_only=True):
    """What differs between two revisions; ``older`` 0: no workflows."""

    path: str
    older: int
    newer: int
    differences: tuple[ChangedMember, ...]
    is_cut: bool


def call_workflow(name: str, version: int, *more: str, query: dict[str, int | str | None] | None = None) -> ApiCall:
    """A call below what the operations API tells of the workflows of a model."""
    return build_ops_call("models", name, version, "workflow", *more, query=query or {})


async def show_revisions(request: PageContext) -> View:
    """The revisions of a model, and its entities."""
    key = read_key(request)
    calls = (call_workflow(*key, "revisions", query=request.query.read_page()), call_workflow(*key, "population"))
    head, replies = await call_with_head(request, *calls)
    return view_revisions(request.query, request.path, head, replies)


def view_revisions(query: Query, path: str, head: ModelHead, replies: tuple[Reply, ...]) -> View:
    """The page from the answers of the API; where entities cannot be counted, the list stays."""
    revisions, population = replies
    rows = revisions.require().read_items(WorkflowRevision)
    counted = population.read_if_ok(Population) or Population(total=0, items=())
    items = sorted(counted.items, key=lambda item: item.issue is None)
    data = RevisionsView(
        head=head,
        list=build_list(query, revisions, rows),
        current=next((str(each.revision) for each in rows if each.current), ""),
        total=counted.total,
        stranded=sum(item.count for item in items if item.issue),
        items=tuple(items[:MAX_ITEMS]),
        is_cut=len(items) > MAX_ITEMS,
        problem=None if population.is_ok else build_problem(population, retry=path),
    )
    return build_model_view(head, data)


async def show_revision_diff(request: PageContext) -> View:
    """What differs between two revisions; without ``from``, from no workflows."""
    key, query = read_key(request), request.query
    older, newer = query.get_number("from"), query.get_number("to", 1) or 1
    wanted = [str(number) for number in (newer, older) if number]
    found = await request.call(*(call_workflow(*key, "revisions", number) for number in wanted))
    after, *before = [reply.require().read(WholeRevision).document for reply in found]
    rows, is_cut = await asyncio.to_thread(list_differences, before[0] if before else {}, after)
    path = build_model_path(*key, "revisions")
    data = RevisionDiff(path=path, older=older, newer=newer, differences=rows, is_cut=is_cut)
    return View(title="Compare revisions", data=data, crumbs=(*build_model_crumbs(*key), Crumb("Revisions", path)))


ROUTES: Final[Routes] = (
    Page(name="model_revisions", path=f"{ROOT}/revisions", show=show_revisions, feature=FEATURE),
    Page(name="revision_diff", path=f"{ROOT}/revisions/diff", show=show_revision_diff, feature=FEATURE),
    Action(
        "activate_revision",
        "Bring back",
        send(
            "POST",
            "/ops/v1/models/{name}/{version}/workflow/revisions/{revision}/activate",
            {"reason": read_text, "ifMatch": read_number},
        ),
        lead_to(f"{ROOT}/revisions"),
        ask(
            "Bring revision {revision} of the workflows of {name}/{version} back?",
            "All workflows of the model become those of that revision, in a new one.",
            "Entities stay in their states.",
            back=f"{ROOT}/revisions",
            needs_reason=True,
        ),
        role=OPERATOR,
        is_dangerous=True,
    ),
)
