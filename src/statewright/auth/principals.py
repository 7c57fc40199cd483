"""From the claims of a verified token or the mock settings to a principal (spec/auth-and-operations.md §4, §5.3)."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from statewright.entity import Principal, PrincipalKind
from statewright.identity import TenantId

Claims: TypeAlias = Mapping[str, object]
"""What a token says: decoded JSON of any kind, to be looked at with ``isinstance``."""

LONGEST_NAME = 1024
"""Bytes of a tenant or user id. An index entry holds about 2,700, and the tenant is only one part of our keys."""


def mock_principal(roles: Sequence[str], kind: PrincipalKind) -> Principal:
    """The one principal of mock authentication."""
    return Principal(
        id="mock-user-001",
        name="Mock User",
        kind=kind,
        tenant=TenantId("mock-tenant"),
        tenant_name="Mock Tenant",
        roles=tuple(roles),
    )


def open_principal(tenant: str) -> Principal:
    """Who calls the step engine without credentials, where that is allowed."""
    return Principal(id="anonymous", name="anonymous", kind="service", tenant=TenantId(tenant), roles=("ROLE_M2M",))


def principal_of(claims: Claims) -> Principal | None:
    """Whom a first-party token stands for; ``None`` when it names no user or no tenant that could be kept."""
    user = text_claim(claims, "caas_user_id") or text_claim(claims, "sub")
    tenant = text_claim(claims, "caas_org_id")
    if not storable(user) or not storable(tenant):
        return None
    return Principal(id=user, name=user, kind=kind_of(claims), tenant=TenantId(tenant), roles=roles_of(claims))


def storable(name: str) -> bool:
    """Whether a name can stand in a row and in an index entry of PostgreSQL."""
    return 0 < len(name.encode(errors="replace")) <= LONGEST_NAME and "\0" not in name


def kind_of(claims: Claims) -> PrincipalKind:
    """Which claims are there decides, not what they hold: even ``"user_roles": null`` makes a user."""
    return "service" if "scopes" in claims and "user_roles" not in claims else "user"


def roles_of(claims: Claims) -> tuple[str, ...]:
    """The texts in the array ``user_roles``; if that gives none, those in ``scopes``. A plain text gives none."""
    return _text_members(claims.get("user_roles")) or _text_members(claims.get("scopes"))


def text_claim(claims: Claims, name: str) -> str:
    """The claim, or the empty text when it is absent or no text."""
    value = claims.get(name)
    return value if isinstance(value, str) else ""


def _text_members(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    members: list[object] = value  # pyright: ignore[reportUnknownVariableType]: decoded JSON
    return tuple(member for member in members if isinstance(member, str))
