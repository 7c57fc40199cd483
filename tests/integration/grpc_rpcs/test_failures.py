"""How failures are told, and what becomes of a call that nobody waits for any more (docs/reference/grpc.md#failures,
docs/reference/grpc.md#callers-that-leave).
"""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest
from msgspec import Struct

from statewright.api.grpc.handlers import InvalidCall, RequestHandler, RpcMethod, build_operation
from statewright.api.grpc.payloads import EntityResponse, Outcome
from statewright.auth import MockAuthenticator
from statewright.failures import Conflict, EntityNotFound, Failure, StorageUnavailable
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.services.core import Caller
from statewright.services.runtime import Runtime
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated
from tests.integration.grpc.door import PATIENCE, a_channel, an_open_door
from tests.integration.grpc_rpcs.client import CREATE, RPC_OF, SERVICE, UNARY, Rpcs, an_event, channel, payload_of
from tests.integration.node import a_node
from tests.service import Api, RunningService, eventually
from tests.unit.compute.builders import a_principal

Call = Callable[[CloudEvent], grpc.aio.UnaryUnaryCall[CloudEvent, CloudEvent]]


class Defect(Failure):
    """A failure that is no business of its client."""

    code = "SCHEDULE_FUNCTION_INVALID_RESULT"


class Anything(Struct):
    """A request."""


@asynccontextmanager
async def failing(runtime: Runtime, failure: Exception) -> AsyncIterator[Call]:
    """A server whose one RPC, with one event type, always fails so."""

    async def fail(_runtime: Runtime, _caller: Caller, _request: Anything) -> Outcome:
        raise failure

    rpc = RpcMethod(
        kind="entity",
        operations={"Fail": build_operation(Anything, fail, failing=EntityResponse())},
        unjoined=None,
    )
    served = RequestHandler(runtime, MockAuthenticator(a_principal()))

    async def serve(event: CloudEvent, context: "grpc.aio.ServicerContext[CloudEvent, CloudEvent]") -> CloudEvent:
        return await served.handle_one(rpc, event, context)

    handler = grpc.unary_unary_rpc_method_handler(serve, CloudEvent.FromString, CloudEvent.SerializeToString)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", {"fail": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened.unary_unary("/test/fail", CloudEvent.SerializeToString, CloudEvent.FromString)
    await server.stop(None)


async def error_of(runtime: Runtime, failure: Exception) -> Json:
    """What a client hears of a failure."""
    async with failing(runtime, failure) as call:
        payload = payload_of(await call(CloudEvent(id="ce-7", type="Fail", text_data="{}")))
    assert (payload["success"], payload["payload"], payload["requestId"]) == (False, {"type": "JSON"}, "ce-7")
    return payload["error"]


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (EntityNotFound("entity x not found"), {"message": "ENTITY_NOT_FOUND: entity x not found"}),
        (Conflict(), {"message": "CONFLICT: transaction conflict — retry", "retryable": True}),
        (
            StorageUnavailable(),
            {"message": "STORAGE_UNAVAILABLE: storage is not available; try again later", "retryable": True},
        ),
    ],
)
async def test_a_failure_that_clients_may_know_is_told_with_its_code(
    service: RunningService, failure: Exception, error: Json
) -> None:
    assert await error_of(service.parts.runtime, failure) == {"code": "CLIENT_ERROR", **error}


@pytest.mark.parametrize("failure", [RuntimeError("the password is swordfish"), Defect("swordfish")])
async def test_a_defect_is_told_by_a_ticket_alone(service: RunningService, failure: Exception) -> None:
    error = await error_of(service.parts.runtime, failure)
    assert error.keys() == {"code", "message"}
    assert error["code"] == "SERVER_ERROR"
    assert re.fullmatch(
        r"SERVER_ERROR: internal error \[ticket: [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\]", error["message"]
    )


async def test_a_refused_call_ends_with_its_status(service: RunningService) -> None:
    async with failing(service.parts.runtime, InvalidCall("payloads array is empty")) as call:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(CloudEvent(type="Fail", text_data="{}"))
    assert (refused.value.code(), refused.value.details()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "payloads array is empty",
    )


async def test_a_door_for_members_alone_takes_no_requests() -> None:
    async with an_open_door() as door, a_channel(door) as opened:
        for kind, rpc in RPC_OF.items():
            pick = opened.unary_unary if rpc in UNARY else opened.unary_stream
            call = pick(SERVICE + rpc, CloudEvent.SerializeToString, CloudEvent.FromString)(
                an_event(kind), metadata=[("authorization", "Bearer acme")], timeout=PATIENCE
            )
            assert await call.code() is grpc.StatusCode.UNIMPLEMENTED, kind


def test_a_caller_who_goes_away_takes_the_transaction_along(
    service: RunningService, tenant: str, api: Api, rpcs: Rpcs
) -> None:
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    open_before = service.parts.runtime.core.transactions.count
    method = channel(rpcs.address).unary_unary(
        f"{SERVICE}entityManage", CloudEvent.SerializeToString, CloudEvent.FromString
    )
    with a_node(service, tenant, "node") as node:
        call = method.future(
            an_event("EntityCreateRequest", **CREATE), metadata=[("authorization", f"Bearer {rpcs.token}")]
        )
        request = node.next()
        assert service.parts.runtime.core.transactions.count == open_before + 1
        call.cancel()
        eventually(lambda: service.parts.runtime.core.transactions.count == open_before)
        node.answer(request, payload={"type": "JSON", "data": dict(SAMPLE)})
        rpcs.refused("EntityGetRequest", "ENTITY_NOT_FOUND", entityId=request["entityId"])
    assert api.get("/entity/prize/1").json() == []
