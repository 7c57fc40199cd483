"""From the claims of a provider's token to a principal (docs/reference/oidc.md#claims)."""

import re
from typing import Final

from statewright.auth.jws import MAX_CLOCK_SKEW_S, to_seconds
from statewright.auth.principals import Claims
from statewright.auth.providers.provider import Provider
from statewright.entity import Principal

MAX_SUBJECT_CHARS: Final = 255
MAX_ROLES: Final = 1000
_SECOND_US: Final = 1_000_000
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def find_time_problem(claims: Claims, now: int) -> str | None:
    """Why the token is not valid at ``now`` (seconds since 1970); None if it is."""
    expires, issued, begins = (to_seconds(claims.get(name)) for name in ("exp", "iat", "nbf"))
    if expires is None:
        return "missing exp claim"
    if now > expires + MAX_CLOCK_SKEW_S:
        return "token expired"
    if begins is not None and now < begins - MAX_CLOCK_SKEW_S:
        return "token not yet valid (nbf)"
    if issued is not None and issued > now + MAX_CLOCK_SKEW_S:
        return "iat is in the future"
    return None


def find_problem(claims: Claims, provider: Provider) -> str | None:
    """Why ``provider`` does not accept a token that it has signed; None if it does.

    A token is bound to the registration of its provider: one that was issued before does not count, or a tenant that
    registers what another has given up would take over its tokens.
    """
    issued = to_seconds(claims.get("iat"))
    if issued is not None and issued < provider.created_at // _SECOND_US - MAX_CLOCK_SKEW_S:
        return "issued before the provider was registered"
    if provider.audiences and not set(provider.audiences) & set(list_audiences(claims)):
        return "wrong audience"
    if not is_subject(claims.get("sub")):
        return "no usable sub"
    return None


def is_subject(value: object) -> bool:
    """Whether the claim ``sub`` can name a user."""
    return isinstance(value, str) and 0 < len(value) <= MAX_SUBJECT_CHARS and not _CONTROL.search(value)


def list_audiences(claims: Claims) -> list[str]:
    """The audiences of a token, in their order."""
    value = claims.get("aud")
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def build_principal(claims: Claims, provider: Provider, roles_claim: str) -> Principal:
    """The principal of a token that ``provider`` accepts; ``roles_claim`` has the roles where it names no other claim.
    Of the claims of first-party tokens none is read.
    """
    subject = str(claims["sub"])
    roles = map_roles(claims.get(provider.roles_claim or roles_claim))
    return Principal(id=f"oidc:{provider.id}:{subject}", name=subject, kind="user", tenant=provider.tenant, roles=roles)


def map_roles(value: object) -> tuple[str, ...]:
    """The roles in a claim: the texts of an array, the words of a text, the names of an object."""
    if isinstance(value, str):
        names = value.split()
    elif isinstance(value, list | dict):
        names = [name for name in value if isinstance(name, str)]
    else:
        names = []
    return tuple(name for name in names if name and "," not in name)[:MAX_ROLES]
