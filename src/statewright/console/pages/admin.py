"""Nodes, settings, retention, clients, and keys and providers of tokens; what administrators do to them and to the
history of models is one call of the API each (docs/console.md#pages).
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.acts import ask, lead_to, read_json, read_text, send
from statewright.console.calls import (
    ApiCall,
    Method,
    Reply,
    build_entity_call,
    build_ops_call,
)
from statewright.console.pages.model import read_form_key
from statewright.console.request import (
    ADMIN,
    Action,
    Form,
    InvalidField,
    Navigation,
    Page,
    PageContext,
    Routes,
    build_problem,
)
from statewright.console.views.page import Choice, Confirmation, Crumb, Problem, View
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.entity_answers import LogLevel, Pruning
from statewright.operations.identity_answers import (
    GRANTS,
    ClientCredentials,
    MachineClient,
    RegisteredKey,
    RegisteredProvider,
    SigningKeyPair,
)
from statewright.operations.queues import ServiceNode
from statewright.operations.service import Setting

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
            Cell((provider.keys and provider.keys.problem) or "none"),
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
        calls=(build_entity_call("oauth", "oidc", "providers", query={"withKeys": "true"}),),
        columns=("Discovery document", "State", "Id", "Audiences", "Problem", "Registered"),
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


CLIENTS: Final = f"{ROOT}/clients"
PROVIDERS: Final = f"{ROOT}/providers"
TRUSTED_KEYS: Final = f"{ROOT}/trusted-keys"
SIGNING_KEYS: Final = f"{ROOT}/signing-keys"
RETENTION: Final = f"{ROOT}/retention"
PRUNE_TIMEOUT_S: Final = 30.0
"""The API removes versions for some seconds, and says whether that was all."""
DAY_CHARS: Final = 10
DAY_US: Final = 86_400_000_000
GRACES: Final = (
    ("0", "end at once"),
    ("3600", "count for another hour"),
    ("86400", "count for another day"),
    ("604800", "count for another week"),
)
"""Seconds for which what a pair has signed still counts, and what they are called."""
PERIODS: Final = ((30, "30 days"), (365, "365 days"), (7, "7 days"))


class PrunedView(Struct, frozen=True, kw_only=True):
    """What was removed, and the form to go on with."""

    model: str
    older_than: str
    told: Pruning
    fields: tuple[tuple[str, str], ...]


def _build_client(form: Form) -> ApiCall:
    granted = {grant.parameter: form.get(grant.parameter) == "true" or None for grant in GRANTS}
    return build_entity_call("clients", method="POST", query=granted)


async def _show_secret(_context: PageContext, _form: Form, reply: Reply) -> View | None:
    if not reply.is_ok:
        return None
    data = reply.read(ClientCredentials)
    return View(title="Secret of a client", data=data, template="pages/client_secret.html", crumbs=(CRUMB,))


def _write_provider(form: Form) -> bytes:
    members = {"wellKnownConfigUri": form.require("uri").strip()}
    audience = form.get("audience").strip()
    return encode({**members, "expectedAudiences": [audience]} if audience else {**members})


def _read_grace(form: Form) -> int:
    return int(form.get_choice("grace", tuple(value for value, _ in GRACES)))


def _read_end(form: Form) -> JsonObject:
    """When a validity ends, by the day of the form; nothing where none was chosen. Raises ``InvalidField``."""
    day = form.get("until").strip()
    if not day:
        return {}
    end = f"{day}T00:00:00Z"
    if len(day) != DAY_CHARS or from_rfc3339(end) is None:
        raise InvalidField("until", "is a day such as 2031-12-31")
    return {"validTo": end}


def _write_pair(form: Form) -> bytes:
    body: JsonObject = {"algorithm": "RS256", "audience": form.get_choice("audience", AUDIENCES), **_read_end(form)}
    if form.get("invalidateCurrent"):
        body |= {"invalidateCurrent": True, "invalidateGracePeriodSec": _read_grace(form)}
    return encode(body)


def _write_trusted_key(form: Form) -> bytes:
    jwk = decode(read_json(form, "jwk"))
    if not isinstance(jwk, dict):
        raise InvalidField("jwk", "is no JSON object")
    body: JsonObject = {
        "keyId": form.require("keyId").strip(),
        "jwk": jwk,
        "audience": form.get_choice("audience", AUDIENCES),
        **_read_end(form),
    }
    issuers = [each.strip() for each in form.get("issuers").split(",") if each.strip()]
    if issuers:
        body["issuers"] = [*issuers]
    return encode(body)


async def _confirm_reactivation(context: PageContext, form: Form) -> Confirmation:
    ends = tuple((to_rfc3339(context.now + days * DAY_US), says) for days, says in PERIODS)
    confirm = ask(
        "Trust key {id} again?",
        "What it has signed counts again.",
        back=TRUSTED_KEYS,
        choices=(Choice("validTo", "For", ends),),
    )
    return await confirm(context, form)


def _build_pruning(form: Form) -> ApiCall:
    path, query = ("model", *read_form_key(form), "history", "prune"), {"olderThan": form.require("olderThan").strip()}
    return build_entity_call(*path, method="POST", query=query, timeout_s=PRUNE_TIMEOUT_S)


async def _show_pruned(_context: PageContext, form: Form, reply: Reply) -> View | None:
    if not reply.is_ok:
        return None
    name, version = read_form_key(form)
    older_than = form.require("olderThan")
    data = PrunedView(
        model=f"{name}/{version}",
        older_than=older_than,
        told=reply.read(Pruning),
        fields=(("name", name), ("version", str(version)), ("olderThan", older_than)),
    )
    crumbs = (CRUMB, Crumb("Retention", RETENTION))
    return View(title="Versions removed", data=data, template="pages/pruned.html", crumbs=crumbs)


def _act_on(name: str, label: str, page: str, method: Method, path: str, detail: str) -> Action:
    """The act on what has the ``id`` of the form, which is asked about first."""
    confirm = ask(f"{label} {{id}}?", detail, back=page)
    return Action(name, label, send(method, path), lead_to(page), confirm, is_dangerous=True)


_PROVIDER: Final = "/oauth/oidc/providers/{id}"
_TRUSTED: Final = "/oauth/keys/trusted/{id}"
_PAIR: Final = "/oauth/keys/keypair/{id}"
_UNTIL: Final = "None of its tokens counts until it is reactivated."
_NO_MORE: Final = "What it has signed counts no more"
_ON: Final[tuple[tuple[str, str, str, Method, str, str], ...]] = (
    ("delete_client", "Delete client", CLIENTS, "DELETE", "/clients/{id}", "Its tokens stay valid until they expire."),
    ("invalidate_provider", "Invalidate provider", PROVIDERS, "POST", f"{_PROVIDER}/invalidate", _UNTIL),
    ("delete_provider", "Delete provider", PROVIDERS, "DELETE", _PROVIDER, "None of its tokens counts any more."),
    (
        "invalidate_trusted_key",
        "Invalidate trusted key",
        TRUSTED_KEYS,
        "POST",
        f"{_TRUSTED}/invalidate",
        f"{_NO_MORE}.",
    ),
    ("delete_trusted_key", "Delete trusted key", TRUSTED_KEYS, "DELETE", _TRUSTED, f"{_NO_MORE}."),
    ("delete_key_pair", "Delete key pair", SIGNING_KEYS, "DELETE", _PAIR, f"{_NO_MORE}, at once."),
)

_ACTIONS: Final = (
    *(_act_on(*row) for row in _ON),
    Action("create_client", "Create client", _build_client, lead_to(CLIENTS), show=_show_secret),
    Action(
        "rotate_client_secret",
        "Rotate secret",
        send("PUT", "/clients/{id}/secret"),
        lead_to(CLIENTS),
        ask("Give client {id} another secret?", "The one it has gets no more tokens from now on.", back=CLIENTS),
        show=_show_secret,
        is_dangerous=True,
    ),
    Action(
        "register_provider",
        "Register provider",
        send("POST", "/oauth/oidc/providers", _write_provider),
        lead_to(PROVIDERS),
    ),
    Action(
        "reactivate_provider",
        "Reactivate provider",
        send("POST", f"{_PROVIDER}/reactivate"),
        lead_to(PROVIDERS),
        ask("Reactivate provider {id}?", "Its tokens count again.", back=PROVIDERS),
    ),
    Action(
        "reload_providers",
        "Fetch keys again",
        send("POST", "/oauth/oidc/providers/reload"),
        lead_to(PROVIDERS),
    ),
    Action(
        "set_log_level",
        "Set log level",
        send("POST", "/admin/log-level", lambda form: encode({"level": form.get_choice("level", LEVELS)})),
        lead_to(ROOT),
    ),
    Action("issue_key_pair", "Issue key pair", send("POST", "/oauth/keys/keypair", _write_pair), lead_to(SIGNING_KEYS)),
    Action(
        "invalidate_key_pair",
        "Invalidate key pair",
        send("POST", f"{_PAIR}/invalidate", lambda form: encode({"gracePeriodSec": _read_grace(form)})),
        lead_to(SIGNING_KEYS),
        ask(
            "Invalidate key pair {id}?",
            "It signs no more tokens from now on.",
            back=SIGNING_KEYS,
            choices=(Choice("grace", "Tokens that it has signed", GRACES),),
        ),
        is_dangerous=True,
    ),
    Action(
        "register_trusted_key",
        "Trust key",
        send("POST", "/oauth/keys/trusted", _write_trusted_key),
        lead_to(TRUSTED_KEYS),
    ),
    Action(
        "reactivate_trusted_key",
        "Trust key again",
        send("POST", f"{_TRUSTED}/reactivate", {"validTo": read_text}),
        lead_to(TRUSTED_KEYS),
        _confirm_reactivation,
    ),
    Action(
        "prune_history",
        "Prune now",
        _build_pruning,
        lead_to(RETENTION),
        ask(
            lambda form: (
                "Remove versions of {}/{} that were superseded over ".format(*read_form_key(form))
                + f"{form.require('olderThan')} ago?"
            ),
            "They cannot be brought back. Present versions and the audit trail stay.",
            "How many there are is not known before: the API has no trial of it.",
            back=RETENTION,
        ),
        show=_show_pruned,
        is_dangerous=True,
    ),
)


ROUTES: Final[Routes] = (
    *(
        Page(
            name=listing.name,
            path=listing.path,
            show=_build_show(listing),
            navigation=Navigation("System", "Admin", role=ADMIN) if listing.path == ROOT else None,
        )
        for listing in LISTINGS
    ),
    *(replace(each, role=ADMIN) for each in _ACTIONS),
)
