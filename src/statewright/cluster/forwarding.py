"""Callouts to the members of all nodes.

A member of this node is preferred: it costs no call to another node. Else the best member of the others is chosen from
the peer table, and its node asked, over a link of the machine where there is one (``local_links``), else by gRPC. That
node chooses among its own matching members by how busy they really are. When it has none any more, or cannot be
connected to, nothing was done yet, and the next is tried. Where no node has a member, the callout waits for one to join
anywhere; but a node that is alone says so at once (docs/reference/grpc.md#no-member,
docs/reference/grpc.md#callouts-through-other-nodes).

What happened to a callout that was sent to a node which then was lost is not known. That is a ``ForwardFailed``, and
whether it may be repeated is for the engine to say (decision W7).
"""

import asyncio
from collections.abc import Awaitable, Collection
from datetime import timedelta
from typing import Final

import grpc
import grpc.aio
from msgspec import Struct

from statewright.cluster.channels import Channels, NodeUnreachable, decode_result, encode_callout
from statewright.cluster.heartbeat import PeerTable, RemoteMember
from statewright.cluster.local_links import LinkLost, LocalLinks
from statewright.compute.callout import Callout, CalloutResult, describe_tags
from statewright.compute.members import Dispatcher, Members
from statewright.failures import ForwardFailed, NoComputeMember
from statewright.ids import NodeId, TenantId
from statewright.loop.background import is_cancelled
from statewright.proto import cluster_pb2 as pb
from statewright.proto.cluster_pb2_grpc import NodeStub
from statewright.telemetry import logs
from statewright.telemetry.histogram import MinuteCounts

DISPATCH_METHOD: Final = "/statewright.cluster.v1.Node/Dispatch"

FORWARD_MARGIN_S: Final = 5.0
"""What a forwarded callout may take beyond its own limits, so that the other node is the one to find it late."""

log = logs.logger(__name__)


class WaitingCallout(Struct, frozen=True):
    """A callout that no member can take yet, and since when, by the clock of the loop."""

    callout: Callout
    begun: float


class ClusterDispatcher:
    """Asks the members of all nodes, one attempt per call. ``wait`` is how long a member may take to appear; ``limit``
    bounds a callout through another node, zero means that its own limit is enough.
    """

    def __init__(
        self,
        local: Dispatcher,
        members: Members,
        peer_table: PeerTable,
        channels: Channels,
        links: LocalLinks,
        *,
        wait: timedelta,
        limit: timedelta,
    ) -> None:
        self._local = local
        self._members = members
        self._peer_table = peer_table
        self._channels = channels
        self._links = links
        self._wait_s = wait.total_seconds()
        self._limit_s = limit.total_seconds()
        self.waiting: dict[int, WaitingCallout] = {}
        """Callouts that wait for a member to appear, by the identity of their call."""
        self.forwarded = {"socket": 0, "grpc": 0}
        """Callouts that were sent to other nodes, by what carried them."""

    @property
    def handed_out(self) -> MinuteCounts[tuple[TenantId, tuple[str, ...]]]:
        """Callouts that were given to members of this node, by tenant and tags."""
        return self._local.handed_out

    def dispatch(  # not async, so that a node alone hands over the coroutine itself
        self, callout: Callout, *, avoiding: Collection[str] = ()
    ) -> Awaitable[CalloutResult]:
        """The reply of the best member that is not to be avoided, if there is a choice.

        Raises ``NoComputeMember``, ``DispatchTimeout``, ``ComputeMemberDisconnected`` or its kind ``ForwardFailed``.
        """
        if not self._peer_table:  # a node alone: nothing on its way
            return self._local.dispatch(callout, avoiding=avoiding)
        return self._dispatch_anywhere(callout, avoiding)

    async def _dispatch_anywhere(self, callout: Callout, avoiding: Collection[str]) -> CalloutResult:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait_s
        refused: set[NodeId] = set()
        while True:
            if not avoiding or self._members.has_other(callout.tenant, callout.tags, avoiding):
                try:
                    return await self._local.dispatch(callout, avoiding=avoiding)
                except NoComputeMember:  # or all of them are busy, when others may be less so
                    pass
            member = self._peer_table.select(callout.tenant, callout.tags, avoiding=avoiding, without=refused)
            if member is not None and (not avoiding or member.id not in avoiding):
                try:
                    return await self._forward(member, callout, avoiding)
                except (NoComputeMember, NodeUnreachable):  # nothing was done
                    refused.add(member.node)
                    continue
            if avoiding:  # there is no other
                avoiding = ()
                continue
            if not self._peer_table:
                return await self._local.dispatch(callout)
            key = id(callout)
            self.waiting.setdefault(key, WaitingCallout(callout, loop.time()))
            try:
                if not await self._wait_changed(until - loop.time()):
                    raise self._build_no_member(callout)
            finally:
                del self.waiting[key]
            refused.clear()

    async def _wait_changed(self, within_s: float) -> bool:
        """Whether members may have come in time."""
        if within_s <= 0:
            return False
        try:
            async with asyncio.timeout(within_s):
                await self._peer_table.wait_changed()
        except TimeoutError:
            return False
        return True

    async def _forward(self, member: RemoteMember, callout: Callout, avoiding: Collection[str]) -> CalloutResult:
        limit_s = self._limit_s or 2 * callout.timeout_ms / 1000 + FORWARD_MARGIN_S
        self._peer_table.begin(member)
        try:
            answer = await self._ask(member.node, encode_callout(callout, avoiding), limit_s)
        except LinkLost as lost:
            log.warning("dispatch_forward_failed", node=member.node, status=str(lost))
            raise ForwardFailed(member_id=member.id) from lost
        except grpc.aio.AioRpcError as broken:
            log.warning("dispatch_forward_failed", node=member.node, status=broken.code().name, detail=broken.details())
            written = broken.code() is not grpc.StatusCode.UNAUTHENTICATED
            raise ForwardFailed(written=written, member_id=member.id) from broken
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            log.warning("dispatch_forward_failed", node=member.node, status="NODE_GONE")
            raise ForwardFailed(member_id=member.id) from None
        finally:
            self._peer_table.end(member)
        try:
            return decode_result(answer, callout, member)
        except NoComputeMember:
            self._peer_table.forget(member)
            raise

    async def _ask(self, node: NodeId, request: pb.DispatchRequest, within_s: float) -> pb.DispatchReply:
        link = await self._links.connect(node)
        if link is not None:
            self.forwarded["socket"] += 1
            return await link.dispatch(request, within_s=within_s)
        stub = NodeStub(await self._channels.connect(node))
        self.forwarded["grpc"] += 1
        return await stub.Dispatch(request, timeout=within_s, metadata=self._channels.sign(node, DISPATCH_METHOD))

    def _build_no_member(self, callout: Callout) -> NoComputeMember:
        tags = describe_tags(callout)
        waited = f"no peer with {tags} for tenant {callout.tenant} after {self._wait_s:g}s"
        return NoComputeMember(f"no matching calculation member: {tags}: {waited}; a member needs all of them")
