"""What administrators do to clients, providers, keys, the log level and the history of models; each is one call of the
API (docs/console.md#pages).
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.acts import ask, lead_to, read_json, read_text, send
from statewright.console.calls import ApiCall, Method, Reply, build_entity_call
from statewright.console.pages.admin import AUDIENCES, CRUMB, LEVELS, ROOT
from statewright.console.pages.model_acts import read_form_key
from statewright.console.request import ADMIN, Action, Form, InvalidField, PageContext, Routes
from statewright.console.views.page import Choice, Confirmation, Crumb, View
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject
from statewright.operations.entity_answers import Pruning
from statewright.operations.identity_answers import ClientCredentials

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
    with_admin = form.get("withAdminRole") == "true"
    return build_entity_call("clients", method="POST", query={"withAdminRole": with_admin or None})


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
ROUTES: Final[Routes] = tuple(replace(each, role=ADMIN) for each in _ACTIONS)
