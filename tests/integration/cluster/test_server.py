"""The private door between nodes lets only nodes in."""

import grpc
import pytest

from statewright.cluster.channels import NodeAuthenticator
from statewright.ids import NodeId
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cluster_pb2 import DispatchRequest
from tests.service import RunningService

DISPATCH = "/statewright.cluster.v1.Node/Dispatch"
MANAGE = "/org.cyoda.cloud.api.grpc.CloudEventsService/entityManage"


def door_of(service: RunningService, *, seen_by: RunningService) -> str:
    """Where another node finds it."""
    return seen_by.parts.node.peer_table.peers[service.parts.node.id].address


def call(address: str, method: str, message: DispatchRequest | CloudEvent, metadata: tuple) -> str:
    with grpc.insecure_channel(address) as channel:
        stub = channel.unary_unary(method, type(message).SerializeToString, bytes)
        try:
            stub(message, metadata=metadata, timeout=30)
        except grpc.RpcError as ending:
            return str(ending.code().name)  # type: ignore[attr-defined]
    return "OK"


def test_a_node_with_another_secret_is_told_which_setting_is_another(
    here: RunningService, there: RunningService
) -> None:
    forged = NodeAuthenticator(b"a secret of another service", NodeId("stranger")).sign(there.parts.node.id, DISPATCH)
    with grpc.insecure_channel(door_of(there, seen_by=here)) as channel:
        stub = channel.unary_unary(DISPATCH, DispatchRequest.SerializeToString, bytes)
        with pytest.raises(grpc.RpcError, match="STATEWRIGHT_HMAC_SECRET"):
            stub(DispatchRequest(kind="processor", tags=["nobody"]), metadata=forged, timeout=30)


@pytest.mark.parametrize("method", [DISPATCH, MANAGE])
def test_strangers_are_refused(here: RunningService, there: RunningService, method: str) -> None:
    message = DispatchRequest(kind="processor", tags=["nobody"]) if method == DISPATCH else CloudEvent(type="x")
    peer, address = there.parts.node.id, door_of(there, seen_by=here)
    assert call(address, method, message, ()) == "UNAUTHENTICATED"
    forged = NodeAuthenticator(b"a guess", NodeId("stranger")).sign(peer, method)
    assert call(address, method, message, forged) == "UNAUTHENTICATED"


def test_a_recorded_call_is_of_no_use(here: RunningService, there: RunningService) -> None:
    message = DispatchRequest(kind="processor", tags=["nobody"])
    known = NodeAuthenticator(here.parts.node.secret, NodeId("kin")).sign(there.parts.node.id, DISPATCH)
    assert call(door_of(there, seen_by=here), DISPATCH, message, known) == "OK"
    assert call(door_of(there, seen_by=here), DISPATCH, message, known) == "UNAUTHENTICATED"


def test_knowing_the_secret_makes_nobody_a_principal(here: RunningService, there: RunningService) -> None:
    proof = NodeAuthenticator(here.parts.node.secret, NodeId("other kin")).sign(there.parts.node.id, MANAGE)
    assert call(
        door_of(there, seen_by=here), MANAGE, CloudEvent(type="EntityCreateRequest", text_data="{}"), proof
    ) == ("UNAUTHENTICATED")


def test_all_nodes_of_a_database_share_a_key_that_is_not_in_the_log(
    here: RunningService, there: RunningService, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here.parts.node.secret == there.parts.node.secret
    assert len(here.parts.node.secret) == 32
    assert here.parts.node.secret.hex() not in capsys.readouterr().out
