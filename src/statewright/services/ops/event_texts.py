"""Events as they are sent (docs/reference/operations.md#events-out): CloudEvents, with documents if they are asked for.

The text of an event follows from its row and from the documents that are asked for, whoever reads it. So it is made
once for all who read at about the same time, from one look into the database: twenty streams of a tenant cost little
more than one. Which events a reader gets is decided before, by its own filter.

The package that is called like CloudEvents checks them; it would round numbers, so their text is made here.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeAlias
from urllib.parse import quote

import msgspec
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from msgspec import Raw, Struct

from statewright.entity import LOOPBACK
from statewright.ids import TenantId, make_uuid7
from statewright.instants import to_datetime
from statewright.jsonval.codec import decode_stored, encode, escape_line_ends
from statewright.loop.background import run_by_size
from statewright.operations.events import TYPE_PREFIX, EventPosition, EventRow, IncludeBody
from statewright.storage.ops import events as stored
from statewright.storage.ops.events import StoredBody
from statewright.storage.pool import Pool

MAX_EVENT_BYTES: Final = 1024 * 1024
"""Of the documents of an event, beyond which it comes without them."""

MAX_KEPT_BYTES: Final = 4 * 1024 * 1024
"""Of texts that are kept for other readers, all tenants together."""

_OVERHEAD_BYTES: Final = 1024
"""Of a text that is kept: its key, which has the texts of three ids."""

KEEP_S: Final = 5.0
"""For so long: who reads the same event later may be told of a document that was removed meanwhile."""

_NO_ID: Final = "00000000-0000-0000-0000-000000000000"

Fact: TypeAlias = tuple[EventRow, str]
"""A row and the type of its event."""


class EventText(Struct, frozen=True):
    """An event as CloudEvents writes it in JSON. ``sequence`` is its position as a text."""

    id: str
    type: str
    position: EventPosition
    sequence: str
    text: bytes


class ExactFormat(JSONFormat):
    """CloudEvents as JSON whose numbers keep their digits. Instants are texts of RFC 3339 in UTC."""

    def write(self, event: BaseCloudEvent) -> bytes:
        """The event as one object."""
        attributes = {**event.get_attributes(), "data": event.get_data()}
        at: datetime = attributes["time"]
        return _encode({**attributes, "time": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"})


_encode = msgspec.json.Encoder(decimal_format="number").encode
_FORMAT: Final = ExactFormat()

_Key: TypeAlias = tuple[TenantId, IncludeBody, EventPosition]
_Made: TypeAlias = dict[_Key, EventText]


_URI_CHARACTERS: Final = "/:@!$&'()*+,;="
"""What stands in the path of a URI reference (RFC 3986, 3.3) beside letters, digits and ``-._~``."""


class EventTexts:
    """The texts of events, for all readers of a process."""

    def __init__(self, pool: Pool, *, source: str) -> None:
        self._pool = pool
        self._source = source
        self._kept: OrderedDict[_Key, tuple[EventText, float]] = OrderedDict()
        """With the time up to which each is good, the oldest first."""
        self._size = 0
        self._making: dict[_Key, asyncio.Task[_Made]] = {}

    async def encode(self, tenant: TenantId, facts: Sequence[Fact], include: IncludeBody) -> Sequence[EventText]:
        """Events as they are sent, in order, with the documents that are asked for. Raises ``StorageUnavailable``."""
        self._forget_old()
        keys: list[_Key] = [(tenant, include, row.position) for row, _ in facts]
        made = {key: self._kept[key][0] for key in keys if key in self._kept}
        new = [fact for key, fact in zip(keys, facts, strict=True) if key not in made and key not in self._making]
        if new and include == "NONE":
            made |= self._keep({(tenant, include, each[0].position): self._encode(tenant, each, {}) for each in new})
        elif new:
            self._begin(tenant, new, include)
        for task in dict.fromkeys([self._making[key] for key in keys if key in self._making]):
            made |= await asyncio.shield(task)
        return [made[key] for key in keys]

    def _begin(self, tenant: TenantId, facts: Sequence[Fact], include: IncludeBody) -> None:
        """Whoever waits for it may go away: others wait, too."""
        task = asyncio.create_task(self._make(tenant, facts, include), name="event-texts")
        keys: list[_Key] = [(tenant, include, row.position) for row, _ in facts]
        self._making |= dict.fromkeys(keys, task)
        task.add_done_callback(lambda _: self._finish(keys, task))

    def _finish(self, keys: Sequence[_Key], task: "asyncio.Task[_Made]") -> None:
        for key in keys:
            del self._making[key]
        if not task.cancelled() and task.exception() is None:
            self._keep(task.result())

    async def _make(self, tenant: TenantId, facts: Sequence[Fact], include: IncludeBody) -> _Made:
        with_before = include == "BEFORE_AND_AFTER"
        rows = [row for row, _ in facts]
        bodies = await stored.fetch_bodies(self._pool, tenant, rows, with_before=with_before)
        size = sum([len(body.document or "") for pair in bodies for body in pair])

        def encode_all() -> _Made:
            return {
                (tenant, include, each[0].position): self._encode(
                    tenant, each, _show_bodies(each[0], *pair, with_before=with_before)
                )
                for each, pair in zip(facts, bodies, strict=True)
            }

        return await run_by_size(size, encode_all)

    def _keep(self, made: _Made) -> _Made:
        until = time.monotonic() + KEEP_S
        for key, event in made.items():
            self._kept[key] = event, until
            self._size += len(event.text) + _OVERHEAD_BYTES
        while self._size > MAX_KEPT_BYTES:
            self._forget_oldest()
        return made

    def _forget_old(self) -> None:
        now = time.monotonic()
        while self._kept and next(iter(self._kept.values()))[1] < now:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, (event, _) = self._kept.popitem(last=False)
        self._size -= len(event.text) + _OVERHEAD_BYTES

    def forget(self) -> None:
        """Nobody reads any more."""
        self._kept.clear()
        self._size = 0

    def _encode(self, tenant: TenantId, fact: Fact, bodies: dict[str, Raw | bool | None]) -> EventText:
        row, type_ = fact
        data: dict[str, object] = {
            "entityId": row.entity,
            "model": row.model,
            "state": row.state,
            "fromState": row.from_state,
            "transition": None if row.transition == LOOPBACK else row.transition,
            "transactionId": row.transaction_id,
            "attributedTo": row.attributed,
            "executedBy": row.executor,
            **bodies,
        }
        return self._write(tenant, f"{row.transaction_id}:{row.entity}", type_, row.entity, row.position, data)

    def _write(
        self, tenant: TenantId, id_: str, type_: str, subject: str, position: EventPosition, data: dict[str, object]
    ) -> EventText:
        sequence = position.write()
        event = CloudEvent(
            {
                "specversion": "1.0",
                "id": id_,
                "source": f"{self._source}/{quote(tenant, safe=_URI_CHARACTERS)}",
                "type": f"{TYPE_PREFIX}{type_}",
                "subject": subject,
                "time": to_datetime(position.at),
                "datacontenttype": "application/json",
                "partitionkey": subject,
                "sequence": sequence,
            },
            data,
        )
        return EventText(event.get_id(), event.get_type(), position, sequence, escape_line_ends(_FORMAT.write(event)))

    def encode_test(self, tenant: TenantId, subject: str, at: int) -> EventText:
        """An event that tells nothing, about a subscription."""
        position = EventPosition(at, _NO_ID, _NO_ID)
        return self._write(tenant, make_uuid7(at), "test", subject, position, {})


def _show_bodies(
    row: EventRow, after: StoredBody, before: StoredBody, *, with_before: bool
) -> dict[str, Raw | bool | None]:
    """The members of an event that are about documents."""
    wanted = [("document", after, row.change != "delete")]
    if with_before:
        wanted.append(("before", before, row.change != "create"))
    size = sum([len(body.document or "") for _, body, _ in wanted])
    if size > MAX_EVENT_BYTES or any(body.is_large for _, body, _ in wanted):
        return {"documentOmitted": True}
    told: dict[str, Raw | bool | None] = {}
    for name, body, is_expected in wanted:
        if body.document is not None:
            told[name] = Raw(encode(decode_stored(body.document)))
        elif is_expected and body.is_pruned:
            told["documentPruned"] = True
    return told
