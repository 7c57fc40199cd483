"""Identifiers, and the clock that time-based ones are made from.

Entity and transaction ids are time-based (version 1) UUIDs written as 36 lower-case characters. They are made here
rather than by :func:`uuid.uuid1`, which takes several microseconds a call and reads the network address of the machine.
"""

import secrets
import time
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NewType

EntityId = NewType("EntityId", str)
ModelId = NewType("ModelId", str)
NodeId = NewType("NodeId", str)
"""The id of a service process, new for every start."""
TenantId = NewType("TenantId", str)
TransactionId = NewType("TransactionId", str)

Clock = Callable[[], int]
"""Microseconds since 1970-01-01T00:00:00Z."""

_UUID_EPOCH_100NS: Final = 0x01B21DD213814000
"""100-nanosecond intervals between 1582-10-15, the epoch of version 1 UUIDs (RFC 9562 §5.1), and 1970-01-01."""


def system_clock() -> int:
    """The system time in microseconds since 1970-01-01T00:00:00Z."""
    return time.time_ns() // 1000


class IdSource:
    """Version 1 UUIDs, unique in a process and, by a random node and clock sequence, across processes."""

    def __init__(self) -> None:
        # RFC 9562 §6.10: a random node id has the multicast bit set, so that it cannot be a network card's.
        node = secrets.randbits(48) | 0x0100_0000_0000
        sequence = secrets.randbits(14) | 0x8000
        self._tail = f"-{sequence:04x}-{node:012x}"
        self._last = 0

    def __call__(self) -> str:
        ticks = time.time_ns() // 100 + _UUID_EPOCH_100NS
        if ticks <= self._last:
            ticks = self._last + 1
        self._last = ticks
        text = f"{ticks:015x}"
        return f"{text[7:]}-{text[3:7]}-1{text[:3]}{self._tail}"

    def new_entity_id(self) -> EntityId:
        """A new entity id."""
        return EntityId(self())

    def new_transaction_id(self) -> TransactionId:
        """A new transaction id."""
        return TransactionId(self())


def find_time(id_: str) -> int | None:
    """When a version 1 UUID was made, in epoch microseconds; None for one of another version."""
    made = uuid.UUID(id_)
    return (made.time - _UUID_EPOCH_100NS) // 10 if made.version == 1 else None


def make_uuid7(instant: int) -> str:
    """A version 7 UUID (RFC 9562 §5.7) of an instant in epoch microseconds; ids of later milliseconds are greater."""
    bits = (instant // 1000 & 0xFFFF_FFFF_FFFF) << 80 | secrets.randbits(80)
    bits = bits & ~(0xF << 76) | 7 << 76
    return str(uuid.UUID(int=bits & ~(0b11 << 62) | 0b10 << 62))


@lru_cache(maxsize=10_000)
def model_id(name: str, version: int) -> ModelId:
    """UUID v5 in the URL namespace over ``<name>.<version>``; equal in every tenant
    (docs/reference/models.md#identity-and-attributes).
    """
    return ModelId(str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name}.{version}")))
