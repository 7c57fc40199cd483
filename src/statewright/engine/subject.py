"""The anchor entity of a run, held in memory until the run is saved (spec/workflows.md §8.1)."""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.entity import EntityMeta, ModelKey
from statewright.identity import EntityId, TransactionId
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import canonical
from statewright.jsonval.values import JsonValue

_text = msgspec.json.Encoder().encode


class Subject(Struct, frozen=True, kw_only=True):
    """The entity as the run has made it so far. ``text`` is the encoded ``document``; times are in epoch microseconds.

    ``transition`` is what lifecycle criteria see as the previous transition: the requested name, empty for create and
    loopback (§8.7).
    """

    id: EntityId
    model: ModelKey
    state: str
    document: JsonValue
    text: str
    created_at: int
    now: int
    transition: str
    transaction_id: TransactionId

    def with_answer(self, raw: bytes) -> "Subject":
        """The subject after a processor has replaced its document. Raises ``MalformedJson``."""
        if raw == self.text.encode():  # it sent back what it was sent, to the byte
            return self
        document, text = canonical(raw)
        return replace(self, document=document, text=text.decode())

    def in_state(self, state: str) -> "Subject":
        """The subject after a transition."""
        return replace(self, state=state)

    def meta(self) -> EntityMeta:
        """What lifecycle conditions see."""
        return EntityMeta(
            id=self.id,
            state=self.state,
            creation_date=self.created_at // 1000,
            last_update_time=self.now // 1000,
            transition=self.transition,
            transaction_id=self.transaction_id,
        )

    def payload(self) -> bytes:
        """``{type, data, meta}`` of a callout, spliced around the encoded document."""
        created, now = to_rfc3339(self.created_at), to_rfc3339(self.now)
        name, state = _text(self.model.name).decode(), _text(self.state).decode()
        return (
            f'{{"type":"JSON","data":{self.text},"meta":{{"id":"{self.id}",'
            f'"modelKey":{{"name":{name},"version":{self.model.version}}},"state":{state},'
            f'"creationDate":"{created}","lastUpdateTime":"{now}","transactionId":"{self.transaction_id}"}}}}'
        ).encode()
