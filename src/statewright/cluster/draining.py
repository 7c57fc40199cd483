"""Letting calculation members go, whatever node they are connected to
(docs/reference/operations.md#draining-a-member)."""

from datetime import timedelta
from typing import Final

import grpc.aio

from statewright import logs
from statewright.cluster.channels import Channels, NodeUnreachable
from statewright.compute.members import Members
from statewright.failures import ComputeMemberDisconnected, MemberNotFound
from statewright.ids import NodeId, TenantId
from statewright.proto import cluster_pb2 as pb
from statewright.proto.cluster_pb2_grpc import NodeStub

DRAIN_METHOD: Final = "/statewright.cluster.v1.Node/Drain"

TIMEOUT_S: Final = 5.0

log = logs.logger(__name__)


class MemberDrains:
    """Lets members go."""

    def __init__(self, node: NodeId, members: Members, channels: Channels) -> None:
        self._node = node
        self._members = members
        self._channels = channels

    async def drain(self, tenant: TenantId, node: NodeId, member_id: str, *, within: timedelta) -> None:
        """From the return on the member is sent nothing; its stream ends when it is idle, at the latest ``within``.

        Raises ``MemberNotFound``, and ``ComputeMemberDisconnected`` when its node does not answer: it may be drained
        all the same.
        """
        if node == self._node:
            is_found = self._members.drain_member(tenant, member_id, within_s=within.total_seconds()) is not None
        else:
            is_found = await self._ask(tenant, node, member_id, within)
        if not is_found:
            raise MemberNotFound

    async def _ask(self, tenant: TenantId, node: NodeId, member_id: str, within: timedelta) -> bool:
        request = pb.DrainRequest(tenant=tenant, member_id=member_id, within_ms=within // timedelta(milliseconds=1))
        try:
            stub = NodeStub(await self._channels.connect(node))
            reply = await stub.Drain(request, timeout=TIMEOUT_S, metadata=self._channels.sign(node, DRAIN_METHOD))
        except (NodeUnreachable, grpc.aio.AioRpcError) as broken:
            log.warning("member_drain_failed", node=node, member=member_id, error=repr(broken))
            raise ComputeMemberDisconnected("the node of the member does not answer") from broken
        return bool(reply.found)
