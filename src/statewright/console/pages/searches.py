"""Search jobs: the list, one with a page of what it found, and stopping it (docs/console.md#pages)."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from statewright.console.acts import ask, lead_to, send
from statewright.console.calls import Reply, build_entity_call, build_ops_call
from statewright.console.pages.listing import build_list
from statewright.console.request import Action, Navigation, Page, PageContext, Routes, build_problem
from statewright.console.views.entities import write_text
from statewright.console.views.page import Crumb, Problem, View
from statewright.console.views.records import SearchResults, list_job
from statewright.operations.entity_answers import SearchJobProgress
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


async def show_searches(request: PageContext) -> View:
    """A page of the list."""
    listed = await request.call_one(build_ops_call("search-jobs", query=request.query.read_page()))
    rows = map(SearchRow, listed.require().read_items(ListedSearchJob))
    return View(title="Searches", data=build_list(request.query, listed, tuple(rows)))


async def show_search(request: PageContext) -> View:
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
    told = job.read(SearchJobProgress)
    found = next((each for each in listed.read_items(ListedSearchJob) if each.id == id_), None)
    return found or list_job(id_, told)


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
        "cancel_search",
        "Stop search",
        send("PUT", "/search/async/{job}/cancel"),
        lead_to(f"{ROOT}/{{job}}"),
        ask("Stop search {job}?", "What it has found so far is not kept.", back=f"{ROOT}/{{job}}"),
        is_dangerous=True,
    ),
)
