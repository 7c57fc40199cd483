"""Use cases of machine clients (docs/reference/authentication.md#clients). Callers are administrators of a tenant, and
see and change the clients of that tenant.
"""

import asyncio
import re
from typing import Final

from msgspec import Struct

from statewright import logs
from statewright.auth.clients import Client, hash_secret, make_client_id, make_secret
from statewright.failures import BadRequest, ClientNotFound
from statewright.services.auth.acts import describe_act
from statewright.services.auth.identity import ADMIN, Administration, Identity, require_admin, require_feature
from statewright.services.runtime import Caller, Runtime
from statewright.settings import Secret
from statewright.storage.auth.clients import MAX_CLIENTS

_ROLE: Final = "ROLE_M2M"
_ID: Final = re.compile(r"[A-Za-z0-9]{1,100}")

log = logs.logger(__name__)


class IssuedSecret(Struct, frozen=True):
    """A client, and its secret, which is known at this moment only."""

    client: Client
    secret: Secret


async def list_clients(runtime: Runtime, caller: Caller) -> list[Client]:
    """The clients of the tenant, the oldest first."""
    identity = _open(runtime, caller)
    return await identity.clients.list_for_tenant(caller.tenant)


async def create_client(runtime: Runtime, caller: Caller, *, is_admin: bool) -> IssuedSecret:
    """A new client of the tenant; with ``is_admin`` it is an administrator of it. Raises ``FeatureDisabled`` where none
    may be made, ``BadRequest`` when the tenant has too many clients.
    """
    identity = _open(runtime, caller)
    if is_admin:
        require_feature(is_enabled=identity.grants_admin, message="M2M admin-role grants are disabled")
    client_id, secret, now = make_client_id(), make_secret(), runtime.clock()
    client = Client(
        id=client_id,
        tenant=caller.tenant,
        user_id=client_id,
        roles=(_ROLE, ADMIN) if is_admin else (_ROLE,),
        secret_hash=await asyncio.to_thread(hash_secret, secret.reveal()),
        created_at=now,
        updated_at=now,
    )
    act = describe_act(caller, "client.create", "CLIENT", client.id, {"roles": client.roles})
    if not await identity.clients.create(client, act=act):
        raise BadRequest(f"the tenant has {MAX_CLIENTS} clients already, which is the most it may have")
    _log("client_created", caller, client.id, roles=client.roles)
    return IssuedSecret(client, secret)


async def delete_client(runtime: Runtime, caller: Caller, client_id: str) -> None:
    """From now on the client gets no token; those that it has live on. Raises ``ClientNotFound``."""
    identity = _open(runtime, caller)
    _check_id(client_id)
    act = describe_act(caller, "client.delete", "CLIENT", client_id)
    if not await identity.clients.delete(caller.tenant, client_id, act=act):
        raise ClientNotFound
    _log("client_deleted", caller, client_id)


async def rotate_secret(runtime: Runtime, caller: Caller, client_id: str) -> IssuedSecret:
    """Give the client another secret; the old one is of no use from now on. Raises ``ClientNotFound``."""
    identity = _open(runtime, caller)
    _check_id(client_id)
    secret = make_secret()
    hashed = await asyncio.to_thread(hash_secret, secret.reveal())
    act = describe_act(caller, "client.rotate_secret", "CLIENT", client_id)
    client = await identity.clients.replace_secret(caller.tenant, client_id, hashed, now=runtime.clock(), act=act)
    if client is None:
        raise ClientNotFound
    _log("client_secret_rotated", caller, client_id)
    return IssuedSecret(client, secret)


def _open(runtime: Runtime, caller: Caller) -> Identity:
    require_admin(caller.principal)
    return runtime.extensions.get(Administration).require_identity("M2M client")


def _check_id(client_id: str) -> None:
    """Ids of the settings may have other characters: such a client is changed there."""
    if not _ID.fullmatch(client_id):
        raise BadRequest("invalid clientId")


def _log(event: str, caller: Caller, client_id: str, **keys: object) -> None:
    log.info(event, tenant=caller.tenant, client=client_id, by=caller.principal.id, **keys)
