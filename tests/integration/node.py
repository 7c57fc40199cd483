"""A calculation node that speaks the bare protocol, so that a test can say anything at any time, or nothing.

It runs on threads: the test itself decides when to read a request and what to answer.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from uuid import uuid4

import grpc

from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonValue
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cyoda_cloud_api_pb2_grpc import CloudEventsServiceStub
from tests.builders import Json
from tests.service import PATIENCE_S, RunningService, a_token

REQUESTS = {
    "EntityProcessorCalculationRequest": "Processor",
    "EntityCriteriaCalculationRequest": "Criteria",
    "EntityFunctionCalculationRequest": "Function",
}


class Request:
    """A callout as it arrived."""

    def __init__(self, event: CloudEvent) -> None:
        self.kind = REQUESTS[event.type]
        self.attributes = {name: value.ce_string for name, value in event.attributes.items()}
        self.members: Json = decode(event.text_data)

    def __getitem__(self, name: str) -> Json:
        return self.members[name]

    @property
    def data(self) -> Json:
        """The document that came along."""
        return self.members["payload"]["data"]


class Node:
    """One member stream."""

    def __init__(self, address: str, token: str, tags: tuple[str, ...]) -> None:
        self._said: Queue[CloudEvent | None] = Queue()
        self._heard: Queue[Request] = Queue()
        self._greeted = threading.Event()
        self.ending: str | None = None
        """The name of the status with which the stream ended."""
        self._channel = grpc.insecure_channel(address)
        self._call = CloudEventsServiceStub(self._channel).startStreaming(
            iter(self._said.get, None), metadata=[("authorization", f"Bearer {token}")]
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._say("CalculationMemberJoinEvent", id="j", tags=list(tags))
        assert self._greeted.wait(PATIENCE_S), "the node was not greeted"

    def next(self) -> Request:
        """The next callout."""
        return self._heard.get(timeout=PATIENCE_S)

    @property
    def is_idle(self) -> bool:
        """Whether every callout so far was taken by ``next``."""
        return self._heard.empty()

    def answer(self, request: Request, **members: JsonValue) -> None:
        """Answer successfully, unless ``members`` say otherwise."""
        usual: dict[str, JsonValue] = {
            "id": str(uuid4()),
            "requestId": request["requestId"],
            "entityId": request["entityId"],
            "success": True,
        }
        self._say(f"Entity{request.kind}CalculationResponse", **(usual | members))

    def answer_next(self, **members: JsonValue) -> Request:
        """Answer the next callout; which one it was."""
        request = self.next()
        self.answer(request, **members)
        return request

    def return_next(self, document: JsonValue) -> Request:
        """Answer the next processor callout with a document."""
        return self.answer_next(payload={"type": "JSON", "data": document})

    def answer_literally(self, members: str) -> Request:
        """Answer the next processor callout with JSON text as it stands, braces and ``requestId`` apart."""
        request = self.next()
        text = f'{{"requestId":"{request["requestId"]}",{members}}}'
        self._said.put(CloudEvent(id=str(uuid4()), type="EntityProcessorCalculationResponse", text_data=text))
        return request

    def fail_next(self, message: str) -> Request:
        """Answer the next callout with an error."""
        return self.answer_next(success=False, error={"code": "E", "message": message})

    def send(self, event: CloudEvent) -> None:
        """Say anything."""
        self._said.put(event)

    def leave(self) -> None:
        """End the stream in the middle of whatever is under way."""
        self._call.cancel()
        self._said.put(None)
        self._reader.join(PATIENCE_S)
        self._channel.close()

    def _say(self, event_type: str, **members: JsonValue) -> None:
        event = CloudEvent(id=str(uuid4()), source="node", spec_version="1.0", type=event_type)
        event.text_data = encode(members).decode()
        self._said.put(event)

    def _read(self) -> None:
        try:
            for event in self._call:
                if event.type == "CalculationMemberGreetEvent":
                    self._greeted.set()
                elif event.type == "CalculationMemberKeepAliveEvent":
                    self._say("CalculationMemberKeepAliveEvent", id="k")
                elif event.type in REQUESTS:
                    self._heard.put(Request(event))
            self.ending = "OK"
        except grpc.RpcError as ending:
            self.ending = ending.code().name


@contextmanager
def a_node(service: RunningService, tenant: str, *tags: str) -> Iterator[Node]:
    """A node that is a member of the tenant while the block runs."""
    node = Node(service.grpc, a_token(tenant, "node", user_roles=None, scopes=["ROLE_M2M"]), tags)
    try:
        yield node
    finally:
        node.leave()
