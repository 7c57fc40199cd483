"""What was done to entities, whoever did it (docs/console.md#pages)."""

from typing import Final

from msgspec import Struct

from statewright.console.calls import Reply, build_ops_call, get_instant, get_int, get_object, get_text
from statewright.console.pages.audit import Filter
from statewright.console.request import ConsoleRequest, InvalidField, Page, Query, Routes, build_problem
from statewright.console.views.page import Problem, View
from statewright.jsonval.values import JsonObject

FILTERS: Final = (
    ("model", "Model", "order"),
    ("actor", "Who", ""),
    ("atFrom", "From", "2026-03-04T09:00:00Z"),
    ("atTo", "Before", ""),
)


class ChangeRow(Struct, frozen=True, kw_only=True):
    """One change. What is told of the version is empty where none is kept."""

    at: str
    actor: str
    entity: str
    transaction: str
    change: str
    model: str
    state: str
    transition: str


class ChangesView(Struct, frozen=True, kw_only=True):
    """A part of the list, with the address of the next one. ``scanned`` runs were looked at for it."""

    filters: tuple[Filter, ...]
    rows: tuple[ChangeRow, ...] = ()
    scanned: int = 0
    next: str | None = None
    first: str | None = None
    problem: Problem | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether anything was asked for."""
        return any(each.value for each in self.filters)


async def show_changes(request: ConsoleRequest) -> View:
    """Changes, newest first."""
    query = request.query
    wanted = {name: query.get(name).strip() or None for name, _, _ in FILTERS}
    for name in ("atFrom", "atTo"):
        if wanted[name] and get_instant({"at": wanted[name]}, "at") is None:
            raise InvalidField(name, "an instant such as 2026-03-04T09:00:00Z")
    page = {**wanted, "cursor": query.get("cursor") or None, "limit": query.size()}
    return view_changes(await request.call_one(build_ops_call("changes", query=page)), query)


def view_changes(reply: Reply, query: Query) -> View:
    """The list from the answer of the API; a refusal is shown in its place, so that the filters stay."""
    following = get_text(reply.document, "nextCursor")
    data = ChangesView(
        filters=tuple(Filter(name, label, example, query.get(name)) for name, label, example in FILTERS),
        rows=tuple(_view_change(item) for item in reply.items) if reply.is_ok else (),
        scanned=get_int(reply.document, "scanned"),
        next=query.change(cursor=following) if following else None,
        first=query.change(cursor=None) or "?" if query.get("cursor") else None,
        problem=None if reply.is_ok else build_problem(reply),
    )
    return View(title="Changes of entities", data=data)


def _view_change(item: JsonObject) -> ChangeRow:
    model = get_object(item, "model")
    return ChangeRow(
        at=get_text(item, "at"),
        actor=get_text(get_object(item, "attributedTo"), "id"),
        entity=get_text(item, "entityId"),
        transaction=get_text(item, "transactionId"),
        change=get_text(item, "changeType").lower(),
        model=f"{get_text(model, 'name')}/{get_int(model, 'version')}" if model else "",
        state=get_text(item, "state"),
        transition=get_text(item, "transition"),
    )


ROUTES: Final[Routes] = (Page(name="changes", path="/console/audit/changes", show=show_changes),)
