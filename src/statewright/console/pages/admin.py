"""Nodes, settings, retention, clients, and keys and providers of tokens (docs/console.md#pages)."""

from collections.abc import Awaitable, Callable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import (
    ApiCall,
    Reply,
    build_entity_call,
    build_ops_call,
    get_flag,
    get_int,
    get_text,
    get_texts,
)
from statewright.console.request import ADMIN, ConsoleRequest, Navigation, Page, Routes, build_problem
from statewright.console.views.page import Crumb, Problem, View
from statewright.jsonval.values import JsonObject, JsonValue

ROOT: Final = "/console/admin"
CRUMB: Final = Crumb("Admin", ROOT)
LEVELS: Final = ("debug", "info", "warn", "error")
NOT_FOUND: Final = 404
NOT_IMPLEMENTED: Final = 501
AUDIENCES: Final = ("client", "human")
MAX_NODES: Final = 1000
JWT_ONLY: Final = (
    "It needs jwt mode: start the service with STATEWRIGHT_IAM_MODE=jwt and a STATEWRIGHT_JWT_SIGNING_KEY."
)

CellKind = Literal["text", "code", "time", "ok", "off", "warn"]


class Cell(Struct, frozen=True):
    """A value in a table; ``kind`` says how it is written."""

    text: str
    kind: CellKind = "text"


class RowAct(Struct, frozen=True):
    """A button of a row, which leads to the question whether it is to be done."""

    action: str
    label: str


class Row(Struct, frozen=True, kw_only=True):
    """A line of a table."""

    id: str
    cells: tuple[Cell, ...]
    acts: tuple[RowAct, ...] = ()


class Tab(Struct, frozen=True):
    """A page of the area."""

    href: str
    label: str
    is_current: bool


class AdminView(Struct, frozen=True, kw_only=True):
    """One page of the area: a table, or why there is none."""

    name: str
    heading: str
    tabs: tuple[Tab, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...] = ()
    problem: Problem | None = None
    empty: str = ""
    note: str = ""
    level: str = ""
    """The log level of the process that answered; empty: not to be seen."""


class Listing(Struct, frozen=True, kw_only=True):
    """How a page of the area is made: a call, and a row of each item."""

    name: str
    path: str
    heading: str
    calls: Callable[[], tuple[ApiCall, ...]]
    columns: tuple[str, ...]
    view_row: Callable[[JsonObject], Row]
    empty: str
    note: str = ""
    join: Callable[[tuple[Reply, ...]], Reply] = lambda replies: replies[0]
    """One answer of those to all calls."""


def _view_node(item: JsonObject) -> Row:
    state = Cell("draining", "warn") if get_flag(item, "draining") else Cell("up", "ok")
    return Row(
        id=get_text(item, "id"),
        cells=(
            Cell(get_text(item, "name") or get_text(item, "id")),
            state,
            Cell(get_text(item, "version")),
            Cell(str(get_int(item, "members"))),
            Cell(get_text(item, "startedAt"), "time"),
            Cell(get_text(item, "leaseUntil"), "time"),
        ),
    )


def _view_setting(item: JsonObject) -> Row:
    value, variable = item.get("value"), get_text(item, "variable")
    shown = "" if value is None else value if isinstance(value, str) else str(value)
    return Row(
        id=get_text(item, "name"),
        cells=(
            Cell(get_text(item, "name"), "code"),
            Cell(shown or "not set", "code" if shown else "off"),
            Cell(variable or "default", "code" if variable else "off"),
            Cell(get_text(item, "section")),
            Cell(get_text(item, "meaning").replace("`", "")),
        ),
    )


def _view_client(item: JsonObject) -> Row:
    return Row(
        id=get_text(item, "clientId"),
        cells=(
            Cell(get_text(item, "clientId")),
            Cell(", ".join(get_texts(item, "roles")) or "none"),
            Cell(get_text(item, "creationDate"), "time"),
            Cell(get_text(item, "lastUpdateDate"), "time"),
        ),
        acts=(RowAct("rotate_client_secret", "Rotate secret"), RowAct("delete_client", "Delete")),
    )


def _view_provider(item: JsonObject) -> Row:
    is_active = get_flag(item, "active")
    return Row(
        id=get_text(item, "id"),
        cells=(
            Cell(get_text(item, "wellKnownConfigUri")),
            Cell("active", "ok") if is_active else Cell("invalidated", "off"),
            Cell(get_text(item, "id"), "code"),
            Cell(", ".join(get_texts(item, "expectedAudiences")) or "any"),
            Cell(get_text(item, "createdAt"), "time"),
        ),
        acts=(
            RowAct("invalidate_provider", "Invalidate") if is_active else RowAct("reactivate_provider", "Reactivate"),
            RowAct("delete_provider", "Delete"),
        ),
    )


def _view_trusted_key(item: JsonObject) -> Row:
    is_active = get_flag(item, "active")
    return Row(
        id=get_text(item, "keyId"),
        cells=(
            Cell(get_text(item, "keyId"), "code"),
            Cell("active", "ok") if is_active else Cell("invalidated", "off"),
            Cell(get_text(item, "audience")),
            Cell(get_text(item, "validFrom"), "time"),
            Cell(get_text(item, "validTo"), "time"),
        ),
        acts=(
            RowAct("invalidate_trusted_key", "Invalidate")
            if is_active
            else RowAct("reactivate_trusted_key", "Reactivate"),
            RowAct("delete_trusted_key", "Delete"),
        ),
    )


def _view_key_pair(item: JsonObject) -> Row:
    return Row(
        id=get_text(item, "keyId"),
        cells=(
            Cell(get_text(item, "keyId"), "code"),
            Cell(get_text(item, "audience")),
            Cell(get_text(item, "algorithm")),
            Cell(get_text(item, "validFrom"), "time"),
            Cell(get_text(item, "validTo"), "time"),
        ),
        acts=(RowAct("invalidate_key_pair", "Invalidate"), RowAct("delete_key_pair", "Delete")),
    )


def _join_key_pairs(replies: tuple[Reply, ...]) -> Reply:
    """The pairs that sign, with their audiences; an audience without one is no failure."""
    failed = next((each for each in replies if not each.is_ok and each.status != NOT_FOUND), None)
    if failed is not None:
        return failed
    pairs: list[JsonValue] = []
    for audience, reply in zip(AUDIENCES, replies, strict=True):
        if reply.is_ok:
            pair: JsonObject = dict(reply.document)
            pair["audience"] = audience
            pairs.append(pair)
    return replace(replies[0], status=200, value=pairs)


def _keep_retention(replies: tuple[Reply, ...]) -> Reply:
    """Of all settings those that say how long something is kept."""
    [reply] = replies
    kept: list[JsonValue] = [item for item in reply.items if "retention" in get_text(item, "name")]
    return replace(reply, value=kept) if reply.is_ok else reply


LISTINGS: Final = (
    Listing(
        name="admin",
        path=ROOT,
        heading="Nodes",
        calls=lambda: (build_ops_call("nodes", query={"limit": MAX_NODES}),),
        columns=("Node", "State", "Version", "Members", "Started", "Alive until"),
        view_row=_view_node,
        empty="No node is alive.",
    ),
    Listing(
        name="admin_settings",
        path=f"{ROOT}/settings",
        heading="Settings",
        calls=lambda: (build_ops_call("settings"),),
        columns=("Setting", "Value", "From", "Section", "Meaning"),
        view_row=_view_setting,
        empty="There is no setting.",
        note="They are environment variables of the node that answered, and are read at its start. Secrets are masked.",
    ),
    Listing(
        name="admin_retention",
        path=f"{ROOT}/retention",
        heading="Retention",
        calls=lambda: (build_ops_call("settings"),),
        columns=("Setting", "Value", "From", "Section", "Meaning"),
        view_row=_view_setting,
        empty="No setting says how long anything is kept.",
        join=_keep_retention,
    ),
    Listing(
        name="admin_signing_keys",
        path=f"{ROOT}/signing-keys",
        heading="Signing keys",
        calls=lambda: tuple(
            build_entity_call("oauth", "keys", "keypair", "current", query={"audience": each}) for each in AUDIENCES
        ),
        columns=("Key", "Audience", "Algorithm", "Valid from", "Valid to"),
        view_row=_view_key_pair,
        empty="No key pair is active: no token can be signed.",
        note="The pair of each audience that signs now. The API lists no others: one that was invalidated verifies "
        "until its grace is over.",
        join=_join_key_pairs,
    ),
    Listing(
        name="admin_clients",
        path=f"{ROOT}/clients",
        heading="Clients",
        calls=lambda: (build_entity_call("clients"),),
        columns=("Client", "Roles", "Created", "Changed"),
        view_row=_view_client,
        empty="There is no client of this tenant.",
    ),
    Listing(
        name="admin_providers",
        path=f"{ROOT}/providers",
        heading="Identity providers",
        calls=lambda: (build_entity_call("oauth", "oidc", "providers"),),
        columns=("Discovery document", "State", "Id", "Audiences", "Registered"),
        view_row=_view_provider,
        empty="No identity provider is registered: only tokens of this service count.",
    ),
    Listing(
        name="admin_trusted_keys",
        path=f"{ROOT}/trusted-keys",
        heading="Trusted keys",
        calls=lambda: (build_entity_call("oauth", "keys", "trusted"),),
        columns=("Key", "State", "Audience", "Valid from", "Valid to"),
        view_row=_view_trusted_key,
        empty="No key of others is trusted.",
    ),
)


def view_listing(listing: Listing, reply: Reply, level: Reply | None = None) -> View:
    """A page from the answer of the API; a refusal stands in place of the table."""
    problem = None if reply.is_ok else build_problem(reply, retry=listing.path)
    if problem is not None and reply.status == NOT_IMPLEMENTED:
        problem = Problem(status=reply.status, title="Not in mock mode", detail=JWT_ONLY, code=problem.code)
    data = AdminView(
        name=listing.name,
        heading=listing.heading,
        tabs=tuple(Tab(each.path, each.heading, each is listing) for each in LISTINGS),
        columns=listing.columns,
        rows=tuple(listing.view_row(item) for item in reply.items) if reply.is_ok else (),
        problem=problem,
        empty=listing.empty,
        note=listing.note,
        level=get_text(level.document, "level") if level is not None and level.is_ok else "",
    )
    crumbs = () if listing.path == ROOT else (CRUMB,)
    return View(title=listing.heading, data=data, template="pages/admin.html", crumbs=crumbs)


def _build_show(listing: Listing) -> Callable[[ConsoleRequest], Awaitable[View]]:
    async def show(request: ConsoleRequest) -> View:
        calls = listing.calls()
        if listing.path != ROOT:
            return view_listing(listing, listing.join(await request.call(*calls)))
        nodes, level = await request.call(*calls, build_entity_call("admin", "log-level"))
        return view_listing(listing, nodes, level)

    return show


ROUTES: Final[Routes] = tuple(
    Page(
        name=listing.name,
        path=listing.path,
        show=_build_show(listing),
        navigation=Navigation("System", "Admin", role=ADMIN) if listing.path == ROOT else None,
    )
    for listing in LISTINGS
)
