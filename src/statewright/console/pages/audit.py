"""What operators and administrators have done (docs/console.md#pages)."""

from typing import Final

from msgspec import Struct

from statewright.console.calls import Reply, build_ops_call, get_instant, get_object, get_text
from statewright.console.request import (
    OPERATOR,
    ConsoleRequest,
    InvalidField,
    Navigation,
    Page,
    Query,
    Routes,
    build_problem,
)
from statewright.console.views.page import Download, Problem, View, encode_segment
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject

MAX_EXPORTED: Final = 1000
FILTERS: Final = (
    ("action", "Act", "entity.restore"),
    ("actor", "Who", ""),
    ("targetKind", "Kind of target", "ENTITY"),
    ("targetId", "Id of target", ""),
    ("atFrom", "From", "2026-03-04T09:00:00Z"),
    ("atTo", "Before", ""),
)
_PLACES: Final = {"ENTITY": "/console/entities/{id}", "INCIDENT": "/console/incidents/{id}"}


class ActRow(Struct, frozen=True, kw_only=True):
    """One act. ``href`` leads to what it was done to, if there is a page of that."""

    at: str
    actor: str
    action: str
    target_kind: str
    target: str
    href: str
    reason: str
    details: str
    trace: str


class Filter(Struct, frozen=True):
    """A field above the list."""

    name: str
    label: str
    example: str
    value: str


class AuditView(Struct, frozen=True, kw_only=True):
    """The list, with the addresses of the next page and of the file."""

    filters: tuple[Filter, ...]
    rows: tuple[ActRow, ...] = ()
    next: str | None = None
    first: str | None = None
    export: str = ""
    problem: Problem | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether anything was asked for."""
        return any(each.value for each in self.filters)


async def show_audit(request: ConsoleRequest) -> View:
    """Acts, newest first, or a file of them."""
    query = request.query
    wanted = {name: query.get(name).strip() or None for name, _, _ in FILTERS}
    for name in ("atFrom", "atTo"):
        if wanted[name] and get_instant({"at": wanted[name]}, "at") is None:
            raise InvalidField(name, "an instant such as 2026-03-04T09:00:00Z")
    if query.get("export"):
        reply = await request.call_one(build_ops_call("audit", query={**wanted, "limit": MAX_EXPORTED}))
        return build_export(reply.require())
    page = {**wanted, "cursor": query.get("cursor") or None, "limit": query.size()}
    reply = await request.call_one(build_ops_call("audit", query=page))
    return view_audit(reply, query, request.page_paths)


def view_audit(reply: Reply, query: Query, page_paths: frozenset[str]) -> View:
    """The list from the answer of the API; a refusal is shown in its place, so that the filters stay."""
    following = get_text(reply.document, "nextCursor")
    data = AuditView(
        filters=tuple(Filter(name, label, example, query.get(name)) for name, label, example in FILTERS),
        rows=tuple(_view_act(item, page_paths) for item in reply.items) if reply.is_ok else (),
        next=query.change(cursor=following) if following else None,
        first=query.change(cursor=None) or "?" if query.get("cursor") else None,
        export=query.change(cursor=None, export="ndjson"),
        problem=None if reply.is_ok else build_problem(reply),
    )
    return View(title="Audit", data=data)


def build_export(reply: Reply) -> View:
    """The acts as lines of JSON, as the API gave them."""
    lines = b"".join(encode(item) + b"\n" for item in reply.items)
    return View(download=Download("audit.ndjson", lines, "application/x-ndjson"))


def _view_act(item: JsonObject, page_paths: frozenset[str]) -> ActRow:
    target = get_object(item, "target")
    kind, target_id = get_text(target, "kind"), get_text(target, "id")
    place = _PLACES.get(kind, "")
    return ActRow(
        at=get_text(item, "at"),
        actor=get_text(get_object(item, "actor"), "id"),
        action=get_text(item, "action"),
        target_kind=kind,
        target=target_id,
        href=place.replace("{id}", encode_segment(target_id)) if place in page_paths else "",
        reason=get_text(item, "reason"),
        details=", ".join(f"{name} {value}" for name, value in get_object(item, "details").items()),
        trace=get_text(item, "traceId"),
    )


ROUTES: Final[Routes] = (
    Page(
        name="audit",
        path="/console/audit",
        show=show_audit,
        navigation=Navigation("System", "Audit", "a", role=OPERATOR),
    ),
)
