"""Clients of the SDK and nodes that sign in place of sending a secret
(docs/reference/authentication.md#private-keys-of-clients).
"""

import asyncio
import threading
from uuid import uuid4

import pytest

from statewright import Client, ClientKey, TokenUnavailable
from statewright.ids import TenantId
from statewright.sdk import Node
from tests.integration.identity.test_trusted_keys import Machine, register
from tests.service import ISSUER, Api, RunningService, eventually
from tests.unit.auth.builders import pem, rsa_key


@pytest.fixture
def key(launched: RunningService, admin: Api) -> ClientKey:
    """A client of the test's tenant, with a key that the tenant trusts."""
    machine, kid = Machine(launched, admin), f"signer.{uuid4().hex[:8]}"
    register(admin, kid, issuers=[machine.id])
    return ClientKey(client_id=machine.id, key_id=kid, private_key=pem(rsa_key("signer")), audience=ISSUER)


def test_a_client_signs_for_its_tokens(launched: RunningService, key: ClientKey) -> None:
    with Client(launched.root, token=key) as client:
        assert client.models.list() == []
        assert client.models.list() == []


def test_a_key_that_is_not_trusted_gets_none(launched: RunningService, key: ClientKey) -> None:
    other = ClientKey(client_id=key.client_id, key_id=key.key_id, private_key=pem(rsa_key("evil")), audience=ISSUER)
    with Client(launched.root, token=other) as client, pytest.raises(TokenUnavailable, match="401"):
        client.models.list()


def test_a_node_signs_for_its_stream(launched: RunningService, key: ClientKey, tenant: str) -> None:
    node = Node(tags=["signed"])
    node.processor("same")(lambda document: document)
    loop = asyncio.new_event_loop()
    serving = threading.Thread(
        target=lambda: loop.run_until_complete(node.serve(launched.grpc, token=key, api=launched.url))
    )
    serving.start()
    try:
        eventually(lambda: launched.parts.members.list_members(TenantId(tenant)))
    finally:
        loop.call_soon_threadsafe(node.stop)
        serving.join()
        loop.close()
