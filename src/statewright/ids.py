"""Identifiers, and the clock that time-based ones are made from.

Entity and transaction ids are time-based (version 1) UUIDs written as 36 lower-case characters. They are made here
rather than by :func:`uuid.uuid1`, which takes several microseconds a call and reads the network address of the machine.
"""

import re
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

MAX_ID_BYTES: Final = 1024
"""Bytes of a tenant or user id. An index entry holds about 2,700, and the tenant is only one part of an index key."""

Clock = Callable[[], int]
"""Microseconds since 1970-01-01T00:00:00Z."""

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32."""
_PAIRS: Final = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_DIGIT_OF: Final = dict(zip(_ALPHABET, "0123456789abcdefghijklmnopqrstuv", strict=True))
_DIGITS: Final = bytes.maketrans(
    bytes(range(128)), "".join([_DIGIT_OF.get(chr(code).upper(), "!") for code in range(128)]).encode()
)
"""For each character the digit that ``int`` reads in its place; what is none becomes one that it refuses."""
_ULID_LENGTH: Final = 26
_ULID_SPACE: Final = 1 << 128
_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
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


def parse_uuid(text: str) -> str | None:
    """The canonical form of a UUID in any of the four accepted spellings; None for any other text."""
    if len(text) == 36 and _UUID.fullmatch(text):  # what clients send, in one test
        return text
    plain = text.lower().removeprefix("urn:uuid:")
    if plain.startswith("{") and plain.endswith("}"):
        plain = plain[1:-1]
    if not _UUID.fullmatch(plain) or len(plain) not in {32, 36}:
        return None
    digits = plain.replace("-", "")
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse_entity_id(text: str) -> EntityId | None:
    """The entity that a UUID or, as languages of processes write it, a ULID names; None for any other text
    (docs/reference/entities.md#parameters).
    """
    found = _read_ulid(text) if len(text) == _ULID_LENGTH else parse_uuid(text)
    return None if found is None else EntityId(found)


def format_ulid(number: int) -> str:
    """26 characters of Crockford's base 32; in order when the numbers are."""
    return f"{_format_head(number >> 20)}{_PAIRS[number >> 10 & 1023]}{_PAIRS[number & 1023]}"


@lru_cache(maxsize=1_000)
def _format_head(number: int) -> str:
    """All but the last four characters, which ids of one moment have in common."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(100, -1, -10)])


def parse_ulid(text: str) -> int | None:
    """The number a ULID writes, ``None`` for any other text; letters of both cases are read."""
    if len(text) != _ULID_LENGTH or not text.isascii():
        return None
    try:
        number = int(text.encode().translate(_DIGITS), 32)
    except ValueError:
        return None
    return number if number < _ULID_SPACE else None


def ulid_to_uuid(text: str) -> str | None:
    """The UUID of the same 128 bits, ``None`` when ``text`` is no ULID."""
    number = parse_ulid(text)
    return None if number is None else number_to_entity_id(number)


_read_ulid = lru_cache(maxsize=20_000)(ulid_to_uuid)


def number_to_entity_id(number: int) -> EntityId:
    """The entity id of a 128-bit number."""
    text = f"{number:032x}"
    return EntityId(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")


@lru_cache(maxsize=20_000)
def uuid_to_ulid(text: str) -> str:
    """The ULID of the same 128 bits. Raises ValueError when ``text`` is no UUID."""
    return format_ulid(uuid.UUID(text).int)


@lru_cache(maxsize=10_000)
def model_id(name: str, version: int) -> ModelId:
    """UUID v5 in the URL namespace over ``<name>.<version>``; equal in every tenant
    (docs/reference/models.md#identity-and-attributes).
    """
    return ModelId(str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name}.{version}")))
