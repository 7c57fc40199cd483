"""Versions of an entity, what differs between two, its data as text, and what a transaction has written."""

import asyncio
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import Reply, build_entity_call, build_ops_call
from statewright.console.diagrams.workflow import list_workflows, read_workflow
from statewright.console.pages.entity import (
    ROOT,
    EntityPage,
    build_entity_path,
    describe_actor,
    read_entity_id,
)
from statewright.console.pages.listing import ListView, build_list
from statewright.console.pages.model import build_model_crumbs
from statewright.console.request import Page, PageContext, Routes, build_problem
from statewright.console.views.entities import ChangedMember, fits_page, list_differences, write_text
from statewright.console.views.page import Crumb, Download, Problem, View
from statewright.console.views.records import Envelope, EnvelopeMeta
from statewright.instants import to_rfc3339
from statewright.operations.history import Difference as Comparison
from statewright.operations.history import VersionView, WholeVersion, WrittenEntity

NOT_FOUND: Final = 404
DAY_US: Final = 86_400_000_000


class VersionRow(Struct, frozen=True, kw_only=True):
    """A version in the list."""

    version: VersionView
    actor: str

    @property
    def is_deletion(self) -> bool:
        return self.version.change_type == "DELETE"


class VersionsView(EntityPage, frozen=True, kw_only=True):
    """The versions, newest first."""

    list: ListView[VersionRow]
    current: str
    yesterday: str


class DifferencesView(EntityPage, frozen=True, kw_only=True):
    """Two versions compared."""

    left: str
    right: str
    states: tuple[str, str]
    differences: tuple[ChangedMember, ...]
    is_cut: bool
    problem: Problem | None


class DataView(EntityPage, frozen=True, kw_only=True):
    """The document as text, to be read or edited."""

    meta: EnvelopeMeta
    text: str | None
    transitions: tuple[str, ...]


class TransactionView(Struct, frozen=True, kw_only=True):
    """A transaction: the entities that it wrote."""

    id: str
    list: ListView[WrittenEntity]


async def show_entity_versions(request: PageContext) -> View:
    """The versions of an entity."""
    entity_id, query = read_entity_id(request), request.query
    call = build_ops_call("entities", entity_id, "versions", query=query.read_page("cursor"))
    versions = await request.call_one(call)
    listed = versions.require().read_items(VersionView)
    rows = [VersionRow(version=each, actor=describe_actor(each)) for each in listed]
    data = VersionsView(
        id=entity_id,
        list=build_list(query, versions, rows, cursor="cursor"),
        current=next((each.transaction_id for each in listed if each.current), ""),
        yesterday=to_rfc3339(request.now - DAY_US),
    )
    return View(title="Versions", data=data, crumbs=(Crumb(entity_id, data.path),))


async def show_entity_diff(request: PageContext) -> View:
    """What differs between two versions: each a transaction, an instant, ``current`` or ``previous``."""
    entity_id = read_entity_id(request)
    old, new = request.query.get("from", "previous") or "previous", request.query.get("to", "current") or "current"
    diff = await request.call_one(build_ops_call("entities", entity_id, "diff", query={"from": old, "to": new}))
    told = diff.read_if_ok(Comparison)
    sides = (told.older, told.newer) if told is not None else ()
    found = await request.call(
        *(build_ops_call("entities", entity_id, "versions", side) for side in dict.fromkeys(sides) if side)
    )
    return await asyncio.to_thread(view_entity_diff, entity_id, diff, found, asked=(old, new))


def view_entity_diff(entity_id: str, diff: Reply, found: tuple[Reply, ...], *, asked: tuple[str, str]) -> View:
    """The comparison from the answers of the API."""
    read = [version for each in found if (version := each.read_if_ok(WholeVersion)) is not None]
    documents = {each.transaction_id: each.document for each in read}
    told = diff.read_if_ok(Comparison)
    old, new = (documents.get(told.older or ""), documents.get(told.newer)) if told is not None else (None, None)
    rows, is_cut = list_differences({} if old is None else old, {} if new is None else new)
    failed = next((each for each in (diff, *found) if not each.is_ok), None)
    data = DifferencesView(
        id=entity_id,
        left=asked[0],
        right=asked[1],
        states=(told.state.older or "", told.state.newer) if told is not None else ("", ""),
        differences=rows if failed is None else (),
        is_cut=is_cut,
        problem=None if failed is None else _explain_failure(entity_id, failed),
    )
    crumbs = (
        Crumb(entity_id, build_entity_path(entity_id)),
        Crumb("Versions", build_entity_path(entity_id, "versions")),
    )
    status = 200 if failed is None else failed.status
    return View(title="Compare versions", data=data, crumbs=crumbs, status=status)


def _explain_failure(entity_id: str, failed: Reply) -> Problem:
    """Why two versions cannot be compared, with the versions that there are as the next step."""
    problem = build_problem(failed)
    offers = ((build_entity_path(entity_id, "versions"), "See which versions there are"),)
    if failed.status != NOT_FOUND:
        return replace(problem, offers=offers)
    return replace(problem, title="There was no such version then", offers=offers)


async def show_entity_data(request: PageContext) -> View:
    """The document of an entity as text, in a form for those who may write."""
    entity_id = read_entity_id(request)
    entity = await request.call_one(build_entity_call("entity", entity_id))
    model = entity.read(Envelope).meta.model_key
    export = await request.call_one(build_entity_call("model", model.name, model.version, "workflow", "export"))
    return await asyncio.to_thread(view_entity_data, entity_id, entity, export)


def view_entity_data(entity_id: str, entity: Reply, export: Reply) -> View:
    """The form from the answers of the API."""
    found = entity.read(Envelope)
    state = found.meta.state
    graphs = [read_workflow(each) for each in list_workflows(export.value)] if export.is_ok else []
    names = [each.name for graph in graphs for each in graph.list_transitions(state) if each.kind != "scheduled"]
    data = DataView(
        id=entity_id,
        meta=found.meta,
        text=write_text(found.data) if fits_page(found.data) else None,
        transitions=tuple(dict.fromkeys(names)),
    )
    model = found.meta.model_key
    crumbs = (*build_model_crumbs(model.name, model.version), Crumb(entity_id, data.path))
    return View(title="Data", data=data, crumbs=crumbs)


async def show_entity_download(request: PageContext) -> View:
    """The document of an entity as a file."""
    entity_id, at = read_entity_id(request), request.query.get("at") or None
    entity = await request.call_one(build_entity_call("entity", entity_id, query={"pointInTime": at}))
    return View(download=Download(f"{entity_id}.json", entity.require().body))


async def show_transaction(request: PageContext) -> View:
    """What a transaction has written."""
    id_, query = request.params["id"], request.query
    written = await request.call_one(build_ops_call("transactions", id_, "entities", query=query.read_page("cursor")))
    found = build_list(query, written.require(), written.read_items(WrittenEntity), cursor="cursor")
    return View(title=f"Transaction {id_}", data=TransactionView(id=id_, list=found))


ROUTES: Final[Routes] = (
    Page(name="entity_versions", path=f"{ROOT}/versions", show=show_entity_versions),
    Page(name="entity_diff", path=f"{ROOT}/diff", show=show_entity_diff),
    Page(name="entity_data", path=f"{ROOT}/data", show=show_entity_data),
    Page(name="entity_download", path=f"{ROOT}/download", show=show_entity_download, is_file=True),
    Page(name="transaction", path="/console/transactions/{id}", show=show_transaction),
)
