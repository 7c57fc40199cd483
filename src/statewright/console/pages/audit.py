"""What operators and administrators have done, and what was done to entities, whoever did it
(docs/console.md#pages).
"""

from typing import Final

from msgspec import Struct

from statewright.console.calls import Reply, build_ops_call
from statewright.console.pages.listing import Filter, build_list, read_filters
from statewright.console.request import OPERATOR, Navigation, Page, PageContext, Query, Routes
from statewright.console.views.page import Download, View, encode_segment
from statewright.jsonval.codec import encode
from statewright.operations.history import ChangedEntity
from statewright.operations.service import OperatorAct

MAX_EXPORTED: Final = 1000
FILTERS: Final = (
    Filter("action", "Act", "entity.restore"),
    Filter("actor", "Who"),
    Filter("targetKind", "Kind of target", "ENTITY"),
    Filter("targetId", "Id of target"),
    Filter("atFrom", "From", "2026-03-04T09:00:00Z"),
    Filter("atTo", "Before"),
)
CHANGE_FILTERS: Final = (
    Filter("model", "Model", "order"),
    Filter("actor", "Who"),
    Filter("atFrom", "From", "2026-03-04T09:00:00Z"),
    Filter("atTo", "Before"),
)
_PLACES: Final = {"ENTITY": "/console/entities/{id}", "INCIDENT": "/console/incidents/{id}"}


class ActRow(Struct, frozen=True, kw_only=True):
    """One act. ``href`` leads to what it was done to, if there is a page of that."""

    act: OperatorAct
    href: str

    @property
    def details(self) -> str:
        """What else is told of it."""
        return ", ".join(f"{name} {value}" for name, value in self.act.details.items())


async def show_audit(request: PageContext) -> View:
    """Acts, newest first, or a file of them."""
    query = request.query
    wanted = read_filters(query, FILTERS)
    if query.get("export"):
        reply = await request.call_one(build_ops_call("audit", query={**wanted, "limit": MAX_EXPORTED}))
        return build_export(reply.require())
    reply = await request.call_one(build_ops_call("audit", query=wanted | query.read_page("cursor")))
    return view_audit(reply, query, request.page_paths)


def view_audit(reply: Reply, query: Query, page_paths: frozenset[str]) -> View:
    """The list from the answer of the API."""
    rows = [_view_act(act, page_paths) for act in reply.read_items(OperatorAct)]
    return View(title="Audit", data=build_list(query, reply, rows, filters=FILTERS, cursor="cursor"))


def build_export(reply: Reply) -> View:
    """The acts as lines of JSON, as the API gave them."""
    lines = b"".join(encode(item) + b"\n" for item in reply.items)
    return View(download=Download("audit.ndjson", lines, "application/x-ndjson"))


def _view_act(act: OperatorAct, page_paths: frozenset[str]) -> ActRow:
    place = _PLACES.get(act.target.kind, "")
    return ActRow(act=act, href=place.replace("{id}", encode_segment(act.target.id)) if place in page_paths else "")


async def show_changes(request: PageContext) -> View:
    """Changes, newest first."""
    query = request.query
    wanted = read_filters(query, CHANGE_FILTERS) | query.read_page("cursor")
    return view_changes(await request.call_one(build_ops_call("changes", query=wanted)), query)


def view_changes(reply: Reply, query: Query) -> View:
    """The list from the answer of the API."""
    data = build_list(query, reply, reply.read_items(ChangedEntity), filters=CHANGE_FILTERS, cursor="cursor")
    return View(title="Changes of entities", data=data)


ROUTES: Final[Routes] = (
    Page(
        name="audit",
        path="/console/audit",
        show=show_audit,
        navigation=Navigation("System", "Audit", "a", role=OPERATOR),
    ),
    Page(name="changes", path="/console/audit/changes", show=show_changes),
)
