"""Callouts and their outcomes as nodes write them to each other (src/statewright/proto/cluster.proto)."""

from collections.abc import Collection
from typing import cast

from msgspec import UNSET

from statewright.cluster.peer_table import RemoteMember
from statewright.compute.callout import (
    Callout,
    CalloutKind,
    CalloutResult,
    CalloutTimeout,
    member_lost_failure,
    no_member_failure,
)
from statewright.entity import Principal, PrincipalKind
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, Failure, NoComputeMember, WorkflowFailed
from statewright.ids import TenantId
from statewright.jsonval.codec import decode, encode
from statewright.proto import cluster_pb2 as pb
from statewright.tracing import parse_trace


def encode_callout(callout: Callout, avoiding: Collection[str]) -> pb.DispatchRequest:
    """A callout for the members of another node."""
    principal = callout.principal
    return pb.DispatchRequest(
        kind=callout.kind,
        request_id=callout.request_id,
        name=callout.name,
        tags=callout.tags,
        tags_text=callout.tags_text,
        timeout_ms=callout.timeout_ms,
        entity_id=callout.entity_id,
        workflow=callout.workflow,
        transition=callout.transition,
        state_from=callout.state_from,
        state_to=callout.state_to,
        target=callout.target,
        transaction_id=callout.transaction_id,
        parameters=callout.parameters,
        payload=callout.payload,
        principal=pb.Principal(
            id=principal.id,
            name=principal.name,
            kind=principal.kind,
            tenant=callout.tenant,
            tenant_name=principal.tenant_name,
            roles=principal.roles,
        ),
        tx_token=callout.tx_token,
        avoiding=avoiding,
        traceparent=None if callout.trace is None else callout.trace.traceparent,
        tracestate=None if callout.trace is None else callout.trace.state or None,
    )


def decode_callout(request: pb.DispatchRequest) -> Callout:
    """The callout that another node sends. It was made by a node of this cluster, so its words are trusted."""
    principal = request.principal
    tenant = TenantId(principal.tenant)
    return Callout(
        kind=cast("CalloutKind", request.kind),
        request_id=request.request_id,
        tenant=tenant,
        name=request.name,
        tags=tuple(request.tags),
        tags_text=request.tags_text,
        timeout_ms=request.timeout_ms,
        entity_id=request.entity_id,
        workflow=request.workflow,
        transition=request.transition,
        state_from=request.state_from,
        state_to=request.state_to,
        target=request.target,
        transaction_id=request.transaction_id,
        parameters=request.parameters,
        payload=request.payload if request.HasField("payload") else None,
        principal=Principal(
            id=principal.id,
            name=principal.name,
            kind=cast("PrincipalKind", principal.kind),
            tenant=tenant,
            tenant_name=principal.tenant_name,
            roles=tuple(principal.roles),
        ),
        tx_token=request.tx_token if request.HasField("tx_token") else None,
        trace=parse_trace(request.traceparent, request.tracestate) if request.traceparent else None,
    )


def encode_result(result: CalloutResult) -> pb.DispatchReply:
    """What a member replied."""
    message = pb.MemberReply(
        success=result.success,
        error=result.error,
        final=not result.retryable,
        warnings=result.warnings,
        data=None if result.data is UNSET else result.data,
        matches=result.matches,
        reason=result.reason,
        result=encode(result.result),
        result_kind=result.result_kind,
    )
    return pb.DispatchReply(reply=message)


def encode_failure(failure: Failure) -> pb.DispatchReply:
    """What became of a callout that no member replied to."""
    message = pb.MemberFailure(message=failure.message)
    match failure:
        case NoComputeMember():
            message.kind = pb.MemberFailure.NO_MEMBER
        case CalloutTimeout():
            message.kind, message.member_id, message.written = (
                pb.MemberFailure.TIMEOUT,
                failure.member_id,
                failure.written,
            )
        case DispatchTimeout():
            message.kind, message.written = pb.MemberFailure.TIMEOUT, True
        case ComputeMemberDisconnected():
            message.kind, message.written = pb.MemberFailure.DISCONNECTED, failure.written
            message.member_id = failure.member_id
        case _:
            message.kind = pb.MemberFailure.OTHER
    return pb.DispatchReply(failure=message)


def decode_result(answer: pb.DispatchReply, callout: Callout, member: RemoteMember) -> CalloutResult:
    """The reply that another node brought. Raises what its dispatcher raised."""
    if not answer.HasField("reply"):
        raise _decode_failure(answer.failure, callout, member)
    reply = answer.reply
    return CalloutResult(
        success=reply.success,
        error=reply.error if reply.HasField("error") else None,
        retryable=not reply.final,
        warnings=tuple(reply.warnings),
        data=reply.data if reply.HasField("data") else UNSET,
        matches=reply.matches,
        reason=reply.reason if reply.HasField("reason") else None,
        result=decode(reply.result) if reply.result else None,
        result_kind=reply.result_kind if reply.HasField("result_kind") else None,
        member_id="" if reply.success else member.id,
    )


def _decode_failure(message: pb.MemberFailure, callout: Callout, member: RemoteMember) -> Failure:
    if message.kind == pb.MemberFailure.NO_MEMBER:
        return no_member_failure(callout)
    if message.kind == pb.MemberFailure.TIMEOUT:
        return CalloutTimeout(callout, member_id=message.member_id or member.id, written=message.written)
    if message.kind == pb.MemberFailure.DISCONNECTED:
        return member_lost_failure(callout, written=message.written, member_id=message.member_id or member.id)
    return WorkflowFailed(message.message)
