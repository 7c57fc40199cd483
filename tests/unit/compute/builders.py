"""Valid defaults for what members and the dispatcher speak about; a test names only what it is about."""

from statewright.compute.callout import Callout, CalloutKind
from statewright.compute.members import Member, Members
from statewright.entity import Principal
from statewright.ids import IdSource, TenantId
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject

ACME = TenantId("acme")
GLOBEX = TenantId("globex")

ids = IdSource()


def a_principal(*, tenant: TenantId = ACME, roles: tuple[str, ...] = ("ROLE_USER",)) -> Principal:
    return Principal(id="alice", name="Alice", kind="user", tenant=tenant, roles=roles)


def a_callout(
    name: str = "price",
    *,
    kind: CalloutKind = "processor",
    tenant: TenantId = ACME,
    tags: tuple[str, ...] = (),
    tags_text: str = "",
    timeout_ms: int = 5000,
    target: str = "",
    parameters: str = "",
    data: "JsonObject | None" = None,
    payload: bytes | None = b"",
    principal: Principal | None = None,
    tx_token: str | None = None,
) -> Callout:
    """``payload=None`` stands for a callout without its entity."""
    meta: JsonObject = {"state": "NEW", "modelKey": {"name": "order", "version": 1}}
    document: JsonObject = {"type": "JSON", "data": data or {}, "meta": meta}
    return Callout(
        kind=kind,
        request_id=ids(),
        tenant=tenant,
        name=name,
        tags=tags,
        tags_text=tags_text or ",".join(tags),
        timeout_ms=timeout_ms,
        entity_id=ids(),
        workflow="order-flow",
        transition="submit",
        state_from="NEW",
        state_to="SUBMITTED",
        target=target,
        transaction_id=ids(),
        parameters=parameters,
        payload=(payload or encode(document)) if payload is not None else None,
        principal=principal or a_principal(tenant=tenant),
        tx_token=tx_token,
    )


def join(members: Members, *tags: str, tenant: TenantId = ACME) -> Member:
    """A new member of ``members`` whose greeting was already written."""
    member = members.join(tenant, tags, member_id=ids())
    member.outbox.remove("greeting")
    return member
