"""Versions of an entity, what differs between two, its data as text, and what a transaction has written."""

import asyncio
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import (
    Reply,
    build_entity_call,
    build_ops_call,
    build_path,
    get_flag,
    get_int,
    get_object,
    get_text,
)
from statewright.console.diagrams.workflow import list_workflows, read_workflow
from statewright.console.pages.entity import ROOT, build_crumbs, build_entity_path, describe_actor, read_entity_id
from statewright.console.request import ConsoleRequest, Page, Routes, build_problem
from statewright.console.views.entities import Difference, fits_page, list_differences, write_text
from statewright.console.views.page import Crumb, Download, Problem, View
from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject

NOT_FOUND: Final = 404
DAY_US: Final = 86_400_000_000


class VersionRow(Struct, frozen=True, kw_only=True):
    """A version in the list."""

    transaction: str
    at: str
    until: str
    state: str
    transition: str
    change: str
    actor: str
    workflow: str
    revision: int
    size: int
    is_current: bool
    is_deletion: bool


class VersionsView(Struct, frozen=True, kw_only=True):
    """The versions, newest first."""

    id: str
    versions: tuple[VersionRow, ...]
    current: str
    yesterday: str
    next: str | None
    first: str | None

    @property
    def path(self) -> str:
        """That of the entity."""
        return build_entity_path(self.id)


class DifferencesView(Struct, frozen=True, kw_only=True):
    """Two versions compared."""

    id: str
    left: str
    right: str
    states: tuple[str, str]
    differences: tuple[Difference, ...]
    is_cut: bool
    problem: Problem | None

    @property
    def path(self) -> str:
        """That of the entity."""
        return build_entity_path(self.id)


class DataView(Struct, frozen=True, kw_only=True):
    """The document as text, to be read or edited."""

    id: str
    name: str
    version: int
    state: str
    transaction: str
    text: str | None
    transitions: tuple[str, ...]

    @property
    def path(self) -> str:
        """That of the entity."""
        return build_entity_path(self.id)


class WrittenRow(Struct, frozen=True, kw_only=True):
    """An entity that a transaction has written."""

    id: str
    model: str
    state: str
    transition: str
    change: str
    versions: int
    events: int
    at: str


class TransactionView(Struct, frozen=True, kw_only=True):
    """A transaction: the entities that it wrote."""

    id: str
    written: tuple[WrittenRow, ...]
    next: str | None


async def show_entity_versions(request: ConsoleRequest) -> View:
    """The versions of an entity."""
    entity_id, cursor = read_entity_id(request), request.query.get("cursor") or None
    versions = await request.call_one(
        build_ops_call("entities", entity_id, "versions", query={"limit": request.query.size(), "cursor": cursor})
    )
    return view_versions(entity_id, versions.require(), now=request.now, cursor=cursor)


def view_versions(entity_id: str, versions: Reply, *, now: int, cursor: str | None) -> View:
    """The list from the answer of the API."""
    rows = tuple(map(_view_version, versions.items))
    following = get_text(versions.document, "nextCursor")
    path = build_entity_path(entity_id, "versions")
    data = VersionsView(
        id=entity_id,
        versions=rows,
        current=next((row.transaction for row in rows if row.is_current), ""),
        yesterday=to_rfc3339(now - DAY_US),
        next=f"{path}{build_path(following).replace('/', '?cursor=', 1)}" if following else None,
        first=path if cursor else None,
    )
    return View(title="Versions", data=data, crumbs=(Crumb(entity_id, build_entity_path(entity_id)),))


def _view_version(item: JsonObject) -> VersionRow:
    return VersionRow(
        transaction=get_text(item, "transactionId"),
        at=get_text(item, "at"),
        until=get_text(item, "until"),
        state=get_text(item, "state"),
        transition=get_text(item, "transition"),
        change=get_text(item, "changeType").lower(),
        actor=describe_actor(item),
        workflow=get_text(item, "workflow"),
        revision=get_int(item, "workflowRevision"),
        size=get_int(item, "bytes"),
        is_current=get_flag(item, "current"),
        is_deletion=get_text(item, "changeType") == "DELETE",
    )


async def show_entity_diff(request: ConsoleRequest) -> View:
    """What differs between two versions: each a transaction, an instant, ``current`` or ``previous``."""
    entity_id = read_entity_id(request)
    old, new = request.query.get("from", "previous") or "previous", request.query.get("to", "current") or "current"
    diff = await request.call_one(build_ops_call("entities", entity_id, "diff", query={"from": old, "to": new}))
    sides = [get_text(diff.document, side) for side in ("from", "to")] if diff.is_ok else []
    found = await request.call(
        *(build_ops_call("entities", entity_id, "versions", side) for side in dict.fromkeys(sides) if side)
    )
    return await asyncio.to_thread(view_entity_diff, entity_id, diff, found, asked=(old, new))


def view_entity_diff(entity_id: str, diff: Reply, found: tuple[Reply, ...], *, asked: tuple[str, str]) -> View:
    """The comparison from the answers of the API."""
    documents = {get_text(each.document, "transactionId"): each.document.get("document") for each in found}
    old, new = (documents.get(get_text(diff.document, side)) for side in ("from", "to"))
    rows, is_cut = list_differences({} if old is None else old, {} if new is None else new)
    states = get_object(diff.document, "state")
    failed = next((each for each in (diff, *found) if not each.is_ok), None)
    data = DifferencesView(
        id=entity_id,
        left=asked[0],
        right=asked[1],
        states=(get_text(states, "from"), get_text(states, "to")),
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


async def show_entity_data(request: ConsoleRequest) -> View:
    """The document of an entity as text, in a form for those who may write."""
    entity_id = read_entity_id(request)
    entity = await request.call_one(build_entity_call("entity", entity_id))
    meta = get_object(entity.require().document, "meta")
    model = get_object(meta, "modelKey")
    name, version = get_text(model, "name"), get_int(model, "version")
    export = await request.call_one(build_entity_call("model", name, version, "workflow", "export"))
    return await asyncio.to_thread(view_entity_data, entity_id, entity, export)


def view_entity_data(entity_id: str, entity: Reply, export: Reply) -> View:
    """The form from the answers of the API."""
    meta = get_object(entity.document, "meta")
    model, state = get_object(meta, "modelKey"), get_text(meta, "state")
    document = entity.document.get("data")
    graphs = [read_workflow(each) for each in list_workflows(export.value)] if export.is_ok else []
    names = [each.name for graph in graphs for each in graph.list_transitions(state) if each.kind != "scheduled"]
    data = DataView(
        id=entity_id,
        name=get_text(model, "name"),
        version=get_int(model, "version"),
        state=state,
        transaction=get_text(meta, "transactionId"),
        text=write_text(document) if fits_page(document) else None,
        transitions=tuple(dict.fromkeys(names)),
    )
    return View(title="Data", data=data, crumbs=build_crumbs(entity_id, data.name, data.version))


async def show_entity_download(request: ConsoleRequest) -> View:
    """The document of an entity as a file."""
    entity_id, at = read_entity_id(request), request.query.get("at") or None
    entity = await request.call_one(build_entity_call("entity", entity_id, query={"pointInTime": at}))
    return View(download=Download(f"{entity_id}.json", entity.require().body))


async def show_transaction(request: ConsoleRequest) -> View:
    """What a transaction has written."""
    transaction, cursor = request.params["id"], request.query.get("cursor") or None
    written = await request.call_one(
        build_ops_call("transactions", transaction, "entities", query={"cursor": cursor, "limit": request.query.size()})
    )
    return view_transaction(transaction, written.require())


def view_transaction(transaction: str, written: Reply) -> View:
    """The page from the answer of the API."""
    following = get_text(written.document, "nextCursor")
    data = TransactionView(
        id=transaction,
        written=tuple(map(_view_written, written.items)),
        next=f"{build_path('console', 'transactions', transaction)}{build_path(following).replace('/', '?cursor=', 1)}"
        if following
        else None,
    )
    return View(title=f"Transaction {transaction}", data=data)


def _view_written(item: JsonObject) -> WrittenRow:
    model = get_object(item, "model")
    return WrittenRow(
        id=get_text(item, "entityId"),
        model=f"{get_text(model, 'name')}/{get_int(model, 'version')}",
        state=get_text(item, "state"),
        transition=get_text(item, "transition"),
        change=get_text(item, "changeType").lower(),
        versions=get_int(item, "versions"),
        events=get_int(item, "events"),
        at=get_text(item, "at"),
    )


ROUTES: Final[Routes] = (
    Page(name="entity_versions", path=f"{ROOT}/versions", show=show_entity_versions),
    Page(name="entity_diff", path=f"{ROOT}/diff", show=show_entity_diff),
    Page(name="entity_data", path=f"{ROOT}/data", show=show_entity_data),
    Page(name="entity_download", path=f"{ROOT}/download", show=show_entity_download, is_file=True),
    Page(name="transaction", path="/console/transactions/{id}", show=show_transaction),
)
