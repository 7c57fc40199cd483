"""Search jobs and help, from answers of the API to what templates see."""

from statewright.console.calls import Reply, build_root_call
from statewright.console.pages.searches import find_search, read_search, view_search
from statewright.console.pages.topics import load_vendored, view_help
from statewright.jsonval.values import JsonObject

CALL = build_root_call("x")


def change(**values: str | None) -> str:
    """The address of another page of results."""
    return f"?page={values['page']}" if values["page"] else ""


def view(status: str, results: Reply, number: int = 0):
    item: JsonObject = {"id": "s", "status": status, "model": {"name": "order", "version": 1}, "hits": 70}
    return view_search(item, results, number, change).data


def test_results_are_read_page_by_page():
    found: JsonObject = {"data": {"amount": 1}, "meta": {"id": "e", "state": "NEW"}}
    document: JsonObject = {"content": [found], "page": {"totalPages": 2}}
    first = view("SUCCESSFUL", Reply(call=CALL, status=200, value=document))
    assert (first.next, first.first, first.found[0].id, first.row.mark) == ("?page=1", None, "e", "ok")
    second = view("SUCCESSFUL", Reply(call=CALL, status=200, value=document), 1)
    assert (second.next, second.first) == (None, "?")


def test_a_job_that_is_no_longer_among_the_newest_is_told_by_its_status():
    status: JsonObject = {"searchJobStatus": "SUCCESSFUL", "entitiesCount": 3, "createTime": "2026-03-04T09:00:00Z"}
    listed = Reply(call=CALL, status=200, value={"items": [{"id": "newer", "status": "RUNNING"}]})
    row = read_search(find_search("s", Reply(call=CALL, status=200, value=status), listed))
    assert (row.id, row.model, row.status, row.mark, row.hits) == ("s", "", "successful", "ok", 3)
    assert row.created == "2026-03-04T09:00:00Z"


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
    assert [topic.id for topic in seen.topics] == ["search"]
