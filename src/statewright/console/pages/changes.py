"""What was done to entities, whoever did it (docs/console.md#pages)."""

from typing import Final

from statewright.console.calls import Reply, build_ops_call
from statewright.console.pages.listing import Filter, build_list, read_filters
from statewright.console.request import ConsoleRequest, Page, Query, Routes
from statewright.console.views.page import View
from statewright.operations.history import ChangedEntity

FILTERS: Final = (
    Filter("model", "Model", "order"),
    Filter("actor", "Who"),
    Filter("atFrom", "From", "2026-03-04T09:00:00Z"),
    Filter("atTo", "Before"),
)


async def show_changes(request: ConsoleRequest) -> View:
    """Changes, newest first."""
    query = request.query
    page = {**read_filters(query, FILTERS), "cursor": query.get("cursor") or None, "limit": query.size()}
    return view_changes(await request.call_one(build_ops_call("changes", query=page)), query)


def view_changes(reply: Reply, query: Query) -> View:
    """The list from the answer of the API."""
    data = build_list(query, reply, reply.read_items(ChangedEntity), filters=FILTERS, cursor="cursor")
    return View(title="Changes of entities", data=data)


ROUTES: Final[Routes] = (Page(name="changes", path="/console/audit/changes", show=show_changes),)
