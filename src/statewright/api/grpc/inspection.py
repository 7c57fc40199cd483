"""Large messages before protobuf decodes them (docs/reference/grpc.md#limits-and-shutdown).

What protobuf takes for a map grows with the square of its entries, in one call that holds the interpreter: a fifth of a
second for 170,000 attributes of an event, or members of one object. So maps are counted first, on the wire.
"""

from typing import Final

import grpc
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import Default

from grpc_h2 import CallRefused
from statewright.loop.background import run_in_thread

MAX_ENTRIES: Final = 50_000
"""Of a map, which protobuf reads in 25 ms."""

MIN_ENTRY_BYTES: Final = 4
"""What an entry takes at least: its tag and length, and a key."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


async def inspect_message(method: str, message: bytes) -> None:
    """Look at a message of a method before it is decoded. Raises ``CallRefused`` for one with too large a map."""
    service, _, name = method.strip("/").partition("/")
    kind = Default().FindServiceByName(service).methods_by_name[name].input_type
    if await run_in_thread(lambda: has_large_map(kind, message)):
        text = f"an object, or the attributes of an event, have at most {MAX_ENTRIES} members"
        raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, text)


class _Part:
    """A message within the message, which may come in several pieces: decoders join those of a single field."""

    def __init__(self, kind: Descriptor) -> None:
        self.fields = kind.fields_by_number
        self.entries: dict[int, int] = {}
        self.singles: dict[int, _Part] = {}


def has_large_map(kind: Descriptor, message: bytes) -> bool:
    """Whether a map anywhere in an encoded message has more than ``MAX_ENTRIES``. What is malformed has none: the
    decoder says so.
    """
    left = [(_Part(kind), 0, len(message))]
    try:
        while left:
            part, place, end = left.pop()
            while place < end:
                tag, place = _read_varint(message, place)
                number, wire = tag >> 3, tag & 7
                if wire == _VARINT:
                    _, place = _read_varint(message, place)
                elif wire == _BYTES:
                    size, place = _read_varint(message, place)
                    field = part.fields.get(number)
                    if field is not None and field.message_type is not None:
                        if _is_large(part, field):
                            return True
                        if not field.is_repeated:
                            within = part.singles.get(number) or part.singles.setdefault(
                                number, _Part(field.message_type)
                            )
                            left.append((within, place, place + size))
                        elif size > MAX_ENTRIES * MIN_ENTRY_BYTES:
                            left.append((_Part(field.message_type), place, place + size))
                    place += size
                else:
                    place += {_FIXED64: 8, _FIXED32: 4}.get(wire, 0)
    except IndexError:
        return False
    return False


def _is_large(part: _Part, field: FieldDescriptor) -> bool:
    """Count an entry of a map."""
    if field.message_type is None or not field.message_type.GetOptions().map_entry:
        return False
    count = part.entries[field.number] = part.entries.get(field.number, 0) + 1
    return count > MAX_ENTRIES


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """A number and where it ends. Raises ``IndexError`` at the end of the message."""
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
