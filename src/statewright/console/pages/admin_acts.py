"""What administrators do to clients, providers, trusted keys and the log level; each is one call of the API."""

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Method, Reply, build_entity_call, get_text, get_texts
from statewright.console.pages.admin import CRUMB, LEVELS, ROOT
from statewright.console.request import ADMIN, Action, ConsoleRequest, Form, Routes
from statewright.console.views.page import Confirmation, View
from statewright.jsonval.codec import encode

CLIENTS: Final = f"{ROOT}/clients"
PROVIDERS: Final = f"{ROOT}/providers"
TRUSTED_KEYS: Final = f"{ROOT}/trusted-keys"


class SecretView(Struct, frozen=True, kw_only=True):
    """A client with its secret, shown once and kept nowhere."""

    client_id: str
    secret: str
    roles: tuple[str, ...]
    back: str = CLIENTS


def _build_client(form: Form) -> ApiCall:
    with_admin = form.get("withAdminRole") == "true"
    return build_entity_call("clients", method="POST", query={"withAdminRole": with_admin or None})


def _build_provider(form: Form) -> ApiCall:
    members = {"wellKnownConfigUri": form.require("uri").strip()}
    audience = form.get("audience").strip()
    body = encode({**members, "expectedAudiences": [audience]} if audience else {**members})
    return build_entity_call("oauth", "oidc", "providers", method="POST", body=body)


def _build_level(form: Form) -> ApiCall:
    body = encode({"level": form.get_choice("level", LEVELS)})
    return build_entity_call("admin", "log-level", method="POST", body=body)


def build_on(*path: str, method: Method, end: tuple[str, ...] = ()) -> Callable[[Form], ApiCall]:
    """Builds the call on what has the ``id`` of the form."""

    def build(form: Form) -> ApiCall:
        return build_entity_call(*path, form.require("id"), *end, method=method)

    return build


def ask_about(question: str, back: str, *details: str) -> Callable[[ConsoleRequest, Form], Awaitable[Confirmation]]:
    """Asks a question about what has the ``id`` of the form."""

    async def confirm(_request: ConsoleRequest, form: Form) -> Confirmation:
        return Confirmation(question=question.format(id=form.require("id")), details=details, back=back)

    return confirm


async def _show_secret(_request: ConsoleRequest, _form: Form, reply: Reply) -> View | None:
    if not reply.is_ok:
        return None
    secret = get_text(reply.document, "client_secret")
    data = SecretView(
        client_id=get_text(reply.document, "client_id"), secret=secret, roles=tuple(get_texts(reply.document, "roles"))
    )
    return View(title="Secret of a client", data=data, template="pages/client_secret.html", crumbs=(CRUMB,))


def lead_to(path: str) -> Callable[[Form, Reply], str]:
    """Leads to the same page, whatever was done."""
    return lambda _form, _reply: path


ROUTES: Final[Routes] = (
    Action(
        name="create_client",
        label="Create client",
        build=_build_client,
        follow=lead_to(CLIENTS),
        show=_show_secret,
        role=ADMIN,
    ),
    Action(
        name="rotate_client_secret",
        label="Rotate secret",
        build=build_on("clients", method="PUT", end=("secret",)),
        follow=lead_to(CLIENTS),
        show=_show_secret,
        confirm=ask_about(
            "Give client {id} another secret?", CLIENTS, "The one it has gets no more tokens from now on."
        ),
        role=ADMIN,
        is_dangerous=True,
    ),
    Action(
        name="delete_client",
        label="Delete client",
        build=build_on("clients", method="DELETE"),
        follow=lead_to(CLIENTS),
        confirm=ask_about("Delete client {id}?", CLIENTS, "Its tokens stay valid until they expire."),
        role=ADMIN,
        is_dangerous=True,
    ),
    Action(
        name="register_provider",
        label="Register provider",
        build=_build_provider,
        follow=lead_to(PROVIDERS),
        role=ADMIN,
    ),
    Action(
        name="invalidate_provider",
        label="Invalidate provider",
        build=build_on("oauth", "oidc", "providers", method="POST", end=("invalidate",)),
        follow=lead_to(PROVIDERS),
        confirm=ask_about("Invalidate provider {id}?", PROVIDERS, "None of its tokens counts until it is reactivated."),
        role=ADMIN,
        is_dangerous=True,
    ),
    Action(
        name="reactivate_provider",
        label="Reactivate provider",
        build=build_on("oauth", "oidc", "providers", method="POST", end=("reactivate",)),
        follow=lead_to(PROVIDERS),
        confirm=ask_about("Reactivate provider {id}?", PROVIDERS, "Its tokens count again."),
        role=ADMIN,
    ),
    Action(
        name="delete_provider",
        label="Delete provider",
        build=build_on("oauth", "oidc", "providers", method="DELETE"),
        follow=lead_to(PROVIDERS),
        confirm=ask_about("Delete provider {id}?", PROVIDERS, "None of its tokens counts any more."),
        role=ADMIN,
        is_dangerous=True,
    ),
    Action(
        name="reload_providers",
        label="Fetch keys again",
        build=lambda _form: build_entity_call("oauth", "oidc", "providers", "reload", method="POST"),
        follow=lead_to(PROVIDERS),
        role=ADMIN,
    ),
    Action(
        name="invalidate_trusted_key",
        label="Invalidate trusted key",
        build=build_on("oauth", "keys", "trusted", method="POST", end=("invalidate",)),
        follow=lead_to(TRUSTED_KEYS),
        confirm=ask_about("Invalidate trusted key {id}?", TRUSTED_KEYS, "What it has signed counts no more."),
        role=ADMIN,
        is_dangerous=True,
    ),
    Action(
        name="delete_trusted_key",
        label="Delete trusted key",
        build=build_on("oauth", "keys", "trusted", method="DELETE"),
        follow=lead_to(TRUSTED_KEYS),
        confirm=ask_about("Delete trusted key {id}?", TRUSTED_KEYS, "What it has signed counts no more."),
        role=ADMIN,
        is_dangerous=True,
    ),
    Action(name="set_log_level", label="Set log level", build=_build_level, follow=lead_to(ROOT), role=ADMIN),
)
