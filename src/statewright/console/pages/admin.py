"""Nodes, settings, retention, clients, and keys and providers of tokens (docs/console.md#pages)."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import (
    ApiCall,
    Reply,
    build_entity_call,
    build_ops_call,
)
from statewright.console.request import ADMIN, Navigation, Page, PageContext, Routes, build_problem
from statewright.console.views.page import Crumb, Problem, View
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.entity_answers import LogLevel
from statewright.operations.identity_answers import MachineClient, RegisteredKey, RegisteredProvider, SigningKeyPair
from statewright.operations.service import Setting
from statewright.operations.work import ServiceNode

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

    of: "Listing"
    tabs: tuple[Tab, ...]
    rows: tuple[Row, ...] = ()
    problem: Problem | None = None
    level: str = ""
    """The log level of the process that answered; empty: not to be seen."""


class Listing(Struct, frozen=True, kw_only=True):
    """How a page of the area is made: a call, and a row of each item."""

    name: str
    path: str
    heading: str
    calls: tuple[ApiCall, ...]
    columns: tuple[str, ...]
    view: Callable[[Reply], Iterable[Row]]
    """The rows of an answer."""
    empty: str
    note: str = ""
    join: Callable[[tuple[Reply, ...]], Reply] = lambda replies: replies[0]
    """One answer of those to all calls."""


def _view_node(node: ServiceNode) -> Row:
    return Row(
        id=node.id,
        cells=(
            Cell(node.name or node.id),
            Cell("draining", "warn") if node.draining else Cell("up", "ok"),
            Cell(node.version),
            Cell(str(node.members)),
            Cell(node.started_at, "time"),
            Cell(node.lease_until, "time"),
        ),
    )


def _view_setting(setting: Setting) -> Row:
    return Row(
        id=setting.name,
        cells=(
            Cell(setting.name, "code"),
            Cell(setting.value or "not set", "code" if setting.value else "off"),
            Cell(setting.variable or "default", "code" if setting.variable else "off"),
            Cell(setting.section),
            Cell(setting.meaning.replace("`", "")),
        ),
    )


def _view_client(client: MachineClient) -> Row:
    return Row(
        id=client.client_id,
        cells=(
            Cell(client.client_id),
            Cell(", ".join(client.roles) or "none"),
            Cell(client.creation_date, "time"),
            Cell(client.last_update_date, "time"),
        ),
        acts=(RowAct("rotate_client_secret", "Rotate secret"), RowAct("delete_client", "Delete")),
    )


def _view_provider(provider: RegisteredProvider) -> Row:
    return Row(
        id=provider.id,
        cells=(
            Cell(provider.well_known_config_uri),
            _view_active(provider.active),
            Cell(provider.id, "code"),
            Cell(", ".join(provider.expected_audiences) or "any"),
            Cell(provider.created_at, "time"),
        ),
        acts=_list_acts("provider", provider.active),
    )


class AudiencePair(SigningKeyPair, frozen=True, kw_only=True):
    """A pair that signs, with the audience that it was asked for."""

    audience: str


def _view_pair(pair: AudiencePair) -> Row:
    acts = (RowAct("invalidate_key_pair", "Invalidate"), RowAct("delete_key_pair", "Delete"))
    return _view_key(pair, (Cell(pair.audience), Cell(pair.algorithm)), acts)


def _view_trusted(key: RegisteredKey) -> Row:
    return _view_key(key, (_view_active(key.active), Cell(key.audience)), _list_acts("trusted_key", key.active))


def _view_key(key: SigningKeyPair | RegisteredKey, cells: tuple[Cell, ...], acts: tuple[RowAct, ...]) -> Row:
    times = (Cell(key.valid_from, "time"), Cell(key.valid_to, "time"))
    return Row(id=key.key_id, cells=(Cell(key.key_id, "code"), *cells, *times), acts=acts)


def _view_active(is_active: bool) -> Cell:
    return Cell("active", "ok") if is_active else Cell("invalidated", "off")


def _list_acts(kind: str, is_active: bool) -> tuple[RowAct, ...]:
    """What can be done with what can be invalidated."""
    switch = RowAct(f"invalidate_{kind}", "Invalidate") if is_active else RowAct(f"reactivate_{kind}", "Reactivate")
    return switch, RowAct(f"delete_{kind}", "Delete")


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


SETTINGS: Final = Listing(
    name="admin_settings",
    path=f"{ROOT}/settings",
    heading="Settings",
    calls=(build_ops_call("settings"),),
    columns=("Setting", "Value", "From", "Section", "Meaning"),
    view=lambda reply: map(_view_setting, reply.read_items(Setting)),
    empty="There is no setting.",
    note="They are environment variables of the node that answered, and are read at its start. Secrets are masked.",
)
LISTINGS: Final = (
    Listing(
        name="admin",
        path=ROOT,
        heading="Nodes",
        calls=(build_ops_call("nodes", query={"limit": MAX_NODES}),),
        columns=("Node", "State", "Version", "Members", "Started", "Alive until"),
        view=lambda reply: map(_view_node, reply.read_items(ServiceNode)),
        empty="No node is alive.",
    ),
    SETTINGS,
    replace(
        SETTINGS,
        name="admin_retention",
        path=f"{ROOT}/retention",
        heading="Retention",
        view=lambda reply: (_view_setting(each) for each in reply.read_items(Setting) if "retention" in each.name),
        empty="No setting says how long anything is kept.",
        note="",
    ),
    Listing(
        name="admin_signing_keys",
        path=f"{ROOT}/signing-keys",
        heading="Signing keys",
        calls=tuple(
            build_entity_call("oauth", "keys", "keypair", "current", query={"audience": each}) for each in AUDIENCES
        ),
        columns=("Key", "Audience", "Algorithm", "Valid from", "Valid to"),
        view=lambda reply: map(_view_pair, reply.read_items(AudiencePair)),
        empty="No key pair is active: no token can be signed.",
        note="The pair of each audience that signs now. The API lists no others: one that was invalidated verifies "
        "until its grace is over.",
        join=_join_key_pairs,
    ),
    Listing(
        name="admin_clients",
        path=f"{ROOT}/clients",
        heading="Clients",
        calls=(build_entity_call("clients"),),
        columns=("Client", "Roles", "Created", "Changed"),
        view=lambda reply: map(_view_client, reply.read_items(MachineClient)),
        empty="There is no client of this tenant.",
    ),
    Listing(
        name="admin_providers",
        path=f"{ROOT}/providers",
        heading="Identity providers",
        calls=(build_entity_call("oauth", "oidc", "providers"),),
        columns=("Discovery document", "State", "Id", "Audiences", "Registered"),
        view=lambda reply: map(_view_provider, reply.read_items(RegisteredProvider)),
        empty="No identity provider is registered: only tokens of this service count.",
    ),
    Listing(
        name="admin_trusted_keys",
        path=f"{ROOT}/trusted-keys",
        heading="Trusted keys",
        calls=(build_entity_call("oauth", "keys", "trusted"),),
        columns=("Key", "State", "Audience", "Valid from", "Valid to"),
        view=lambda reply: map(_view_trusted, reply.read_items(RegisteredKey)),
        empty="No key of others is trusted.",
    ),
)


def view_listing(listing: Listing, reply: Reply, level: Reply | None = None) -> View:
    """A page from the answer of the API; a refusal stands in place of the table."""
    problem = None if reply.is_ok else build_problem(reply, retry=listing.path)
    if problem is not None and reply.status == NOT_IMPLEMENTED:
        problem = Problem(status=reply.status, title="Not in mock mode", detail=JWT_ONLY, code=problem.code)
    told = None if level is None else level.read_if_ok(LogLevel)
    data = AdminView(
        of=listing,
        tabs=tuple(Tab(each.path, each.heading, each is listing) for each in LISTINGS),
        rows=tuple(listing.view(reply)) if reply.is_ok else (),
        problem=problem,
        level="" if told is None else told.level,
    )
    crumbs = () if listing.path == ROOT else (CRUMB,)
    return View(title=listing.heading, data=data, template="pages/admin.html", crumbs=crumbs)


def _build_show(listing: Listing) -> Callable[[PageContext], Awaitable[View]]:
    async def show(request: PageContext) -> View:
        calls = listing.calls
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
