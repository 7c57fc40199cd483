"""The RPCs that carry requests as one caller sees them, by their event types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from uuid import UUID

import grpc

from statewright.jsonval.codec import decode, encode
from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.builders import SAMPLE, Json
from tests.service import PATIENCE_S

SERVICE = "/org.cyoda.cloud.api.grpc.CloudEventsService/"
NIL = "00000000-0000-0000-0000-000000000000"
UNKNOWN = "00000000-0000-1000-8000-000000000000"

UNARY: Mapping[str, Sequence[str]] = {
    "entityModelManage": (
        "EntityModelImportRequest",
        "EntityModelExportRequest",
        "EntityModelTransitionRequest",
        "EntityModelDeleteRequest",
        "EntityModelGetAllRequest",
        "EntityModelSetUniqueKeysRequest",
    ),
    "entityManage": (
        "EntityCreateRequest",
        "EntityUpdateRequest",
        "EntityPatchRequest",
        "EntityDeleteRequest",
        "EntityTransitionRequest",
    ),
    "entitySearch": (
        "EntityGetRequest",
        "EntitySnapshotSearchRequest",
        "SnapshotGetStatusRequest",
        "SnapshotCancelRequest",
    ),
}
STREAMED: Mapping[str, Sequence[str]] = {
    "entityManageCollection": (
        "EntityCreateCollectionRequest",
        "EntityUpdateCollectionRequest",
        "EntityDeleteAllRequest",
    ),
    "entitySearchCollection": (
        "EntityGetAllRequest",
        "EntitySearchRequest",
        "SnapshotGetRequest",
        "EntityStatsGetRequest",
        "EntityStatsByStateGetRequest",
        "EntityChangesMetadataGetRequest",
    ),
}
RPC_OF = {kind: rpc for rpcs in (UNARY, STREAMED) for rpc, kinds in rpcs.items() for kind in kinds}

Status = tuple[grpc.StatusCode, str]


@cache
def channel(address: str) -> grpc.Channel:
    """One connection per service, for messages of any size."""
    return grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])


@dataclass(frozen=True)
class Rpcs:
    """The service as a caller sees it, outside a transaction or, with its token, inside one."""

    address: str
    token: str | None
    tx_token: str | None = None

    def joining(self, tx_token: str | None) -> "Rpcs":
        """The same caller inside a transaction."""
        return replace(self, tx_token=tx_token)

    def send(self, event: CloudEvent, rpc: str | None = None) -> list[CloudEvent]:
        """All responses. Raises ``grpc.RpcError`` for a status that is not OK."""
        name = rpc or RPC_OF[event.type]
        answer = self._call(event, name)
        return [answer] if name in UNARY else list(answer)

    def begun(self, kind: str, **members: Json) -> Any:
        """A streamed call under way: an iterator of responses that can be cancelled."""
        return self._call(an_event(kind, **members), RPC_OF[kind])

    def _call(self, event: CloudEvent, name: str) -> Any:
        pick = channel(self.address).unary_unary if name in UNARY else channel(self.address).unary_stream
        method = pick(SERVICE + name, CloudEvent.SerializeToString, CloudEvent.FromString)
        return method(event, metadata=self._metadata(), timeout=PATIENCE_S)

    def events(self, kind: str, **members: Json) -> list[CloudEvent]:
        """The responses to a request."""
        return self.send(an_event(kind, **members))

    def ask(self, kind: str, **members: Json) -> list[Json]:
        """The payloads of the responses, in order."""
        return [payload_of(event) for event in self.events(kind, **members)]

    def one(self, kind: str, **members: Json) -> Json:
        """The payload of the only response."""
        [payload] = self.ask(kind, **members)
        return payload

    def done(self, kind: str, **members: Json) -> Json:
        """The same of a request that must succeed."""
        payload = self.one(kind, **members)
        assert payload["success"] is True, payload
        assert "error" not in payload
        return payload

    def refused(self, kind: str, code: str, **members: Json) -> Json:
        """The same of one that must be refused with this domain code."""
        payload = self.one(kind, **members)
        assert payload["success"] is False, payload
        assert payload["error"]["code"] == "CLIENT_ERROR", payload
        assert payload["error"]["message"].startswith(f"{code}: "), payload
        return payload

    def status(self, event: CloudEvent, rpc: str | None = None) -> Status:
        """The status of a call that must end with one."""
        try:
            answered = self.send(event, rpc)
        except grpc.RpcError as error:
            return error.code(), error.details() or ""  # type: ignore[attr-defined]  # a call, too
        raise AssertionError(f"the call was answered: {answered}")

    def invalid(self, kind: str, **members: Json) -> str:
        """What is said of a request that must be refused as ``INVALID_ARGUMENT``."""
        code, text = self.status(an_event(kind, **members))
        assert code is grpc.StatusCode.INVALID_ARGUMENT, (code, text)
        return text

    def create(self, data: Json = SAMPLE, *, model: str = "prize", version: int = 1) -> str:
        """The id of a new entity."""
        new = {"model": {"name": model, "version": version}, "data": data}
        answer = self.done("EntityCreateRequest", dataFormat="JSON", payload=new)
        return str(answer["transactionInfo"]["entityIds"][0])

    def read(self, entity: str) -> Json:
        """An entity with its metadata."""
        return self.done("EntityGetRequest", entityId=entity)["payload"]

    def _metadata(self) -> list[tuple[str, str]]:
        metadata = [] if self.token is None else [("authorization", f"Bearer {self.token}")]
        return metadata if self.tx_token is None else [*metadata, ("tx-token", self.tx_token)]


def an_event(kind: str, **members: Json) -> CloudEvent:
    """A request; its payload has an id, unless ``id`` is given as None to leave it out."""
    shown = {name: value for name, value in ({"id": "p-1"} | members).items() if (name, value) != ("id", None)}
    return CloudEvent(id="ce-7", type=kind, text_data=encode(plain(shown)).decode())


def plain(value: Any) -> Any:
    """Read-only mappings as the encoder likes them."""
    if isinstance(value, Mapping):
        return {name: plain(member) for name, member in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def payload_of(event: CloudEvent) -> Json:
    """The payload of a response, which must be an event as the server makes them (docs/reference/grpc.md#envelope)."""
    assert (event.source, event.spec_version, dict(event.attributes)) == ("cyoda", "1.0", {})
    assert event.WhichOneof("data") == "text_data"
    assert UUID(event.id).version == 4
    payload: Json = decode(event.text_data)
    assert payload["id"] in {"ce-7", ""}
    assert payload.get("requestId", payload["id"]) == payload["id"]
    assert payload.get("warnings") != []
    return payload


def spec(name: str = "prize", version: int = 1) -> Json:
    """A model as requests name it."""
    return {"name": name, "version": version}


NEW = {"model": spec(), "data": SAMPLE}
CREATE = {"dataFormat": "JSON", "payload": NEW}

REQUIRED: dict[str, Json] = {
    "EntityCreateRequest": CREATE,
    "EntityUpdateRequest": {"dataFormat": "JSON", "payload": {"entityId": UNKNOWN, "data": {}}},
    "EntityPatchRequest": {"patchFormat": "MERGE_PATCH", "payload": {"entityId": UNKNOWN, "patch": {}}},
    "EntityDeleteRequest": {"entityId": UNKNOWN},
    "EntityTransitionRequest": {"entityId": UNKNOWN, "transition": "GO"},
    "EntityCreateCollectionRequest": {"dataFormat": "JSON", "payloads": [NEW]},
    "EntityUpdateCollectionRequest": {"dataFormat": "JSON", "payloads": [{"entityId": UNKNOWN, "data": {}}]},
    "EntityDeleteAllRequest": {"model": spec()},
    "EntityModelImportRequest": {
        "model": spec(),
        "converter": "SAMPLE_DATA",
        "dataFormat": "JSON",
        "payload": SAMPLE,
    },
    "EntityModelExportRequest": {"model": spec(), "converter": "SIMPLE_VIEW"},
    "EntityModelTransitionRequest": {"model": spec(), "transition": "LOCK"},
    "EntityModelDeleteRequest": {"model": spec()},
    "EntityGetRequest": {"entityId": UNKNOWN},
    "EntitySnapshotSearchRequest": {"model": spec(), "condition": {"type": "group", "operator": "AND"}},
    "SnapshotGetStatusRequest": {"snapshotId": UNKNOWN},
    "SnapshotCancelRequest": {"snapshotId": UNKNOWN},
    "EntityGetAllRequest": {"model": spec()},
    "EntitySearchRequest": {"model": spec(), "condition": {"type": "group", "operator": "AND"}},
    "SnapshotGetRequest": {"snapshotId": UNKNOWN},
    "EntityStatsGetRequest": {},
    "EntityStatsByStateGetRequest": {},
    "EntityChangesMetadataGetRequest": {"entityId": UNKNOWN},
}
"""The least that a request needs, for those that need something."""
