"""Search jobs: the list, one with a page of what it found, and stopping it (docs/console.md#pages)."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from statewright.console.calls import (
    ApiCall,
    Reply,
    build_entity_call,
    build_ops_call,
    build_path,
    get_int,
    get_object,
    get_objects,
    get_text,
)
from statewright.console.pages.incidents import find_first, find_next
from statewright.console.request import Action, ConsoleRequest, Form, Navigation, Page, Routes, build_problem
from statewright.console.views.entities import write_text
from statewright.console.views.page import Confirmation, Crumb, Problem, View
from statewright.jsonval.values import JsonObject

ROOT: Final = "/console/searches"

PAGE_SIZE: Final = 50
MAX_LISTED: Final = 200
"""Jobs, the newest ones, among which the model and the condition of one are looked for."""

MARKS: Final = {"RUNNING": "info", "SUCCESSFUL": "ok", "FAILED": "bad", "CANCELLED": "off"}


class SearchRow(Struct, frozen=True, kw_only=True):
    """A job. ``expires`` is until when its results can be read; ``mark`` goes with the status."""

    id: str
    model: str
    status: str
    mark: str
    hits: int
    created: str
    finished: str
    expires: str
    failure: str


class SearchesView(Struct, frozen=True, kw_only=True):
    """Jobs, the newest first."""

    rows: tuple[SearchRow, ...]
    next: str | None
    first: str | None


class FoundEntity(Struct, frozen=True, kw_only=True):
    """An entity as it was at the instant of the search."""

    id: str
    state: str
    text: str


class SearchView(Struct, frozen=True, kw_only=True):
    """One job. ``problem`` stands in place of results that cannot be read."""

    row: SearchRow
    condition: str
    found: tuple[FoundEntity, ...]
    next: str | None
    first: str | None
    problem: Problem | None


async def show_searches(request: ConsoleRequest) -> View:
    """A page of the list."""
    query = {"limit": request.query.size(), "cursor": request.query.get("after") or None}
    [listed] = await request.call(build_ops_call("search-jobs", query=query))
    data = SearchesView(
        rows=tuple(read_search(item) for item in listed.require().items),
        next=find_next(request, listed),
        first=find_first(request),
    )
    return View(title="Searches", data=data)


def read_search(item: JsonObject) -> SearchRow:
    """A line of the list."""
    model, status = get_object(item, "model"), get_text(item, "status")
    return SearchRow(
        id=get_text(item, "id"),
        model=f"{get_text(model, 'name')}/{get_int(model, 'version')}" if model else "",
        status=status.lower(),
        mark=MARKS.get(status, "off"),
        hits=get_int(item, "hits"),
        created=get_text(item, "createdAt"),
        finished=get_text(item, "finishedAt"),
        expires=get_text(item, "expiresAt"),
        failure=get_text(item, "failure"),
    )


async def show_search(request: ConsoleRequest) -> View:
    """One job with a page of what it found."""
    id_, number = request.params["id"], _read_page(request.query.get("page"))
    job, results, listed = await request.call(
        build_entity_call("search", "async", id_, "status"),
        build_entity_call("search", "async", id_, query={"pageSize": PAGE_SIZE, "pageNumber": number}),
        build_ops_call("search-jobs", query={"limit": MAX_LISTED}),
    )
    item = find_search(id_, job.require(), listed)
    return view_search(item, results, number, request.query.change)


def find_search(id_: str, job: Reply, listed: Reply) -> JsonObject:
    """A job as the list has it, with model and condition; of an older one what its status says."""
    found = next((item for item in listed.items if get_text(item, "id") == id_), None)
    if found is not None:
        return found
    status = job.document
    return {
        "id": id_,
        "status": status.get("searchJobStatus"),
        "hits": status.get("entitiesCount"),
        "createdAt": status.get("createTime"),
        "finishedAt": status.get("finishTime"),
        "expiresAt": status.get("expirationDate"),
    }


def _read_page(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 8 else 0


def view_search(item: JsonObject, results: Reply, number: int, change: Callable[..., str]) -> View:
    """One job from the answers of the API."""
    row, page = read_search(item), get_object(results.document, "page")
    condition = item.get("condition")
    data = SearchView(
        row=row,
        condition=write_text(condition) if condition is not None else "",
        found=tuple(_read_found(entity) for entity in get_objects(results.document, "content")),
        next=change(page=str(number + 1)) if number + 1 < get_int(page, "totalPages") else None,
        first=change(page=None) or "?" if number else None,
        problem=None if results.is_ok or row.status != "successful" else build_problem(results),
    )
    return View(title=f"Search {row.id}", data=data, crumbs=(Crumb("Searches", ROOT),))


def _read_found(entity: JsonObject) -> FoundEntity:
    meta = get_object(entity, "meta")
    return FoundEntity(id=get_text(meta, "id"), state=get_text(meta, "state"), text=write_text(entity.get("data")))


def _build_cancellation(form: Form) -> ApiCall:
    return build_entity_call("search", "async", form.require("job"), "cancel", method="PUT")


async def _confirm_cancellation(_request: ConsoleRequest, form: Form) -> Confirmation:
    id_ = form.require("job")
    return Confirmation(
        question=f"Stop search {id_}?",
        details=("What it has found so far is not kept.",),
        back=f"{ROOT}{build_path(id_)}",
    )


def _follow_search(form: Form, _reply: Reply) -> str:
    return f"{ROOT}{build_path(form.require('job'))}"


ROUTES: Final[Routes] = (
    Page(
        name="searches",
        path=ROOT,
        show=show_searches,
        navigation=Navigation("Work", "Searches"),
        feature="search-jobs",
    ),
    Page(name="search", path=f"{ROOT}/{{id}}", show=show_search),
    Action(
        name="cancel_search",
        label="Stop search",
        build=_build_cancellation,
        follow=_follow_search,
        confirm=_confirm_cancellation,
        is_dangerous=True,
    ),
)
