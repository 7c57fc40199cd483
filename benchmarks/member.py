"""A calculation node whose processor does nothing: ``python -m benchmarks.member PORT``."""

import sys

import grpc.aio
import msgspec
import uvloop

from benchmarks.workload import TAG
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cyoda_cloud_api_pb2_grpc import CloudEventsServiceStub


class _Request(msgspec.Struct, rename="camel"):
    request_id: str
    entity_id: str
    payload: msgspec.Raw


async def serve(port: int) -> None:
    """Answer every request with the document it came with, until the stream ends."""
    decode, encode = msgspec.json.Decoder(_Request).decode, msgspec.json.Encoder().encode
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = CloudEventsServiceStub(channel).startStreaming()
        join = encode({"id": "join", "tags": [TAG]}).decode()
        await call.write(
            CloudEvent(id="join", source="bench", spec_version="1.0", type="CalculationMemberJoinEvent", text_data=join)
        )
        while isinstance(event := await call.read(), CloudEvent):
            if event.type == "CalculationMemberKeepAliveEvent":
                await call.write(event)
            if event.type != "EntityProcessorCalculationRequest":
                continue
            request = decode(event.text_data)
            answer = encode(
                {
                    "requestId": request.request_id,
                    "entityId": request.entity_id,
                    "success": True,
                    "payload": request.payload,
                }
            )
            await call.write(
                CloudEvent(
                    id=request.request_id,
                    source="bench",
                    spec_version="1.0",
                    type="EntityProcessorCalculationResponse",
                    text_data=answer.decode(),
                )
            )


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
