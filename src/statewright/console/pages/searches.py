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
)
from statewright.console.pages.listing import build_list
from statewright.console.request import Action, ConsoleRequest, Form, Navigation, Page, Routes, build_problem
from statewright.console.views.entities import write_text
from statewright.console.views.page import Confirmation, Crumb, Problem, View
from statewright.console.views.records import SearchResults, SearchStatus
from statewright.operations.listings import ListedSearchJob

ROOT: Final = "/console/searches"

PAGE_SIZE: Final = 50
MAX_LISTED: Final = 200
"""Jobs, the newest ones, among which the model and the condition of one are looked for."""

MARKS: Final = {"RUNNING": "info", "SUCCESSFUL": "ok", "FAILED": "bad", "CANCELLED": "off"}


class SearchRow(Struct, frozen=True):
    """A job. Of one that only its status tells of, the model is not known."""

    job: ListedSearchJob

    @property
    def mark(self) -> str:
        """What goes with the status."""
        return MARKS.get(self.job.status, "off")


class SearchView(Struct, frozen=True, kw_only=True):
    """One job. ``problem`` stands in place of results that cannot be read."""

    row: SearchRow
    condition: str
    found: tuple[tuple[str, str, str], ...]
    """Of each entity, as it was at the instant of the search, id, state and document."""
    next: str | None
    first: str | None
    problem: Problem | None


async def show_searches(request: ConsoleRequest) -> View:
    """A page of the list."""
    query = {"limit": request.query.size(), "cursor": request.query.get("after") or None}
    [listed] = await request.call(build_ops_call("search-jobs", query=query))
    rows = [SearchRow(job) for job in listed.require().read_items(ListedSearchJob)]
    return View(title="Searches", data=build_list(request.query, listed, rows))


async def show_search(request: ConsoleRequest) -> View:
    """One job with a page of what it found."""
    id_, number = request.params["id"], _read_page(request.query.get("page"))
    job, results, listed = await request.call(
        build_entity_call("search", "async", id_, "status"),
        build_entity_call("search", "async", id_, query={"pageSize": PAGE_SIZE, "pageNumber": number}),
        build_ops_call("search-jobs", query={"limit": MAX_LISTED}),
    )
    found = find_search(id_, job, listed)
    return view_search(found, results, number, request.query.change)


def find_search(id_: str, job: Reply, listed: Reply) -> ListedSearchJob:
    """A job as the list has it, with model and condition; of an older one what its status says."""
    status = job.read(SearchStatus)
    found = next((each for each in listed.read_items(ListedSearchJob) if each.id == id_), None)
    return found or status.describe_job(id_)


def _read_page(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 8 else 0


def view_search(job: ListedSearchJob, results: Reply, number: int, change: Callable[..., str]) -> View:
    """One job from the answers of the API."""
    page = results.read_if_ok(SearchResults) or SearchResults()
    data = SearchView(
        row=SearchRow(job),
        condition=write_text(job.condition) if job.condition is not None else "",
        found=tuple((each.meta.id, each.meta.state, write_text(each.data)) for each in page.content),
        next=change(page=str(number + 1)) if number + 1 < page.page.total_pages else None,
        first=change(page=None) or "?" if number else None,
        problem=None if results.is_ok or job.status != "SUCCESSFUL" else build_problem(results),
    )
    return View(title=f"Search {job.id}", data=data, crumbs=(Crumb("Searches", ROOT),))


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
