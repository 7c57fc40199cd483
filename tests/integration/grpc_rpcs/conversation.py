"""A conversation in which everything is asked for, by a caller of the RPCs and by a calculation member."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

import pytest

from statewright.api.grpc import payloads
from statewright.api.grpc.envelope import ACK, GREET, JOIN, KEEP_ALIVE, REQUEST_TYPES, RESPONSE_TYPES, encode_message
from statewright.api.grpc.payloads import CorrelatedResponse, Response
from statewright.compute.members import Greeting, Ping
from statewright.jsonval.codec import decode, encode
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk import Rejected, wire
from tests.builders import SAMPLE, Json, a_processor, a_workflow, judged_by, manual
from tests.integration.grpc_rpcs.client import NEW, REQUIRED, RPC_OF, Rpcs, spec
from tests.integration.node import Node, a_node
from tests.integration.schedules.conftest import timed_by
from tests.service import PATIENCE_S, RunningService, a_token

STREAM = {JOIN, GREET, KEEP_ALIVE, ACK, *REQUEST_TYPES.values(), *RESPONSE_TYPES}
RESPONSES = {name for name, kind in vars(payloads).items() if isinstance(kind, type) and issubclass(kind, Response)} - {
    Response.__name__,
    CorrelatedResponse.__name__,
}
KINDS = sorted({*RPC_OF, *RESPONSES, *STREAM})
"""All event types."""

EVERY: Json = {"type": "group", "operator": "AND", "conditions": []}
GO = manual("GO", to="DONE", criterion=judged_by("ripe"), processors=[a_processor(context="fast")])
LIFE = a_workflow(NEW=[GO, timed_by("LAPSE", to="DONE", context="soon")], DONE=[])


@dataclass(frozen=True)
class Overheard(Rpcs):
    """A caller whose requests and their answers are kept."""

    said: list[CloudEvent] = field(default_factory=list)

    def send(self, event: CloudEvent, rpc: str | None = None) -> list[CloudEvent]:
        payloads = super().send(event, rpc)
        self.said.extend([event, *payloads])
        return payloads


@pytest.fixture(scope="session")
def heard(service: RunningService) -> dict[str, list[Json]]:
    """Payloads by type, as they were sent in a conversation in which everything is asked for at least once."""
    tenant, stranger = (f"tenant-{uuid4().hex[:12]}" for _ in range(2))
    alice, mallory = Overheard(service.grpc, a_token(tenant)), Overheard(service.grpc, a_token(stranger))
    administered(alice)
    service.api(tenant).import_workflows(LIFE)
    with a_node(service, tenant, "node") as node, ThreadPoolExecutor() as pool:
        callouts = list(moved(alice, node, pool))
    searched(alice)
    in_vain(mallory)
    found: dict[str, list[Json]] = {}
    for event in [*alice.said, *mallory.said, *callouts, *of_members()]:
        found.setdefault(event.type, []).append(decode(event.text_data))
    return found


def administered(rpcs: Rpcs) -> None:
    """Everything that can be asked of models; ``prize`` is there and locked in the end."""
    for name in ("prize", "other"):
        rpcs.done("EntityModelImportRequest", **(REQUIRED["EntityModelImportRequest"] | {"model": spec(name)}))
    rpcs.done("EntityModelSetUniqueKeysRequest", model=spec(), uniqueKeys=[{"id": "k", "fields": ["$.year"]}])
    rpcs.done("EntityModelExportRequest", model=spec(), converter="SIMPLE_VIEW")
    rpcs.done("EntityModelTransitionRequest", model=spec(), transition="LOCK")
    rpcs.done("EntityModelDeleteRequest", model=spec("other"))
    rpcs.done("EntityModelGetAllRequest")


def moved(rpcs: Rpcs, node: Node, pool: ThreadPoolExecutor) -> Iterator[CloudEvent]:
    """Everything that can be done to entities; the callouts that come of it and the answers of our own node."""

    def during(kind: str, *outcomes: object, **members: Json) -> Iterator[CloudEvent]:
        answer: Future[Json] = pool.submit(rpcs.done, kind, **members)
        for outcome in outcomes:
            yield from served(node, outcome)
        made.append(answer.result(PATIENCE_S).get("transactionInfo"))

    made: list[Json] = []
    later = timedelta(hours=1)
    yield from during("EntityCreateRequest", later, dataFormat="JSON", payload=NEW)
    [entity] = made[0]["entityIds"]
    change = {"entityId": entity, "data": SAMPLE}
    yield from during("EntityUpdateRequest", later, dataFormat="JSON", payload=change)
    patch = {"entityId": entity, "patch": {"year": 1}, "ifMatch": made[-1]["transactionId"]}
    yield from during("EntityPatchRequest", later, patchFormat="MERGE_PATCH", payload=patch)
    both = [NEW | {"data": {"year": year}} for year in (10, 11)]
    yield from during("EntityCreateCollectionRequest", later, later, dataFormat="JSON", payloads=both)
    yield from during("EntityUpdateCollectionRequest", later, dataFormat="JSON", payloads=[change])
    refusal: Future[Json] = pool.submit(rpcs.one, "EntityTransitionRequest", entityId=entity, transition="GO")
    yield from served(node, Rejected("not yet"))
    assert refusal.result(PATIENCE_S)["success"] is False
    yield from during("EntityTransitionRequest", True, SAMPLE, entityId=entity, transition="GO")
    rpcs.ask("EntityChangesMetadataGetRequest", entityId=entity)
    rpcs.done("EntityGetRequest", entityId=entity)
    rpcs.done("EntityDeleteRequest", entityId=entity)


def served(node: Node, outcome: object) -> Iterator[CloudEvent]:
    """The next callout, and the answer that our SDK makes of an outcome."""
    request = node.next()
    callout = CloudEvent(
        id=request["id"],
        type=f"Entity{request.kind}CalculationRequest",
        text_data=encode(request.members).decode(),
    )
    answer = wire.build_answer(wire.read_request(callout), outcome)
    node.answer(request, **decode(answer.text_data))
    yield from (callout, answer)


def searched(rpcs: Rpcs) -> None:
    """Everything that can be looked for."""
    rpcs.ask("EntityGetAllRequest", model=spec())
    rpcs.ask("EntitySearchRequest", model=spec(), condition=EVERY, orderBy=[{"path": "year"}])
    rpcs.ask("EntityStatsGetRequest")
    rpcs.ask("EntityStatsByStateGetRequest", states=["NEW"])
    snapshot = rpcs.done("EntitySnapshotSearchRequest", model=spec(), condition=EVERY)["status"]["snapshotId"]
    rpcs.done("SnapshotGetStatusRequest", snapshotId=snapshot)
    rpcs.done("SnapshotCancelRequest", snapshotId=snapshot)
    rpcs.ask("SnapshotGetRequest", snapshotId=snapshot)
    rpcs.done("EntityDeleteAllRequest", model=spec())


def in_vain(rpcs: Rpcs) -> None:
    """The same of somebody who has no models; no request succeeds, but for the one that cannot fail."""
    for kind, members in REQUIRED.items():
        named = {"model": spec()} if kind.startswith("EntityStats") else {}
        nameless = {"model": spec("", 0)} if kind == "EntityModelImportRequest" else {}
        assert rpcs.one(kind, **(members | named | nameless))["success"] is False
    assert rpcs.one("EntityModelSetUniqueKeysRequest", model=spec())["success"] is False


def of_members() -> Iterator[CloudEvent]:
    """What members and server say to each other besides callouts."""
    yield wire.build_join(("node",))
    yield encode_message(Greeting("m-1", "acme"))
    probe = encode_message(Ping("m-1"))
    yield from (probe, wire.build_acknowledgement(probe))
