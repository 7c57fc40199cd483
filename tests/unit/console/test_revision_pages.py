"""What the page of revisions shows of the answers of the API (docs/console.md#pages)."""

from statewright.console.calls import Reply
from statewright.console.pages.model import ModelHead
from statewright.console.pages.revisions import MAX_ITEMS, RevisionsView, view_revisions
from statewright.console.request import Query
from statewright.operations.checks import PopulationItem, WorkflowRevision
from tests.unit.console.recorded import a_list, a_problem

HEAD = ModelHead(name="order", version=1, state="LOCKED", suspensions=())
NEWEST = a_list(WorkflowRevision, {"revision": 2, "current": True}, {"revision": 1})


def show(population: Reply, revisions: Reply = NEWEST) -> RevisionsView:
    data = view_revisions(Query(()), "/console/models/order/1/revisions", HEAD, (revisions, population)).data
    assert isinstance(data, RevisionsView)
    return data


def test_entities_that_nothing_moves_come_first_and_are_counted():
    items = ({"state": "NEW", "count": 7}, {"state": "OLD", "count": 2, "issue": "STATE_REMOVED"})
    shown = show(a_list(PopulationItem, *items, total=9))
    assert [item.state for item in shown.items] == ["OLD", "NEW"]
    assert (shown.total, shown.stranded, shown.is_cut, shown.current) == (9, 2, False, "2")


def test_a_long_table_of_entities_is_cut():
    items = [{"state": f"S{number}", "count": 1} for number in range(MAX_ITEMS + 1)]
    shown = show(a_list(PopulationItem, *items, total=len(items)))
    assert (len(shown.items), shown.is_cut) == (MAX_ITEMS, True)


def test_revisions_are_there_where_entities_cannot_be_counted():
    shown = show(a_problem(503, "SEARCH_SHARD_TIMEOUT"))
    assert [each.revision for each in shown.list.rows] == [2, 1]
    assert shown.problem is not None
    assert (shown.problem.code, shown.problem.retry) == ("SEARCH_SHARD_TIMEOUT", "/console/models/order/1/revisions")


def test_a_page_without_the_current_revision_offers_no_way_back():
    assert show(a_list(PopulationItem, total=0), a_list(WorkflowRevision, {"revision": 1})).current == ""
