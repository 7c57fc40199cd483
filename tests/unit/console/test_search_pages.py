"""Search jobs and help, from answers of the API to what templates see."""

from statewright.console.calls import Reply, build_root_call
from statewright.console.pages.searches import SearchRow, find_search, view_search
from statewright.console.pages.topics import load_vendored, view_help
from statewright.console.views.page import format_model
from statewright.jsonval.values import JsonObject
from statewright.operations.entity_answers import SearchJobProgress
from statewright.operations.listings import ListedSearchJob
from tests.unit.console.recorded import a_document, a_list, a_reply

CALL = build_root_call("x")


def change(**values: str | None) -> str:
    """The address of another page of results."""
    return f"?page={values['page']}" if values["page"] else ""


def view(status: str, results: Reply, number: int = 0):
    item = a_document(ListedSearchJob, id="s", status=status, model={"name": "order", "version": 1}, hits=70)
    return view_search(a_reply(item).read(ListedSearchJob), results, number, change).data


def test_results_are_read_page_by_page():
    found: JsonObject = {"data": {"amount": 1}, "meta": {"id": "e", "state": "NEW"}}
    document: JsonObject = {"content": [found], "page": {"totalPages": 2}}
    first = view("SUCCESSFUL", Reply(call=CALL, status=200, value=document))
    assert (first.next, first.first, first.found, first.row.mark) == (
        "?page=1",
        None,
        (("e", "NEW", '{\n  "amount": 1\n}'),),
        "ok",
    )
    second = view("SUCCESSFUL", Reply(call=CALL, status=200, value=document), 1)
    assert (second.next, second.first) == (None, "?")


def test_a_job_that_is_no_longer_among_the_newest_is_told_by_its_status():
    told = {"searchJobStatus": "SUCCESSFUL", "entitiesCount": 3, "createTime": "2026-03-04T09:00:00Z"}
    status = a_document(SearchJobProgress, **told)
    listed = a_list(ListedSearchJob, {"id": "newer", "status": "RUNNING"})
    job = find_search("s", Reply(call=CALL, status=200, value=status), listed)
    assert (job.id, format_model(job.model), job.status, job.hits) == ("s", "", "SUCCESSFUL", 3)
    assert SearchRow(job).mark == "ok"
    assert job.created_at == "2026-03-04T09:00:00Z"


def test_what_a_job_without_results_answers_is_a_problem_only_when_it_succeeded():
    refused = Reply(call=CALL, status=400, value={"status": 400, "detail": "no results", "properties": {}})
    assert view("RUNNING", refused).problem is None
    assert view("SUCCESSFUL", refused).problem is not None


def test_help_names_what_others_wrote_with_its_licence():
    vendored = load_vendored()
    assert {"htmx.org", "@viz-js/viz", "Graphviz", "Expat"} <= {each.name for each in vendored}
    assert all(each.licence and each.text for each in vendored)
    topics: JsonObject = {"version": "1", "topics": [{"topic": "search", "title": "Search", "synopsis": "finds"}]}
    seen = view_help(Reply(call=CALL, status=200, value=topics), vendored).data
    assert [topic.topic for topic in seen.told.topics] == ["search"]
