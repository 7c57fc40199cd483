"""The two public Python clients, as they behave on a member stream (docs/reference/grpc.md#members-in-the-field)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import UNSET

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject
from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.integration.grpc.door import BRISK, PATIENCE, Door, Wire, a_stream, an_open_door, document_in
from tests.unit.compute.builders import ACME, a_callout

OWNER = "PLAY"


class Client:
    """What both clients have in common: they log what they do not know and never send keep-alives of their own."""

    source = "SimpleSample"

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.seen: list[str] = []
        self.noticed = asyncio.Condition()

    async def send(self, event_type: str, members: JsonObject) -> None:
        await self.wire.send(event_type, **members)

    async def run(self) -> None:
        """Works until it is cancelled."""
        while True:
            event = await self.wire.call.read()
            assert isinstance(event, CloudEvent)
            async with self.noticed:
                self.seen.append(event.type)
                self.noticed.notify_all()
            payload = decode(event.text_data)
            assert isinstance(payload, dict)
            await self.take(event.type, payload)

    async def take(self, event_type: str, payload: JsonObject) -> None:
        raise NotImplementedError


class QuartClient(Client):
    """The older one: no ``id`` anywhere, criteria are always answered with null, documents change in place."""

    async def join(self, tag: str) -> None:
        await self.send("CalculationMemberJoinEvent", {"owner": OWNER, "tags": [tag]})

    async def take(self, event_type: str, payload: JsonObject) -> None:
        match event_type:
            case "CalculationMemberKeepAliveEvent":
                ack: JsonObject = {"sourceEventId": payload["id"], "owner": OWNER, "payload": None, "success": True}
                await self.send("EventAckResponse", ack)
            case "EntityProcessorCalculationRequest":
                await self.send("EntityProcessorCalculationResponse", self.processed(payload))
            case "EntityCriteriaCalculationRequest":
                await self.send(
                    "EntityCriteriaCalculationResponse", {**self.echoed(payload), "matches": None, "success": True}
                )
            case _:
                pass

    def processed(self, payload: JsonObject) -> JsonObject:
        attached = payload.get("payload")
        if isinstance(attached, dict) and isinstance(attached["data"], dict):
            attached["data"]["seen"] = True
        return {**self.echoed(payload), "payload": attached, "success": True}

    @staticmethod
    def echoed(payload: JsonObject) -> JsonObject:
        return {"requestId": payload["requestId"], "entityId": payload["entityId"], "owner": OWNER}


class McpClient(Client):
    """The current one: handlers are tasks of their own, so answers come out of order; documents come back enriched."""

    def __init__(self, wire: Wire, *, slow: str) -> None:
        super().__init__(wire)
        self.slow = slow
        self.others_done = asyncio.Event()
        self.tasks = set[asyncio.Task[None]]()
        self.writing = asyncio.Lock()

    async def join(self, tag: str) -> None:
        await self.send("CalculationMemberJoinEvent", {"id": "j", "owner": OWNER, "tags": [tag]})

    async def take(self, event_type: str, payload: JsonObject) -> None:
        if event_type == "CalculationMemberKeepAliveEvent":
            await self.send(
                "EventAckResponse", {"id": "a", "sourceEventId": payload["id"], "owner": OWNER, "success": True}
            )
        if event_type == "EntityProcessorCalculationRequest":
            task = asyncio.create_task(self.process(payload))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def process(self, payload: JsonObject) -> None:
        slow = payload["processorName"] == self.slow
        if slow:
            await self.others_done.wait()
        attached = payload["payload"]
        assert isinstance(attached, dict)
        assert isinstance(attached["meta"], dict)
        assert isinstance(attached["meta"]["modelKey"], dict)  # its handlers are looked up by the name in here
        assert isinstance(attached["data"], dict)
        enriched: JsonObject = {
            **attached,
            "data": {**attached["data"], "entity_id": payload["entityId"], "metadata": {}},
        }
        answer: JsonObject = {
            "id": "r",
            "requestId": payload["requestId"],
            "owner": OWNER,
            "payload": enriched,
            "success": True,
        }
        async with self.writing:
            await self.send("EntityProcessorCalculationResponse", answer)
        if not slow:
            self.others_done.set()


async def test_the_older_client_joins_without_an_id_and_its_documents_are_taken(door: Door):
    async with a_stream(door) as wire:
        client = QuartClient(wire)
        await client.join("cloud_manager_app")
        async with working(client):
            await joined(client)
            reply = await door.ask(a_callout(tags=("cloud_manager_app",), data={"total": 12}))
            assert document_in(reply) == {"total": 12, "seen": True}


async def test_the_older_clients_answer_without_an_entity_changes_nothing(door: Door):
    async with a_stream(door) as wire:
        client = QuartClient(wire)
        await client.join("t")
        async with working(client):
            await joined(client)
            assert (await door.ask(a_callout(payload=None))).data is UNSET


async def test_the_older_clients_null_verdict_means_no_match(door: Door):
    async with a_stream(door) as wire:
        client = QuartClient(wire)
        await client.join("t")
        async with working(client):
            await joined(client)
            reply = await door.ask(a_callout(kind="criteria", target="TRANSITION"))
            assert (reply.success, reply.matches) == (True, False)


async def test_the_older_clients_acknowledgements_keep_it_connected():
    async with an_open_door(keep_alive=BRISK) as door, a_stream(door) as wire:
        client = QuartClient(wire)
        await client.join("t")
        async with working(client):
            await seen(client, "CalculationMemberKeepAliveEvent", times=12)
            assert len(door.members.list_members(ACME)) == 1


async def test_the_current_clients_answers_come_out_of_order_and_enriched(door: Door):
    async with a_stream(door) as wire:
        client = McpClient(wire, slow="first")
        await client.join("t")
        async with working(client):
            await joined(client)
            first, second = door.ask(a_callout("first", data={"n": 1})), door.ask(a_callout("second", data={"n": 2}))
            done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
            assert second in done
            data = document_in(await first)
            assert isinstance(data, dict)
            assert set(data) == {"n", "entity_id", "metadata"}


async def test_both_clients_serve_one_tag_side_by_side(door: Door):
    async with a_stream(door) as one, a_stream(door) as two:
        older, current = QuartClient(one), McpClient(two, slow="never")
        await older.join("t")
        await current.join("t")
        async with working(older), working(current):
            await joined(older)
            await joined(current)
            replies = await asyncio.gather(*(door.ask(a_callout(tags=("t",))) for _ in range(10)))
            assert all(reply.success for reply in replies)
            assert older.seen.count("EntityProcessorCalculationRequest") == 5


async def joined(client: Client) -> None:
    await seen(client, "CalculationMemberGreetEvent")


async def seen(client: Client, event_type: str, *, times: int = 1) -> None:
    async with asyncio.timeout(PATIENCE), client.noticed:
        await client.noticed.wait_for(lambda: client.seen.count(event_type) >= times)


@asynccontextmanager
async def working(client: Client) -> AsyncIterator[None]:
    task = asyncio.create_task(client.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
