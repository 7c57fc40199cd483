"""From the claims of a verified token or the mock settings to a principal
(docs/reference/authentication.md#principals, docs/reference/authentication.md#claims-that-are-read).
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from statewright.entity import Principal, PrincipalKind
from statewright.ids import MAX_ID_BYTES, TenantId

Claims: TypeAlias = Mapping[str, object]
"""The claims of a token: decoded JSON of any kind, to be checked with ``isinstance``."""


def build_mock_principal(roles: Sequence[str], kind: PrincipalKind) -> Principal:
    """The one principal of mock authentication."""
    return Principal(
        id="mock-user-001",
        name="Mock User",
        kind=kind,
        tenant=TenantId("mock-tenant"),
        tenant_name="Mock Tenant",
        roles=tuple(roles),
    )


def build_anonymous_principal(tenant: str) -> Principal:
    """The principal of callers of the step engine without credentials, where they are allowed."""
    return Principal(id="anonymous", name="anonymous", kind="service", tenant=TenantId(tenant), roles=("ROLE_M2M",))


def principal_from_claims(claims: Claims) -> Principal | None:
    """The principal of a first-party token; ``None`` when it names no user or no tenant that could be stored."""
    user = text_claim(claims, "caas_user_id") or text_claim(claims, "sub")
    tenant = text_claim(claims, "caas_org_id")
    if not is_storable(user) or not is_storable(tenant):
        return None
    return Principal(
        id=user, name=user, kind=kind_from_claims(claims), tenant=TenantId(tenant), roles=roles_from_claims(claims)
    )


def is_storable(name: str) -> bool:
    """Whether a name can stand in a row and in an index entry of PostgreSQL."""
    return 0 < len(name.encode(errors="replace")) <= MAX_ID_BYTES and "\0" not in name


def kind_from_claims(claims: Claims) -> PrincipalKind:
    """The kind of principal. The presence of claims decides, not their values: even ``"user_roles": null`` makes a
    user.
    """
    return "service" if "scopes" in claims and "user_roles" not in claims else "user"


def roles_from_claims(claims: Claims) -> tuple[str, ...]:
    """The texts in the array ``user_roles``, or if there are none, in ``scopes``. A claim that is a plain text has
    none; a text with a NUL, which PostgreSQL does not store, is none.
    """
    return _text_members(claims.get("user_roles")) or _text_members(claims.get("scopes"))


def text_claim(claims: Claims, name: str) -> str:
    """The claim, or the empty text when it is absent or no text."""
    value = claims.get(name)
    return value if isinstance(value, str) else ""


def _text_members(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    members: list[object] = value  # pyright: ignore[reportUnknownVariableType]: decoded JSON
    return tuple(member for member in members if isinstance(member, str) and "\0" not in member)
