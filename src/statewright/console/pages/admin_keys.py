"""What administrators do to pairs that sign tokens, and to trusted keys of others (docs/console.md#pages)."""

from typing import Final

from statewright.console.acts import read_json
from statewright.console.calls import ApiCall, build_entity_call
from statewright.console.pages.admin import AUDIENCES, ROOT
from statewright.console.pages.admin_acts import TRUSTED_KEYS, ask_about, build_on, lead_to
from statewright.console.request import ADMIN, Action, ConsoleRequest, Form, InvalidField, Routes
from statewright.console.views.page import Choice, Confirmation
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject

SIGNING_KEYS: Final = f"{ROOT}/signing-keys"
DAY_CHARS: Final = 10
DAY_US: Final = 86_400_000_000
GRACES: Final = (
    ("0", "end at once"),
    ("3600", "count for another hour"),
    ("86400", "count for another day"),
    ("604800", "count for another week"),
)
"""Seconds for which what a pair has signed still counts, and what they are called."""


def _read_grace(form: Form) -> int:
    return int(form.get_choice("grace", tuple(value for value, _ in GRACES)))


def _read_end(form: Form) -> str | None:
    """When a validity ends, by the day of the form; None where none was chosen. Raises ``InvalidField``."""
    day = form.get("until").strip()
    if not day:
        return None
    end = f"{day}T00:00:00Z"
    if len(day) != DAY_CHARS or from_rfc3339(end) is None:
        raise InvalidField("until", "is a day such as 2031-12-31")
    return end


def _build_pair(form: Form) -> ApiCall:
    body: JsonObject = {"algorithm": "RS256", "audience": form.get_choice("audience", AUDIENCES)}
    end = _read_end(form)
    if end is not None:
        body["validTo"] = end
    if form.get("invalidateCurrent"):
        body["invalidateCurrent"] = True
        body["invalidateGracePeriodSec"] = _read_grace(form)
    return build_entity_call("oauth", "keys", "keypair", method="POST", body=encode(body))


def _build_invalidation(form: Form) -> ApiCall:
    body = encode({"gracePeriodSec": _read_grace(form)})
    return build_entity_call("oauth", "keys", "keypair", form.require("id"), "invalidate", method="POST", body=body)


async def _confirm_invalidation(_request: ConsoleRequest, form: Form) -> Confirmation:
    return Confirmation(
        question=f"Invalidate key pair {form.require('id')}?",
        details=("It signs no more tokens from now on.",),
        back=SIGNING_KEYS,
        choices=(Choice("grace", "Tokens that it has signed", GRACES),),
    )


def _build_registration(form: Form) -> ApiCall:
    jwk = decode(read_json(form, "jwk"))
    if not isinstance(jwk, dict):
        raise InvalidField("jwk", "is no JSON object")
    body: JsonObject = {
        "keyId": form.require("keyId").strip(),
        "jwk": jwk,
        "audience": form.get_choice("audience", AUDIENCES),
    }
    issuers = [each.strip() for each in form.get("issuers").split(",") if each.strip()]
    if issuers:
        body["issuers"] = [*issuers]
    end = _read_end(form)
    if end is not None:
        body["validTo"] = end
    return build_entity_call("oauth", "keys", "trusted", method="POST", body=encode(body))


PERIODS: Final = ((30, "30 days"), (365, "365 days"), (7, "7 days"))


def _build_reactivation(form: Form) -> ApiCall:
    body = encode({"validTo": form.require("validTo")})
    return build_entity_call("oauth", "keys", "trusted", form.require("id"), "reactivate", method="POST", body=body)


async def _confirm_reactivation(request: ConsoleRequest, form: Form) -> Confirmation:
    return Confirmation(
        question=f"Trust key {form.require('id')} again?",
        details=("What it has signed counts again.",),
        back=TRUSTED_KEYS,
        choices=(
            Choice("validTo", "For", tuple((to_rfc3339(request.now + days * DAY_US), says) for days, says in PERIODS)),
        ),
    )


ROUTES: Final[Routes] = (
    Action(name="issue_key_pair", label="Issue key pair", build=_build_pair, follow=lead_to(SIGNING_KEYS), role=ADMIN),
    Action(
        name="invalidate_key_pair",
        label="Invalidate key pair",
        build=_build_invalidation,
        follow=lead_to(SIGNING_KEYS),
        confirm=_confirm_invalidation,
        role=ADMIN,
        is_dangerous=True,
    ),
    Action(
        name="delete_key_pair",
        label="Delete key pair",
        build=build_on("oauth", "keys", "keypair", method="DELETE"),
        follow=lead_to(SIGNING_KEYS),
        confirm=ask_about("Delete key pair {id}?", SIGNING_KEYS, "What it has signed counts no more, at once."),
        role=ADMIN,
        is_dangerous=True,
    ),
    Action(
        name="register_trusted_key",
        label="Trust key",
        build=_build_registration,
        follow=lead_to(TRUSTED_KEYS),
        role=ADMIN,
    ),
    Action(
        name="reactivate_trusted_key",
        label="Trust key again",
        build=_build_reactivation,
        follow=lead_to(TRUSTED_KEYS),
        confirm=_confirm_reactivation,
        role=ADMIN,
    ),
)
